"""The authorization endpoint."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest

from backchannel.testing import AuthServer, Misbehaviour
from backchannel.testing.auth import OAuthError
from tests.testing.auth.flow import FORM, REDIRECT, Flow, redirected


@pytest.fixture
def flow() -> Flow:
    auth = AuthServer(scopes=["read", "write"], resources=["https://shop.test/mcp"])
    auth.add_client("app", redirects=("http://127.0.0.1/callback", "https://app.test/callback"), name="<b>App</b>")
    return Flow(auth)


def test_it_redirects_with_code_state_and_issuer(flow: Flow) -> None:
    found = flow.authorize()
    assert found == {"code": found["code"], "state": "a-state", "iss": "https://auth.test"}
    assert flow.authorize()["code"] != found["code"]


def test_what_is_in_the_redirect_uri_stays(flow: Flow) -> None:
    flow.auth.add_client("app", redirects=(f"{REDIRECT}?a=b",))
    assert flow.auth.visit(flow.url(redirect_uri=f"{REDIRECT}?a=b")).startswith(f"{REDIRECT}?a=b&code=")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"scope": "read admin"}, "invalid_scope"),
        ({"resource": "https://other.test/mcp"}, "invalid_target"),
        ({"resource": "https://shop.test/mcp#part"}, "invalid_target"),
        ({"resource": "shop"}, "invalid_target"),
    ],
)
def test_an_error_is_in_the_redirect(flow: Flow, asked: dict[str, Any], error: str) -> None:
    found = flow.authorize(**asked)
    assert (found["error"], found["state"], found["iss"]) == (error, "a-state", "https://auth.test")
    assert "code" not in found


@pytest.mark.parametrize(
    "asked",
    [
        {"client_id": "unknown"},
        {"client_id": None},
        {"redirect_uri": "https://evil.test/callback"},
        {"redirect_uri": "http://127.0.0.1:5000/other"},
        {"redirect_uri": "https://app.test:444/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.test/callback"},
        {"redirect_uri": None},  # there are two
        {"redirect_uri": ["https://app.test/callback", "https://evil.test/"]},
    ],
)
def test_nobody_is_sent_where_the_client_has_not_registered(flow: Flow, asked: dict[str, Any]) -> None:
    reply = flow.auth.fetch("GET", flow.url(**asked))
    assert reply.status == 400 and "location" not in reply.headers
    with pytest.raises(OAuthError, match="status 400"):
        flow.auth.visit(flow.url(**asked))


def test_a_loopback_redirect_may_have_any_port(flow: Flow) -> None:
    assert "code" in flow.authorize(redirect_uri="http://127.0.0.1:1/callback")
    flow.auth.misbehaviour = Misbehaviour(exact_ports=True)
    assert flow.auth.fetch("GET", flow.url()).status == 400
    assert "code" in flow.authorize(redirect_uri="http://127.0.0.1/callback")


def test_the_only_redirect_may_be_left_out(flow: Flow) -> None:
    flow.auth.add_client("app", redirects=("https://app.test/callback",))
    assert flow.auth.visit(flow.url(redirect_uri=None)).startswith("https://app.test/callback?code=")


def test_a_client_without_redirects_may_use_any_on_loopback(flow: Flow) -> None:
    flow.auth.add_client("app")
    assert "code" in flow.authorize(redirect_uri="http://localhost:1234/x")
    assert flow.auth.fetch("GET", flow.url(redirect_uri="https://app.test/callback")).status == 400


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (Misbehaviour(redirect_iss=""), {"iss": None}),
        (Misbehaviour(redirect_iss="https://evil.test"), {"iss": "https://evil.test"}),
        (Misbehaviour(redirect_iss="{issuer}/"), {"iss": "https://auth.test/"}),
        (Misbehaviour(redirect_state="another"), {"state": "another"}),
        (Misbehaviour(redirect_state=""), {"state": None}),
        (Misbehaviour(refuse="access_denied"), {"error": "access_denied", "code": None, "state": "a-state"}),
    ],
)
def test_the_redirect_can_be_wrong(flow: Flow, wrong: Misbehaviour, expected: dict[str, str | None]) -> None:
    flow.auth.misbehaviour = wrong
    found = flow.authorize()
    assert {name: found.get(name) for name in expected} == expected


def consent(flow: Flow, answer: str, key: str | None = None) -> dict[str, str]:
    """Press a button on the page. Returns what the redirect says."""
    page = flow.auth.fetch("GET", flow.url()).body.decode()
    [found] = re.findall(r'name="consent"\s+value="([^"]+)"', page)
    body = urlencode({"consent": found if key is None else key, "answer": answer}).encode()
    return redirected(flow.auth.fetch("POST", flow.url(), FORM, body).headers["location"])


def test_a_page_asks_for_consent(flow: Flow) -> None:
    flow.auth.consent = True
    reply = flow.auth.fetch("GET", flow.url(scope="write"))
    page = reply.body.decode()
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert "&lt;b&gt;App&lt;/b&gt;" in page and "<b>App" not in page
    assert "127.0.0.1:5000" in page and "<b>write</b>" in page and "Not for production" in page
    assert "code" in consent(flow, "allow")


@pytest.mark.parametrize(("answer", "key"), [("deny", None), ("allow", "guessed"), ("allow", ""), ("", None)])
def test_without_consent_on_that_page_there_is_no_code(flow: Flow, answer: str, key: str | None) -> None:
    flow.auth.consent = True
    assert consent(flow, answer, key)["error"] == "access_denied"
