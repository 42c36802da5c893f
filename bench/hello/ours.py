"""The smallest server of this toolkit."""

from backchannel import Server, run

server = Server("hello")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


run(server)
