"""A server that wants to know who calls, and a client that logs in when it is asked to.

A tool may need more than the server does: the first call of `write` is answered with 403, the client asks the person
for the scope that is missing, and sends the call again. An `AuthServer` stands in for the authorization server of the
company, which is the only thing that is for tests here: elsewhere `issuer` is its URL, and the rest stays as it is.

Run this file to see a login, a step-up and a second client that logs in to nothing, because the token is stored.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from backchannel import BearerAuth, Client, Context, Loopback, MemoryStore, OAuth, Server, http_app
from backchannel.testing import AuthServer
from backchannel.testing.auth import serving

server = Server("notes")
notes: dict[str, list[str]] = {}


@server.tool
async def read(ctx: Context) -> str:
    """Read my notes."""
    assert ctx.principal is not None
    return ", ".join(notes.get(ctx.principal.subject, ["nothing"]))


@server.tool(scopes=["notes:write"])
async def write(ctx: Context, text: str) -> str:
    """Write a note."""
    assert ctx.principal is not None
    notes.setdefault(ctx.principal.subject, []).append(text)
    return f"{ctx.principal.subject} wrote it down"


def protected(url: str, issuer: str) -> Any:
    """The app at a URL, for those that the issuer lets in."""
    return http_app(server, auth=BearerAuth(issuer=issuer, resource=url, scopes=["notes:read"]))


async def show(url: str) -> None:
    """What a browser does; by default the browser of this machine is opened."""
    async with aiohttp.ClientSession() as browser, browser.get(url) as page:
        print(f"page {page.status}: {await page.text()}"[:60].splitlines()[0])


async def main() -> None:
    """Serve, log in, call."""
    company = AuthServer(scopes=["notes:read", "notes:write"])
    async with company.running() as issuer:
        async with serving(make=lambda origin: protected(f"{origin}/mcp", issuer)) as origin:
            store = MemoryStore()  # a FileStore keeps tokens beyond the process
            async with Client(f"{origin}/mcp", auth=OAuth(redirect=Loopback(show=show), store=store)) as client:
                print((await client.call_tool("read")).text, "logins:", company.count("authorize"))
                print((await client.call_tool("write", {"text": "buy beans"})).text)
                print((await client.call_tool("read")).text, "logins:", company.count("authorize"))
            async with Client(f"{origin}/mcp", auth=OAuth(redirect=None, store=store)) as client:
                assert (await client.call_tool("read")).text == "buy beans"
    scopes = [login["scope"] for login in company.seen("authorize")]
    assert scopes == ["notes:read", "notes:read notes:write"], scopes


if __name__ == "__main__":
    asyncio.run(main())
