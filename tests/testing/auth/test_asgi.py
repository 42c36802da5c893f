"""An AuthServer on a socket, and as an app."""

import logging
from typing import Any

import aiohttp
import anyio
import pytest

from backchannel.testing import AuthServer, FakeClock, Misbehaviour
from backchannel.testing.auth.asgi import WARNING, serve
from tests.testing.auth.flow import FORM

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def ask(auth: AuthServer, client: str | None = None, **changed: Any) -> list[dict[str, Any]]:
    """One request to the app. Returns what it sends."""
    sent: list[dict[str, Any]] = []
    body = [changed.pop("body", b"")]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.pop() if body else b"", "more_body": bool(body)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/jwks", "headers": [], "client": (client, 1) if client else None}
    await serve(auth, {**scope, **changed}, receive, send)
    return sent


async def get(url: str) -> tuple[int, Any, Any]:
    async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as reply:
        return reply.status, reply.headers, await reply.json()


async def test_it_listens_and_the_issuer_is_where_it_listens(caplog: pytest.LogCaptureFixture) -> None:
    auth = AuthServer("https://auth.test/tenant")
    caplog.set_level(logging.INFO, "backchannel.testing.auth")
    async with auth.running() as issuer:
        assert issuer == auth.issuer and issuer.startswith("http://127.0.0.1:") and issuer.endswith("/tenant")
        place = issuer.replace("/tenant", "/.well-known/oauth-authorization-server/tenant")
        status, headers, found = await get(place)
        assert (status, found["issuer"]) == (200, issuer)
        assert "not for production" in headers["x-not-for-production"]
        assert headers["access-control-allow-origin"] == "*"
        async with aiohttp.ClientSession() as session, session.get(auth.endpoint("authorize")) as page:
            assert "access-control-allow-origin" not in page.headers  # other pages have no business there
    assert auth.issuer == "https://auth.test/tenant"
    assert WARNING in caplog.text
    with pytest.raises(aiohttp.ClientError):
        await get(place)


async def test_another_app_may_be_on_the_same_origin() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'"app"'})

    auth = AuthServer()
    async with auth.running(app) as issuer:
        assert (await get(f"{issuer}/mcp"))[2] == "app"
        assert "keys" in (await get(f"{issuer}/jwks"))[2]


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "testclient", None])
async def test_this_machine_is_served(client: str | None) -> None:
    assert (await ask(AuthServer(), client))[0]["status"] == 200


@pytest.mark.parametrize("client", ["192.0.2.1", "2001:db8::1", "10.0.0.1"])
async def test_no_other_machine_is(client: str) -> None:
    start, end = await ask(AuthServer(), client)
    assert start["status"] == 403 and b"not for production" in end["body"]


async def test_a_body_that_is_too_large() -> None:
    start, _ = await ask(AuthServer(), method="POST", path="/token", body=b"x" * 70_000)
    assert start["status"] == 413


async def test_a_document_that_cannot_be_had_leaves_the_client_unknown() -> None:
    query = b"client_id=https%3A%2F%2Fapp.test%2Fclient.json"
    auth = AuthServer(documents={"https://app.test/client.json": {}})
    start, _ = await ask(auth, path="/authorize", query_string=query)
    assert start["status"] == 400 and len(auth.clients) == 0


async def test_a_document_is_looked_at_when_it_is_needed() -> None:
    url = "https://app.test/client.json"
    document = {"client_id": url, "client_name": "App", "redirect_uris": ["http://127.0.0.1/callback"]}
    auth = AuthServer(documents={url: document})
    await ask(auth, path="/authorize", query_string=b"client_id=https%3A%2F%2Fapp.test%2Fclient.json")
    assert url in auth.clients


def test_the_token_endpoint_can_be_slow(anyio_backend: str) -> None:
    clock = FakeClock()
    auth = AuthServer(misbehaviour=Misbehaviour(delay=0.3))
    headers = [(name.encode(), value.encode()) for name, value in FORM.items()]

    async def main() -> tuple[float, float]:
        before = anyio.current_time()
        await ask(auth, method="POST", path="/token", headers=headers)
        between = anyio.current_time()
        await ask(auth)
        return between - before, anyio.current_time() - between

    assert clock.run(main) == (pytest.approx(0.3), 0.0)


async def test_lifespan() -> None:
    told = ["lifespan.shutdown", "lifespan.startup"]
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": told.pop()}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    await AuthServer()({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
