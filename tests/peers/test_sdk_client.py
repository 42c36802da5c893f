"""The official SDK's client (mcp 2.3.0) against our server: one unchanged handler, both eras, both transports."""

from __future__ import annotations

import json
from typing import Any

import anyio
import mcp.types as t
import pytest
from mcp import MCPError
from mcp.client import Client, ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.peers.launching import ServerFile

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WIRES = [
    pytest.param(transport, version, id=f"{transport}-{version}")
    for transport in ("stdio", "http")
    for version in (LEGACY, MODERN)
]
# The SDK deprecates what 2026-07-28 removed; on the legacy wire there is no other way to call it.
DEPRECATED = "ignore::mcp.MCPDeprecationWarning"

pytestmark = pytest.mark.anyio
everywhere = pytest.mark.parametrize(("transport", "version"), WIRES)
# Where the transport makes no difference; launching a process takes its time.
over_http = pytest.mark.parametrize(("transport", "version"), WIRES[2:])
Answer = t.ElicitResult | t.ErrorData


def accept(**content: Any) -> t.ElicitResult:
    return t.ElicitResult(action="accept", content=content)


class Host:
    """What an application puts around the SDK's client: it answers with what it was given, and writes all of it down.

    answers: message of a question -> the answer.
    """

    def __init__(self, answers: dict[str, Answer] | None = None):
        self.answers = answers or {}
        self.asked: list[str] = []
        self.questions: list[t.ElicitRequestParams] = []
        self.logged: list[Any] = []
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def elicit(self, context: ClientRequestContext, params: t.ElicitRequestParams) -> Answer:
        self.asked.append(params.message)
        self.questions.append(params)
        return self.answers[params.message]

    async def sample(
        self, context: ClientRequestContext, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult:
        (message,) = params.messages
        assert isinstance(message.content, t.TextContent)
        self.asked.append(message.content.text)
        text = t.TextContent(type="text", text="Go!")
        return t.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, context: ClientRequestContext) -> t.ListRootsResult:
        self.asked.append("roots")
        return t.ListRootsResult(roots=[t.Root(uri="file:///home/me")])  # type: ignore[arg-type]

    async def log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.logged.append((params.level, params.logger, params.data))

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


def connect(server: ServerFile, transport: str, version: str, host: Host | None = None, **options: Any) -> Client:
    """The SDK's client, which declares what it has callbacks for."""
    target: Any = server.url
    if transport == "stdio":
        command, *args = server.command
        target = stdio_client(StdioServerParameters(command=command, args=args, env=server.env), server.errors)
    if host is not None:
        options = {
            "elicitation_callback": host.elicit,
            "sampling_callback": host.sample,
            "list_roots_callback": host.roots,
            "logging_callback": host.log,
            **options,
        }
    return Client(target, mode="legacy" if version == LEGACY else version, **options)


def text(result: t.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, t.TextContent)
    return block.text


BOOKING = {"When in {}?": accept(arrival="2026-12-24"), "Book {} for 40?": accept(value=True)}


def booking(city: str) -> dict[str, Answer]:
    return {message.format(city): answer for message, answer in BOOKING.items()}


@everywhere
@pytest.mark.case("A09")
@pytest.mark.rule("R30")
async def test_one_handler_asks_in_the_middle(ours: ServerFile, transport: str, version: str) -> None:
    city = f"Oslo-{transport}-{version}"
    host = Host(booking(city))
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            assert client.protocol_version == version
            result = await client.call_tool("book", {"city": city}, progress_callback=host.progressed)
    assert not result.is_error, text(result)
    assert result.structured_content == {
        "city": city,
        "outcome": "booked",
        "arrival": "2026-12-24",
        "slogan": "Go!",
        "roots": ["file:///home/me"],
    }
    assert json.loads(text(result)) == result.structured_content
    host.asked.remove("roots")  # once; a session asks for them by itself
    assert sorted(host.asked[:2]) == [f"A slogan for {city}", f"When in {city}?"]
    assert host.asked[2:] == [f"Book {city} for 40?"]
    assert host.progress == [(1, 2, "charged"), (2, 2, "booked")]
    assert ours.recorded(f"charge {city}") == 1


@over_http
async def test_a_person_may_close_a_question(ours: ServerFile, transport: str, version: str) -> None:
    city = f"Bergen-{transport}-{version}"
    host = Host({f"When in {city}?": t.ElicitResult(action="cancel")})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            result = await client.call_tool("book", {"city": city})
    assert result.structured_content is not None
    assert result.structured_content["outcome"] == "Cancelled"
    assert ours.recorded(f"charge {city}") == 0


