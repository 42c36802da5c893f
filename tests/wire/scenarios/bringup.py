"""How a connection begins (2025-11-25 basic/lifecycle; server/discover, basic/versioning)."""

from __future__ import annotations

from typing import Any

import anyio

from backchannel import Server
from backchannel.types import Icon

from ..recorder import Recorder
from ..scenario import LEGACY, MODERN, scenario


def _everything() -> Server:
    """A server that has something of everything to declare."""
    server = Server(
        "library",
        version="2.1",
        title="The Library",
        description="Books and their readers.",
        website_url="https://library.example",
        icons=[Icon("https://library.example/icon.png", "image/png", ["48x48"])],
        instructions="Search before you borrow.",
        extensions={"com.example/loans": {"days": 14}, "com.example/plain": {}},
        ttl=60,
        public=True,
    )

    @server.tool
    async def search(title: str) -> str:
        return title

    @server.resource("book://{id}")
    async def book(id: str) -> str:
        return id

    @server.prompt
    async def recommend(topic: str) -> str:
        return topic

    @server.completion("recommend", "topic")
    def topics(value: str) -> list[str]:
        return [value]

    return server


@scenario(
    "bring-up",
    """A client that answers questions of every kind connects to a server that has something of everything. In a session
    it says hello first, and the server asks for the client's roots by itself; the stateless protocol has no handshake,
    and the client asks what there is.""",
)
async def bring_up(wire: Recorder) -> None:
    asked = anyio.Event()

    async def answer(question: Any) -> None:
        return None

    async def roots() -> list[str]:
        asked.set()
        return ["file:///home/ada/books"]

    answers: dict[str, Any] = {
        "elicit": answer,
        "elicit_url": answer,
        "sample": answer,
        "sample_tools": True,
        "sample_context": True,
        "roots": roots,
    }
    async with wire.client(_everything(), bring_up=True, **answers) as client:
        if wire.version in LEGACY:
            await asked.wait()
            await client.ping()


@scenario(
    "bring-up-bare",
    "A client that answers nothing connects to a server that says nothing of itself but its name.",
)
async def bring_up_bare(wire: Recorder) -> None:
    async with wire.client(Server("plain"), bring_up=True):
        pass


@scenario("ping", "A sign of life, before the client has said that it is initialized, and after.", LEGACY)
async def ping(wire: Recorder) -> None:
    server = Server("plain")
    async with wire.raw(server) as raw:
        await raw.write(wire.initialize())
        await raw.read()
        await raw.write({"jsonrpc": "2.0", "id": "alive?", "method": "ping"})
        await raw.read()
    wire.note("A session that is up.")
    async with wire.client(server) as client:
        await client.ping()


@scenario(
    "unknown-version",
    """A client offers a version that nobody knows, and one that has no handshake. The server answers with the newest
    one that has.""",
    LEGACY[:1],
)
async def unknown_version(wire: Recorder) -> None:
    for offer in ("2099-01-01", MODERN[0].value):
        async with wire.raw(Server("plain")) as raw:
            await raw.write(wire.initialize(1, offer))
            await raw.read()


@scenario(
    "malformed",
    """What is no message: no JSON, an array, no version of JSON-RPC, an id that is null, params that are no object, a
    method that is no text. The answer has the id, where one can be found; a notification is not answered.""",
    LEGACY[:1],
)
async def malformed(wire: Recorder) -> None:
    lines = [
        b"{",
        b"[]",
        b'{"id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": []}',
        b'{"jsonrpc": "2.0", "id": "three", "method": 3}',
    ]
    async with wire.raw(Server("plain")) as raw:
        for line in lines:
            await raw.write(wire.wrong(line))
            await raw.read()
        await raw.write(wire.wrong(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}'))
        await raw.write(wire.wrong(b'{"jsonrpc": "2.0", "id": 4, "method": "nobody/knows"}'))
        await raw.read()


@scenario(
    "unsupported-version",
    """A request of a version that is not served: the answer names those that are. One that names a legacy version,
    which only `initialize` can choose, and one that does not say what the client can do.""",
    MODERN,
)
async def unsupported_version(wire: Recorder) -> None:
    async with wire.raw(Server("plain")) as raw:
        for number, named in enumerate(("2099-01-01", "2025-11-25"), 1):
            params = {"_meta": wire.meta(protocolVersion=named)}
            await raw.write({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params})
            await raw.read()
        params = {"_meta": wire.meta(clientCapabilities=None)}
        await raw.write(wire.wrong({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": params}))
        await raw.read()
