"""A server with a tool that needs more than the others."""

from backchannel import Context, Server


def bank() -> Server:
    server = Server("bank")

    @server.tool
    async def whoami(ctx: Context) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    @server.tool(scopes=["pay"])
    async def pay() -> str:
        return "paid"

    return server
