"""Many clients against one server process: they call, ask, cancel, lose their connection, resume and leave, at random.
At the end nothing may be left, on either side: `make soak`.

    python scripts/soak.py --seconds 60 --clients 200 --seed 1

How it works: clients over HTTP go through a relay that breaks connections now and then; some clients run the server as
a child of theirs. Each call has a word of its own, and its result is that word, so that crossed answers show. When time
is up all clients are closed, and once idle sessions have expired, the server and this process have to be as they were
at the start: sessions, calls, questions, listeners, jobs, tasks, file descriptors and children; and nothing was logged
as an error. Only loopback is used. Exit code 1 and a list of what is left otherwise.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from backchannel import BackchannelError, Client, StdioServer

sys.path.insert(0, str(Path(__file__).parent))

from soak_server import Errors, children, errors

SERVER = str(Path(__file__).with_name("soak_server.py"))
SETTLE = 20.0
"""Seconds in which everything has to come to rest: sessions and idle connections expire."""
WORDS = ("echo", "work", "ask", "gather", "in_turn", "in_a_thread", "leaves_work", "polls")
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2025-11-25", "2026-07-28", "2026-07-28", "auto")
Json = dict[str, Any]


class Relay:
    """Hands bytes on between clients and the server, and breaks connections."""

    def __init__(self, port: int, chance: random.Random):
        self._target = port
        self._chance = chance
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.broken = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Gives the port."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.cut(1.0)
            while self._tasks:
                await asyncio.wait(self._tasks)
            await server.wait_closed()

    def cut(self, share: float) -> None:
        """Break this share of the connections."""
        for writer in list(self._open):
            if self._chance.random() < share:
                self.broken += 1
                writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._open |= {writer, there_writer}
            async with anyio.create_task_group() as group:
                group.start_soon(self._carry, reader, there_writer)
                group.start_soon(self._carry, there_reader, writer)
            for one in (writer, there_writer):
                one.close()
                self._open.discard(one)
                with contextlib.suppress(OSError):
                    await one.wait_closed()
        finally:
            self._tasks.discard(task)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.transport.abort() if sink.transport.is_closing() else sink.close()


class Soak:
    """Runs clients until the end, and counts what became of their calls."""

    def __init__(self, seed: int, seconds: float):
        self.chance = random.Random(seed)
        self.end = time.monotonic() + seconds
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.asked = 0
        self._words = 0

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    async def elicit(self, question: Any) -> Json | None:
        return {"value": word} if (word := await self._said(question.message)) else None

    async def sample(self, question: Any) -> str:
        text: str = question.messages[0].content.text
        return await self._said(text) or text.removeprefix("Say ")

    async def _said(self, text: str) -> str | None:
        self.asked += 1
        try:
            await anyio.sleep(self.chance.expovariate(50))
            return text.removeprefix("Say ") if self.chance.random() < 0.97 else None
        finally:
            self.asked -= 1

    async def visit(self, target: Any) -> None:
        """One client, from its beginning to its end."""
        client = Client(
            target,
            version=self.chance.choice(VERSIONS) if isinstance(target, str) else "auto",
            elicit=self.elicit,
            sample=self.sample,
            timeout=5.0,
        )
        try:
            async with client, anyio.create_task_group() as group:
                for _ in range(self.chance.randint(1, 3)):
                    group.start_soon(self._calls, client, self.chance.randint(1, 8))
        except* BackchannelError as failed:
            self._count(failed)
            if isinstance(target, StdioServer):
                self.wrong.append(f"a child, whose pipes nobody breaks, failed: {failed.exceptions!r}")
        except* Exception as failed:
            self.wrong.append(f"a client failed: {failed.exceptions!r}")
        gauges = client.gauges()
        self.outcomes["resumed"] += gauges.reconnects
        if gauges.calls or gauges.questions or gauges.streams or gauges.subscriptions:
            self.wrong.append(f"a client that was closed has {gauges}")

    async def _calls(self, client: Client, times: int) -> None:
        for _ in range(times):
            if self.over:
                return
            try:
                await self._call(client)
            except BackchannelError as error:
                self._count(error)
            await anyio.sleep(self.chance.expovariate(20))

    async def _call(self, client: Client) -> None:
        self._words += 1
        word, tool = f"word {self._words}", self.chance.choice(WORDS)
        arguments: Json = {"word": word, **({"turns": self.chance.randint(0, 10)} if tool == "work" else {})}
        kind = self.chance.random()
        if kind < 0.1:
            async with client.listen(tools=True, resources=["note://1"]) as changes:
                with anyio.move_on_after(self.chance.expovariate(10)):
                    await anext(changes)
                self.outcomes["listened"] += 1
            return
        patience = self.chance.expovariate(30) if kind < 0.3 else 10.0
        with anyio.move_on_after(patience) as scope:
            result = await client.call_tool(tool, arguments)
            if not result.is_error and result.text != word:
                self.wrong.append(f"{tool} of {word!r} gave {result.text!r}")
            self.outcomes["failed" if result.is_error else "right"] += 1
        if scope.cancelled_caught:
            self.outcomes["cancelled"] += 1

    def _count(self, error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                self._count(one)
        else:
            self.outcomes[type(error).__name__] += 1

    async def vanish(self, port: int) -> None:
        """A client that begins a session and a call that asks, and is never heard of again."""
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            who = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "x", "version": "1"},
            }
            head = await self._post(port, "initialize", who, "")
            session = next(line for line in head if line.lower().startswith("mcp-session-id"))
            await self._post(port, "notifications/initialized", None, session)
            await self._post(port, "tools/call", {"name": "ask", "arguments": {"word": "none"}}, session)
            self.outcomes["vanished"] += 1

    async def _post(self, port: int, method: str, params: Any, header: str) -> list[str]:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        body = json.dumps({**message, "id": 1} if params else message).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            lines = [
                f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json",
                *([header] * bool(header)),
            ]
            lines += ["accept: application/json, text/event-stream", f"content-length: {len(body)}", "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            return (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        finally:
            writer.transport.abort()

    async def worker(self, targets: list[Any], port: int) -> None:
        """One place among the clients: one after the other until time is up."""
        while not self.over:
            if self.chance.random() < 0.05:
                await self.vanish(port)
            else:
                await self.visit(self.chance.choice(targets))

    async def breaker(self, relay: Relay) -> None:
        while not self.over:
            await anyio.sleep(0.1)
            relay.cut(0.03)


def here() -> Json:
    """This process."""
    files = Path("/proc/self/fd")
    return {
        "tasks": len(asyncio.all_tasks()),
        "files": len(list(files.iterdir())) if files.exists() else 0,
        "children": children(),
        "errors": list(errors),
    }


def left(before: Json, after: Json) -> list[str]:
    """What is there that was not there before."""
    found = [
        f"{name}: {after[name] - value} more"
        for name, value in before.items()
        if isinstance(value, int) and after[name] > value
    ]
    return found + [f"logged as an error: {text}" for text in after["errors"][len(before["errors"]) :]]


async def state(port: int) -> Json:
    """The server's process, as it is when only this question goes on in it."""
    async with Client(f"http://127.0.0.1:{port}/mcp", version="modern") as client:
        found: Json = json.loads(bytes(await client.request("soak/state")))
    return {name: value for name, value in found.items() if name not in ("dropped", "threads")}


