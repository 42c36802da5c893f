"""A call that is refused until the person has visited a page (2025-11-25, error -32042)."""

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from backchannel.client.client import Client
from backchannel.errors import ConnectionLost, RemoteProtocolError, RequestTimeout
from tests.client import fake_time
from tests.client.scripted import LEGACY, MODERN, Json, RpcError, Script

pytestmark = [pytest.mark.anyio, pytest.mark.rule("R165")]
anyio_backend = fake_time.anyio_backend
DONE = {"content": [{"type": "text", "text": "done"}]}
BODY: Json = {"name": "t", "arguments": {}}


def page(id: str | None = "e1", **members: Any) -> Json:
    wanted = {"mode": "url", "url": f"https://shop.test/{id}", "message": f"Sign in for {id}", **members}
    return wanted | ({"elicitationId": id} if id is not None else {})


def wanted(*pages: Any) -> RpcError:
    return RpcError(-32042, "This request requires more information.", {"elicitations": list(pages)})


def rounds(*steps: Json | RpcError) -> Callable[[Json], Json]:
    left = list(steps)

    def answer(params: Json) -> Json:
        step = left.pop(0)
        if isinstance(step, RpcError):
            raise step
        return step

    return answer


def completed(script: Script, id: Any) -> None:
    script.give({"method": "notifications/elicitation/complete", "params": {"elicitationId": id}})


class Browser:
    """The host's handler: the person goes to every page, and is done there after so many seconds."""

    def __init__(self, script: Script, action: Any = True, done_after: float | None = 0):
        self.script = script
        self.action = action
        self.done_after = done_after
        self.shown: list[Any] = []

    async def __call__(self, question: Any) -> Any:
        self.shown.append((question.mode, question.url, question.message, question.elicitation_id))
        if self.done_after is not None:
            await anyio.sleep(self.done_after)
            completed(self.script, question.elicitation_id)
        return self.action


async def test_the_person_is_sent_there_and_the_call_goes_on() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page("e1"), page("e2")), DONE)})
    browser = Browser(script)
    async with Client(script, elicit_url=browser, version=LEGACY) as client:
        assert (await client.call_tool("t")).text == "done"
    assert browser.shown == [
        ("url", "https://shop.test/e1", "Sign in for e1", "e1"),
        ("url", "https://shop.test/e2", "Sign in for e2", "e2"),
    ]
    assert script.requests("tools/call") == [BODY, BODY], "the call as it was"
    ids = [message["id"] for message in script.sent if message.get("method") == "tools/call"]
    assert len(set(ids)) == 2


async def test_other_calls_too() -> None:
    script = Script(LEGACY, {"prompts/get": rounds(wanted(page()), {"messages": []})})
    async with Client(script, elicit_url=Browser(script), version=LEGACY) as client:
        assert (await client.get_prompt("p")).messages == []


async def test_it_waits_until_the_server_says_that_all_are_completed() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page("e1"), page("e2"), page(None)), DONE)})
    browser = Browser(script, done_after=None)
    async with Client(script, elicit_url=browser, version=LEGACY, timeout=math.inf) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "t")
            await anyio.wait_all_tasks_blocked()
            for other in ("e3", None, 5):
                completed(script, other)
            for id in ("e2", "e1"):
                assert len(script.requests("tools/call")) == 1
                await anyio.sleep(100)
                completed(script, id)
                completed(script, id)
                await anyio.wait_all_tasks_blocked()
    assert len(script.requests("tools/call")) == 2


@pytest.mark.parametrize("limit", [60, 5])
async def test_the_server_need_not_say_so(limit: float) -> None:
    """The notification is optional, so the call waits for it no longer than for anything else."""
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, elicit_url=lambda question: True, version=LEGACY) as client:
        began = anyio.current_time()
        assert (await client.call_tool("t", timeout=limit)).text == "done"
        assert anyio.current_time() - began == pytest.approx(limit)
        assert len(client._opened().heard) == 2, "nothing listens any more"


async def test_a_handler_that_knows_when_the_person_is_done_is_believed() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page("e1"), page("e2")), DONE)})
    done = {"e1": "done", "e2": "done"}
    async with Client(script, elicit_url=lambda question: done[question.elicitation_id], version=LEGACY) as client:
        began = anyio.current_time()
        assert (await client.call_tool("t")).text == "done"
        assert anyio.current_time() == began


async def test_without_an_id_there_is_nothing_to_wait_for() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page(None)), DONE)})
    async with Client(script, elicit_url=lambda question: True, version=LEGACY) as client:
        began = anyio.current_time()
        await client.call_tool("t")
        assert anyio.current_time() == began


