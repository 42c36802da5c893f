"""A StateStore: each state is used once, and what is long stays on the server."""

import base64
import copy
import hashlib
import json
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import (
    Context,
    InputRequired,
    LocalProtocolError,
    MemoryStateStore,
    Principal,
    RequestState,
    Server,
    StateTooLarge,
)
from backchannel.protocol.jsonrpc import encode
from backchannel.server.state_store import StateStore
from tests.server.replay import DECLINED, Driver, accept, driver, text

pytestmark = pytest.mark.anyio
KEY = "k" * 32


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def shop(store: StateStore | None, runs: list[int], clock: Any = None, **options: Any) -> Server:
    """An instance of a server whose tool asks twice."""
    server = Server("s", state=RequestState([KEY], store=store, clock=clock or Clock(), **options))

    @server.tool
    async def pay(ctx: Context, amount: int) -> str:
        runs.append(ctx.round)
        await ctx.elicit("First?", str)
        await anyio.lowlevel.checkpoint()
        second = (await ctx.elicit("Second?", str)).unwrap()
        return f"paid {amount} {second}"

    return server


async def until_last(client: Driver) -> dict[str, Any]:
    """The params of the last round."""
    retry: dict[str, Any] = {}
    for key in ("elicit-1", "elicit-2"):
        result = (await client.call("pay", {"amount": 3}, **retry))["result"]
        retry = {"requestState": result["requestState"], "inputResponses": {key: accept("yes")}}
    return retry


@pytest.mark.rule("P8")
async def test_a_round_that_is_repeated_gets_the_result_that_it_had() -> None:
    runs: list[int] = []
    async with driver(shop(MemoryStateStore(), runs)) as client:
        first = (await client.call("pay", {"amount": 3}))["result"]
        again = {"requestState": first["requestState"], "inputResponses": {"elicit-1": accept("a")}}
        second = [(await client.call("pay", {"amount": 3}, **again))["result"] for _ in range(3)]
        assert second[0] == second[1] == second[2]  # with one state of the next round
        last = {"requestState": second[0]["requestState"], "inputResponses": {"elicit-2": accept("b")}}
        ended = [await client.call("pay", {"amount": 3}, **last) for _ in range(3)]
        assert [text(response) for response in ended] == ["paid 3 b"] * 3
        assert len({response["id"] for response in ended}) == 3
        assert runs == [1, 2, 3]


async def test_a_state_is_opened_once_for_a_round() -> None:
    opened: list[bytes] = []

    class Codec:
        def seal(self, plain: bytes) -> bytes:
            return b"sealed " + plain

        def open(self, sealed: bytes) -> bytes:
            opened.append(sealed)
            return sealed.removeprefix(b"sealed ")

    runs: list[int] = []
    server = shop(MemoryStateStore(), runs)
    server.state = RequestState(codec=Codec(), store=MemoryStateStore(), clock=Clock())
    async with driver(server) as client:
        last = await until_last(client)
        opened.clear()
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes"
    assert len(opened) == 1 and runs == [1, 2, 3]


