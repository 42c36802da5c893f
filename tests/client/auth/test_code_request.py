"""The authorization request, and its answer."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from backchannel.client.auth.code_request import Code, request_code
from backchannel.client.auth.discovery import Discovered
from backchannel.client.auth.documents import ServerMetadata
from backchannel.client.auth.registration import Registration
from backchannel.errors import LoginFailed
from tests.client.auth.world import World

ISSUER, REDIRECT = "https://auth.test", "http://127.0.0.1:5000/callback"
METADATA = ServerMetadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize",
    token_endpoint=f"{ISSUER}/token",
    code_challenge_methods_supported=("S256",),
)
CLIENT = Registration(issuer=ISSUER, client_id="c")


def request(
    *answers: Any, scopes: tuple[str, ...] = (), resource: str = "https://s.test/mcp/", **metadata: Any
) -> tuple[Code, World]:
    world = World()
    world.answers = list(answers)
    found = Discovered(resource, None, ServerMetadata(**{**_fields(METADATA), **metadata}), "m")
    return world.run(request_code(found, CLIENT, REDIRECT, scopes)), world


def _fields(metadata: ServerMetadata) -> dict[str, Any]:
    return {name: getattr(metadata, name) for name in metadata.__struct_fields__}


def test_what_the_browser_is_sent_to() -> None:
    code, world = request({"code": "x"}, scopes=("a", "b"))
    asked = world.asked
    assert asked.pop("state") and asked.pop("code_challenge")
    assert asked == {
        "response_type": "code",
        "client_id": "c",
        "redirect_uri": REDIRECT,
        "code_challenge_method": "S256",
        "resource": "https://s.test/mcp/",
        "scope": "a b",
    }
    assert code.code == "x"


def test_the_token_request_has_the_same_resource_and_redirect_and_the_verifier() -> None:
    code, _ = request({"code": "x"})
    assert code.parameters("https://s.test/mcp/") == {
        "grant_type": "authorization_code",
        "code": "x",
        "redirect_uri": REDIRECT,
        "code_verifier": code.verifier,
        "resource": "https://s.test/mcp/",
    }


def test_no_scope_is_sent_where_none_is_asked_for() -> None:
    assert "scope" not in request({"code": "x"})[1].asked


def test_the_query_of_the_endpoint_is_kept() -> None:
    _, world = request({"code": "x"}, authorization_endpoint=f"{ISSUER}/authorize?tenant=1&x=#fragment")
    pairs = parse_qsl(urlsplit(world.opened[0]).query, keep_blank_values=True)
    assert pairs[:2] == [("tenant", "1"), ("x", "")] and ("client_id", "c") in pairs
    assert "#" not in world.opened[0]


def test_consent_is_prompted_for_offline_access() -> None:
    """OpenID Connect servers ignore it else."""
    assert request({"code": "x"}, scopes=("a", "offline_access"))[1].asked["prompt"] == "consent"
    assert "prompt" not in request({"code": "x"}, scopes=("a",))[1].asked


def test_answers_of_another_state_are_discarded() -> None:
    strangers = [{"code": "evil", "state": "other"}, {"error": "x", "state": ""}, {"code": "evil", "state": "ü"}]
    assert request(*strangers, {"code": "good"})[0].code == "good"


def test_where_nobody_comes_there_is_no_code() -> None:
    with pytest.raises(TimeoutError):
        request({"code": "evil", "state": "other"})


@pytest.mark.parametrize(
    ("supported", "iss", "accepted"),
    [
        (True, ISSUER, True),
        (True, None, False),
        (None, None, True),
        (False, None, True),
        (None, ISSUER, True),
        (None, "https://evil.test", False),
        (True, "https://evil.test", False),
        # "clients MUST NOT apply scheme or host case folding, default-port elision, trailing-slash [...] normalization"
        (True, f"{ISSUER}/", False),
        (None, f"{ISSUER}/", False),
        (True, "https://AUTH.test", False),
        (True, f"{ISSUER}:443", False),
        (True, "", False),
    ],
)
def test_the_issuer_of_the_answer_is_compared(supported: bool | None, iss: str | None, accepted: bool) -> None:
    answer = {"code": "x", **({"iss": iss} if iss is not None else {})}
    if accepted:
        assert request(answer, authorization_response_iss_parameter_supported=supported)[0].code == "x"
    else:
        with pytest.raises(LoginFailed, match="so it is not used"):
            request(answer, authorization_response_iss_parameter_supported=supported)


def test_an_error_of_another_issuer_is_neither_shown_nor_acted_on() -> None:
    answer = {"error": "access_denied", "error_description": "call +1 555 0100", "iss": "https://evil.test"}
    with pytest.raises(LoginFailed) as caught:
        request(answer)
    assert "555" not in str(caught.value) and "access_denied" not in str(caught.value)
    assert caught.value.error == ""


def test_an_error_is_said() -> None:
    with pytest.raises(LoginFailed, match="refused the login: access_denied: no") as caught:
        request({"error": "access_denied", "error_description": "no", "iss": ISSUER})
    assert caught.value.error == "access_denied"


def test_an_answer_without_a_code_is_refused() -> None:
    with pytest.raises(LoginFailed, match="no code"):
        request({"something": "else"})


def test_a_server_without_pkce_or_a_login_page_is_not_visited() -> None:
    for metadata in ({"code_challenge_methods_supported": None}, {"authorization_endpoint": None}):
        world = World()
        found = Discovered("r", None, ServerMetadata(**{**_fields(METADATA), **metadata}), "m")
        with pytest.raises(LoginFailed):
            world.run(request_code(found, CLIENT, REDIRECT, ()))
        assert world.opened == []


def test_secrets_are_not_shown() -> None:
    code, _ = request({"code": "hidden"})
    assert "hidden" not in repr(code) and code.verifier not in repr(replace(code, code="x"))
