"""The smallest server of FastMCP."""

from fastmcp import FastMCP

server = FastMCP("hello")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run(show_banner=False)