async def test_other_answers_do_not_count_once_the_state_was_used(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    async with driver(shop(MemoryStateStore(), runs)) as client:
        last = await until_last(client)
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes"
        with caplog.at_level(logging.INFO):
            changed = {**last, "inputResponses": {"elicit-2": accept("secret")}}
            response = await client.call("pay", {"amount": 3}, **changed)
        assert response["error"]["code"] == -32602 and runs == [1, 2, 3]
        assert "used before" in caplog.text and "secret" not in caplog.text and last["requestState"] not in caplog.text


async def test_the_same_answers_in_another_spelling_are_the_same() -> None:
    runs: list[int] = []
    async with driver(shop(MemoryStateStore(), runs)) as client:
        last = await until_last(client)
        await client.call("pay", {"amount": 3}, **last)
        spelled = json.loads('{"elicit-2": {"content": {"value": "yes"}, "action": "accept"}}')
        assert text(await client.call("pay", {"amount": 3}, **{**last, "inputResponses": spelled})) == "paid 3 yes"
        assert runs == [1, 2, 3]


@pytest.mark.rule("P8")
async def test_two_at_once_run_the_handler_once() -> None:
    runs: list[int] = []
    store = MemoryStateStore()
    server = Server("s", state=RequestState([KEY], store=store))
    entered, go = anyio.Event(), anyio.Event()

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = (await ctx.elicit("Sure?", str)).unwrap()
        runs.append(1)
        entered.set()
        await go.wait()
        return answer

    async with driver(server) as client:
        state = (await client.call("pay"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept("yes")}}
        outcomes: list[Any] = []

        async def present() -> None:
            outcomes.append(await client.dispatcher(client.tool("pay", **retry)))

        async with anyio.create_task_group() as group:
            group.start_soon(present)
            await entered.wait()
            group.start_soon(present)
            group.start_soon(present)
            await anyio.wait_all_tasks_blocked()
            assert outcomes == []
            go.set()
        assert len(outcomes) == 3 and runs == [1]
        assert len({outcome.id for outcome in outcomes}) == 3
        assert all(b"yes" in encode(outcome) for outcome in outcomes)


async def test_a_run_that_is_broken_off_can_be_made_again() -> None:
    runs: list[int] = []
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore()))
    entered = anyio.Event()

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = (await ctx.elicit("Sure?", str)).unwrap()
        runs.append(1)
        if len(runs) == 1:
            entered.set()
            await anyio.sleep_forever()
        return answer

    async with driver(server) as client:
        state = (await client.call("pay"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept("yes")}}
        async with anyio.create_task_group() as group:
            group.start_soon(client.dispatcher, client.tool("pay", **retry))
            await entered.wait()
            group.cancel_scope.cancel()
        assert text(await client.call("pay", **retry)) == "yes" and runs == [1, 1]


async def test_a_failure_is_kept_as_well() -> None:
    runs: list[int] = []
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore()))

    @server.prompt
    async def pay(ctx: Context) -> str:
        await ctx.elicit("Sure?", str)
        runs.append(1)
        raise ValueError("broken")

    async with driver(server) as client:
        client.tool = lambda _, __=None, **more: client.exchange("prompts/get", {"name": "pay", **more})  # type: ignore[method-assign]
        state = (await client.call(""))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": DECLINED}}
        errors = [(await client.call("", **retry))["error"] for _ in range(2)]
        assert errors[0] == errors[1] and errors[0]["code"] == -32603 and runs == [1]


async def test_a_state_that_is_not_genuine_leaves_nothing_in_the_store() -> None:
    store = MemoryStateStore()
    async with driver(shop(store, [])) as client:
        state = (await client.call("pay", {"amount": 3}))["result"]["requestState"]
        for token, amount in (("x" * 50, 3), (state[:-2], 3), (state, 4)):
            response = await client.call("pay", {"amount": amount}, requestState=token, inputResponses={})
            assert response["error"]["code"] == -32602
        assert len(store) == 0


# What is long.


@pytest.mark.rule("P8", "R104")
async def test_a_long_journal_stays_on_the_server_and_any_instance_goes_on_with_it() -> None:
    store, runs = MemoryStateStore(), []
    secret = "s" * 50_000

    def instance() -> Server:
        server = Server("s", state=RequestState([KEY], store=store, max_size=1000))

        @server.tool
        async def pay(ctx: Context) -> str:
            value = await ctx.step("fetch", lambda: runs.append(1) or secret)
            return f"{len(value)} {(await ctx.elicit('Sure?', str)).unwrap()}"

        return server

    async with driver(instance()) as client, driver(instance()) as other:
        state = (await client.call("pay"))["result"]["requestState"]
        assert len(state) < 1000 and store.size > 50_000
        assert all(secret[:100].encode() not in value for value, _ in store._values.values())  # sealed there as well
        retry = {"requestState": state, "inputResponses": {"elicit-2": accept("yes")}}
        assert text(await other.call("pay", **retry)) == "50000 yes" and runs == [1]


async def test_a_journal_that_is_gone_is_a_state_that_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    store = MemoryStateStore()
    async with driver(shop(store, runs, store_above=0)) as client:
        last = await until_last(client)
        store._values.clear()
        for _ in range(2):
            response = await client.call("pay", {"amount": 3}, **last)
            assert response["error"]["code"] == -32602 and runs == [1, 2]
            store._values.clear()
        assert caplog.text.count("StateStore") == 1
    async with driver(shop(None, runs)) as client:  # an instance without the store
        assert (await client.call("pay", {"amount": 3}, **last))["error"]["code"] == -32602


