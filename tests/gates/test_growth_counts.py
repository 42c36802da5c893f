"""What does not grow: how many Python functions run for a call and for a list, however many tools there are, and for
each who is told of a change."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from backchannel import Server, http_app
from tests.gates.test_call_counts import MODERN, Post, count, modern_post

LIST = 35
"""At most, for a list that was asked for before."""
TOLD = 46
"""At most, for each listener: to tell it, and to write that to its connection."""
LISTENERS = 50
_META = {
    f"io.modelcontextprotocol/{name}": value
    for name, value in {"protocolVersion": MODERN, "clientCapabilities": {}}.items()
}


class Modern(Post):
    """A request of the stateless protocol. heard: gets the first message of its stream, and what tells of changes."""

    def __init__(self, method: str, params: dict[str, Any]):
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        super().__init__({"method": method, "params": {**params, "_meta": _META}}, headers)
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if b"acknowledged" in body or b"resources/updated" in body:
            self.heard.put_nowait(body)


def run(server: Server, measure: Callable[[Any], Awaitable[Counter[str]]]) -> Counter[str]:
    """What `measure` counts of an app, without what runs in this file."""

    async def main() -> Counter[str]:
        app = http_app(server)
        async with app.running():
            return await measure(app)

    own = os.path.basename(__file__)
    return Counter({name: number for name, number in asyncio.run(main()).items() if own not in name})


def listing(counts: Counter[str]) -> str:
    return "\n".join(f"{number:6g}  {where}" for where, number in counts.most_common())


def test_a_list_costs_the_same_however_long_it_is() -> None:
    def cost(tools: int) -> Counter[str]:
        server = Server("test")
        for number in range(tools):
            server.add_tool(lambda: "", name=f"t{number}")

        async def measure(app: Any) -> Counter[str]:
            post = Modern("tools/list", {})
            return await count(lambda: post.to(app))

        return run(server, measure)

    few, many = cost(1), cost(100)
    assert many.total() <= few.total() + 1, listing(many - few)
    assert few.total() <= LIST, listing(few)


def test_a_call_costs_the_same_however_many_tools_there_are() -> None:
    def cost(tools: int) -> Counter[str]:
        server = Server("test")

        @server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        for number in range(tools):
            server.add_tool(lambda: "", name=f"t{number}")

        async def measure(app: Any) -> Counter[str]:
            post = modern_post("add", {"a": 1, "b": 2})
            assert (await post.result(app))["structuredContent"] == 3
            return await count(lambda: post.to(app))

        return run(server, measure)

    assert cost(0) == cost(200)


def test_each_who_is_told_costs_little() -> None:
    server = Server("test")
    server.add_resource(lambda: "", "note://1", name="note")

    async def measure(app: Any) -> Counter[str]:
        wanted = {"notifications": {"resourceSubscriptions": ["note://1"]}}
        streams = [Modern("subscriptions/listen", wanted) for _ in range(LISTENERS)]

        async def all_hear() -> None:
            for stream in streams:
                await stream.heard.get()

        async def change() -> None:
            assert await server.notify.resource_updated("note://1") == LISTENERS
            await all_hear()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(stream.to(app)) for stream in streams]
            await all_hear()
            counts = await count(change)
            for task in tasks:
                task.cancel()
        return counts

    counts = run(server, measure)
    assert counts.total() <= TOLD * LISTENERS, listing(counts)
