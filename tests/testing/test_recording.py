"""What a transcript wraps and a balancer spreads: every message is kept in both directions, and requests take turns."""

import pytest

from backchannel import Client, Context, RequestState, Server
from backchannel.protocol.jsonrpc import Malformed, Notification, Request
from backchannel.targets import resolve
from backchannel.testing.replicas import Balancer
from backchannel.testing.transcript import Recorded, Transcript

KEY = "k" * 32


def make() -> Server:
    server = Server("asker", state=RequestState(keys=[KEY]))

    @server.tool
    async def ask(ctx: Context) -> str:
        return repr((await ctx.elicit("Sure?")).unwrap())

    return server


def kind(recorded: Recorded) -> str:
    message = recorded.message
    assert not isinstance(message, Malformed)
    what = message.method if isinstance(message, Request | Notification) else type(message).__name__
    return f"{recorded.sender} {what} {recorded.instance}".rstrip()


@pytest.mark.anyio
async def test_a_legacy_session_is_recorded() -> None:
    log: list[Recorded] = []
    async with Client(Transcript(log).wrap(resolve(make())), elicit=lambda _: True, version="legacy") as client:
        assert (await client.call_tool("ask")).text == "None"
    assert [kind(one) for one in log] == [
        "client initialize",
        "server Response",
        "client notifications/initialized",
        "client tools/call",
        "server elicitation/create",
        "client Response",
        "server Response",
    ]


@pytest.mark.anyio
async def test_requests_take_turns() -> None:
    log: list[Recorded] = []
    kept = Transcript(log)
    inner = [kept.wrap(resolve(make()), name) for name in "AB"]
    async with Client(Balancer(inner), elicit=lambda _: True, version="modern") as client:
        assert (await client.call_tool("ask")).text == "None"
    assert [kind(one) for one in log] == [
        "client server/discover A",
        "server Response A",
        "client tools/call B",
        "server Response B",
        "client tools/call A",
        "server Response A",
    ]