async def test_what_even_a_store_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.state.MOST_STORED", 100)
    async with driver(shop(MemoryStateStore(), [], store_above=0)) as client:
        response = await client.call("pay", {"amount": 3})
        assert "limit is 100" in response["error"]["message"] and StateTooLarge.__name__ not in response["error"]


# Time.


@pytest.mark.rule("R111")
@pytest.mark.parametrize("store", [None, MemoryStateStore()])
async def test_an_answer_that_comes_six_hours_later_after_a_restart_on_another_instance(store: Any) -> None:
    runs: list[int] = []
    clock = Clock()
    options: dict[str, Any] = {"ttl": 7 * 86400, "max_age": 21 * 86400, "clock": clock}
    if store is not None:
        store = MemoryStateStore(clock=clock)
    async with driver(shop(store, runs, store_above=0, **options)) as client:
        last = await until_last(client)
    clock.now += 6 * 3600
    async with driver(shop(store, runs, store_above=0, **options)) as client:
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes"
    clock.now += 7 * 86400
    async with driver(shop(store, runs, store_above=0, **options)) as client:
        assert (await client.call("pay", {"amount": 3}, **last))["error"]["code"] == -32602
        if store is not None:
            assert len(store) <= 4


async def test_the_memory_store_is_bounded_and_forgets() -> None:
    clock = Clock()
    store = MemoryStateStore(max_size=100, clock=clock)
    assert await store.add("journal:a", b"1" * 40, 10) and not await store.add("journal:a", b"2", 10)
    await store.put("b", b"1" * 40, 5)
    clock.now += 6
    await store.put("round:c", b"1" * 40, 10)
    assert (await store.get("journal:a"), await store.get("b")) == (b"1" * 40, None) and store.size == 80
    await store.put("round:d", b"1" * 40, 10)  # a state goes; what says that one was used does not
    assert await store.get("journal:a") is None and await store.get("round:c") is not None
    with pytest.raises(MemoryError):
        await store.put("journal:e", b"1" * 40, 10)
    await store.put("round:c", b"", 10)
    await store.delete("round:d")
    await store.delete("round:d")
    assert store.size == 0 and await store.get("round:c") == b""
    assert not await store.add("round:c", b"x", 10)


# Another codec.


