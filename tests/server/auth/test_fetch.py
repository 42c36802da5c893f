"""Fetching for real, from a server on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from backchannel.server.auth import fetch as module
from backchannel.server.auth.fetch import Fetched, fetch
from backchannel.server.auth.refusal import Unavailable
from tests.server.http.wire import serving

pytestmark = pytest.mark.anyio


class Site:
    """Answers by path, and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body = (await receive())["body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["method"], scope["path"], headers, body))
        status, fields, answer = 200, [(b"cache-control", b"public, max-age=90")], b'{"a": 1}'
        if scope["path"] == "/moved":
            status, fields = 302, [(b"location", b"/keys")]
        elif scope["path"] == "/large":
            answer = b" " * 3_000_000
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answer})


async def test_a_request_and_its_response() -> None:
    site = Site()
    async with serving(site, lifespan="off") as port:
        origin = f"http://127.0.0.1:{port}"
        fetched = await fetch("POST", f"{origin}/keys", {"accept": "application/json", "x-a": "b"}, b"token=1")
        assert fetched == Fetched(200, b'{"a": 1}', 90.0) and fetched.document() == {"a": 1}
        [(method, path, headers, body)] = site.requests
        assert (method, path, headers["x-a"], body) == ("POST", "/keys", "b", b"token=1")


async def test_a_redirect_is_not_followed_and_too_much_is_not_read() -> None:
    site = Site()
    async with serving(site, lifespan="off") as port:
        moved = await fetch("GET", f"http://127.0.0.1:{port}/moved", {}, b"")
        assert (moved.status, moved.max_age, moved.document()) == (302, None, None)
        assert [path for _, path, _, _ in site.requests] == ["/moved"]
        with pytest.raises(Unavailable, match="more than"):
            await fetch("GET", f"http://127.0.0.1:{port}/large", {}, b"")


async def test_nobody_there() -> None:
    async with serving(Site(), lifespan="off") as port:
        pass
    with pytest.raises(Unavailable, match=str(port)):
        await fetch("GET", f"http://127.0.0.1:{port}/keys", {}, b"")


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object(body: bytes) -> None:
    assert Fetched(200, body).document() is None
    assert Fetched(404, b"{}").document() is None


def test_it_has_a_limit_of_time() -> None:
    assert 0 < module.PATIENCE < 30
