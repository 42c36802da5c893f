"""What goes on the wire when something goes wrong: the table of the rules, row by row."""

import logging
from typing import Any

import anyio
import pytest

from backchannel import (
    AskTimeout,
    ClientLied,
    Context,
    InvalidAnswer,
    JournalMismatch,
    LocalProtocolError,
    MissingCapability,
    NoBackChannel,
    ProtocolError,
    Refused,
    RemoteProtocolError,
    Server,
    StateRejected,
    StateTooLarge,
    StepError,
    ToolError,
    TooManyRounds,
)
from backchannel.protocol.jsonrpc import ErrorObject, Request
from backchannel.protocol.methods import METHODS
from backchannel.protocol.types.requests import CallToolParams, GetPromptParams
from backchannel.protocol.versions import Version
from backchannel.server.exchange import ClientInfo, Exchange
from backchannel.server.failures import MASKED, describe
from backchannel.server.streams import EventStream
from tests.server.replay import LEGACY, MODERN, both_eras, driver, failed

ROWS: list[tuple[BaseException, Any, Any, Any]] = [
    # the exception; for a tool: an error code or the text of a result; for a prompt: an error code; is it logged?
    (MissingCapability("elicitation.url"), -32021, -32021, False),
    (NoBackChannel("no way"), "no way", -32603, False),
    (AskTimeout("late"), "late", -32603, False),
    (Refused("decline", "Go?"), "the question 'Go?' was answered with 'decline'", -32603, False),
    (InvalidAnswer("bad"), "bad", -32603, False),
    (ClientLied("lied"), "lied", -32603, False),
    (ToolError("out of stock"), "out of stock", -32603, False),
    (StepError("ToolError", "out of stock"), "out of stock", -32603, False),
    (StepError("KeyError", "secret"), MASKED, -32603, True),
    (ValueError("secret"), MASKED, -32603, True),
    (BaseException("secret"), MASKED, -32603, True),
    (RemoteProtocolError(-32000, "refused"), "RemoteProtocolError: refused", -32603, True),
    (LocalProtocolError(-32602, "Unknown tool: x"), -32602, -32602, False),
    (ProtocolError(-32042, "URL", {"elicitations": []}), -32042, -32042, False),
    (StateRejected(), -32602, -32602, False),
    (JournalMismatch("moved", "a", "b"), -32602, -32602, True),
    (StateTooLarge("large"), -32603, -32603, True),
    (TooManyRounds("many"), -32603, -32603, True),
]


def exchange(method: str, version: str = MODERN) -> Exchange:
    params: Any = CallToolParams(name="x") if method == "tools/call" else GetPromptParams(name="x")
    return Exchange(Request(1, method), METHODS[method], params, Version(version), ClientInfo(), EventStream())


@pytest.mark.parametrize(("error", "tool", "prompt", "logged"), ROWS)
def test_each_exception_has_its_answer(
    error: BaseException, tool: Any, prompt: Any, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = describe(error, exchange("tools/call"), debug=False)
    assert bool(caplog.records) is logged
    if isinstance(tool, int):
        assert isinstance(answer, ErrorObject) and answer.code == tool
        assert answer.data == getattr(error, "data", None)
    else:
        assert not isinstance(answer, ErrorObject) and answer.is_error
        assert [block.text for block in answer.content] == [tool]  # type: ignore[union-attr]
    error_object = describe(error, exchange("prompts/get"), debug=False)
    assert isinstance(error_object, ErrorObject) and error_object.code == prompt
    assert "secret" not in error_object.message


@pytest.mark.rule("R15")
def test_on_legacy_a_missing_capability_is_a_result() -> None:
    error = MissingCapability("sampling")
    answer = describe(error, exchange("tools/call", LEGACY), debug=False)
    assert not isinstance(answer, ErrorObject) and answer.is_error
    prompt = describe(error, exchange("prompts/get", LEGACY), debug=False)
    assert isinstance(prompt, ErrorObject) and prompt.code == -32602


@pytest.mark.parametrize("wrap", [1, 2])
def test_a_group_of_one_is_its_one(wrap: int) -> None:
    error: BaseException = ToolError("out of stock")
    for _ in range(wrap):
        error = BaseExceptionGroup("task group", [error])
    answer = describe(error, exchange("tools/call"), debug=False)
    assert not isinstance(answer, ErrorObject) and "out of stock" in str(answer.content)


def test_a_group_of_several_is_a_failure_with_all_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    answer = describe(ExceptionGroup("x", [ToolError("a"), ValueError("b")]), exchange("tools/call"), debug=False)
    assert MASKED in str(answer)
    assert caplog.records[0].levelno == logging.ERROR and caplog.records[0].exc_info


def test_debug_shows_what_is_masked() -> None:
    for error in (ValueError("secret"), StepError("KeyError", "secret")):
        assert "secret" in str(describe(error, exchange("tools/call"), debug=True))


@pytest.mark.anyio
@pytest.mark.rule("R27", "R133")
@both_eras
async def test_a_failure_in_a_task_group_of_the_handler_is_answered_as_itself(version: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        async def ask() -> None:
            await ctx.confirm("sure?", key="sure")

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
        return "done"

    async with driver(server, version, {}) as wire:
        response = await wire.call("tool")
        if version == LEGACY:
            assert "'elicitation'" in failed(response)
        else:
            assert response["error"]["code"] == -32021


@pytest.mark.anyio
@both_eras
@pytest.mark.case("J07")
async def test_a_failure_of_the_clean_up_does_not_hide_the_first(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("test")

    class Resource:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None:
            raise OSError("secret B")

    @server.tool
    async def both() -> str:
        async with Resource():
            raise ToolError("A")

    @server.tool
    async def later() -> str:
        try:
            raise ToolError("A")
        except ToolError as error:
            raise ValueError("secret") from error

    @server.tool
    async def fine() -> str:
        return "fine"

    async with driver(server, version) as wire:
        assert failed(await wire.call("both")) == "A"
        [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert record.exc_info is not None and "secret B" in caplog.text and "ToolError: A" in caplog.text
        assert failed(await wire.call("later")) == MASKED, "the author replaced it"
        assert "result" in await wire.call("fine")