@over_http
@pytest.mark.parametrize("answer", [t.ElicitResult(action="decline"), accept(value=False)], ids=["declined", "no"])
async def test_no_confirmation(ours: ServerFile, transport: str, version: str, answer: Answer) -> None:
    host = Host({"When in Voss?": accept(arrival="2026-12-24", nights=2), "Book Voss for 80?": answer})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            result = await client.call_tool("book", {"city": "Voss"})
    assert result.structured_content is not None
    assert result.structured_content["outcome"] == "unconfirmed"


@everywhere
async def test_a_synchronous_tool_asks(ours: ServerFile, transport: str, version: str) -> None:
    host = Host({"Who are you?": accept(name="Ada", email="ada@example.com")})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            result = await client.call_tool("register")
            assert text(result) == "Ada <ada@example.com>"
            host.answers["Who are you?"] = t.ElicitResult(action="decline")
            refused = await client.call_tool("register")
    assert refused.is_error
    assert "'decline'" in text(refused)


@over_http
@pytest.mark.rule("R167")
async def test_every_kind_of_field(ours: ServerFile, transport: str, version: str) -> None:
    given = {"size": "s", "color": "blue", "toppings": ["ham", "kale"], "day": "2026-12-24", "weight": 2.5}
    host = Host({"Fill this in": accept(**given)})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            result = await client.call_tool("order")
    assert not result.is_error, text(result)
    assert result.structured_content == {**given, "count": 3, "vegan": False}
    (question,) = host.questions
    assert isinstance(question, t.ElicitRequestFormParams)
    assert set(question.requested_schema["properties"]) == {*given, "count", "vegan"}


@over_http
@pytest.mark.rule("R165")
async def test_a_page_to_open(ours: ServerFile, transport: str, version: str) -> None:
    host = Host({"Sign in": t.ElicitResult(action="accept")})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            assert text(await client.call_tool("sign_in")) == "Accepted"
    (question,) = host.questions
    assert isinstance(question, t.ElicitRequestURLParams)
    assert question.url == "https://example.com/login"
    assert bool(question.elicitation_id) is (version == LEGACY)


@over_http
@pytest.mark.rule("R15")
async def test_a_model_that_uses_tools(ours: ServerFile, transport: str, version: str) -> None:
    sampled: list[t.CreateMessageRequestParams] = []

    async def sample(
        context: ClientRequestContext, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResultWithTools:
        sampled.append(params)
        use = t.ToolUseContent(type="tool_use", id="1", name="weather", input={"city": "Oslo"})
        return t.CreateMessageResultWithTools(role="assistant", content=[use], model="m", stop_reason="toolUse")

    tools = t.SamplingCapability(tools=t.SamplingToolsCapability())
    with anyio.fail_after(20):
        async with connect(ours, transport, version, sampling_callback=sample) as client:
            if version == LEGACY:
                refused = await client.call_tool("consult")
                assert refused.is_error
                assert "'sampling.tools'" in text(refused)
            else:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("consult")
                assert caught.value.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}
        assert sampled == []
        async with connect(ours, transport, version, sampling_callback=sample, sampling_capabilities=tools) as client:
            assert text(await client.call_tool("consult")) == "toolUse weather Oslo"
    (params,) = sampled
    assert params.system_prompt == "Be brief."
    assert params.tools is not None
    assert [tool.name for tool in params.tools] == ["weather"]


@everywhere
@pytest.mark.rule("R16", "R19")
async def test_a_client_that_cannot_be_asked(ours: ServerFile, transport: str, version: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, version) as client:
            if version == LEGACY:
                result = await client.call_tool("register")
                assert result.is_error
                assert "'elicitation'" in text(result)
            else:
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("register")
                assert caught.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY
                assert caught.value.data == {"requiredCapabilities": {"elicitation": {}}}
            assert text(await client.call_tool("divide", {"a": 6, "b": 3})) == "2.0"


@over_http
@pytest.mark.rule("R22")
async def test_a_host_that_answers_with_an_error(ours: ServerFile, transport: str, version: str) -> None:
    """On the legacy wire it is the handler's to deal with; on the modern one the client's call has failed."""
    error = t.ErrorData(code=-32603, message="the window is gone")
    host = Host({"Who are you?": error, "Careful?": error})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            if version == LEGACY:
                assert text(await client.call_tool("careful")) == "-32603 the window is gone"
                uncaught = await client.call_tool("register")
                assert uncaught.is_error
                assert "the window is gone" in text(uncaught)
                return
            for tool in ("careful", "register"):
                with pytest.raises(MCPError, match="the window is gone"):
                    await client.call_tool(tool)


@over_http
async def test_an_invalid_answer(ours: ServerFile, transport: str, version: str) -> None:
    host = Host({"Who are you?": accept(name=7)})
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            result = await client.call_tool("register")
    assert result.is_error
    assert "name" in text(result)