async def settled(port: int, there: Json, this: Json) -> list[str]:
    """Wait until both processes are as they were. Returns what is left of the soak in the end."""
    until = time.monotonic() + SETTLE
    while True:
        gc.collect()
        found = [f"server: {one}" for one in left(there, await state(port))]
        found += [f"clients: {one}" for one in left(this, here())]
        if not found or time.monotonic() >= until:
            return found
        await anyio.sleep(0.2)


async def soak(seconds: float, clients: int, seed: int) -> int:
    """Returns the exit code."""
    process = await anyio.open_process([sys.executable, SERVER, "http"], stdin=None, stderr=None)
    async with process:
        try:
            assert process.stdout is not None
            port = int(await process.stdout.receive())
            run = Soak(seed, seconds)
            async with Client(f"http://127.0.0.1:{port}/mcp", elicit=run.elicit) as client:
                await client.call_tool("leaves_work", {"word": "x"})  # what both keep from then on is there now
            there, this = await state(port), here()
            relay = Relay(port, run.chance)
            async with relay.listening() as through, anyio.create_task_group() as group:
                url = f"http://127.0.0.1:{through}/mcp"
                group.start_soon(run.breaker, relay)
                for number in range(clients):
                    child = StdioServer(sys.executable, SERVER, "stdio")
                    group.start_soon(run.worker, [child] if number % 50 == 7 else [url], port)
            found = run.wrong + await settled(port, there, this)
            if run.asked:
                found.append(f"clients: {run.asked} questions are still shown")
        finally:
            process.terminate()
    print(*(f"{count} {name}" for name, count in run.outcomes.most_common()), sep=", ", end="; ")
    print(f"{relay.broken} connections were broken")
    print(*(found or ["nothing is left"]), sep="\n")
    return 1 if found else 0


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"--seconds {options.seconds:g} --clients {options.clients} --seed {seed}", flush=True)
    logging.getLogger().addHandler(Errors(logging.ERROR))
    return asyncio.run(soak(options.seconds, options.clients, seed))


if __name__ == "__main__":
    sys.exit(main())
