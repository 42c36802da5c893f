"""Dynamic Client Registration, and what is known of a client."""

import json
from dataclasses import replace
from typing import Any

import pytest

from backchannel.client.auth import registration
from backchannel.client.auth.discovery import Discovered
from backchannel.client.auth.documents import ServerMetadata
from backchannel.client.auth.registration import Registration, application_type, method_for
from backchannel.errors import LoginFailed
from tests.client.auth.world import World, fetched

ISSUER, ENDPOINT, REDIRECT = "https://as.test", "https://as.test/register", "http://127.0.0.1:5000/callback"


def found(scopes: tuple[str, ...] | None = None, **metadata: Any) -> Discovered:
    metadata = {"registration_endpoint": ENDPOINT, **metadata}
    return Discovered("r", scopes, ServerMetadata(issuer=ISSUER, token_endpoint="t", **metadata), "m")


def register(
    answer: Any, where: Discovered | None = None, scopes: tuple[str, ...] = ()
) -> tuple[Registration, Any, World]:
    world = World()
    world.pages[ENDPOINT] = answer if not isinstance(answer, dict) else fetched(201, answer)
    made = world.run(registration.register(where or found(), "a client", REDIRECT, scopes))
    return made, json.loads(world.fetched[0].body), world


def test_what_is_registered() -> None:
    made, body, world = register({"client_id": "c"}, found(("a", "b")), ("b", "c"))
    assert body == {
        "client_name": "a client",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "b c a",
    }
    assert made == Registration(
        issuer=ISSUER, client_id="c", registered=True, redirect_uri=REDIRECT, scope=("b", "c", "a")
    )
    assert world.run(registration.load(ISSUER, world.now)) == made


def test_no_scope_is_registered_where_none_is_known() -> None:
    assert "scope" not in register({"client_id": "c"})[1]


@pytest.mark.parametrize(
    ("supported", "wanted"),
    [
        (None, "none"),
        (("client_secret_post", "none"), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
        (("tls_client_auth",), "none"),
    ],
)
def test_a_method_is_asked_for_that_the_server_supports(supported: Any, wanted: str) -> None:
    where = found(token_endpoint_auth_methods_supported=supported)
    assert register({"client_id": "c"}, where)[1]["token_endpoint_auth_method"] == wanted


@pytest.mark.parametrize(
    ("answer", "supported", "method"),
    [
        ({}, None, "none"),
        ({"token_endpoint_auth_method": "none"}, None, "none"),
        ({"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}, None, "client_secret_post"),
        ({"client_secret": "s", "token_endpoint_auth_method": "none"}, None, "none"),
        ({"client_secret": "s"}, None, "client_secret_basic"),
        ({"client_secret": "s"}, ("client_secret_post",), "client_secret_post"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, None, "none"),
        ({"client_secret": "s", "token_endpoint_auth_method": "unknown"}, None, "client_secret_basic"),
    ],
)
def test_the_method_that_the_answer_names_is_used(answer: dict[str, Any], supported: Any, method: str) -> None:
    where = found(token_endpoint_auth_methods_supported=supported)
    assert register({"client_id": "c", **answer}, where)[0].method == method


def test_a_secret_that_expires_is_not_used_after() -> None:
    made, _, world = register({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 1_000_100})
    assert made.expires_at == 1_000_100
    assert world.run(registration.load(ISSUER, 1_000_099)) == made
    assert world.run(registration.load(ISSUER, 1_000_100)) is None


def test_zero_is_a_secret_that_does_not_expire() -> None:
    made = register({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 0})[0]
    assert made.expires_at is None


def test_it_is_kept_for_its_issuer_alone() -> None:
    _, _, world = register({"client_id": "c"})
    assert world.run(registration.load("https://other.test", world.now)) is None
    world.kept["client https://other.test"] = world.kept[f"client {ISSUER}"]
    assert world.run(registration.load("https://other.test", world.now)) is None
    world.run(registration.forget(Registration(issuer=ISSUER, client_id="another")))
    assert world.run(registration.load(ISSUER, world.now)) is not None
    world.run(registration.forget(Registration(issuer=ISSUER, client_id="c")))
    assert world.run(registration.load(ISSUER, world.now)) is None


@pytest.mark.parametrize("stored", [b"", b"{", b"[]", b"{}", b"[" * 100_000])
def test_what_is_stored_and_cannot_be_read_is_as_if_it_were_not_there(stored: bytes) -> None:
    world = World()
    world.kept[f"client {ISSUER}"] = stored
    assert world.run(registration.load(ISSUER, world.now)) is None


def test_a_refusal_says_why() -> None:
    refusal = {"error": "invalid_redirect_uri", "error_description": "web clients\nhave https"}
    with pytest.raises(LoginFailed) as caught:
        register(fetched(400, refusal))
    assert caught.value.error == "invalid_redirect_uri"
    assert REDIRECT in str(caught.value) and r"web clients\nhave https" in str(caught.value)
    with pytest.raises(LoginFailed, match="HTTP 500"):
        register(fetched(500, b"<html>"))
    with pytest.raises(LoginFailed, match="cannot be read"):
        register(fetched(201, b"<html>"))


def test_an_endpoint_that_was_assumed_may_be_none() -> None:
    assumed = replace(found(), assumed=True)
    with pytest.raises(LoginFailed) as caught:
        register(fetched(404, {"error": "Not Found"}), assumed)
    assert str(caught.value).startswith(f"{ISSUER} does not say how to log in: it publishes no metadata, and registers")
    with pytest.raises(LoginFailed, match="did not register this client .* HTTP 500"):
        register(fetched(500, b""), assumed)


def test_a_server_without_registration_wants_a_client_id() -> None:
    with pytest.raises(LoginFailed, match=r"OAuth\(client_id="):
        register({}, found(registration_endpoint=None))


@pytest.mark.parametrize(
    ("redirect", "kind"),
    [
        ("http://127.0.0.1:5/callback", "native"),
        ("http://localhost/callback", "native"),
        ("https://localhost/callback", "native"),
        ("com.example.app:/callback", "native"),
        ("https://app.example.com/callback", "web"),
    ],
)
def test_the_application_type_follows_from_the_redirect(redirect: str, kind: str) -> None:
    assert application_type(redirect) == kind


def test_the_usual_method_of_a_client_with_a_secret() -> None:
    assert method_for(None, ("client_secret_basic",)) == "none"
    assert method_for("s", None) == "client_secret_basic"
    assert method_for("s", ("client_secret_post", "client_secret_basic")) == "client_secret_basic"
    assert method_for("s", ("client_secret_post",)) == "client_secret_post"


def test_the_secret_is_not_shown() -> None:
    assert "hidden" not in repr(register({"client_id": "c", "client_secret": "hidden"})[0])
