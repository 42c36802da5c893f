"""P15: a client's error to a question. With reverse calls it reaches the handler; with rounds there is no place for
one, and the client ends the call by itself."""

import logging
from typing import Any

import pytest

from backchannel import Client, ClientLied, Context, RemoteProtocolError, Server
from backchannel.errors import AskError
from tests.replay.wires import LIVE, REPLAYED, instances
from tests.server.replay import Message, failed, text

pytestmark = [pytest.mark.anyio, pytest.mark.rule("P15")]


async def answered(server: Server, how: str, error: Message) -> tuple[Message, int]:
    """The response of a call to whose questions the client has nothing but an error, and how often it was asked."""
    import anyio

    questions = 0
    async with instances(server, how) as (wire,):
        async with anyio.create_task_group() as group:
            group.start_soon(wire.serve, wire.tool("tool"))
            while "method" in (message := await wire.next()):
                questions += 1
                wire.answer(message, error=error)
        await wire.idle()
    return message, questions


@pytest.mark.parametrize("how", [LIVE, REPLAYED])
@pytest.mark.parametrize(
    ("code", "kind"), [(-32000, RemoteProtocolError), (-32603, RemoteProtocolError), (-32601, ClientLied)]
)
@pytest.mark.case("A10")
async def test_it_reaches_the_handler_which_can_go_on(
    how: str, code: int, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """It is not a refusal, and the log names the tool, the question and the code."""
    caught: list[Any] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        try:
            await ctx.elicit("a", str, key="the key")
        except (RemoteProtocolError, AskError) as error:
            caught.append(error)
        return "went on"

    with caplog.at_level(logging.WARNING):
        response, questions = await answered(server, how, {"code": code, "message": "boo", "data": [1]})
    assert text(response) == "went on" and questions == 1
    assert {type(error) for error in caught} == {kind}
    (record,) = [one for one in caplog.records if "with error" in one.getMessage()]
    for word in ("tool", "'the key'", str(code)):
        assert word in record.getMessage()
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("how", [LIVE, REPLAYED])
async def test_or_ends_the_call_as_its_failure(how: str) -> None:
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        return str(await ctx.elicit("a", str))

    response, questions = await answered(server, how, {"code": -32000, "message": "boo"})
    assert failed(response) == "RemoteProtocolError: boo" and questions == 1


async def test_with_rounds_the_client_ends_the_call() -> None:
    """Its handler's exception is what the caller gets, and the server hears nothing more."""
    runs: list[int] = []
    server = Server("test")

    @server.tool
    async def tool(ctx: Context) -> str:
        runs.append(1)
        return str(await ctx.elicit("a", str))

    def elicit(question: Any) -> Any:
        raise LookupError("boo")

    async with Client(server, elicit=elicit, version="2026-07-28") as client:
        with pytest.raises(LookupError, match="boo"):
            await client.call_tool("tool", {})
    assert runs == [1]
