"""Which scopes are asked for."""

import pytest

from backchannel.client.auth.challenge import Challenge
from backchannel.client.auth.discovery import Discovered
from backchannel.client.auth.documents import ServerMetadata
from backchannel.client.auth.scopes import missing, select


def found(scopes: tuple[str, ...] | None = None, **metadata: object) -> Discovered:
    return Discovered("r", scopes, ServerMetadata(issuer="i", token_endpoint="t", **metadata), "m")  # type: ignore[arg-type]


def wants(*scopes: str) -> Challenge:
    return Challenge("bearer", scope=scopes or None)


@pytest.mark.parametrize(
    ("supported", "challenged", "given", "earlier", "expected"),
    [
        (("a", "b"), ("c",), (), (), ("c",)),  # "Use `scope` parameter from the initial `WWW-Authenticate` header"
        (("a", "b"), (), (), (), ("a", "b")),  # "If `scope` is not available, use all scopes defined"
        (None, (), (), (), ()),  # "omitting the `scope` parameter if `scopes_supported` is undefined"
        ((), (), (), (), ()),
        (None, ("w",), (), ("a", "b"), ("a", "b", "w")),  # the union of a step-up
        (("a",), ("c",), ("mine",), (), ("mine", "c")),
        (("a",), (), ("mine",), (), ("mine",)),
        (("a", "a"), (), (), ("a",), ("a",)),
    ],
)
def test_the_order_of_the_strategy(
    supported: tuple[str, ...] | None,
    challenged: tuple[str, ...],
    given: tuple[str, ...],
    earlier: tuple[str, ...],
    expected: tuple[str, ...],
) -> None:
    assert select(found(supported), wants(*challenged), given, earlier) == expected


def test_offline_access_is_asked_for_where_the_authorization_server_has_it() -> None:
    has = {"scopes_supported": ("a", "offline_access")}
    assert select(found(("a",), **has), wants()) == ("a", "offline_access")
    assert select(found(("a",), **has, grant_types_supported=("refresh_token",)), wants()) == ("a", "offline_access")
    assert select(found(("a", "offline_access"), **has), wants()) == ("a", "offline_access")


def test_offline_access_is_not_asked_for_elsewhere() -> None:
    has = {"scopes_supported": ("a", "offline_access")}
    assert select(found(("a",), scopes_supported=("a",)), wants()) == ("a",)
    assert select(found(("a",)), wants()) == ("a",)
    assert select(found(("a",), **has, grant_types_supported=("authorization_code",)), wants()) == ("a",)


def test_it_never_takes_the_place_of_the_scopes_by_default() -> None:
    assert select(found(None, scopes_supported=("offline_access",)), wants()) == ()


def test_what_a_token_lacks() -> None:
    assert missing(wants("a", "b"), "b c") == {"a"}
    assert missing(wants("a"), None) == {"a"}
    assert missing(wants(), "b") == set()
