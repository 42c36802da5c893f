"""The listener to which the browser is sent back."""

import logging
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from backchannel.client.auth import browser, loopback
from backchannel.client.auth.loopback import Loopback
from backchannel.errors import ConfigurationError

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]
BOUND = 20


async def visit(uri: str, query: str = "code=c&state=s", raw: bytes | None = None) -> bytes:
    """What a browser gets there."""
    parts = urlsplit(uri)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 0) as stream:
        await stream.send(raw if raw is not None else f"GET {parts.path}?{query} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        page = b""
        with anyio.move_on_after(BOUND):
            try:
                while True:
                    page += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return page


async def nothing(url: str) -> None:
    pass


async def test_the_answer_comes_back_and_the_browser_gets_a_page() -> None:
    async with Loopback(show=nothing).listen(None) as listening:
        assert urlsplit(listening.uri).hostname == "127.0.0.1" and urlsplit(listening.uri).path == "/callback"
        await listening.show("https://as.test")
        assert b"You can close this page" in await visit(listening.uri)
        assert await listening.wait() == {"code": "c", "state": "s"}


async def test_the_page_is_there_though_the_login_ends_with_the_answer() -> None:
    pages: list[bytes] = []

    async def come(uri: str) -> None:
        pages.append(await visit(uri))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            async with Loopback(show=nothing).listen(None) as listening:
                await listening.show("https://as.test")
                group.start_soon(come, listening.uri)
                await listening.wait()
    assert len(pages) == 20 and all(page.endswith(b"</html>\n") for page in pages)


async def test_it_may_come_before_it_is_waited_for_and_several_may() -> None:
    async with Loopback(show=nothing).listen(None) as listening:
        await visit(listening.uri, "code=1&state=s")
        await visit(listening.uri, "code=2&state=s")
        await listening.show("https://as.test")
        assert [(await listening.wait())["code"], (await listening.wait())["code"]] == ["1", "2"]


async def test_other_requests_are_told_so_and_do_not_count() -> None:
    async with Loopback(show=nothing).listen(None) as listening:
        await listening.show("https://as.test")
        for raw in (
            b"GET /favicon.ico HTTP/1.1\r\n\r\n",
            b"GET //[ HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
            b"x" * 20_000,
        ):
            assert (await visit(listening.uri, raw=raw)).startswith(b"HTTP/1.1 404 ")
        await visit(listening.uri)
        assert (await listening.wait())["code"] == "c"


async def test_who_leaves_at_once_does_no_harm() -> None:
    async with Loopback(show=nothing).listen(None) as listening:
        parts = urlsplit(listening.uri)
        stream = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
        await stream.aclose()
        await visit(listening.uri)
        await listening.show("https://as.test")
        assert (await listening.wait())["code"] == "c"


async def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "_MOST", 2)
    async with Loopback(show=nothing, timeout=0.0).listen(None) as listening:
        for number in range(4):
            await visit(listening.uri, f"code={number}&state=s")
        await listening.show("https://as.test")
        await listening.wait()
        await listening.wait()
        with pytest.raises(TimeoutError):
            await listening.wait()


async def test_the_person_has_a_limit() -> None:
    async with Loopback(show=nothing, timeout=0.0).listen(None) as listening:
        await listening.show("https://as.test")
        with pytest.raises(TimeoutError):
            await listening.wait()


async def test_the_page_is_shown_to_the_person() -> None:
    shown = []

    async def show(url: str) -> None:
        shown.append(url)

    async with Loopback(show=show).listen(None) as listening:
        await listening.show("https://as.test/?state=s")
    assert shown == ["https://as.test/?state=s"]


async def test_the_port_from_before_is_used_again_if_it_is_free() -> None:
    redirect = Loopback(show=nothing)
    async with redirect.listen(None) as first:
        async with redirect.listen(first.uri) as second:
            assert second.uri != first.uri
    async with redirect.listen(first.uri) as third:
        assert third.uri == first.uri
    async with redirect.listen("http://127.0.0.1:1/other") as fourth:
        assert urlsplit(fourth.uri).port != 1


async def test_a_port_that_is_wanted_and_taken_is_said() -> None:
    async with Loopback(show=nothing).listen(None) as first:
        port = urlsplit(first.uri).port or 0
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            async with Loopback(show=nothing, port=port).listen(None):
                pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_uri_has_the_host_and_path_that_are_given(host: str) -> None:
    async with Loopback(show=nothing, host=host, path="/x/back").listen(None) as listening:
        assert listening.uri == f"http://{host}:{urlsplit(listening.uri).port}/x/back"
        await visit(listening.uri.replace("localhost", "127.0.0.1"))
        await listening.show("https://as.test")
        assert (await listening.wait())["code"] == "c"


async def test_nothing_listens_after_the_end_however_that_comes() -> None:
    uri = ""
    with anyio.CancelScope() as scope:
        async with Loopback(show=nothing).listen(None) as listening:
            uri = listening.uri
            await listening.show("https://as.test")
            scope.cancel()
            await listening.wait()
    with pytest.raises(OSError):
        await visit(uri)


async def test_the_person_may_paste_where_the_browser_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    pasted = iter(["nonsense", "http://[", " http://127.0.0.1:1/callback?code=pasted&state=s \n"])

    async def paste() -> str:
        return next(pasted)

    with caplog.at_level(logging.WARNING, "backchannel.client"):
        async with Loopback(show=nothing, paste=paste).listen(None) as listening:
            await listening.show("https://as.test")
            assert (await listening.wait())["code"] == "pasted"
    assert "what was pasted is not" in caplog.text and "nonsense" not in caplog.text


@pytest.mark.parametrize("given", [{"host": "0.0.0.0"}, {"host": "example.com"}, {"path": "callback"}])
async def test_only_this_machine_is_listened_on(given: Any) -> None:
    with pytest.raises(ConfigurationError):
        Loopback(**given)


async def test_the_browser_is_opened_where_there_is_one(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    opened: list[str] = []
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("BROWSER", "some")
    await browser.show("https://as.test/1")
    assert opened == ["https://as.test/1"] and capsys.readouterr() == ("", "")


async def test_else_the_url_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: False)
    monkeypatch.setenv("BROWSER", "some")
    await browser.show("https://as.test/1")
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(browser.sys, "platform", "linux")
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: pytest.fail("there is none"))
    await browser.show("https://as.test/2")
    out, err = capsys.readouterr()
    assert out == "" and "https://as.test/1" in err and "https://as.test/2" in err
