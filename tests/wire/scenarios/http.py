"""Streamable HTTP: headers, statuses and event streams (basic/transports/streamable-http; 2025-11-25
basic/transports)."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from pydantic import Field

from backchannel import Context, Principal, Server
from tests.server.http.wire import Session, call, modern, notification, request

from ..recorder import Recorder
from ..scenario import MODERN, STREAMABLE, scenario


def _shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the model, or the person."""
        if ctx.can_ask("form"):
            return (await ctx.elicit("Which size?", str)).unwrap()
        return (await ctx.sample("Which size?", max_tokens=5)).text

    @server.tool
    async def pack(ctx: Context) -> str:
        await ctx.progress(1, total=2)
        await ctx.progress(2, total=2)
        return "packed"

    @server.tool
    async def ship(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
        express: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Express"})] = False,
    ) -> str:
        return f"shipped to {region}"

    return server


def _answers(wire: Recorder) -> dict[str, Any]:
    if wire.features.elicitation:
        return {"elicit": lambda question: {"value": "large"}}
    return {"sample": lambda question: "large"}


@scenario(
    "http-session",
    """A whole session: the id that the server gives comes back with every request, a question travels in the stream of
    its call, its answer is a POST of its own, and DELETE ends it all.""",
    STREAMABLE,
)
async def http_session(wire: Recorder) -> None:
    server = _shop()
    async with wire.http_client(server, bring_up=True, goodbye=True, **_answers(wire)) as client:
        wire.note("An answer at once is JSON.")
        await client.call_tool("add", {"a": 1, "b": 2})
        wire.note("A call with progress is an event stream.")
        await client.call_tool("pack", progress=lambda step: None)
        wire.note("A call that asks.")
        await client.call_tool("ask")
        wire.note("What belongs to no call travels in the stream of the GET.")
        async with client.listen(tools=True) as changes:
            await server.notify.tools_changed()
            await anext(changes)
        wire.note("The end.")


@scenario(
    "http-session-faults",
    """Requests without a session, of a session that has ended, with a version that nobody knows, and a method that does
    not exist.""",
    STREAMABLE,
)
async def http_session_faults(wire: Recorder) -> None:
    async with wire.http(_shop()) as (there, _):
        with wire.hidden():
            session = await there.session(version=wire.version.value)
        wire.note("A session was opened. This request is not in it.")
        await _whole(await there.post(request("tools/list")))
        wire.note("A version that nobody knows.")
        await _whole(await session.post(request("tools/list"), mcp_protocol_version="2099-01-01"))
        wire.note("A method that nobody knows.")
        await _whole(await session.post(wire.wrong(request("tools/guess"))))
        wire.note("A notification that nobody knows: it is accepted, and dropped.")
        await _whole(await session.post(wire.wrong(notification("notifications/guess"))))
        wire.note("The session ends.")
        await _whole(await session.http("DELETE"))
        await _whole(await session.post(request("tools/list")))
        await _whole(await session.http("GET"))


async def _whole(response: Any) -> None:
    """Read a response to its end."""
    await response.body()


@scenario(
    "http-unauthorized",
    "A server that wants to know who calls: no token, one that it does not know, and one that it knows.",
    [*STREAMABLE, *MODERN],
)
async def http_unauthorized(wire: Recorder) -> None:
    async def verify(token: str) -> Principal | None:
        return Principal("ada") if token == "ada-1234" else None

    message, headers = modern(request("tools/list"))
    if not wire.modern:
        message, headers = wire.initialize(1), {}
    async with wire.http(Server("bank"), verify=verify) as (there, _):
        await _whole(await there.post(message, **headers))
        await _whole(await there.post(message, authorization="Bearer eve-1234", **headers))
        wire.note("The same request again, which counts now.")
        await _whole(await there.post(message, authorization="Bearer ada-1234", **headers))


@scenario(
    "http-resumption",
    """A connection is lost while a call runs. The call goes on, and a GET with the id of the last event that came gets
    the rest of its stream.""",
    STREAMABLE,
)
async def http_resumption(wire: Recorder) -> None:
    server = Server("copier")
    go = anyio.Event()

    @server.tool
    async def copy(ctx: Context) -> str:
        await ctx.progress(1)
        await go.wait()
        await ctx.progress(2)
        return "copied"

    async with wire.http(server) as (there, tap):
        with wire.hidden():
            session = await there.session(version=wire.version.value)
        wire.note("A session was opened.")
        response = await session.post(call("copy", token="t"))
        last = ""
        while True:
            event = await response.event()
            assert event is not None
            last = event.id or last
            if event.message is not None:
                break
        response.drop()
        await tap.until_left(3)
        wire.note("Nobody listens to this.")
        go.set()
        resumed = await session.http("GET", last_event_id=last)
        messages = [await resumed.message(), await resumed.message()]
        assert messages[1]["result"]["content"] == [{"type": "text", "text": "copied"}]
        assert await resumed.message() is None
        wire.note("An id that was never given.")
        await _whole(await session.http("GET", last_event_id="7-7"))