@pytest.mark.parametrize("action", [False, None, "decline", "cancel"])
async def test_who_does_not_go_there_gets_the_error(action: Any) -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, elicit_url=Browser(script, action), version=LEGACY) as client:
        with pytest.raises(RemoteProtocolError, match="requires more information") as caught:
            await client.call_tool("t")
        assert caught.value.code == -32042
        assert caught.value.data == {"elicitations": [page()]}
    assert len(script.requests("tools/call")) == 1


async def test_the_call_is_sent_once_more_and_not_again() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), wanted(page()), DONE)})
    browser = Browser(script)
    async with Client(script, elicit_url=browser, version=LEGACY) as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("t")
        assert caught.value.code == -32042
    assert len(browser.shown) == 1
    assert len(script.requests("tools/call")) == 2


@pytest.mark.rule("R115")
async def test_what_the_handler_raises_reaches_the_caller() -> None:
    def broken(question: Any) -> Any:
        raise KeyError("no browser")

    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, elicit_url=broken, version=LEGACY) as client:
        with pytest.raises(KeyError, match="no browser"):
            await client.call_tool("t")
        assert len(client._opened().heard) == 2


@pytest.mark.rule("R37")
async def test_it_is_the_dispatcher_of_all_questions() -> None:
    script, seen = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)}), []
    client = Client(script, elicit_url=Browser(script), version=LEGACY)

    @client.answer_middleware
    async def middleware(asked: Any, call_next: Any) -> Any:
        seen.append(asked.method)
        return await call_next(asked)

    async with client:
        await client.call_tool("t")
    assert seen == ["elicitation/create"]


@pytest.mark.parametrize(
    ("version", "handlers"),
    [
        (LEGACY, {}),
        (LEGACY, {"elicit": lambda question: True}),
        ("2025-06-18", {"elicit_url": lambda question: True}),
        (MODERN, {"elicit_url": lambda question: True}),
    ],
)
async def test_where_it_does_not_exist_or_the_host_takes_no_urls(version: str, handlers: Any) -> None:
    script = Script(version, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, version=version, **handlers) as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("t")
        assert caught.value.code == -32042


@pytest.mark.parametrize(
    "error",
    [
        RpcError(-32042),
        RpcError(-32042, data="x"),
        RpcError(-32042, data={"elicitations": {}}),
        wanted(),
        wanted(5),
        wanted(page(message=5)),
        wanted(page(), {"mode": "url", "message": "no url"}),
        wanted(page(), {"message": "a form", "requestedSchema": {"type": "object", "properties": {}}}),
    ],
)
async def test_an_error_that_makes_no_sense_is_an_error(error: RpcError) -> None:
    script = Script(LEGACY, {"tools/call": rounds(error, DONE)})
    browser = Browser(script)
    async with Client(script, elicit_url=browser, elicit=browser, version=LEGACY) as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("t")
        assert caught.value.code == -32042
    assert browser.shown == []


async def test_it_counts_as_a_round() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    browser = Browser(script)
    async with Client(script, elicit_url=browser, version=LEGACY, max_rounds=1) as client:
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("t")
    assert browser.shown == [], "nobody is asked what is not sent"


@pytest.mark.case("B14")
@pytest.mark.parametrize("limits", [{"timeout": 1}, {"total_timeout": 4}])
async def test_the_person_takes_time(limits: Any) -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, elicit_url=Browser(script, done_after=5), version=LEGACY) as client:
        if "timeout" in limits:
            assert (await client.call_tool("t", **limits)).text == "done"
        else:
            with pytest.raises(RequestTimeout, match="total"):
                await client.call_tool("t", **limits)
    assert len(script.requests("tools/call")) == (2 if "timeout" in limits else 1)


@pytest.mark.rule("R62")
async def test_a_cancelled_call_is_not_sent_again() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    async with Client(script, elicit_url=Browser(script, done_after=None), version=LEGACY) as client:
        with anyio.move_on_after(5) as scope:
            await client.call_tool("t")
        completed(script, "e1")
        await anyio.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert len(client._opened().heard) == 2
    assert len(script.requests("tools/call")) == 1


@pytest.mark.rule("R116")
async def test_when_the_server_dies_meanwhile_it_is_known_that_nothing_ran() -> None:
    script, errors = Script(LEGACY, {"tools/call": rounds(wanted(page()))}), []
    async with Client(script, elicit_url=Browser(script, done_after=None), version=LEGACY) as client:

        async def call() -> None:
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("t")
            errors.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            script.lose(ConnectionLost("the server died"))
    assert type(errors[0]) is ConnectionLost
    assert errors[0].pending is not None


async def test_by_hand_the_error_is_the_answer() -> None:
    script = Script(LEGACY, {"tools/call": rounds(wanted(page()), DONE)})
    browser = Browser(script)
    async with Client(script, elicit_url=browser, version=LEGACY) as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.begin("tools/call", BODY)
    assert caught.value.code == -32042
    assert browser.shown == []
