"""Legacy clients of a server without sessions: whatever cannot be asked is said at once, and nothing else changes."""

from typing import Any

import pytest

from backchannel import (
    AskError,
    Context,
    Elicit,
    InputRequired,
    MemoryStateStore,
    NoBackChannel,
    Principal,
    RequestState,
    Server,
)
from tests.server.http.wire import ASKS, LEGACY, accept, call, request, text, wire

pytestmark = pytest.mark.anyio
OLD = ["2025-03-26", "2025-06-18", LEGACY]
HOW = "sessions=True"


def asking() -> Server:
    """A server with a tool, a prompt and resources that ask, and tools that do well without an answer."""
    server = Server("test")

    @server.tool
    async def ask(ctx: Context, kind: str) -> str:
        asks: dict[str, Any] = {
            "elicit": lambda: ctx.elicit("Who?", str),
            "confirm": lambda: ctx.confirm("Sure?"),
            "sample": lambda: ctx.sample("A slogan"),
            "roots": lambda: ctx.roots(),
        }
        await asks[kind]()
        return "asked"

    @server.tool
    def ask_in_a_thread(ctx: Context) -> str:
        ctx.elicit("Who?", str).wait()
        return "asked"

    @server.tool
    async def without(ctx: Context) -> str:
        try:
            await ctx.elicit("Who?", str)
        except AskError as error:
            return f"without, because of {type(error).__name__}: {isinstance(error, NoBackChannel)}"
        return "asked"

    @server.prompt
    async def prompt(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    @server.resource("r://fixed")
    async def fixed(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    @server.resource("r://{id}/template")
    async def template(ctx: Context, id: str) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    return server


@pytest.mark.rule("R18", "R27")
@pytest.mark.case("A17")
@pytest.mark.parametrize("version", OLD)
async def test_a_question_is_a_failed_result_that_says_what_to_change(version: str) -> None:
    async with wire(asking(), sessions=False) as there:

        async def send(message: dict[str, Any]) -> Any:
            response = await there.post(message, mcp_protocol_version=version)
            assert response.status == 200
            return await response.json()

        questions = [call("ask", kind=kind) for kind in ("elicit", "confirm", "sample", "roots")]
        for question in [*questions, call("ask_in_a_thread")]:
            message = await send(question)
            assert message["result"]["isError"] is True
            assert HOW in text(message)
        assert text(await send(call("without"))) == "without, because of NoBackChannel: True"
        for method, params in (
            ("prompts/get", {"name": "prompt"}),
            ("resources/read", {"uri": "r://fixed"}),
            ("resources/read", {"uri": "r://1/template"}),
        ):
            error = (await send(request(method, params)))["error"]
            assert error["code"] == -32603 and HOW in error["message"]
        assert "result" in await send(request("tools/list"))


@pytest.mark.case("A17")
async def test_with_sessions_the_same_calls_succeed() -> None:
    async with wire(asking(), sessions=True) as there:
        session = await there.session(ASKS)
        for asks in (
            call("ask", kind="elicit"),
            call("ask_in_a_thread"),
            request("prompts/get", {"name": "prompt"}),
            request("resources/read", {"uri": "r://fixed"}),
            request("resources/read", {"uri": "r://1/template"}),
        ):
            response = await session.post(asks)
            await session.answer(await response.message(), accept(value="Ada"))
            last = await response.message()
            assert not last["result"].get("isError"), last


@pytest.mark.case("F10")
@pytest.mark.rule("R104", "R110")
@pytest.mark.parametrize("stored", [False, True])
async def test_tenants_share_no_bucket(stored: bool) -> None:
    """Nothing is kept under the id that a session would have: what is stored for a caller travels sealed for them, and
    with a StateStore under the state's own name."""
    server = Server("test", state=RequestState(store=MemoryStateStore() if stored else None))
    kept: list[Any] = []

    @server.tool
    async def keeps(ctx: Context, first: bool) -> str | InputRequired:
        kept.append(ctx.exchange.session)
        if ctx.state is None:
            assert ctx.principal is not None
            return InputRequired({"go": Elicit("Go on?", bool)}, state=[f"value of {ctx.principal.subject}"])
        return str(ctx.state)

    async def verify(token: str) -> Principal | None:
        return Principal(token)

    def asked(state: str | None = None) -> dict[str, Any]:
        message = call("keeps", first=True)  # the same id and arguments for everybody
        if state is not None:
            message["params"] |= {"requestState": state, "inputResponses": {"go": accept(value=True)}}
        return message

    async with wire(server, sessions=False, verify=verify) as there:

        async def send(who: str, state: str | None = None) -> Any:
            return await (await there.modern(asked(state), ASKS, authorization=f"Bearer {who}")).json()

        states = {who: (await send(who))["result"]["requestState"] for who in ("ann", "bob", "cid")}
        assert (await send("ann", states["bob"]))["error"]["code"] == -32602
        for who in ("bob", "ann", "cid"):
            assert text(await send(who, states[who])) == f"['value of {who}']"
        assert kept == [None] * 6
