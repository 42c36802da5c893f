"""A state that is not, byte for byte, one of ours for this very request: one frozen error, a handler that does not run,
and a log that tells nothing of it. With a StateStore too, whose states are mere references."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backchannel import Context, LocalProtocolError, MemoryStateStore, Principal, RequestState, Server
from tests.replay.wires import KEY
from tests.server.replay import YES, Driver, Message, driver, retry, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P8", "R109", "R110", "R112", "R113")]
stored = pytest.mark.parametrize("store", [False, True])
FROZEN = {"code": -32602, "message": "Invalid or expired requestState"}
ANN, BOB = Principal("ann-7", "https://as.test"), Principal("bob-8", "https://as.test")
SECRET = "tell nobody"


def shop(runs: list[str], store: bool = False, name: str = "shop", key: str = KEY, **options: Any) -> Server:
    keeping = MemoryStateStore() if store is True else store or None
    state = RequestState([key], store=keeping, store_above=0, **options)  # with a store, every journal is there
    server = Server(name, state=state)

    @server.tool
    async def pay(ctx: Context, amount: int) -> str:
        runs.append("pay")
        await ctx.step("secret", lambda: SECRET)
        return f"paid {amount} {await ctx.confirm('sure?')}"

    @server.tool
    async def refund(ctx: Context, amount: int) -> str:
        runs.append("refund")
        await ctx.step("secret", lambda: SECRET)
        return f"refunded {amount} {await ctx.confirm('sure?')}"

    @server.prompt(name="pay")
    async def prompt(ctx: Context, amount: str) -> str:
        runs.append("prompt")
        await ctx.step("secret", lambda: SECRET)
        return f"{amount} {await ctx.confirm('sure?')}"

    @server.resource("note://{id}")
    async def note(ctx: Context, id: str) -> str:
        runs.append("note")
        await ctx.step("secret", lambda: SECRET)
        return f"{id} {await ctx.confirm('sure?')}"

    return server


TOOL: tuple[str, Message] = "tools/call", {"name": "pay", "arguments": {"amount": 10}}
PROMPT: tuple[str, Message] = "prompts/get", {"name": "pay", "arguments": {"amount": "10"}}
NOTE: tuple[str, Message] = "resources/read", {"uri": "note://1"}
REQUESTS: list[tuple[str, Message]] = [
    TOOL,
    ("tools/call", {"name": "pay", "arguments": {"amount": 99}}),
    ("tools/call", {"name": "refund", "arguments": {"amount": 10}}),
    PROMPT,
    ("prompts/get", {"name": "pay", "arguments": {"amount": "99"}}),
    NOTE,
    ("resources/read", {"uri": "note://2"}),
]


async def send(wire: Driver, request: tuple[str, Message], **more: Any) -> Message:
    exchange = wire.exchange(request[0], {**request[1], **more})
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id)


@asynccontextmanager
async def waiting(
    store: bool, caplog: pytest.LogCaptureFixture, request: tuple[str, Message] = TOOL, who: Principal | None = ANN
) -> AsyncIterator[tuple[Driver, Message, list[str]]]:
    """A call that has asked: its driver, the members of its second round, and what ran. In the end nothing more has
    run, nothing of the state is in the log, and the second round is as good as ever."""
    runs: list[str] = []
    async with driver(shop(runs, store), principal=who) as wire:
        first = await send(wire, request)
        again = retry(first, **{"elicit-2": YES})
        runs.clear()
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            yield wire, again, runs
        assert runs == []
        token = again["requestState"]
        told = caplog.text + "".join(str(record.args) for record in caplog.records)
        for piece in (token, token[:16], token[-16:], SECRET, KEY, "ann-7", "bob-8", "elicit-2"):
            assert piece not in told
        assert "True" in json.dumps(await send(wire, request, **again))


async def refused(wire: Driver, token: str, request: tuple[str, Message] = TOOL) -> None:
    response = await send(wire, request, requestState=token, inputResponses={"elicit-2": YES})
    assert response["error"] == FROZEN, token


@stored
async def test_with_each_of_its_bytes_changed(store: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog) as (wire, again, _):
        token = again["requestState"]
        for place in range(len(token)):
            await refused(wire, token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :])


@stored
async def test_with_each_of_the_bytes_that_it_stands_for_changed(store: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog) as (wire, again, _):
        token = again["requestState"]
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        for place in range(len(sealed)):
            forged = bytearray(sealed)
            forged[place] ^= 1 << place % 8
            await refused(wire, base64.urlsafe_b64encode(forged).rstrip(b"=").decode())


@stored
async def test_cut_off_anywhere_or_with_something_added(store: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog) as (wire, again, _):
        token = again["requestState"]
        for length in range(len(token)):
            await refused(wire, token[:length])
            await refused(wire, token[length:][:-1])
        for added in ("A", "=", "==", "\n", " ", "é", "\x00", token):
            await refused(wire, token + added)
            await refused(wire, added + token)


@stored
@pytest.mark.parametrize("request_", [TOOL, PROMPT, NOTE], ids=["tool", "prompt", "resource"])
@pytest.mark.case("A13")
async def test_for_every_other_request(
    store: bool, request_: tuple[str, Message], caplog: pytest.LogCaptureFixture
) -> None:
    async with waiting(store, caplog, request_) as (wire, again, _):
        for other in REQUESTS:
            if other != request_:
                await refused(wire, again["requestState"], other)


@stored
@pytest.mark.case("A13")
@pytest.mark.parametrize("theirs", [BOB, None, Principal("ann-7"), Principal("ann-7", "https://as.test", "other")])
async def test_for_another_user(store: bool, theirs: Principal | None, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog) as (wire, again, _):
        async with driver(wire.dispatcher.server, principal=theirs) as other:
            await refused(other, again["requestState"])


@stored
async def test_of_nobody_for_a_user(store: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog, who=None) as (wire, again, _):
        for theirs in (ANN, Principal("")):
            async with driver(wire.dispatcher.server, principal=theirs) as other:
                await refused(other, again["requestState"])


@stored
@pytest.mark.parametrize("other", ["audience", "key", "key that is there too"])
async def test_for_another_server(store: bool, other: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that shares the StateStore, or can read the state."""
    async with waiting(store, caplog) as (wire, again, runs):
        keeping = wire.dispatcher.server.state.store
        theirs = {
            "audience": {"name": "warehouse"},
            "key": {"key": "z" * 40},
            "key that is there too": {"name": "warehouse", "key": "z" * 40},
        }[other]
        server = shop(runs, keeping or False, **theirs)
        if other == "key that is there too":
            server.state = RequestState(["z" * 40, KEY], store=keeping, store_above=0)
        async with driver(server, principal=ANN) as elsewhere:
            await refused(elsewhere, again["requestState"])


