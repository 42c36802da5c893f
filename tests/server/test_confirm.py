"""A confirmation fails closed: in every way in which a client can fail to say yes, the dangerous thing is not done."""

from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from backchannel import AskTimeout, Context, InvalidAnswer, MissingCapability, NoBackChannel, RequestState, Server
from tests.server.replay import (
    LEGACY,
    MODERN,
    Driver,
    accept,
    both_eras,
    driver,
    failed,
    retry,
    text,
)

pytestmark = pytest.mark.anyio

NO = [
    accept(False),
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "cancel", "content": None},
    {"action": "decline", "content": {"value": True}},
    {"action": "cancel", "content": {"value": True}},
]
INVALID = [
    {"action": "accept"},
    {"action": "accept", "content": None},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": {"Value": True}},
    *[accept(value) for value in ("true", "false", "yes", None, 1, 0, 1.0, [True], {"value": True})],
]
GARBAGE = [
    None,
    [],
    "accept",
    True,
    {},
    {"action": "Accept"},
    {"action": None},
    {"action": "accept", "content": [True]},
]


class Layers:
    """A server with one dangerous tool. deleted: what it deleted.  raised: what its question raised.

    if_unable: what the tool hands on, if anything.
    """

    def __init__(self, if_unable: Any = None, timeout: float | None = None, **options: Any):
        self.server = Server("test", **options)
        self.deleted: list[str] = []
        self.raised: list[Exception] = []
        given = {"if_unable": if_unable} if if_unable else {}

        @self.server.tool
        async def delete_layer(ctx: Context, name: str) -> str:
            try:
                sure = await ctx.confirm(f"Delete {name}?", timeout=timeout, **given)
            except Exception as error:
                self.raised.append(error)
                raise
            if not sure:
                return "kept"
            self.deleted.append(name)
            return "deleted"

    async def call(self, wire: Driver, answer: Any) -> dict[str, Any]:
        return await wire.rounds("delete_layer", lambda *_: answer, {"name": "x"})


both_fallbacks = pytest.mark.parametrize("if_unable", [None, "raise", "proceed"])


@pytest.mark.case("A08")
@both_eras
@both_fallbacks
async def test_a_yes_is_the_only_yes(version: str, if_unable: Any) -> None:
    layers = Layers(if_unable)
    async with driver(layers.server, version) as wire:
        for answer in NO:
            assert text(await layers.call(wire, answer)) == "kept"
        assert layers.deleted == layers.raised == []
        assert text(await layers.call(wire, accept(True))) == "deleted"
    assert layers.deleted == ["x"]


@pytest.mark.case("A08")
@both_eras
@both_fallbacks
@pytest.mark.parametrize("answer", INVALID)
async def test_an_accept_that_says_no_yes_is_an_error(answer: Any, version: str, if_unable: Any) -> None:
    """An incomplete answer is an error of its own and not a refusal."""
    layers = Layers(if_unable)
    async with driver(layers.server, version) as wire:
        assert failed(await layers.call(wire, answer)).startswith("value: ")
        await wire.idle()
    assert [type(error) for error in layers.raised] == [InvalidAnswer]
    assert layers.deleted == []


@pytest.mark.case("A08")
@both_eras
@both_fallbacks
@pytest.mark.parametrize("answer", GARBAGE)
async def test_garbage_is_an_error(answer: Any, version: str, if_unable: Any) -> None:
    layers = Layers(if_unable)
    async with driver(layers.server, version) as wire:
        if version == LEGACY:
            failed(await layers.call(wire, answer))
        else:
            first = await wire.call("delete_layer", {"name": "x"})
            response = await wire.call("delete_layer", {"name": "x"}, **retry(first, **{"elicit-1": answer}))
            assert response["error"]["code"] == -32602
        await wire.idle()
    assert layers.deleted == []


@pytest.mark.case("A08")
@both_fallbacks
@pytest.mark.parametrize("code", [-32603, -32601, -32602, -1, 0])
async def test_a_clients_error_is_no_reason_to_go_on(code: int, if_unable: Any) -> None:
    layers = Layers(if_unable)
    async with driver(layers.server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
            wire.answer(await wire.next(), error={"code": code, "message": "broken"})
        failed(await wire.next())
        await wire.idle()
    assert layers.deleted == [] and len(layers.raised) == 1


@pytest.mark.case("A08")
@both_fallbacks
async def test_a_client_that_hangs_up_said_nothing(if_unable: Any) -> None:
    layers = Layers(if_unable)
    async with driver(layers.server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
            await wire.next()
            wire.session.hang_up()
        await wire.idle()
    assert layers.deleted == []


@pytest.mark.case("A08")
@both_fallbacks
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_nobody_answering_is_no_yes(if_unable: Any) -> None:
    layers = Layers(if_unable, timeout=2)
    async with driver(layers.server, LEGACY) as wire:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("delete_layer", {"name": "x"}))
            question = await wire.until(lambda message: message.get("method") == "elicitation/create")
            failed(await wire.until(lambda message: "result" in message))
        wire.answer(question, accept(True))
        await wire.idle()
    assert layers.deleted == [] and [type(error) for error in layers.raised] == [AskTimeout]


@pytest.mark.rule("P14")
@pytest.mark.case("A08")
@both_fallbacks
async def test_a_yes_that_comes_too_late_is_no_yes(if_unable: Any) -> None:
    now = [1_000_000.0]
    state = RequestState(keys=["k" * 32])
    state.clock = lambda: now[0]
    layers = Layers(if_unable, timeout=2, state=state)
    async with driver(layers.server, MODERN) as wire:
        first = await wire.call("delete_layer", {"name": "x"})
        now[0] += 3
        failed(await wire.call("delete_layer", {"name": "x"}, **retry(first, **{"elicit-1": accept(True)})))
    assert layers.deleted == [] and [type(error) for error in layers.raised] == [AskTimeout]


@pytest.mark.case("A08")
@both_eras
@pytest.mark.parametrize(
    "capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": True}, {"sampling": {}, "roots": {}}]
)
async def test_who_cannot_be_asked_is_a_yes_only_where_the_author_said_so(
    capabilities: dict[str, Any], version: str
) -> None:
    for if_unable, wanted in ((None, []), ("raise", []), ("proceed", ["x"])):
        layers = Layers(if_unable)
        async with driver(layers.server, version, capabilities) as wire:
            await wire.call("delete_layer", {"name": "x"})
            assert not [message for message in wire.sent if "method" in message]
        assert layers.deleted == wanted
        assert [type(error) for error in layers.raised] == [MissingCapability] * (not wanted)


@pytest.mark.case("A08")
@pytest.mark.parametrize("change", [{"session": None}, {"can_stream": False}])
async def test_who_cannot_be_reached_too(change: dict[str, Any]) -> None:
    for if_unable, wanted in ((None, []), ("raise", []), ("proceed", ["x"])):
        layers = Layers(if_unable)
        async with driver(layers.server, LEGACY) as wire:
            params = {"name": "delete_layer", "arguments": {"name": "x"}}
            await wire.serve(wire.exchange("tools/call", params, **change))
            await wire.next()
        assert layers.deleted == wanted
        assert [type(error) for error in layers.raised] == [NoBackChannel] * (not wanted)