class Kms:
    """What a codec of an author's is like."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def seal(self, plain: bytes) -> bytes:
        self.kept[b"%d" % len(self.kept)] = plain
        return b"%d" % (len(self.kept) - 1)

    def open(self, sealed: bytes) -> bytes:
        if sealed not in self.kept:
            raise ValueError("secret of the KMS")
        return self.kept[sealed]


async def test_a_codec_in_place_of_keys(caplog: pytest.LogCaptureFixture) -> None:
    kms, runs = Kms(), []
    server = shop(None, runs)
    server.state = RequestState(codec=kms)
    async with driver(server) as client:
        last = await until_last(client)
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes" and len(kms.kept) == 2
        kms.kept.clear()
        with caplog.at_level(logging.DEBUG):
            response = await client.call("pay", {"amount": 3}, **last)
        assert response["error"]["code"] == -32602 and "secret of the KMS" not in caplog.text
        assert "refused by the codec" in caplog.text


async def test_another_users_repeat_is_refused() -> None:
    runs: list[int] = []
    store = MemoryStateStore()
    server = shop(store, runs)
    async with driver(server, principal=Principal("ada")) as client:
        last = await until_last(client)
        client.session.principal = Principal("ada")
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes"
    async with driver(copy.copy(server), principal=Principal("eve")) as client:
        assert (await client.call("pay", {"amount": 3}, **last))["error"]["code"] == -32602


async def test_returned_questions_go_through_a_store_too() -> None:
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore(), store_above=0))

    @server.tool
    async def count(ctx: Context) -> str | InputRequired:
        return InputRequired(state=ctx.round) if ctx.round < 4 else str(ctx.state)

    async with driver(server) as client:
        assert text(await client.rounds("count", lambda key, question: None)) == "3"


# What was wrong can be put right.


async def test_an_answer_of_another_shape_does_not_use_the_state_up() -> None:
    runs: list[int] = []
    async with driver(shop(MemoryStateStore(), runs)) as client:
        last = await until_last(client)
        wrong = {**last, "inputResponses": {"elicit-2": {"x": 1}}}
        assert (await client.call("pay", {"amount": 3}, **wrong))["error"]["code"] == -32602
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes" and runs == [1, 2, 3]


async def test_a_run_renews_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.single_use.LEASE", 0)
    runs: list[int] = []
    renewed, go = anyio.Event(), anyio.Event()

    class Watched(MemoryStateStore):
        async def put(self, key: str, value: bytes, ttl: float) -> None:
            await super().put(key, value, max(ttl, 60))
            renewed.set()

    server = Server("s", state=RequestState([KEY], store=Watched()))

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = (await ctx.elicit("Sure?", str)).unwrap()
        runs.append(1)
        await go.wait()
        return answer

    async with driver(server) as client:
        state = (await client.call("pay"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept("yes")}}
        renewed = anyio.Event()

        async def present() -> None:
            assert b"yes" in encode(await client.dispatcher(client.tool("pay", **retry)))

        async with anyio.create_task_group() as group:
            group.start_soon(present)
            await renewed.wait()
            group.start_soon(present)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            go.set()
        assert runs == [1]


async def test_what_a_foreign_codec_raises_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    class Strict(Kms):
        def open(self, sealed: bytes) -> bytes:
            raise KeyError("secret of the KMS")

    server = shop(None, [])
    server.state = RequestState(codec=Strict())
    async with driver(server) as client:
        state = (await client.call("pay", {"amount": 3}))["result"]["requestState"]
        response = await client.call("pay", {"amount": 3}, requestState=state, inputResponses={})
        assert response["error"]["code"] == -32602 and "secret of the KMS" not in caplog.text


async def test_results_are_sealed_in_the_store() -> None:
    store = MemoryStateStore()
    async with driver(shop(store, [])) as client:
        await client.call("pay", {"amount": 3}, **await until_last(client))
        assert len(store) == 2 and all(b"paid" not in value for value, _ in store._values.values())


# Runs that are broken off, and stores that fail.


async def test_a_run_that_the_client_cancels_is_not_what_others_get() -> None:
    runs: list[int] = []
    entered, go = anyio.Event(), anyio.Event()
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore()))

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = (await ctx.elicit("Sure?", str)).unwrap()
        runs.append(1)
        entered.set()
        await go.wait()
        return answer

    async with driver(server) as client:
        state = (await client.call("pay"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept("yes")}}
        first, second = client.tool("pay", **retry), client.tool("pay", **retry)
        outcomes: list[Any] = []

        async def present(exchange: Any) -> None:
            outcomes.append(await client.dispatcher(exchange))

        async with anyio.create_task_group() as group:
            group.start_soon(present, first)
            await entered.wait()
            group.start_soon(present, second)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
            go.set()
        assert b"yes" in encode(outcomes[-1]) and len(runs) == 2


async def test_who_waits_can_be_cancelled_and_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStateStore()
    async with driver(shop(store, [])) as client:
        last = await until_last(client)
        state = client.dispatcher.server.state
        plain = state.unlock(base64.urlsafe_b64decode(last["requestState"] + "=="))
        await store.put(f"round:{hashlib.sha256(plain).hexdigest()}", b"?somebody", 1000)
        waiting = client.tool("pay", {"amount": 3}, **last)
        async with anyio.create_task_group() as group:
            group.start_soon(client.dispatcher, waiting)
            await anyio.wait_all_tasks_blocked()
            waiting.cancel()
        monkeypatch.setattr("backchannel.server.single_use.WAIT", 0)
        response = await client.call("pay", {"amount": 3}, **last)
        assert "still being served" in response["error"]["message"]


class Broken(MemoryStateStore):
    """Fails at some of its actions, or never comes back."""

    fails: frozenset[str] = frozenset()
    hangs = False

    async def _step(self, action: str) -> None:
        if action in self.fails:
            if self.hangs:
                await anyio.sleep_forever()
            raise OSError("the password of the store is hunter2")

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        await self._step("add")
        return await super().add(key, value, ttl)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        await self._step("put")
        await super().put(key, value, ttl)

    async def get(self, key: str) -> bytes | None:
        await self._step("get")
        return await super().get(key)

    async def delete(self, key: str) -> None:
        await self._step("delete")
        await super().delete(key)


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("action", ["add", "put", "get", "delete"])
async def test_a_store_that_fails_is_an_error_that_says_so_or_does_no_harm(
    action: str, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backchannel.server.state.PATIENCE", 0.01)
    store, runs = Broken(), list[int]()
    async with driver(shop(store, runs, store_above=0)) as client:
        last = await until_last(client)
        store.fails, store.hangs = frozenset({action}), hangs
        response = await client.call("pay", {"amount": 3}, **last)
        store.fails = frozenset()
        if "error" in response:
            assert response["error"] == {
                "code": -32603,
                "message": "the server cannot reach its state store; try again",
            }
            response = await client.call("pay", {"amount": 3}, **last)
        assert text(response) == "paid 3 yes" and runs.count(3) <= 2


async def test_a_journal_that_is_out_of_reach_does_not_use_the_state_up() -> None:
    class Store(MemoryStateStore):
        fails = False

        async def get(self, key: str) -> bytes | None:
            if self.fails and key.startswith("journal:"):
                raise OSError
            return await super().get(key)

    store, runs = Store(), list[int]()
    async with driver(shop(store, runs, store_above=0)) as client:
        last = await until_last(client)
        store.fails = True
        assert (await client.call("pay", {"amount": 3}, **last))["error"]["code"] == -32603
        store.fails = False
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes" and runs == [1, 2, 3]


async def test_a_claim_of_which_nobody_knows_whether_it_was_made_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Store(MemoryStateStore):
        fails = False

        async def add(self, key: str, value: bytes, ttl: float) -> bool:
            added = await super().add(key, value, ttl)
            if self.fails:
                raise OSError
            return added

    monkeypatch.setattr("backchannel.server.single_use.WAIT", 0)
    store, runs = Store(), list[int]()
    async with driver(shop(store, runs)) as client:
        last = await until_last(client)
        store.fails = True
        assert "error" in await client.call("pay", {"amount": 3}, **last)
        store.fails = False
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes" and runs == [1, 2, 3]


async def test_another_spelling_of_a_token_is_the_same_state() -> None:
    class Loose(Kms):
        def open(self, sealed: bytes) -> bytes:
            return super().open(sealed.strip())

    runs: list[int] = []
    server = shop(None, runs)
    server.state = RequestState(codec=Loose(), store=MemoryStateStore())
    async with driver(server) as client:
        last = await until_last(client)
        assert text(await client.call("pay", {"amount": 3}, **last)) == "paid 3 yes"
        raw = base64.urlsafe_b64decode(last["requestState"] + "==") + b" "
        again = {**last, "requestState": base64.urlsafe_b64encode(raw).decode().rstrip("=")}
        assert text(await client.call("pay", {"amount": 3}, **again)) == "paid 3 yes" and runs == [1, 2, 3]


async def test_a_large_result_is_not_kept_and_the_round_not_run_again() -> None:
    runs: list[int] = []
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore()))

    @server.tool
    async def read(ctx: Context) -> str:
        await ctx.confirm("Sure?")
        runs.append(1)
        return "x" * 300_000

    async with driver(server) as client:
        state = (await client.call("read"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept(True)}}
        assert len(text(await client.call("read", **retry))) == 300_000
        assert "not kept" in (await client.call("read", **retry))["error"]["message"] and runs == [1]


async def test_an_error_that_the_handler_makes_uses_the_state_up() -> None:
    runs: list[int] = []
    server = Server("s", state=RequestState([KEY], store=MemoryStateStore()))

    @server.tool
    async def pay(ctx: Context) -> str:
        await ctx.confirm("Sure?")
        runs.append(1)
        raise LocalProtocolError(-32602, "after the effect")

    async with driver(server) as client:
        state = (await client.call("pay"))["result"]["requestState"]
        retry = {"requestState": state, "inputResponses": {"elicit-1": accept(True)}}
        for _ in range(2):
            assert (await client.call("pay", **retry))["error"]["message"] == "after the effect"
        assert runs == [1]
