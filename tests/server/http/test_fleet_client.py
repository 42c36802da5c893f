"""Our client over a balancer that sends each of its requests to another replica."""

import itertools
from typing import Any

import anyio
import pytest

from backchannel import Client, Context, Server, http_app
from tests.server.http.replicas import in_memory, in_the_network
from tests.server.http.wire import PATIENCE, serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def book(ctx: Context, city: str) -> str:
        await ctx.log("info", f"booking {city}")
        await ctx.progress(1, message="asking")
        day, slogan = await ctx.gather(ctx.elicit("Which day?", str), ctx.sample("A slogan"))
        await ctx.disconnect(retry=0.01)
        await ctx.progress(2, message="asked")
        sure = await ctx.confirm("Sure?")
        return f"{city} on {day.unwrap()}: {slogan.text} {sure} {[root.uri for root in await ctx.roots()]}"

    @server.resource("note://{id}")
    def note(id: str) -> str:
        return id

    return server


class Balancer:
    """An ASGI app in front of others."""

    def __init__(self, apps: list[Any]):
        self.apps = apps
        self.turns = itertools.cycle(apps)
        self.used: set[int] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = next(self.turns)
        self.used.add(id(app))
        await app(scope, receive, send)

    async def close(self) -> None:
        for app in self.apps:
            await app.close()


@pytest.mark.rule("R23", "R24", "R25", "R52", "R82", "R84")
@pytest.mark.parametrize("share", [in_memory, in_the_network])
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
async def test_our_client_notices_nothing(share: Any, version: str) -> None:
    fleet = share()
    servers = [shop() for _ in range(3)]
    balancer = Balancer([http_app(server, fleet=fleet()) for server in servers])
    logged: list[Any] = []
    told: list[Any] = []
    with anyio.fail_after(PATIENCE):
        async with serving(balancer, lifespan="off") as port:
            client = Client(
                f"http://127.0.0.1:{port}/mcp",
                version=version,
                elicit=lambda question: True if question.message == "Sure?" else {"value": "Monday"},
                sample=lambda question: "Go!",
                roots=["file:///home/ada"],
                log=lambda params: logged.append(params.data),
                log_level="info",
            )
            async with client:
                for city in ("Oslo", "Rome", "Bern", "Wien"):
                    result = await client.call_tool(
                        "book", {"city": city}, progress=lambda params: told.append(params.message)
                    )
                    assert result.text == f"{city} on Monday: Go! True ['file:///home/ada']"
                async with client.listen(resources=["note://1"], tools=True) as changes:
                    await servers[0].notify.resource_updated("note://1")
                    await servers[1].notify.tools_changed()
                    seen = {(await anext(changes)).uri for _ in range(2)}
                    assert seen == {"note://1", None}
    assert logged == [f"booking {city}" for city in ("Oslo", "Rome", "Bern", "Wien")]
    assert told == ["asking", "asked"] * 4
    assert len(balancer.used) == 3
