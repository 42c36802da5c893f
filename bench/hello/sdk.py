"""The smallest server of the official SDK."""

from mcp.server import MCPServer

server = MCPServer("hello", log_level="ERROR")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run("stdio")
