"""Legacy sessions over real sockets (2025-11-25 basic/transports, Streamable HTTP)."""

import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from backchannel import Context, Limits, Principal, Server, SessionClosed, http_app
from backchannel.protocol.jsonrpc import Notification
from tests.server.http.wire import (
    ASKS,
    FORMS,
    LEGACY,
    Event,
    Session,
    Wire,
    accept,
    call,
    notification,
    request,
    serving,
    text,
    until,
    wire,
)

pytestmark = pytest.mark.anyio
CONTENT = {"role": "assistant", "content": {"type": "text", "text": "Go!"}, "model": "m", "stopReason": "endTurn"}


class Shop:
    """A server with tools that ask and tell, and what became of them."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("shop", **options)
        self.started, self.cleaned, self.go = anyio.Event(), anyio.Event(), anyio.Event()
        self.errors: list[BaseException] = []
        tool = self.server.tool

        @tool
        async def hello(name: str = "you") -> str:
            return f"hello {name}"

        @tool
        async def ask(ctx: Context, text: str = "Who?") -> str:
            try:
                return f"hello {(await ctx.elicit(text, str)).unwrap()}"
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                self.cleaned.set()

        @tool
        async def everything(ctx: Context) -> str:
            who = (await ctx.elicit("Who?", str)).unwrap()
            slogan = await ctx.sample("A slogan")
            answers = []

            async def child() -> None:
                answers.append((await ctx.elicit("And?", str, key="and")).unwrap())

            async with anyio.create_task_group() as group:
                group.start_soon(child)
            return f"{who} {slogan.text} {answers[0]}"

        @tool
        async def tell(ctx: Context, times: int) -> str:
            for number in range(times):
                await ctx.progress(number + 1)
            await ctx.log("info", "nearly there")
            await self.go.wait()
            return "told"

        @tool
        async def sleep(ctx: Context) -> str:
            try:
                self.started.set()
                await anyio.sleep_forever()
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                self.cleaned.set()
            return "awake"

        @tool
        async def whoami(ctx: Context) -> str:
            principal = ctx.principal
            return f"{principal.subject} {sorted(principal.scopes)}" if principal else "nobody"


@pytest.mark.rule("R84", "R92")
@pytest.mark.parametrize(
    ("offered", "spoken"),
    [(LEGACY, LEGACY), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2026-07-28", LEGACY)],
)
async def test_initialize_opens_a_session(offered: str, spoken: str) -> None:
    async with wire(Shop().server) as there:
        session = await there.session(version=offered)
        assert session.version == spoken
        assert all("!" <= char <= "~" for char in session.id)
        response = await session.post(call("hello"))
        assert "mcp-session-id" not in response.headers
        message = await response.json()
        assert session.id not in json.dumps(message)
        assert text(message) == "hello you"


@pytest.mark.rule("R84")
async def test_a_client_that_reads_streams_only_can_open_a_session() -> None:
    async with wire(Shop().server) as there:
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        response = await there.post(request("initialize", params), accept="text/event-stream")
        [message] = await response.messages()
        assert message["result"]["protocolVersion"] == LEGACY
        session = Session(there, response.headers["mcp-session-id"], LEGACY, {})
        assert (await session.post(call("hello"))).status == 200


async def test_an_initialize_that_fails_opens_none() -> None:
    async with wire(Shop().server) as there:
        response = await there.post(request("initialize", {"protocolVersion": 5}))
        assert (await response.json())["error"]["code"] == -32602
        assert "mcp-session-id" not in response.headers
        assert len(there.app.sessions) == 0


@pytest.mark.rule("R99")
async def test_a_session_is_not_initialized_again() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        message = await (await session.post(request("initialize", params))).json()
        assert message["error"]["code"] == -32600
        assert text(await (await session.post(call("hello"))).json()) == "hello you"


@pytest.mark.rule("R23", "R24", "R28", "R78", "R79", "R88")
@pytest.mark.case("B02")
async def test_questions_come_on_the_calls_own_stream_and_answers_by_new_posts() -> None:
    async with wire(Shop().server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("everything", id="c"))
        assert response.streams
        ids = []
        answers = [accept(value="Ada"), CONTENT, accept(value="more")]
        methods = ["elicitation/create", "sampling/createMessage", "elicitation/create"]
        for method, result in zip(methods, answers, strict=True):
            question = await response.message()
            assert question["method"] == method
            ids.append(question["id"])
            # the call is not answered while the question is open, and others are served
            assert text(await (await session.post(call("hello", id=question["id"]))).json()) == "hello you"
            answered = await session.answer(question, result)
            assert answered.status == 202
            assert await answered.body() == b""
        last = await response.message()
        assert last["id"] == "c"
        assert text(last) == "Ada Go! more"
        assert await response.event() is None
        assert len(set(ids)) == 3


@pytest.mark.rule("R23", "R24")
async def test_a_tool_in_a_worker_thread_asks_in_the_same_way() -> None:
    server = Server("threads")

    @server.tool
    def ask(ctx: Context) -> str:
        ctx.progress(1).wait()
        return f"hello {ctx.elicit('Who?', str).wait().unwrap()}"

    async with wire(server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask", token="t"))
        assert (await response.message())["method"] == "notifications/progress"
        await session.answer(await response.message(), accept(value="Ada"))
        assert text(await response.message()) == "hello Ada"


@pytest.mark.rule("R15", "R16", "R27")
async def test_what_the_client_did_not_declare_is_not_asked() -> None:
    async with wire(Shop().server) as there:
        session = await there.session({})
        message = await (await session.post(call("ask"))).json()
        assert message["result"]["isError"] is True
        assert "'elicitation'" in text(message)


@pytest.mark.rule("R91", "R139", "R140", "R142", "R83")
@pytest.mark.case("D01")
async def test_each_calls_messages_come_on_its_own_stream() -> None:
    shop = Shop()
    async with wire(shop.server) as there:
        session = await there.session()
        listening = await session.http("GET")
        await session.post(request("logging/setLevel", {"level": "info"}))
        one = await session.post(call("tell", 1, "one", times=3))
        two = await session.post(call("tell", 2, "two", times=3))
        shop.go.set()
        for id, token, response in ((1, "one", one), (2, "two", two)):
            *told, last = await response.messages()
            assert [message["method"] for message in told] == ["notifications/progress"] * 3 + ["notifications/message"]
            assert {message["params"]["progressToken"] for message in told[:3]} == {token}
            assert last["id"] == id
        [object_] = there.app.sessions._sessions.values()
        object_.stream.append(Notification("notifications/tools/list_changed"))
        assert (await listening.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.rule("R139")
async def test_nothing_is_logged_to_the_client_before_it_has_set_a_level() -> None:
    shop = Shop()
    shop.go.set()
    async with wire(shop.server) as there:
        session = await there.session()
        response = await session.post(call("tell", times=0))
        assert not response.streams
        assert text(await response.json()) == "told"


@pytest.mark.rule("R85", "R5")
@pytest.mark.case("F05")
async def test_an_answer_from_another_session_resolves_nothing() -> None:
    async with wire(Shop().server) as there:
        mine, other = await there.session(ASKS), await there.session(ASKS)
        response = await mine.post(call("ask"))
        question = await response.message()
        assert (await other.answer(question, accept(value="Eve"))).status == 202
        theirs = await other.post(call("ask"))
        their_question = await theirs.message()
        assert their_question["id"] == question["id"], "ids are per session"
        await mine.answer(question, accept(value="Ada"))
        await other.answer(their_question, accept(value="Bob"))
        assert text(await response.message()) == "hello Ada"
        assert text(await theirs.message()) == "hello Bob"


@pytest.mark.rule("R11", "R85")
@pytest.mark.case("F05")
@pytest.mark.parametrize("mode", ["sessions", "stateless", "modern"])
async def test_ids_of_one_client_mean_nothing_to_another(mode: str) -> None:
    async with wire(Shop().server, sessions=mode == "sessions", verify=verify) as there:
        matched = 0

        async def client(name: str) -> None:
            nonlocal matched
            token = {"authorization": f"Bearer {name}"}
            session = await there.session(**token) if mode == "sessions" else None
            for id in range(1, 51):
                message = call("whoami", id)
                if session is not None:
                    response = await session.post(message)
                elif mode == "stateless":
                    response = await there.post(message, **token)
                else:
                    response = await there.modern(message, **token)
                answer = await response.json()
                assert answer["id"] == id
                assert text(answer).split()[0] == name
                matched += 1
                response.drop()

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(client, f"user{number}")
        assert matched == 1000


@pytest.mark.rule("R11")
@pytest.mark.case("F05")
async def test_an_id_in_flight_is_refused_in_its_session() -> None:
    shop = Shop()
    async with wire(shop.server) as there:
        session = await there.session(ASKS)
        first = await session.post(call("ask", id=7))
        question = await first.message()
        second = await (await session.post(call("hello", id=7))).json()
        assert second["error"]["code"] == -32600
        assert second["id"] == 7
        await session.answer(question, accept(value="Ada"))
        assert text(await first.message()) == "hello Ada"
        assert text(await (await session.post(call("hello", id=7))).json()) == "hello you"


@pytest.mark.rule("R56", "R57", "R41", "R42")
async def test_a_call_that_is_cancelled_ends_without_a_response() -> None:
    shop = Shop()
    async with wire(shop.server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask", id=7))
        question = await response.message()
        cancelled = notification("notifications/cancelled", {"requestId": 7})
        assert (await session.post(cancelled)).status == 202
        withdrawn = await response.message()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert await response.event() is None
        assert shop.cleaned.is_set()
        # the id is free, and an answer that crosses does no harm
        assert (await session.answer(question, accept(value="late"))).status == 202
        assert text(await (await session.post(call("hello", id=7))).json()) == "hello you"


@pytest.mark.rule("R57")
@pytest.mark.parametrize("accepts", ["application/json", "application/json, text/event-stream"])
async def test_a_silent_call_that_is_cancelled_ends_without_a_message(accepts: str) -> None:
    shop = Shop()
    async with wire(shop.server) as there:
        session = await there.session()
        async with anyio.create_task_group() as group:

            async def run() -> None:
                response = await session.post(call("sleep", id=7), accept=accepts)
                assert await response.messages() == []

            group.start_soon(run)
            await shop.started.wait()
            await session.post(notification("notifications/cancelled", {"requestId": 7}))


async def test_an_id_that_is_used_again_after_a_cancellation_is_a_call_of_its_own() -> None:
    server = Server("stubborn")
    stopping, go = anyio.Event(), anyio.Event()

    @server.tool
    async def linger() -> str:
        try:
            stopping.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await go.wait()
        return "never"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    async with wire(server) as there:
        session = await there.session(ASKS)
        async with anyio.create_task_group() as group:

            async def run() -> None:
                assert await (await session.post(call("linger", id=7))).messages() == []

            group.start_soon(run)
            await stopping.wait()
            await session.post(notification("notifications/cancelled", {"requestId": 7}))
            second = await session.post(call("ask", id=7))
            question = await second.message()
            go.set()
        await session.answer(question, accept(value="Ada"))
        assert text(await second.message()) == "Ada"


# The standing stream.


@pytest.mark.rule("R82", "R83", "R91")
async def test_the_standing_stream_survives_calls() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        listening = await session.http("GET")
        assert listening.status == 200
        assert listening.streams
        [object_] = there.app.sessions._sessions.values()
        for number in range(3):
            (await session.post(call("hello"))).drop()
            object_.stream.append(Notification("notifications/resources/updated", {"uri": f"note://{number}"}))
            assert (await listening.message())["params"]["uri"] == f"note://{number}"


@pytest.mark.rule("R49")
async def test_what_comes_before_the_standing_stream_waits_for_it() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        [object_] = there.app.sessions._sessions.values()
        for number in range(3):
            object_.stream.append(Notification("notifications/message", {"level": "info", "data": number}))
        listening = await session.http("GET")
        assert [(await listening.message())["params"]["data"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.rule("R86")
async def test_a_second_standing_stream_takes_over_and_each_message_comes_once() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        [object_] = there.app.sessions._sessions.values()
        old = await session.http("GET")
        await old.event()
        new = await session.http("GET")
        assert await old.event() == Event(retry=1000)
        assert await old.event() is None
        for number in range(3):
            object_.stream.append(Notification("notifications/message", {"level": "info", "data": number}))
        assert [(await new.message())["params"]["data"] for _ in range(3)] == [0, 1, 2]
        assert len(object_.readings) == 1


@pytest.mark.rule("R82")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"mcp_session_id": ""}, 400),
        ({"mcp_session_id": "unknown"}, 404),
        ({"mcp_protocol_version": "2999-01-01"}, 400),
        ({"mcp_protocol_version": "2026-07-28"}, 405),
        ({"mcp_protocol_version": ""}, 200),
    ],
)
async def test_what_a_get_needs(headers: dict[str, str], status: int) -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        assert (await session.http("GET", **headers)).status == status


@pytest.mark.case("F12")
async def test_comments_keep_the_standing_stream_alive() -> None:
    async with wire(Shop(limits=Limits(keep_alive=0.01)).server) as there:
        session = await there.session(version="2025-06-18")
        listening = await session.http("GET")
        for _ in range(3):
            event = await listening.event()
            assert event is not None and event.comment


# The end of a session.


@pytest.mark.rule("R87")
async def test_a_session_that_was_deleted_is_unknown() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        listening = await session.http("GET")
        assert (await session.http("DELETE")).status == 200
        while await listening.event() is not None:
            pass
        for response in (
            await session.post(call("hello")),
            await session.post(notification("notifications/initialized")),
            await session.http("GET"),
            await session.http("DELETE"),
        ):
            assert response.status == 404
        assert len(there.app.sessions) == 0


@pytest.mark.rule("R51", "R87")
@pytest.mark.case("F13")
async def test_deleting_a_session_ends_its_calls_and_questions() -> None:
    shop = Shop()
    async with wire(shop.server) as there:
        session, other = await there.session(ASKS), await there.session(ASKS)
        asking = await session.post(call("ask", 1))
        await asking.message()
        async with anyio.create_task_group() as group:

            async def run() -> None:
                assert await (await session.post(call("sleep", 2))).messages() == []

            group.start_soon(run)
            await shop.started.wait()
            theirs = await other.post(call("ask", 1))
            question = await theirs.message()
            assert (await session.http("DELETE")).status == 200
        while await asking.event() is not None:
            pass
        assert {type(error).__name__ for error in shop.errors} <= {"SessionClosed", "CancelledError"}
        assert any(isinstance(error, SessionClosed) for error in shop.errors)
        assert (await session.post(call("hello"))).status == 404
        await other.answer(question, accept(value="Ada"))
        assert text(await theirs.message()) == "hello Ada"


@pytest.mark.rule("R84", "R87", "R160")
async def test_a_session_id_that_is_unknown_or_missing() -> None:
    async with wire(Shop().server) as there:
        for message in (call("hello", id=5), notification("notifications/initialized"), {"id": 1, "result": {}}):
            message = {"jsonrpc": "2.0", **message}
            unknown = await there.post(message, mcp_session_id="nobody", mcp_protocol_version=LEGACY)
            assert unknown.status == 404
            missing = await there.post(message, mcp_protocol_version=LEGACY)
            assert missing.status == 400
            id = message["id"] if "method" in message and "id" in message else None
            for response in (unknown, missing):
                body = await response.json()
                assert body["error"]["code"] == -32600
                assert body.get("id") == id
        assert there.app.sessions is not None and len(there.app.sessions) == 0


async def verify(token: str) -> Principal | None:
    """`name:scope` is a valid token."""
    name, _, scope = token.partition(":")
    return Principal(name, scopes=frozenset({scope} if scope else ())) if name != "invalid" else None


ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "bearer bob"}


@pytest.mark.case("F06")
@pytest.mark.rule("R85")
async def test_a_session_of_somebody_else_is_like_an_unknown_one() -> None:
    shop = Shop()
    async with wire(shop.server, verify=verify) as there:
        session = await there.session(ASKS, **ALICE)
        response = await session.post(call("ask"))
        question = await response.message()
        attempts: list[Callable[[Session], Awaitable[Any]]] = [
            lambda it: it.post(call("hello", id="h")),
            lambda it: it.answer(question, accept(value="Eve")),
            lambda it: it.post(notification("notifications/cancelled", {"requestId": 1})),
            lambda it: it.http("GET"),
            lambda it: it.http("GET", last_event_id="1-0"),
            lambda it: it.http("DELETE"),
        ]
        for attempt in attempts:
            stolen = await attempt(Session(there, session.id, LEGACY, BOB))
            unknown = await attempt(Session(there, "unknown", LEGACY, BOB))
            assert stolen.status == unknown.status == 404
            assert await stolen.body() == await unknown.body()
            for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Basic YTpi"}):
                nobody = await attempt(Session(there, session.id, LEGACY, headers))
                assert nobody.status == 401
                assert nobody.headers["www-authenticate"].startswith("Bearer")
            invalid = await attempt(Session(there, session.id, LEGACY, {"authorization": "Bearer invalid"}))
            assert invalid.status == 401
        await session.answer(question, accept(value="Ada"))
        assert text(await response.message()) == "hello Ada"


@pytest.mark.case("E08")
async def test_a_handler_sees_who_sent_this_request() -> None:
    async with wire(Shop().server, verify=verify) as there:
        session = await there.session(authorization="Bearer alice:read")
        assert text(await (await session.post(call("whoami"))).json()) == "alice ['read']"
        response = await session.post(call("whoami"), authorization="Bearer alice:write")
        assert text(await response.json()) == "alice ['write']"


USER: ContextVar[str] = ContextVar("user", default="unset")


@pytest.mark.case("E08")
async def test_each_handler_sees_the_context_of_its_own_request() -> None:
    server = Server("who")
    here, both = [0], anyio.Event()
    kept: list[str] = []

    @server.tool
    async def whoami() -> str:
        return USER.get()

    @server.tool
    def whoami_in_a_thread() -> str:
        return USER.get()

    @server.tool
    async def meet() -> str:
        here[0] += 1
        if here[0] == 2:
            both.set()
        await both.wait()
        return USER.get()

    @server.tool
    async def steps(ctx: Context) -> str:
        async def work() -> str:
            kept.append(USER.get())
            return USER.get()

        result: str = await ctx.step("work", work)
        return result

    app = http_app(server)

    async def middleware(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            user = dict(scope["headers"]).get(b"x-user")
            if user is not None:
                USER.set(user.decode())
        await app(scope, receive, send)

    with anyio.fail_after(30):
        async with serving(middleware, lifespan="off") as port:
            there = Wire(port)
            session = await there.session(x_user="first")
            session.headers.clear()
            for tool in ("whoami", "whoami_in_a_thread", "steps"):
                for user in ("u1", "u2", "u1", ""):
                    message = await (await session.post(call(tool), x_user=user)).json()
                    assert text(message) == (user or "unset")
            async with anyio.create_task_group() as group:

                async def one(id: int, user: str) -> None:
                    message = await (await session.post(call("meet", id), x_user=user)).json()
                    assert text(message) == user

                group.start_soon(one, 1, "u1")
                group.start_soon(one, 2, "u2")
            await there.close()
            await app.close()


@pytest.mark.parametrize("use", ["call", "stream"])
async def test_a_session_is_idle_from_the_end_of_its_last_use(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(limits=Limits(session_idle=60))
    now = 1000.0
    async with wire(shop.server) as there:
        session = await there.session(FORMS)
        monkeypatch.setattr(there.app.sessions, "_clock", lambda: now)
        [object_] = there.app.sessions._sessions.values()
        if use == "call":
            response = await session.post(call("tell", token="t", times=1))
            await response.message()
            now += 1000
            shop.go.set()
            assert text(await response.message()) == "told"
        else:
            response = await session.http("GET")
            await response.event()
            now += 1000
            response.drop()
        await until(lambda: not object_.busy)
        now += 50
        assert (await session.post(call("hello"))).status == 200


# Versions.


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("version", "status"),
    [("", 200), (LEGACY, 200), ("2025-06-18", 200), ("2999-01-01", 400), ("nonsense", 400)],
)
async def test_the_version_header_in_a_session(version: str, status: int) -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        response = await session.post(call("hello"), mcp_protocol_version=version)
        assert response.status == status
        heard = await session.post(notification("notifications/whatever"), mcp_protocol_version=version)
        assert heard.status == (202 if status == 200 else 400)
        deleted = await session.http("DELETE", mcp_protocol_version=version)
        assert deleted.status == status


@pytest.mark.rule("R160")
async def test_a_modern_envelope_wins_over_a_session_id() -> None:
    async with wire(Shop().server) as there:
        session = await there.session()
        response = await there.modern(call("hello"), mcp_session_id=session.id)
        assert (await response.json())["result"]["resultType"] == "complete"


# Asking when it cannot be done.


@pytest.mark.rule("R18")
@pytest.mark.case("B03")
async def test_a_question_to_a_client_that_reads_no_streams_fails_at_once(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    shop.go.set()
    async with wire(shop.server) as there:
        session = await there.session(FORMS)
        await session.post(request("logging/setLevel", {"level": "info"}))
        message = await (await session.post(call("ask"), accept="application/json")).json()
        assert message["result"]["isError"] is True
        assert "needs a stream (SSE)" in text(message)
        [object_] = there.app.sessions._sessions.values()
        assert object_.peer.pending == 0
        with caplog.at_level("INFO", "backchannel.http"):
            response = await session.post(call("tell", 9, "t", times=3), accept="application/json")
            message = await response.json()
        assert message["id"] == 9
        assert text(message) == "told"
        assert ["4 messages" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.rule("R18", "R88")
@pytest.mark.case("A17", "B01")
async def test_without_sessions_questions_fail_at_once_with_a_hint() -> None:
    server = Server("shop")

    @server.tool
    async def ask(ctx: Context, kind: str) -> str:
        if kind == "elicit":
            await ctx.elicit("Who?", str)
        elif kind == "sample":
            await ctx.sample("A slogan")
        else:
            await ctx.roots()
        return "asked"

    params = {"protocolVersion": LEGACY, "capabilities": ASKS, "clientInfo": {"name": "x", "version": "1"}}
    async with wire(server, sessions=False) as there:
        for extra in ({}, {"mcp_session_id": "from-another-time"}):
            response = await there.post(request("initialize", params), **extra)
            assert response.status == 200
            assert "mcp-session-id" not in response.headers
            assert (await response.json())["result"]["protocolVersion"] == LEGACY
        assert (await there.post(notification("notifications/initialized"))).status == 202
        assert (await there.post({"jsonrpc": "2.0", "id": 1, "result": {}})).status == 202
        for kind in ("elicit", "sample", "roots"):
            message = await (await there.post(call("ask", kind=kind), mcp_protocol_version=LEGACY)).json()
            assert message["result"]["isError"] is True
            assert "sessions=True" in text(message)
        assert (await there.post(request("ping"))).status == 200
        for method in ("GET", "DELETE"):
            refused = await there.http(method, {"accept": "text/event-stream", "mcp-session-id": "x"})
            assert refused.status == 405
            assert refused.headers["allow"] == "POST"
    async with wire(server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask", kind="elicit"))
        await session.answer(await response.message(), accept(value="Ada"))
        assert text(await response.message()) == "asked"


@pytest.mark.rule("R52")
@pytest.mark.case("C03")
async def test_without_sessions_a_client_that_leaves_cancels_its_call() -> None:
    shop = Shop()
    async with wire(shop.server, sessions=False) as there:
        connection = await there.connect()
        body = json.dumps(call("sleep")).encode()
        await connection.send("POST", "/mcp", {"content-type": "application/json"}, body)
        await shop.started.wait()
        connection.drop()
        await shop.cleaned.wait()


@pytest.mark.rule("R96")
@pytest.mark.case("F09")
async def test_a_call_before_initialized_is_served_and_its_question_waits_for_it() -> None:
    async with wire(Shop().server) as there:
        params = {"protocolVersion": LEGACY, "capabilities": ASKS, "clientInfo": {"name": "x", "version": "1"}}
        response = await there.post(request("initialize", params))
        session = Session(there, response.headers["mcp-session-id"], LEGACY, {})
        assert text(await (await session.post(call("hello"))).json()) == "hello you"
        async with anyio.create_task_group() as group:

            async def run() -> None:
                asking = await session.post(call("ask"))
                await session.answer(await asking.message(), accept(value="Ada"))
                assert text(await asking.message()) == "hello Ada"

            group.start_soon(run)
            [object_] = there.app.sessions._sessions.values()
            await until(lambda: object_.peer.pending == 1)
            assert (await session.post(notification("notifications/initialized"))).status == 202


@pytest.mark.case("F09")
async def test_a_request_without_initialize_is_one_error_and_the_connection_is_usable() -> None:
    async with wire(Shop().server) as there:
        response = await there.post(request("tools/list", id="early"))
        assert response.status == 400
        assert (await response.json())["id"] == "early"
        session = await there.session()
        assert text(await (await session.post(call("hello"))).json()) == "hello you"


# Bad input, and too much of it.


@pytest.mark.case("J05")
@pytest.mark.rule("R126")
async def test_bad_input_is_answered_with_its_code_and_the_session_goes_on() -> None:
    cases: list[tuple[Any, int, int | None, Any]] = [
        (b"{", 400, -32700, None),
        (b"[]", 400, -32600, None),
        ({"jsonrpc": "2.0"}, 400, -32600, None),
        (request("no/such", id="u"), 200, -32601, "u"),
        (notification("no/such"), 202, None, None),
        ({**request("tools/list"), "id": None}, 400, -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', 400, -32600, None),
        ({**request("tools/list", id=4), "params": [1]}, 400, -32602, 4),
        (request("tools/call", {"arguments": {}}, id=5), 200, -32602, 5),
        (call("nobody", id=6), 200, -32602, 6),
        ({"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}, 400, -32600, None),
    ]
    async with wire(Shop().server) as there:
        session = await there.session()
        for message, status, code, id in cases:
            response = await session.post(message)
            assert response.status == status, message
            body = await response.json()
            if code is None:
                assert body is None
            else:
                assert body["error"]["code"] == code, message
                assert body.get("id") == id, message
            assert text(await (await session.post(call("hello"))).json()) == "hello you"
            if id is not None:  # it is not in use any more
                assert await (await session.post(message)).json() == body


@pytest.mark.rule("R21", "R170")
async def test_an_answer_that_cannot_be_read_fails_the_question() -> None:
    async with wire(Shop().server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask"))
        question = await response.message()
        bad = await session.post({"jsonrpc": "2.0", "id": question["id"], "result": {}, "error": {}})
        assert bad.status == 400
        assert "id" not in await bad.json(), "it is an id of the server's, which the client may use as well"
        message = await response.message()
        assert message["id"] == 1
        assert "error" in message or message["result"]["isError"] is True


@pytest.mark.rule("R166")
async def test_ping_is_answered_while_a_call_runs() -> None:
    async with wire(Shop().server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask", id=1))
        question = await response.message()
        assert await (await session.post(request("ping", id=3))).json() == {"jsonrpc": "2.0", "id": 3, "result": {}}
        streamed = await session.post(request("ping", id=2), accept="text/event-stream")
        assert (await streamed.messages())[0]["result"] == {}
        await session.answer(question, accept(value="Ada"))
        assert text(await response.message()) == "hello Ada"


async def test_too_many_calls_in_a_session_are_refused() -> None:
    async with wire(Shop(limits=Limits(in_flight=1)).server) as there:
        session, other = await there.session(ASKS), await there.session(ASKS)
        response = await session.post(call("ask", id=1))
        question = await response.message()
        refused = await session.post(call("hello", id=2))
        assert refused.status == 429
        assert (await refused.json())["id"] == 2
        assert (await other.post(call("hello", id=2))).status == 200
        await session.answer(question, accept(value="Ada"))
        assert text(await response.message()) == "hello Ada"
        assert (await session.post(call("hello", id=2))).status == 200


async def test_too_many_sessions_are_refused_while_all_are_in_use() -> None:
    async with wire(Shop(limits=Limits(sessions=1)).server) as there:
        first = await there.session()
        second = await there.session()
        assert (await first.post(call("hello"))).status == 404, "it was idle, and made room"
        listening = await second.http("GET")
        await listening.event()
        response = await there.post(request("initialize", {"protocolVersion": LEGACY, "capabilities": {}}))
        assert response.status == 503


async def test_a_question_that_json_cannot_carry_fails_and_does_not_hang() -> None:
    async with wire(Shop().server) as there:
        session = await there.session(ASKS)
        response = await session.post(call("ask", text="\ud83d"))
        message = (await response.messages())[-1]
        assert message["id"] == 1
        assert "error" in message or message["result"]["isError"] is True