@scenario(
    "http-batch",
    "Several messages in one POST, which are answered in one array; questions and answers travel in batches as well.",
    [version for version in STREAMABLE if version == "2025-03-26"],
)
async def http_batch(wire: Recorder) -> None:
    async with wire.http(_shop()) as (there, _):
        with wire.hidden():
            session = await there.session({"sampling": {}}, version=wire.version.value)
        wire.note("A session was opened. Two requests and a notification.")
        cancelled = notification("notifications/cancelled", {"requestId": 99})
        await _whole(await session.post([call("add", 1, a=1, b=2), cancelled, request("ping", id=2)]))
        wire.note("Notifications alone.")
        await _whole(await session.post([cancelled, cancelled]))
        wire.note("Two calls that ask: their questions are events, and one POST answers both.")
        await _two_questions(session)
        wire.note("An empty batch, and one with initialize in it.")
        await _whole(await session.post(wire.wrong([])))
        await _whole(await session.post(wire.wrong([wire.initialize(3)])))


async def _two_questions(session: Session) -> None:
    response = await session.post([call("ask", 1), call("ask", 2)])
    questions = [await response.message(), await response.message()]
    said = {"role": "assistant", "content": {"type": "text", "text": "large"}, "model": "m"}
    answers = [{"jsonrpc": "2.0", "id": question["id"], "result": said} for question in questions]
    await _whole(await session.post(answers))
    assert len(await response.message()) == 2
    assert await response.message() is None


@scenario(
    "http-call",
    """Requests that need no session: headers repeat what a gateway wants to know, a question ends the call with its
    state, and the answer comes with a call of its own.""",
    MODERN,
)
async def http_call(wire: Recorder) -> None:
    server = _shop()

    @server.resource("note://café")
    async def note() -> str:
        return "closed"

    async with wire.http_client(server, bring_up=True, **_answers(wire)) as client:
        wire.note("An answer at once is JSON.")
        await client.call_tool("add", {"a": 1, "b": 2})
        wire.note("A call with progress is an event stream.")
        await client.call_tool("pack", progress=lambda step: None)
        wire.note("A call that asks.")
        await client.call_tool("ask")
        with wire.hidden():
            assert len([tool async for tool in client.tools()]) == 4
        wire.note(
            "The client has listed the tools now, and knows the arguments that a gateway may want to see. What is no "
            "visible ASCII is encoded."
        )
        await client.call_tool("ship", {"region": "Zürich", "express": True})
        await client.call_tool("ship", {"region": "north"})
        await client.read("note://café")


@scenario(
    "http-faults",
    """Requests whose headers and body disagree, that lack a header, are of a version that is not served, need what the
    client did not declare, or name a method that does not exist; and HTTP methods that only sessions have.""",
    MODERN,
)
async def http_faults(wire: Recorder) -> None:
    async with wire.http(_shop()) as (there, _):
        wire.note("The header names another tool.")
        await _whole(await there.modern(call("add", a=1, b=2), mcp_name="subtract"))
        wire.note("The header names another method.")
        await _whole(await there.modern(call("add", a=1, b=2), mcp_method="tools/list"))
        wire.note("The header names another version.")
        await _whole(await there.modern(call("add", a=1, b=2), mcp_protocol_version="2025-11-25"))
        wire.note("No Mcp-Method.")
        await _whole(await there.modern(call("add", a=1, b=2), mcp_method=""))
        wire.note("An argument that is mirrored, and is not in its header.")
        await _whole(await there.modern(call("ship", region="north")))
        wire.note("A version that is not served.")
        message, headers = modern(request("tools/list"))
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        await _whole(await there.post(message, **{**headers, "mcp_protocol_version": "2099-01-01"}))
        wire.note("The tool asks, and the client did not say that it can be asked.")
        await _whole(await there.modern(call("ask")))
        wire.note("A method that nobody knows, and one that this version does not have.")
        for method in ("tools/guess", "ping"):
            message, headers = modern(request(method))
            await _whole(await there.post(wire.wrong(message), **headers))
        wire.note("A tool that nobody knows.")
        await _whole(await there.modern(call("guess")))
        wire.note("No JSON.")
        headers = {"mcp_protocol_version": wire.version.value, "mcp_method": "tools/list"}
        await _whole(await there.post(wire.wrong(b"{"), **headers))
        wire.note("GET and DELETE.")
        for method in ("GET", "DELETE"):
            named = {"accept": "text/event-stream", "mcp-protocol-version": wire.version.value}
            await _whole(await there.http(method, named))


@scenario(
    "http-cancel",
    "The client gives a call up: it closes the stream of the call, and the server ends what it was doing.",
    MODERN,
)
async def http_cancel(wire: Recorder) -> None:
    server = Server("slow")
    ended = anyio.Event()

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1)
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    async with wire.http_client(server) as client:
        async with anyio.create_task_group() as group:

            def stop(step: object) -> None:
                group.cancel_scope.cancel()

            async def wait_for_it() -> None:
                await client.call_tool("wait", progress=stop)

            group.start_soon(wait_for_it)
        await ended.wait()


@scenario(
    "http-listen",
    """Two listeners, each with the stream of its own request. Every event says whose it is. One leaves; then the server
    ends, and the other gets the result of its request.""",
    MODERN,
)
async def http_listen(wire: Recorder) -> None:
    server = Server("news")

    @server.prompt
    async def sum_up() -> str:
        return "Sum it up."

    async with wire.http(server) as (there, tap):

        async def listen(id: str, **wanted: Any) -> Any:
            message, headers = modern(request("subscriptions/listen", {"notifications": wanted}, id))
            response = await there.post(message, **headers)
            await response.message()
            return response

        first = await listen("first", toolsListChanged=True)
        second = await listen("second", promptsListChanged=True)
        await server.notify.tools_changed()
        await first.message()
        await server.notify.prompts_changed()
        await second.message()
        first.drop()
        await tap.until_left(1)
        wire.note("The server ends.")
        await tap.close()
        await second.message()
        assert await second.message() is None
