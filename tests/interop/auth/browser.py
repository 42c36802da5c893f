"""A browser without a window, whose person agrees to everything."""

from __future__ import annotations

import aiohttp
import anyio.lowlevel


class Browser:
    """Follows a login until a page is shown. pages: the URLs of these, in order."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    async def show(self, url: str) -> None:
        """Go to a URL, and wherever that leads; again, where nobody listens yet, as a person would."""
        for _ in range(1000):
            try:
                async with aiohttp.ClientSession() as session, session.get(url) as reply:
                    assert reply.status == 200, await reply.text()
                    return self.pages.append(str(reply.url))
            except aiohttp.ClientConnectorError:
                await anyio.lowlevel.checkpoint()
        raise AssertionError(f"nobody listens at {url}")

    async def follow(self, url: str) -> str:
        """Where a URL redirects to, which is not visited."""
        async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as reply:
            assert "location" in reply.headers, await reply.text()
            self.pages.append(url)
            return reply.headers["location"]
