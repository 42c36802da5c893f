"""One handler on each wire: with reverse calls, replayed under them, with rounds, with rounds over two instances, and
with rounds whose states are used once."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from backchannel import MemoryStateStore, RequestState, Server
from tests.server.replay import ALL, LEGACY, MODERN, ROOTS, YES, Driver, Message, accept, driver

LIVE, REPLAYED, ROUNDS, REPLICAS, STORED = "live", "replayed", "rounds", "replicas", "stored"
WIRES = [LIVE, REPLAYED, ROUNDS, REPLICAS, STORED]
every_wire = pytest.mark.parametrize("how", WIRES)
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])
trio_only = pytest.mark.parametrize("anyio_backend", ["trio"])
Person = Callable[[str], Any]
KEY = "k" * 32


def text_of(question: Message) -> str:
    """What a question says, whatever its kind."""
    params = question.get("params") or {}
    if "messages" in params:
        return str(params["messages"][0]["content"]["text"])
    return str(params.get("message", question["method"]))


def obliging(question: str) -> Any:
    """A person that agrees to a question, or repeats it."""
    if question == "roots/list":
        return ROOTS
    return YES if question.endswith("?") else accept(f"<{question}>")


@dataclass
class Seen:
    """What came of a call. end: the text of its result, `error: ` and the text of a failure, or the JSON-RPC error.
    questions: in the order in which they were asked.  rounds: how many requests it took.  together: the questions of
    each round."""

    end: Any = None
    questions: list[str] = field(default_factory=list)
    rounds: int = 0
    together: list[set[str]] = field(default_factory=list)


def ended(response: Message) -> Any:
    """What a final response says."""
    if "error" in response:
        return response["error"]
    result = response["result"]
    texts = " ".join(block.get("text", "") for block in result["content"])
    return f"error: {texts}" if result.get("isError") else texts


@asynccontextmanager
async def instances(server: Server, how: str, roots: bool = False, **options: Any) -> AsyncIterator[list[Driver]]:
    """The server on the wire `how`: the drivers of its instances, which take turns. roots: the client has some, for
    which a session may ask by itself.  options: of the RequestState."""
    server.always_replay = how == REPLAYED
    store = MemoryStateStore() if how == STORED else None
    server.state = RequestState([KEY], store=store, store_above=100, **options)
    version = LEGACY if how in (LIVE, REPLAYED) else MODERN
    capabilities = ALL if roots else {name: value for name, value in ALL.items() if name != "roots"}
    async with AsyncExitStack() as stack:
        count = 2 if how == REPLICAS else 1
        yield [await stack.enter_async_context(driver(server, version, capabilities)) for _ in range(count)]


async def call(wires: list[Driver], person: Person, name: str = "tool", **params: Any) -> Seen:
    """A whole call. person: what it answers to a question, None to leave it open in this round."""
    seen = Seen()

    def answer(key: str, question: Message) -> Any:
        seen.questions.append(text_of(question))
        return person(seen.questions[-1])

    if not wires[0].modern:
        seen.end = ended(await wires[0].rounds(name, answer, **params))
        seen.rounds = 1
        await wires[0].idle()
        return seen
    again: Message = {}
    while True:
        wire = wires[seen.rounds % len(wires)]
        seen.rounds += 1
        response = await wire.call(name, **params, **again)
        result = response.get("result", {})
        if result.get("resultType") != "input_required":
            break
        requests = result.get("inputRequests", {})
        seen.together.append({text_of(question) for question in requests.values()})
        given = {key: answer(key, question) for key, question in requests.items()}
        responses = {key: value for key, value in given.items() if value is not None}
        again = {"requestState": result["requestState"], "inputResponses": responses}
    for wire in wires:
        await wire.idle()
    seen.end = ended(response)
    return seen


async def play(how: str, handler: Any, person: Person = obliging, **options: Any) -> Seen:
    """A whole call of one handler on one wire. options: as `instances`."""
    server = Server("test")
    server.add_tool(handler, name="tool")
    async with instances(server, how, **options) as wires:
        return await call(wires, person)