@over_http
async def test_the_list_of_tools(ours: ServerFile, transport: str, version: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, version) as client:
            listed = await client.list_tools()
            divided = await client.call_tool("divide", {"a": 6, "b": 4})
    tools = {tool.name: tool for tool in listed.tools}
    assert {"book", "register", "divide"} <= set(tools)
    assert listed.next_cursor is None
    assert tools["book"].description == "Book a room, and ask whatever is needed for that."
    assert tools["book"].input_schema["properties"] == {"city": {"type": "string"}}
    assert tools["book"].input_schema["required"] == ["city"]
    output = tools["book"].output_schema
    assert output is not None
    assert output["properties"]["outcome"] == {"type": "string"}
    # Structured content that is no object came with 2026-07-28.
    assert tools["divide"].output_schema == (None if version == LEGACY else {"type": "number"})
    assert divided.structured_content == (None if version == LEGACY else 1.5)


@everywhere
async def test_who_the_server_is(ours: ServerFile, transport: str, version: str) -> None:
    """`auto` probes, and finds the stateless protocol; `legacy` shakes hands."""
    with anyio.fail_after(20):
        client = connect(ours, transport, version)
        client.mode = "legacy" if version == LEGACY else "auto"
        async with client:
            assert client.protocol_version == version
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("ours", "1.2.3")
            assert client.instructions == "Ask away."
            assert client.server_capabilities.tools is not None


@everywhere
@pytest.mark.rule("R128")
async def test_calls_that_fail(ours: ServerFile, transport: str, version: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, version) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("no_such_tool")
            assert (caught.value.code, caught.value.message) == (t.INVALID_PARAMS, "Unknown tool: no_such_tool")

            wrong = await client.call_tool("divide", {"a": "six", "b": 3})
            assert wrong.is_error
            assert "a: expected integer" in text(wrong)

            failed = await client.call_tool("divide", {"a": 6, "b": 0})
            assert failed.is_error
            assert text(failed) == "cannot divide by zero"

            crashed = await client.call_tool("crash")
            assert crashed.is_error
            assert "hunter2" not in text(crashed)

            assert text(await client.call_tool("divide", {"a": 6, "b": 4})) == "1.5"


@everywhere
@pytest.mark.filterwarnings(DEPRECATED)
@pytest.mark.rule("R139")
async def test_log_messages(ours: ServerFile, transport: str, version: str) -> None:
    host = Host()
    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client:
            await client.call_tool("chatter")
        assert host.logged == []
        level: dict[str, Any] = {} if version == LEGACY else {"log_level": "info"}
        async with connect(ours, transport, version, host, **level) as client:
            if version == LEGACY:
                await client.set_logging_level("info")
            await client.call_tool("chatter")
    assert host.logged == [("info", "chatter", {"level": "info"}), ("error", "chatter", {"level": "error"})]


@everywhere
@pytest.mark.rule("R41", "R42")
async def test_cancelling_a_call_that_asks(ours: ServerFile, transport: str, version: str) -> None:
    """The question is withdrawn: the host's callback is cancelled, and the handler ends."""
    name = f"asking-{transport}-{version}"
    scope, withdrawn = anyio.CancelScope(), anyio.Event()

    async def never(context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()
        raise AssertionError

    with anyio.fail_after(20):
        async with connect(ours, transport, version, elicitation_callback=never) as client:
            with scope:
                await client.call_tool("hang_asking", {"name": name})
            assert scope.cancelled_caught
            await withdrawn.wait()
            assert text(await client.call_tool("outcome", {"name": name})) == "ended"


@everywhere
@pytest.mark.rule("R9")
async def test_many_calls_at_once(ours: ServerFile, transport: str, version: str) -> None:
    cities = [f"City{number}-{transport}-{version}" for number in range(8)]
    host = Host({message: answer for city in cities for message, answer in booking(city).items()})
    results: dict[str, Any] = {}

    async def book(client: Client, city: str) -> None:
        results[city] = (await client.call_tool("book", {"city": city})).structured_content

    with anyio.fail_after(20):
        async with connect(ours, transport, version, host) as client, anyio.create_task_group() as group:
            for city in cities:
                group.start_soon(book, client, city)
    assert {city: result["city"] for city, result in results.items()} == {city: city for city in cities}
    assert [ours.recorded(f"charge {city}") for city in cities] == [1] * 8


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.filterwarnings(DEPRECATED)
@pytest.mark.rule("R166")
async def test_ping(ours: ServerFile, transport: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, LEGACY) as client:
            assert await client.send_ping() == t.EmptyResult()


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.filterwarnings(DEPRECATED)
@pytest.mark.rule("R126", "R166")
async def test_ping_is_gone(ours: ServerFile, transport: str) -> None:
    with anyio.fail_after(20):
        async with connect(ours, transport, MODERN) as client:
            with pytest.raises(MCPError) as caught:
                await client.send_ping()
            assert caught.value.code == t.METHOD_NOT_FOUND