async def test_of_another_call_with_the_journal_of_this_one(caplog: pytest.LogCaptureFixture) -> None:
    """What is in the store is sealed as well: whoever writes there cannot make a journal."""
    async with waiting(True, caplog) as (wire, again, _):
        store = wire.dispatcher.server.state.store
        assert isinstance(store, MemoryStateStore)
        journals = {key: value for key, value in store._values.items() if key.startswith("journal:")}
        assert journals
        for key, (value, expires) in journals.items():
            assert SECRET.encode() not in value
            for forged in (b"", b"[[]]", value[:-1], value[:-1] + bytes([value[-1] ^ 1]), value + b"x"):
                store._values[key] = forged, expires
                for claimed in [key for key in store._values if key.startswith("round:")]:
                    await store.delete(claimed)
                await refused(wire, again["requestState"])
            store._values[key] = value, expires
        for claimed in [key for key in store._values if key.startswith("round:")]:
            await store.delete(claimed)


@stored
async def test_of_an_earlier_round_is_not_one_of_the_next(store: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It is good for what it was good for: its own round."""
    runs: list[str] = []
    server = shop(runs, store)

    @server.tool
    async def two(ctx: Context) -> str:
        return f"{await ctx.confirm('a?')} {await ctx.confirm('b?')}"

    async with driver(server) as wire:
        first = await wire.call("two")
        second = await wire.call("two", **retry(first, **{"elicit-1": YES}))
        early = await wire.call("two", **retry(first, **{"elicit-2": YES}))
        if store:
            assert early["error"] == FROZEN
        else:
            assert list(early["result"]["inputRequests"]) == ["elicit-1"]
        assert text(await wire.call("two", **retry(second, **{"elicit-2": YES}))) == "True True"


@pytest.mark.parametrize("token", ["", "null", "{}", "AAAA", "Z" * 70_000, "é" * 40, "../journal:1"])
@stored
async def test_that_was_never_one(store: bool, token: str, caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(store, caplog) as (wire, _, _):
        await refused(wire, token)


@pytest.mark.parametrize("token", [1, [], {}, True, ["x"]])
async def test_that_is_no_text(token: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The channel answers that it takes text."""
    async with waiting(False, caplog) as (wire, _, _):
        with pytest.raises(LocalProtocolError) as caught:
            await send(wire, TOOL, requestState=token, inputResponses={"elicit-2": YES})
        assert caught.value.code == -32602


async def test_that_is_null_is_none(caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(False, caplog) as (wire, _, runs):
        response = await send(wire, TOOL, requestState=None, inputResponses={"elicit-2": YES})
        assert response["result"]["resultType"] == "input_required" and runs == ["pay"]
        runs.clear()


async def test_whatever_the_cause_the_answer_is_the_same_to_the_byte(caplog: pytest.LogCaptureFixture) -> None:
    async with waiting(False, caplog) as (wire, again, _):
        token = again["requestState"]
        answers = set()
        for bad in (token[:-1], "x", "", token.swapcase()):
            response = await send(wire, TOOL, requestState=bad)
            answers.add(json.dumps({**response, "id": 0}))
        response = await send(wire, REQUESTS[1], requestState=token)
        answers.add(json.dumps({**response, "id": 0}))
        assert len(answers) == 1
