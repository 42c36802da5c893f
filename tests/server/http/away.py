"""A server whose calls free their connection, and an account of what its client did, for tests with two clients."""

from __future__ import annotations

from typing import Any

from backchannel import Context, Server, http_app


def told(number: int) -> str:
    return f"told {number}"


class Away:
    """A tool that tells and asks while its client has no connection, and the GETs that its client made for the rest."""

    def __init__(self) -> None:
        self.server = Server("away")
        self.runs = 0
        self.resumed: list[str] = []
        self.app = http_app(self.server)

        @self.server.tool
        async def trip(ctx: Context) -> str:
            self.runs += 1
            await ctx.progress(1, message=told(1))
            await ctx.disconnect(retry=0.01)
            await ctx.log("info", told(2))
            await ctx.progress(2, message=told(3))
            name = (await ctx.elicit("Who?", str)).unwrap()
            await ctx.progress(3, message=told(4))
            await ctx.disconnect(retry=0.02)
            await ctx.log("info", told(5))
            return f"back, {name}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        cursor = dict(scope.get("headers", ())).get(b"last-event-id")
        if cursor is not None:
            self.resumed.append(cursor.decode())
        await self.app(scope, receive, send)

    async def close(self) -> None:
        await self.app.close()
