"""Progress, cancellation, logging (basic/patterns, server/utilities)."""

from __future__ import annotations

import anyio

from backchannel import Context, Server
from backchannel.protocol.versions import Era

from ..recorder import Recorder
from ..scenario import having, scenario


@scenario(
    "progress",
    "A call that wants progress, and one that does not, of the same tool.",
)
async def progress(wire: Recorder) -> None:
    server = Server("copier")

    @server.tool
    async def copy(ctx: Context, files: int) -> str:
        await ctx.progress(0.5)
        for number in range(1, files + 1):
            await ctx.progress(number, total=files, message=f"File {number}")
        return "copied"

    async with wire.client(server) as client:
        await client.call_tool("copy", {"files": 2}, progress=lambda step: None)
        wire.note("Nobody asked for progress.")
        await client.call_tool("copy", {"files": 2})


@scenario(
    "cancel",
    "The client gives a call up. It gets no answer, and other calls go on.",
)
async def cancel(wire: Recorder) -> None:
    server = Server("slow")
    begun = anyio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        await anyio.sleep_forever()
        return "never"

    @server.tool
    async def quick() -> str:
        return "done"

    async with wire.client(server) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wait")
            await begun.wait()
            group.cancel_scope.cancel()
        await client.call_tool("quick")


@scenario(
    "cancel-question",
    "The client gives a call up that has a question open: the server withdraws the question.",
    having(lambda features: features.elicitation and features.era is Era.LEGACY),
)
async def cancel_question(wire: Recorder) -> None:
    server = Server("slow")
    asked = anyio.Event()

    @server.tool
    async def order(ctx: Context) -> str:
        return (await ctx.elicit("Which size?", str)).unwrap()

    async def think(question: object) -> None:
        asked.set()
        await anyio.sleep_forever()

    async with wire.client(server, elicit=think) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "order")
            await asked.wait()
            group.cancel_scope.cancel()
        await client.ping()


@scenario(
    "batch",
    "Several messages in one line, which are answered in one; those of a batch of notifications are not answered.",
    having(lambda features: features.batches),
)
async def batch(wire: Recorder) -> None:
    server = Server("adder")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with wire.raw(server) as raw:
        with wire.hidden():
            await raw.write(wire.initialize())
            await raw.read()
            await raw.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        wire.note(f"Connected, as bring-up/{wire.version}.txt shows.")
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
        first = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        await raw.write([first, cancelled, {"jsonrpc": "2.0", "id": "two", "method": "ping"}])
        await raw.read()
        await raw.write([cancelled, cancelled])
        await raw.write({"jsonrpc": "2.0", "id": 3, "method": "ping"})
        await raw.read()


@scenario(
    "logging",
    "A tool logs at three levels; the client wants warnings, then everything.",
)
async def logging(wire: Recorder) -> None:
    server = Server("furnace")

    @server.tool
    async def heat(ctx: Context) -> str:
        await ctx.log("debug", "valve opened")
        await ctx.log("warning", {"degrees": 900, "limit": 850}, logger="sensor")
        await ctx.log("error", "too hot")
        return "off"

    async with wire.client(server, log=lambda message: None) as client:
        wire.note("No level was set: nothing is sent.")
        await client.call_tool("heat")
        wire.note("Warnings and what is worse.")
        await client.set_log_level("warning")
        await client.call_tool("heat")
        wire.note("Everything.")
        await client.set_log_level("debug")
        await client.call_tool("heat")
