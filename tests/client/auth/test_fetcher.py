"""The requests of a flow, against a scripted server."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from backchannel.client.auth import fetcher
from backchannel.client.auth.fetcher import Fetcher
from backchannel.client.auth.reach import Distance
from backchannel.client.auth.steps import Fetch, Fetched
from backchannel.errors import ConnectionFailed, LoginFailed
from tests.client.http_server import BOUND, Got, serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def fetch(
    script: Callable[[Got], Awaitable[None]],
    method: str = "GET",
    body: bytes = b"",
    server: str | None = None,
    **headers: str,
) -> tuple[Fetched, list[Got]]:
    async with serving(script) as running:
        asked = Fetch(method, running.url, headers, body)
        with anyio.fail_after(BOUND):
            return await Fetcher(server or running.url)(asked), running.got


async def test_the_request_is_sent_as_it_is_and_the_response_comes_back() -> None:
    async def script(got: Got) -> None:
        await got.reply(418, b"tea", x_kind="Green", content_type="text/plain")

    response, (got,) = await fetch(script, "POST", b"a=b", accept="application/json")
    assert (got.method, got.body, got.headers["accept"]) == ("POST", b"a=b", "application/json")
    assert (response.status, response.body, response.headers["x-kind"]) == (418, b"tea", "Green")


async def test_nothing_of_one_request_is_in_the_next() -> None:
    """Cookies of an authorization server are none of its business later."""

    async def script(got: Got) -> None:
        await got.reply(200, b"", set_cookie="a=b; Path=/")

    async with serving(script) as running:
        ask = Fetcher(running.url)
        await ask(Fetch("GET", running.url))
        await ask(Fetch("GET", running.url))
        assert all("cookie" not in got.headers for got in running.got)


async def test_a_get_follows_redirects() -> None:
    async def script(got: Got) -> None:
        if got.path == "/there":
            return await got.reply(200, b"here")
        await got.reply(302, b"", location="/there")

    assert (await fetch(script))[0].body == b"here"


@pytest.mark.parametrize(
    "location", ["http://elsewhere.test/", "file:///etc/passwd", "ftp://a.test", "//user:x@a.test", "https://["]
)
async def test_but_not_to_where_nothing_may_be_asked(location: str) -> None:
    async def script(got: Got) -> None:
        await got.reply(302, b"", location=location)

    with pytest.raises(LoginFailed, match="redirects to"):
        await fetch(script)


async def test_nor_for_ever() -> None:
    async def script(got: Got) -> None:
        await got.reply(307, b"", location="/again")

    with pytest.raises(LoginFailed, match="without end"):
        await fetch(script)


async def test_a_post_follows_none() -> None:
    async def script(got: Got) -> None:
        await got.reply(307, b"", location="/there")

    response, got = await fetch(script, "POST", b"secret")
    assert response.status == 307 and len(got) == 1


async def test_a_response_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "_LONGEST", 1000)

    async def script(got: Got) -> None:
        await got.reply(200, b"x" * 1001)

    with pytest.raises(LoginFailed, match="too long"):
        await fetch(script)


async def test_a_server_that_does_not_answer_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(got: Got) -> None:
        got.drop()

    with pytest.raises(ConnectionFailed, match="127.0.0.1 did not answer"):
        await fetch(script)

    async def never(got: Got) -> None:
        await got.wait()

    monkeypatch.setattr(fetcher, "_LIMIT", 0.05)
    with pytest.raises(ConnectionFailed, match="TimeoutError"):
        await fetch(never)


async def test_nothing_listens_there() -> None:
    async with serving(nothing) as running:
        url = running.url
    with pytest.raises(ConnectionFailed) as caught:
        await Fetcher(url)(Fetch("GET", url + "?secret"))
    assert "secret" not in str(caught.value)


async def nothing(got: Got) -> None:
    pass


@pytest.mark.parametrize("url", ["http://as.test/", "file:///etc/passwd", "gopher://as.test"])
async def test_only_https_is_asked(url: str) -> None:
    with pytest.raises(LoginFailed, match="no https URL"):
        await Fetcher("https://mcp.test")(Fetch("GET", url))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254"])
async def test_a_server_on_the_internet_reaches_nothing_that_is_nearer(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    far(monkeypatch)
    with pytest.raises(LoginFailed, match="nearer than the MCP server"):
        await Fetcher("https://mcp.test")(Fetch("GET", f"https://{host}/"))


async def test_neither_by_a_name_nor_by_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    far(monkeypatch)
    with pytest.raises(LoginFailed, match="localhost is at"):
        await Fetcher("https://mcp.test")(Fetch("GET", "http://localhost:1/"))


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0", "127.0.0.1."])
async def test_an_address_is_written_in_one_way(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others look like names here, and like addresses to who connects."""
    far(monkeypatch)
    with pytest.raises(LoginFailed, match="no way to write an address"):
        await Fetcher("https://mcp.test")(Fetch("GET", f"https://{host}/"))


async def test_but_it_may_if_it_is_trusted() -> None:
    async def script(got: Got) -> None:
        await got.reply(200, b"here")

    async with serving(script) as running:
        ask = Fetcher("https://mcp.test", trust_network=True)
        assert (await ask(Fetch("GET", running.url))).body == b"here"


def far(monkeypatch: pytest.MonkeyPatch) -> None:
    async def distance_of(*_: Any) -> Distance:
        return Distance.INTERNET

    monkeypatch.setattr(fetcher, "distance_of", distance_of)
