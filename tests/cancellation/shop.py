"""A server and a host whose every wait may be the last, what both sent, and what must hold afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Coroutine, Mapping
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic import Field

from backchannel import Client, Context, Elicit, InputRequired, NoBackChannel, Sample, Server, ToolError
from backchannel.client.transport import Lost, Receive
from backchannel.memory import MemoryTransport
from backchannel.protocol.jsonrpc import Malformed, Message, encode
from backchannel.protocol.versions import Version
from backchannel.server.gauges import Gauges
from tests.cancellation.stepping import Plan, Stepped

TURNS = 400
"""Turns of the event loop in which everything has to come to rest."""
Json = dict[str, Any]
T = TypeVar("T")


class Tap:
    """A transport that remembers what went through it, in order, with who sent it."""

    def __init__(self, transport: MemoryTransport):
        self._transport = transport
        self.request_streams = transport.request_streams
        self.log: list[tuple[str, Json]] = []

    async def open(self, receive: Receive, lost: Lost) -> None:
        def take(message: Message | Malformed) -> None:
            assert not isinstance(message, Malformed)
            self.log.append(("server", json.loads(encode(message))))
            receive(message)

        await self._transport.open(take, lost)

    async def send(self, message: Message, headers: Mapping[str, str] | None = None) -> None:
        entry = ("client", json.loads(encode(message)))
        self.log.append(entry)
        try:
            await self._transport.send(message, headers)
        except anyio.get_cancelled_exc_class():
            self.log.remove(entry)  # it may have gone out all the same; who does not know says nothing
            raise

    def negotiated(self, version: Version) -> None:
        self._transport.negotiated(version)

    async def listen(self) -> None:
        await self._transport.listen()

    async def close(self) -> None:
        await self._transport.close()

    def check(self) -> None:
        """Every request was answered, or was cancelled by who sent it; what was cancelled was not answered later."""
        for asker, other in (("client", "server"), ("server", "client")):
            for at, (who, message) in enumerate(self.log):
                if who != asker or "method" not in message or "id" not in message:
                    continue
                later = self.log[at:]
                answers = [m for who, m in later if who == other and m.get("id") == message["id"] and "method" not in m]
                cancels = [
                    m
                    for who, m in later
                    if who == asker
                    and m.get("method") == "notifications/cancelled"
                    and m["params"]["requestId"] == message["id"]
                ]
                assert answers or cancels, ("neither answered nor cancelled", message, self.log)
                assert len(answers) <= 1 and len(cancels) <= 1, (message, answers, cancels)
                assert not cancels or message["method"] != "initialize"


class Shop:
    """version: that is spoken; "replayed": of a session whose handlers are replayed.  plan: for handlers, steps and
    jobs; serving_plan: for the tasks that serve a call; host_plan: for what answers."""

    def __init__(self, version: str):
        self.version = version if version != "replayed" else "2025-11-25"
        self.legacy = self.version == "2025-11-25"
        self.plan: Plan | None = None
        self.host_plan: Plan | None = None
        self.serving_plan: Plan | None = None
        self.asked = self.tries = 0
        self.silent = False
        self.working = 0
        self.jobs = 0
        self.host_calls: Client | None = None
        self.server = server = Server("shop")
        server.always_replay = version == "replayed"
        for tool in (self.asks, self.gathers, self.works, self.begins, self.plain, self.fails, self.returns):
            server.tool(tool)
        for tool in (self.insists, self.in_a_thread, self.twice):
            server.tool(tool)
        server.prompt(self.greeting)
        server.resource("note://{id}")(self.note)

    # What it does.

    async def asks(self, ctx: Context) -> str:
        async def body() -> str:
            before = await ctx.step("before", self.work, 1)
            answer = (await ctx.elicit("Which day?", str)).unwrap()
            await ctx.progress(1)
            after = await ctx.step("after", self.work, 2)
            return f"{before} {answer} {after}"

        return await self._run(body())

    async def gathers(self, ctx: Context) -> str:
        async def body() -> str:
            day, work, slogan = await ctx.gather(
                ctx.elicit("Which day?", str), ctx.step("work", self.work, 1), ctx.sample("A slogan")
            )
            return f"{day.unwrap()} {work} {slogan.text}"

        return await self._run(body())

    async def works(self, ctx: Context) -> str:
        async def body() -> str:
            self.working += 1
            try:
                for number in range(5):
                    await anyio.lowlevel.checkpoint()
                    await ctx.progress(number)
            finally:
                self.working -= 1
            return "done"

        return await self._run(body())

    async def begins(self, ctx: Context) -> str:
        """Work in the background that asks, where that can be; and a question of the call."""

        async def body() -> str:
            try:
                background: Context | None = ctx.detach()
            except NoBackChannel:
                background = None
            ctx.background("job", self._job, background)
            return (await ctx.elicit("Which day?", str)).unwrap()

        return await self._run(body())

    async def _job(self, ctx: Context | None) -> None:
        await Stepped(self._work_on(ctx), self.plan)

    async def _work_on(self, ctx: Context | None) -> None:
        self.jobs += 1
        try:
            if ctx is not None:
                await ctx.gather(ctx.elicit("And then?", str), ctx.sample("For the job"))
            await ctx.step("work", self.work, 1) if ctx is not None else await self.work(1)
        finally:
            self.jobs -= 1

    async def plain(self) -> str:
        return "plain"

    async def fails(self, ctx: Context) -> str:
        async def body() -> str:
            await ctx.elicit("Which day?", str)
            await self.work(1)
            raise ToolError("no")

        return await self._run(body())

    async def returns(self, ctx: Context) -> str | InputRequired:
        """Asks inline, and then by returning its questions."""

        async def body() -> str | InputRequired:
            first = (await ctx.elicit("Which day?", str)).unwrap()
            if "b" not in ctx.answers:
                return InputRequired({"a": Elicit("And?", str), "b": Sample("A slogan")}, state=first)
            await self.work(1)
            return f"{ctx.state} {ctx.answers.read('a', Elicit('And?', str)).unwrap()}"

        return await self._run(body())

    async def insists(self, ctx: Context) -> str:
        """Asks until the answer is right."""
        return await self._run(self._right(ctx))

    async def _right(self, ctx: Context) -> str:
        return str((await ctx.elicit("How old?", Annotated[int, Field(multiple_of=7)], retries=2)).unwrap())

    def in_a_thread(self, ctx: Context) -> str:
        return ctx.elicit("Which day?", str).wait().unwrap()

    async def twice(self, ctx: Context) -> str:
        """Two tasks of the handler ask at once."""

        async def body() -> str:
            answers: list[str] = []

            async def one(key: str) -> None:
                answers.append((await ctx.elicit("Which day?", str, key=key)).unwrap())
                await self.work(1)

            async with anyio.create_task_group() as group:
                group.start_soon(one, "a")
                group.start_soon(one, "b")
            return " ".join(answers)

        return await self._run(body())

    async def greeting(self, ctx: Context) -> str:
        return (await self._run(self._name(ctx))) + "!"

    async def note(self, ctx: Context, id: str) -> str:
        return id + await self._run(self._name(ctx))

    async def _name(self, ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    async def work(self, number: int) -> int:
        return await self._run(self._count(number))

    async def _count(self, number: int) -> int:
        self.working += 1
        try:
            await anyio.lowlevel.checkpoint()
            return number
        finally:
            self.working -= 1

    async def _run(self, body: Coroutine[Any, Any, T]) -> T:
        answer: T = await Stepped(body, self.plan)
        return answer

    # The host.

    async def elicit(self, question: Any) -> Json:
        if question.message.startswith("How old?"):
            self.tries += 1
            return await self._answer({"value": 3 if self.tries % 2 else 14})
        return await self._answer({"value": "Monday"}, question.message == "And then?")

    async def sample(self, question: Any) -> str:
        text = question.messages[0].content.text
        return str(await self._answer("Buy!", text == "For the job"))

    def fall_silent(self) -> None:
        """From now on nothing of a call ends by itself: what waits has to be cancelled."""
        self.silent = True

    async def _answer(self, answer: Any, of_job: bool = False) -> Any:
        async def body() -> Any:
            self.asked += 1
            try:
                for _ in range(2):
                    await anyio.lowlevel.checkpoint()
                    if self.silent and not of_job:
                        await anyio.sleep_forever()
                if self.host_calls is not None:
                    await self.host_calls.call_tool("plain")
                return answer
            finally:
                self.asked -= 1

        return await Stepped(body(), self.host_plan)

    def client(self, **options: Any) -> tuple[Client, Tap]:
        """One that is not open yet, and its tap."""
        tap = Tap(MemoryTransport(self.server))
        options = {"elicit": self.elicit, "sample": self.sample, "version": self.version, "max_parallel": 2, **options}
        return Client(tap, **options), tap

    # Afterwards.

    async def rest(self, client: Client, tap: Tap) -> None:
        """Wait until both sides rest, and check that nothing is left; then that a call goes through."""
        self.plan = self.host_plan = self.serving_plan = self.host_calls = None
        await self._settled(client)
        self.silent = False
        tap.check()
        day = await client.call_tool("asks")
        assert day.text == "1 Monday 2"
        await self._settled(client)

    async def threads_rest(self, client: Client) -> None:
        """Wait until the threads of handlers have ended, which takes what time it takes."""
        while self.left(client):
            await anyio.to_thread.run_sync(time.sleep, 0.001)

    async def _settled(self, client: Client) -> None:
        for _ in range(TURNS):
            if not self.left(client):
                return
            await anyio.lowlevel.checkpoint()
        raise AssertionError(self.left(client))

    def left(self, client: Client) -> Json:
        """What is not as it is where nothing goes on."""
        connection = client._connection
        assert connection is not None and connection.lost is None
        idle = Gauges(sessions=int(self.legacy), listeners=int(self.legacy), streams=1)
        (tally,) = self.server._tallies
        ((session,),) = tally.connections
        numbers = {
            "client pending": connection._peer.pending,
            "client serving": connection._peer.serving,
            "client calls": connection.calls,
            "client tasks": connection.nursery.running,
            "client listens": len(connection.heard) - 2 + len(connection.ended),
            "host open": client.answers.open,
            "host asked": self.asked,
            "host turns": client.answers.turns._free - 2,
            "host queue": len(client.answers.turns._queue),
            "server pending": session.peer.pending,
            "server serving": session.peer.serving,
            "server tasks": tally.nursery.running,
            "working": self.working,
            "jobs": self.jobs,
        }
        numbers |= {name: value for name, value in asdict(client.gauges()).items() if name != "dropped"}
        left = {name: value for name, value in numbers.items() if value}
        found = self.server.gauges()
        return left if found == idle else {**left, "gauges": found}
