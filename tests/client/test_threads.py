"""Plain handlers run in worker threads, in real time."""

import threading
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from backchannel import Client, Context, Server
from backchannel.client.answers import Answers
from tests.client.scripted import BOTH, LEGACY, Json, Script, form

pytestmark = pytest.mark.anyio
BOUND = 20


class Gate:
    """A plain handler that blocks until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self, question: Any) -> Json:
        self.begun.release()
        assert self.go.wait(BOUND)
        return {"n": 1}

    async def reached(self, count: int = 1) -> None:
        for _ in range(count):
            assert await anyio.to_thread.run_sync(self.begun.acquire, True, BOUND)


@pytest.mark.case("B10")
@pytest.mark.rule("R166")
async def test_a_handler_that_blocks_delays_nobody() -> None:
    gate, script = Gate(), Script(LEGACY)
    with anyio.fail_after(BOUND):
        async with Client(script, version=LEGACY, elicit=gate, sample=lambda question: "hi") as client:
            script.sent.clear()
            script.ask(1, "elicitation/create", form())
            await gate.reached()
            script.ask(2, "ping")
            script.ask(3, "sampling/createMessage", {"messages": [], "maxTokens": 1})
            assert {(await script.next_answer())["id"] for _ in range(2)} == {2, 3}
            assert client.gauges().questions == 1
            gate.go.set()
            assert (await script.next_answer())["result"]["content"] == {"n": 1}


@pytest.mark.rule("R42")
async def test_a_question_is_withdrawn_though_its_thread_goes_on() -> None:
    gate, script = Gate(), Script(LEGACY)
    with anyio.fail_after(BOUND):
        async with Client(script, version=LEGACY, elicit=gate, max_parallel=1) as client:
            script.ask(1, "elicitation/create", form())
            await gate.reached()
            script.give({"method": "notifications/cancelled", "params": {"requestId": 1}})
            while client.gauges().questions:
                await anyio.lowlevel.checkpoint()
            script.ask(2, "elicitation/create", form())
            await gate.reached()  # its turn has come
            gate.go.set()
            assert (await script.next_answer())["id"] == 2


@pytest.mark.parametrize("version", BOTH)
async def test_a_plain_handler_may_call_back(version: str) -> None:
    server = Server("s")

    @server.tool
    async def outer(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).unwrap()

    @server.tool
    async def inner() -> str:
        return "Ada"

    def answer(question: Any) -> Json:
        return {"value": anyio.from_thread.run(client.call_tool, "inner").text}

    with anyio.fail_after(BOUND):
        async with Client(server, version=version, elicit=answer) as client:
            assert (await client.call_tool("outer")).text == "Ada"


async def test_as_many_threads_as_questions() -> None:
    """Not those of a limit that other code shares."""
    gate, script = Gate(), Script(LEGACY)
    with anyio.fail_after(BOUND):
        async with Client(script, version=LEGACY, elicit=gate, max_parallel=60):
            for id in range(60):
                script.ask(id, "elicitation/create", form())
            await gate.reached(60)
            gate.go.set()


async def test_what_is_a_coroutine_function_stays_in_the_event_loop() -> None:
    main = threading.get_ident()

    class Handler:
        async def __call__(self, question: Any) -> Any:
            return {"n": int(threading.get_ident() == main)}

    async def function(question: Any) -> Any:
        return {"n": int(threading.get_ident() == main)}

    for handler, there in ((Handler(), 1), (function, 1), (lambda question: function(question), 1)):
        question = Answers(elicit=handler).read("elicitation/create", b'{"message": "x"}')
        question.queue(nested=False)
        assert (await question.answer()).content == {"n": there}
    question = Answers(elicit=lambda question: {"n": int(threading.get_ident() == main)}).read(
        "elicitation/create", b'{"message": "x"}'
    )
    question.queue(nested=False)
    assert (await question.answer()).content == {"n": 0}
