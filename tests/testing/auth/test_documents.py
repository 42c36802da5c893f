"""Clients whose id is the URL of a document."""

from typing import Any

import pytest
from joserfc.jwk import ECKey

from backchannel.testing import AuthServer
from backchannel.testing.auth.clients import ASSERTION_TYPE
from backchannel.testing.auth.documents import client_at, is_document
from backchannel.testing.auth.web import OAuthError, as_json, as_redirect
from backchannel.testing.serving import serving
from tests.testing.auth.flow import REDIRECT, Flow, error, signed

URL = "https://app.test/client.json"
DOCUMENT = {"client_id": URL, "client_name": "App", "redirect_uris": ["http://127.0.0.1/callback"]}


def flow_with(**changed: Any) -> Flow:
    said = {name: value for name, value in {**DOCUMENT, **changed}.items() if value is not None}
    return Flow(AuthServer(documents={URL: said}), URL)


def test_such_a_client_logs_in_without_registration() -> None:
    flow = flow_with(grant_types=["authorization_code", "refresh_token"])
    answer = flow.login()
    assert flow.refresh(answer["refresh_token"]).status == 200


def test_the_grants_are_those_in_the_document() -> None:
    assert "refresh_token" not in flow_with().login()


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "https://app.test/other.json"},
        {"client_id": None},
        {"client_name": None},
        {"redirect_uris": None},
        {"redirect_uris": "http://127.0.0.1/callback"},
        {"redirect_uris": ["http://app.test/callback"]},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "magic"},
        {"client_secret": "secret"},
    ],
)
def test_a_document_that_is_wrong(wrong: dict[str, Any]) -> None:
    flow = flow_with(**wrong)
    with pytest.raises(OAuthError):
        flow.auth.fetch("GET", flow.url())
    assert URL not in flow.auth.clients


def test_a_redirect_has_to_be_in_the_document() -> None:
    flow = flow_with(redirect_uris=["https://app.test/callback"])
    assert flow.auth.fetch("GET", flow.url(redirect_uri=REDIRECT)).status == 400


def test_it_can_be_off() -> None:
    flow = flow_with()
    flow.auth.client_documents = False
    assert flow.auth.fetch("GET", flow.url()).status == 400


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, True),
        ("http://127.0.0.1:8000/client.json", True),
        ("https://app.test", False),
        ("https://app.test/", False),
        ("http://app.test/client.json", False),
        ("https://app.test/client.json#part", False),
        ("https://user@app.test/client.json", False),
        ("https://[app.test/client.json", False),
        ("app", False),
    ],
)
def test_what_is_the_url_of_a_document(url: str, expected: bool) -> None:
    assert is_document(url) is expected


class Site:
    """Serves answers by path."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        answer = self.answers[scope["path"]]
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_document_is_fetched_and_so_are_the_keys_that_it_names() -> None:
    site, key = Site(), ECKey.generate_key("P-256")
    async with serving(site) as origin:
        url = f"{origin}/client.json"
        said = {**DOCUMENT, "client_id": url, "token_endpoint_auth_method": "private_key_jwt"}
        site.answers["/client.json"] = as_json({**said, "jwks_uri": f"{origin}/jwks"})
        site.answers["/jwks"] = as_json({"keys": [key.as_dict(private=False)]})
        flow = Flow(AuthServer(), url)
        flow.auth.clients.add(await client_at(url, {}))
        content = {"iss": url, "sub": url, "aud": "https://auth.test", "jti": "1", "exp": int(flow.auth.now()) + 60}
        proof = {"client_assertion": signed(key, content), "client_assertion_type": ASSERTION_TYPE}
        assert flow.exchange(flow.authorize()["code"], **proof).status == 200


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_cannot_be_fetched() -> None:
    site = Site()
    async with serving(site) as origin:
        url = f"{origin}/client.json"
        site.answers = {
            "/client.json": as_redirect(f"{origin}/other.json", {}),
            "/gone.json": as_json({}, 404),
            "/long.json": as_json({**DOCUMENT, "padding": "x" * 70_000}),
            "/text.json": as_redirect(url, {}, 200),
        }
        for path in site.answers:
            with pytest.raises(OAuthError, match="fetched"):
                await client_at(f"{origin}{path}", {})
    with pytest.raises(OAuthError, match="fetched"):
        await client_at(url, {})


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_keys_are_fetched_only_from_where_a_document_may_be() -> None:
    site = Site()
    site.answers["/"] = as_json({"keys": []})
    async with serving(site) as origin:
        said = {**DOCUMENT, "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"{origin}/"}
        with pytest.raises(OAuthError, match="fetched"):
            await client_at(URL, {URL: said})


def test_a_client_that_has_to_sign_does_not_come_without() -> None:
    flow = flow_with(token_endpoint_auth_method="private_key_jwt", jwks={"keys": []})
    assert error(flow.exchange(flow.authorize()["code"])) == "invalid_client"
