"""Resources and what changes (server/resources, basic/patterns/subscriptions)."""

from __future__ import annotations

import anyio.lowlevel

from backchannel import Limits, ResourceNotFound, Server
from backchannel.errors import ProtocolError
from backchannel.types import Annotations, Icon, Image

from ..recorder import Recorder
from ..scenario import LEGACY, MODERN, scenario
from .tools import PNG

NOTES = {"1": "Buy milk", "2": "Feed the cat"}


def _notes() -> Server:
    server = Server("notes", limits=Limits(page=2), ttl=10)

    @server.resource(
        "notes://index",
        title="All notes",
        description="A list of the notes.",
        mime_type="application/json",
        size=20,
        icons=[Icon("https://notes.example/index.png")],
        annotations=Annotations(["user", "assistant"], 1, "2026-01-31T12:00:00Z"),
        ttl=60,
        public=True,
    )
    async def index() -> list[str]:
        return list(NOTES)

    @server.resource("notes://logo", name="logo")
    async def logo() -> Image:
        return Image(data=PNG, mime_type="image/png")

    @server.resource("notes://help")
    async def help() -> str:
        return "There is none."

    @server.resource("note://{id}", title="A note", mime_type="text/plain")
    async def note(id: str) -> str:
        if id not in NOTES:
            raise ResourceNotFound(f"note://{id}")
        return NOTES[id]

    @server.prompt
    async def sort() -> str:
        return "Sort my notes."

    return server


@scenario("resources-list", "Three resources on two pages, and one template.")
async def resources_list(wire: Recorder) -> None:
    async with wire.client(_notes()) as client:
        assert len([resource async for resource in client.resources()]) == 3
        assert len([template async for template in client.resource_templates()]) == 1


@scenario("resources-read", "JSON, a binary, a text from a template, and a resource that does not exist.")
async def resources_read(wire: Recorder) -> None:
    async with wire.client(_notes()) as client:
        for uri in ("notes://index", "notes://logo", "note://1"):
            await client.read(uri)
        try:
            await client.read("note://99")
        except ProtocolError:
            return
    raise AssertionError("there is no note 99")


@scenario(
    "resources-subscribe",
    "The client subscribes to one resource. It is told when that one changes, and not of another, nor afterwards.",
    LEGACY,
)
async def resources_subscribe(wire: Recorder) -> None:
    server = _notes()
    async with wire.client(server) as client:
        async with client.listen(resources=["note://1"]) as changes:
            assert await server.notify.resource_updated("note://2") == 0
            assert await server.notify.resource_updated("note://1") == 1
            await anext(changes)
        assert await server.notify.resource_updated("note://1") == 0


@scenario(
    "list-changed",
    "The lists of tools, resources and prompts have changed; the client that is told lists the tools again.",
    LEGACY,
)
async def list_changed(wire: Recorder) -> None:
    server = _notes()
    async with wire.client(server) as client:
        async with client.listen(tools=True, resource_list=True, prompts=True) as changes:
            server.add_tool(_count)
            await server.notify.tools_changed()
            await server.notify.resources_changed()
            await server.notify.prompts_changed()
            for _ in range(3):
                await anext(changes)
        assert [tool.name async for tool in client.tools()] == ["count"]


async def _count() -> int:
    return len(NOTES)


_count.__name__ = "count"


@scenario(
    "listen",
    """The client listens for the list of tools and one resource. The server says first what it will tell, then tells
    that and nothing else, until the client leaves.""",
    MODERN,
)
async def listen(wire: Recorder) -> None:
    server = _notes()
    async with wire.client(server) as client:
        async with client.listen(tools=True, resources=["note://1"]) as changes:
            server.add_tool(_count)
            await server.notify.tools_changed()
            await server.notify.prompts_changed()
            await server.notify.resource_updated("note://2")
            await server.notify.resource_updated("note://1")
            for _ in range(2):
                await anext(changes)
            wire.note("The client leaves.")
        while len(server.notify):
            await anyio.lowlevel.checkpoint()
        await server.notify.tools_changed()


@scenario("listen-lists", "The client listens for the three lists. Each of them changes.", MODERN)
async def listen_lists(wire: Recorder) -> None:
    server = _notes()
    async with wire.client(server) as client:
        async with client.listen(tools=True, resource_list=True, prompts=True) as changes:
            await server.notify.tools_changed()
            await server.notify.resources_changed()
            await server.notify.prompts_changed()
            for _ in range(3):
                await anext(changes)


@scenario(
    "listen-closed",
    "The client closes the pipe while it listens. The server ends, and with it the subscription, by its result.",
    MODERN,
)
async def listen_closed(wire: Recorder) -> None:
    server = _notes()
    async with wire.raw(server) as raw:
        params = {"notifications": {"promptsListChanged": True}, "_meta": wire.meta()}
        await raw.write({"jsonrpc": "2.0", "id": "sub-1", "method": "subscriptions/listen", "params": params})
        await raw.read()
        await server.notify.prompts_changed()
        await raw.read()
        wire.note("The client closes the pipe.")
        await raw.hang_up()
        await raw.read()


@scenario(
    "listen-unable",
    "The client wants to hear of more than the server can tell: what is acknowledged is less.",
    MODERN,
)
async def listen_unable(wire: Recorder) -> None:
    server = Server("tools only")
    async with wire.client(server) as client:
        async with client.listen(tools=True, prompts=True, resource_list=True, resources=["note://1"]) as changes:
            assert changes.honoured.tools and not changes.honoured.prompts
