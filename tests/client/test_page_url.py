"""client/page_url.py: which addresses a person may be asked to open, and how their host is shown."""

import pytest

from backchannel import Client, Context, ElicitUrl, RemoteProtocolError, Server
from backchannel.client.page_url import host, problem


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a?b#c", "example.com"),
        ("HTTP://127.0.0.1:8000", "127.0.0.1"),
        ("https://good.com@evil.com/", "evil.com"),
        ("http://[::1]:80/", "::1"),
        ("https://ex\u00e4mple.com/", "ex\u00e4mple.com, which is xn--exmple-cua.com"),
        ("https://xn--exmple-cua.com/", "xn--exmple-cua.com, which reads ex\u00e4mple.com"),
        ("https://xn--.com/", "xn--.com, which is no name in plain letters"),
    ],
)
def test_a_page(url: str, shown: str) -> None:
    assert problem(url) is None
    assert host(url) == shown


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("javascript:alert(1)", "it begins with javascript: and not with https: or http:"),
        ("file:///etc/passwd", "it begins with file:"),
        ("https:///path", "it has no host"),
        ("https:", "it has no host"),
        ("example.com/a", "it has no scheme"),
        ("", "it has no scheme"),
        ("https://[::1/", "it is no URL"),
        ("https://a:b/", "it is no URL"),
        ("https://evil.com\\@good.com/", "a backslash"),
        ("java\nscript:alert(1)", "a control character"),
        (" https://a.com", "a space"),
    ],
)
def test_no_page(url: str, why: str) -> None:
    assert why in (problem(url) or "")


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["legacy", "modern"])
async def test_a_client_refuses_what_is_no_page(version: str) -> None:
    server = Server("pages")
    shown: list[object] = []

    @server.tool
    async def visit(ctx: Context) -> str:
        page = ElicitUrl("Sign in", "https://example.com")
        page.url = "javascript:alert(1)"  # unchecked, as other servers may be
        return str(await ctx.ask(page))

    client = Client(server, elicit_url=shown.append, version=version)
    async with client:
        if version == "modern":
            with pytest.raises(
                RemoteProtocolError, match="wants 'javascript:alert.1.' opened, which this client refuses"
            ):
                await client.call_tool("visit")
        else:
            assert (await client.call_tool("visit")).is_error
    assert shown == []
