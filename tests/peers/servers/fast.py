"""A server written with FastMCP 4.2.3."""

import warnings

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp import MCPDeprecationWarning
from serving import serve

# What 2026-07-28 removed is deprecated, and the only way on the legacy wire.
warnings.simplefilter("ignore", MCPDeprecationWarning)
server = FastMCP("fast", version="4.2.3", instructions="Made with FastMCP.")


@server.tool
async def divide(a: int, b: int) -> float:
    """Divide a by b."""
    if b == 0:
        raise ToolError("cannot divide by zero")
    return a / b


@server.tool
async def count(ctx: Context) -> str:
    """Report progress and log."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3)
    await ctx.info("counted", logger_name="count")
    return "three"


if __name__ == "__main__":
    serve(lambda: server.run(show_banner=False), server.http_app)
