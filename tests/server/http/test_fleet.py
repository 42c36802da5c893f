"""Replicas of a server share their sessions: each request of a client comes to another one."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import BearerAuth, Context, Limits, Server
from backchannel.server.exchange import Principal
from tests.server.http.replicas import Replicas, in_memory, in_the_network, replicas
from tests.server.http.wire import FORMS, accept, call, notification, request, text, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.parametrize("share", [in_memory, in_the_network]),
]


class Shops:
    """Makes servers that are alike, and knows what their handlers do."""

    def __init__(self, **options: Any):
        self.options = options
        self.go, self.ended = anyio.Event(), anyio.Event()
        self.errors: list[str] = []
        self.detached: list[Context] = []

    def __call__(self) -> Server:
        server = Server("shop", **self.options)

        @server.tool
        async def ask(ctx: Context) -> str:
            return (await ctx.elicit("Who?", str)).unwrap()

        @server.tool
        async def count(ctx: Context, to: int) -> str:
            await ctx.progress(1)
            await self.go.wait()
            for number in range(2, to + 1):
                await ctx.progress(number)
            self.ended.set()
            return "counted"

        @server.tool
        async def hang(ctx: Context) -> str:
            try:
                await ctx.progress(1)
                await ctx.elicit("Who?", str)
            except BaseException as error:
                self.errors.append(type(error).__name__)
                raise
            finally:
                self.ended.set()
            return "answered"

        @server.tool
        async def log(ctx: Context) -> str:
            await ctx.log("info", "told")
            return "logged"

        @server.tool
        async def detach(ctx: Context) -> str:
            self.detached.append(ctx.detach())
            return "detached"

        @server.tool
        async def free(ctx: Context) -> str:
            await ctx.disconnect(retry=0.01)
            await self.go.wait()
            await ctx.progress(1)
            return "freed"

        @server.tool
        async def where(ctx: Context) -> str:
            return str([root.uri for root in await ctx.roots()])

        @server.resource("note://{id}")
        def note(id: str) -> str:
            return id

        return server


def owners(there: Replicas, id: str) -> list[int]:
    """Which replicas serve a request of the session."""
    return [number for number, place in enumerate(there.places(id)) if place is not None and place.peer.serving]


@pytest.mark.rule("R84", "R24", "R23", "R85")
async def test_a_question_is_answered_at_another_replica(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session(FORMS)
        for id in range(1, 7):
            response = await session.post(call("ask", id=id))
            question = await response.message()
            assert question["method"] == "elicitation/create"
            assert (await session.answer(question, accept(value=f"Ada {id}"))).status == 202
            assert text(await response.message()) == f"Ada {id}"
            assert await response.message() is None
        assert [place is not None for place in there.places(session.id)] == [True] * 3


@pytest.mark.rule("R2", "R5")
async def test_questions_of_different_replicas_have_different_ids(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session(FORMS)
        asking = [await session.post(call("ask", id=id)) for id in range(6)]
        questions = [await response.message() for response in asking]
        assert len({question["id"] for question in questions}) == 6
        for number, question in enumerate(questions):
            await session.answer(question, accept(value=str(number)))
        assert [text(await response.message()) for response in asking] == [*"012345"]


@pytest.mark.rule("R56", "R57", "R41", "R42")
async def test_a_call_is_cancelled_at_another_replica(share: Any) -> None:
    shops = Shops()
    async with replicas(shops, share()) as there:
        session = await there.session(FORMS)
        response = await session.post(call("hang", id="h", token="t"))
        progress, question = [await response.message() for _ in range(2)]
        assert progress["params"]["progress"] == 1
        [running] = owners(there, session.id)
        there.at(running + 1)
        assert (await session.post(notification("notifications/cancelled", {"requestId": "h"}))).status == 202
        withdrawn = await response.message()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert await response.message() is None
        assert shops.errors == ["CancelledError"]


@pytest.mark.rule("R82", "R86", "R135", "R137")
async def test_what_one_replica_tells_is_heard_at_another(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session, other = await there.session(), await there.session()
        listening = [await one.http("GET") for one in (session, other)]
        for stream in listening:
            await stream.event()
        for server in there.servers:
            await server.notify.tools_changed()
            for stream in listening:
                assert (await stream.message())["method"] == "notifications/tools/list_changed"
        await there.servers[1].notify.prompts_changed()
        await there.servers[1].notify.resources_changed()
        for stream in listening:
            assert (await stream.message())["method"] == "notifications/resources/list_changed"


@pytest.mark.rule("R138")
@pytest.mark.case("E04")
async def test_subscribing_at_one_replica_counts_at_all(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session, other = await there.session(), await there.session()
        streams = [await one.http("GET") for one in (session, other)]
        for stream in streams:
            await stream.event()
        for id, uri in enumerate(("note://1", "note://2", "note://3")):
            assert "result" in await (await session.post(request("resources/subscribe", {"uri": uri}, id))).json()
        assert "result" in await (await session.post(request("resources/unsubscribe", {"uri": "note://2"}, 9))).json()
        await until(lambda: all(place.subscribed == {"note://1", "note://3"} for place in there.places(session.id)))  # type: ignore[union-attr]
        for server in there.servers:
            for uri in ("note://1", "note://2", "note://3"):
                await server.notify.resource_updated(uri)
            assert [(await streams[0].message())["params"]["uri"] for _ in range(2)] == ["note://1", "note://3"]
        await there.servers[0].notify.tools_changed()
        assert (await streams[1].message())["method"] == "notifications/tools/list_changed", "and nothing before"


@pytest.mark.rule("R139")
async def test_the_log_level_counts_at_all(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session()
        for id in range(3):
            assert len(await (await session.post(call("log", id=id))).messages()) == 1
        await session.post(request("logging/setLevel", {"level": "info"}, 3))
        await until(lambda: all(place.log_level == "info" for place in there.places(session.id)))  # type: ignore[union-attr]
        for id in range(3):
            told, result = await (await session.post(call("log", id=id))).messages()
            assert told["params"]["data"] == "told" and text(result) == "logged"


@pytest.mark.rule("R44", "R49")
async def test_work_that_outlives_its_call_asks_where_the_client_listens(share: Any) -> None:
    shops = Shops()
    async with replicas(shops, share()) as there:
        session = await there.session(FORMS)
        for id in range(3):
            assert text(await (await session.post(call("detach", id=id))).json()) == "detached"
        listening = await session.http("GET")
        for number, ctx in enumerate(shops.detached):
            question = ctx.elicit(f"{number}?", str)
            asked = await listening.message()
            assert asked["params"]["message"] == f"{number}?"
            assert (await session.answer(asked, accept(value="yes"))).status == 202
            assert (await question).unwrap() == "yes"


async def test_each_replica_knows_the_roots_and_when_they_change(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session({"roots": {"listChanged": True}})
        roots, asked = [{"uri": "file:///old"}], 0
        listening = await session.http("GET")

        async def answer() -> None:
            nonlocal asked
            while (question := await listening.message()) is not None:
                assert question["method"] == "roots/list"
                asked += 1
                assert (await session.answer(question, {"roots": roots})).status == 202

        async def all_know(uri: str) -> None:
            for id in range(3):
                there.at(id)
                assert text(await (await session.post(call("where", id=id))).json()) == f"['{uri}']"

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await all_know("file:///old")
            roots = [{"uri": "file:///new"}]
            assert (await session.post(notification("notifications/roots/list_changed"))).status == 202
            await until(lambda: asked == 6)
            await all_know("file:///new")
            group.cancel_scope.cancel()
        assert asked == 6


@pytest.mark.rule("R52", "R81", "R90")
@pytest.mark.case("C03")
async def test_a_stream_that_broke_is_read_on_at_another_replica(share: Any) -> None:
    shops = Shops()
    async with replicas(shops, share()) as there:
        session = await there.session()
        response = await session.post(call("count", id="c", token="t", to=50))
        first = await response.event()
        assert first is not None and first.message is None
        event = await response.event()
        assert event is not None and event.message["params"]["progress"] == 1
        [running] = owners(there, session.id)
        response.drop()
        seen, ids, last = [], [event.id], event.id
        there.at(running + 1)
        resumed = await session.http("GET", last_event_id=last)
        shops.go.set()
        while (event := await resumed.event()) is not None:
            assert event.message is not None
            ids.append(event.id)
            seen.append(event.message)
            if len(seen) == 20:
                resumed.drop()
                resumed = await session.http("GET", last_event_id=event.id)
        assert [message["params"]["progress"] for message in seen[:-1]] == [*range(2, 51)]
        assert seen[-1]["id"] == "c" and text(seen[-1]) == "counted"
        assert len(set(ids)) == len(ids)


@pytest.mark.rule("R52", "R90")
async def test_a_call_that_frees_its_connection_goes_on_at_another_replica(share: Any) -> None:
    shops = Shops()
    async with replicas(shops, share()) as there:
        session = await there.session()
        response = await session.post(call("free", token="t"))
        prime, retry = await response.event(), await response.event()
        assert prime is not None and retry is not None and retry.retry == 10
        assert await response.event() is None
        resumed = await session.http("GET", last_event_id=str(prime.id))
        shops.go.set()
        progress, result = await resumed.messages()
        assert progress["params"]["progress"] == 1 and text(result) == "freed"


@pytest.mark.rule("R86", "R81", "R90")
async def test_the_standing_stream_moves_to_another_replica(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session()
        seen = []
        old = await session.http("GET")
        for number in range(6):
            assert await there.servers[0].notify.tools_changed() in (0, 1)
            seen.append(event := await _next(old))
            new = await session.http("GET", **({"last_event_id": str(event.id)} if number % 2 else {}))
            while await old.event() is not None:
                pass
            old = new
        assert [event.message["method"] for event in seen] == ["notifications/tools/list_changed"] * 6
        assert len({event.id for event in seen}) == 6


async def _next(response: Any) -> Any:
    while (event := await response.event()).message is None:
        pass
    return event


@pytest.mark.rule("R51", "R87", "R48")
@pytest.mark.case("F13")
async def test_deleting_at_another_replica_ends_calls(share: Any) -> None:
    shops = Shops()
    async with replicas(shops, share()) as there:
        session = await there.session(FORMS)
        response = await session.post(call("hang", id="h", token="t"))
        await response.message()
        [running] = owners(there, session.id)
        there.at(running + 1)
        assert (await session.http("DELETE")).status == 200
        await shops.ended.wait()
        assert len(shops.errors) == 1
        await until(lambda: there.places(session.id) == [None] * 3)
        for _ in range(3):
            assert (await session.post(call("log"))).status == 404


@pytest.mark.rule("R85", "R87")
@pytest.mark.case("F06")
async def test_a_session_of_somebody_else_is_unknown_at_every_replica(share: Any) -> None:
    async def verify(token: str) -> Principal | None:
        return Principal(token)

    async with replicas(Shops(), share()) as there:
        for app in there.apps:
            app.auth = BearerAuth(verify=verify)
        session = await there.session(authorization="Bearer ada")
        before = there.places(session.id)
        for _ in range(3):
            response = await session.post(call("log"), authorization="Bearer bob")
            unknown = await session.post(call("log"), mcp_session_id="unknown")
            assert (response.status, await response.body()) == (unknown.status, await unknown.body())
            assert response.status == 404
        assert there.places(session.id) == before
        for _ in range(3):
            assert (await session.post(call("log"))).status == 200


@pytest.mark.rule("R51")
@pytest.mark.case("C08", "F01")
async def test_a_session_that_nobody_used_is_over_everywhere(share: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    fleet = share()
    async with replicas(Shops(limits=Limits(session_idle=60)), fleet) as there:
        for app in there.apps:
            await app.open()
            monkeypatch.setattr(app.sessions, "_clock", lambda: now)
        records = fleet().sessions
        monkeypatch.setattr(getattr(records, "far", records), "_clock", lambda: now)
        session = await there.session()
        for _ in range(6):
            now += 25
            assert (await session.post(call("log"))).status == 200
        now += 71
        for _ in range(3):
            assert (await session.post(call("log"))).status == 404
        for app in there.apps:
            await app.sessions.tend()
        assert there.places(session.id) == [None] * 3


@pytest.mark.case("C08")
async def test_a_call_that_runs_long_keeps_its_session(share: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now, shops = 1000.0, Shops(limits=Limits(session_idle=60))
    fleet = share()
    async with replicas(shops, fleet) as there:
        for app in there.apps:
            await app.open()
            monkeypatch.setattr(app.sessions, "_clock", lambda: now)
        records = fleet().sessions
        monkeypatch.setattr(getattr(records, "far", records), "_clock", lambda: now)
        session = await there.session()
        response = await session.post(call("count", token="t", to=1))
        await response.message()
        for _ in range(20):
            now += 15
            for app in there.apps:
                await app.sessions.tend()
        assert [place is not None for place in there.places(session.id)].count(True) == 1
        shops.go.set()
        assert text(await response.message()) == "counted"
        for _ in range(3):
            assert (await session.post(call("log"))).status == 200


async def test_a_replica_that_stops_leaves_its_sessions_to_the_others(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session(FORMS)
        there.at(0)
        listening = await session.http("GET")
        await listening.event()
        for app in there.apps[:2]:
            await app.close()
        while await listening.event() is not None:
            pass
        there.ports = there.ports[2:]
        response = await session.post(call("ask", id="a"))
        await session.answer(await response.message(), accept(value="Ada"))
        assert text(await response.message()) == "Ada"
        listening = await session.http("GET")
        await there.servers[2].notify.tools_changed()
        assert (await listening.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.case("F01")
async def test_an_end_leaves_nothing(share: Any) -> None:
    fleet = share()
    async with replicas(Shops(), fleet) as there:
        session = await there.session(FORMS)
        for id in range(3):
            response = await session.post(call("ask", id=id))
            await session.answer(await response.message(), accept(value="Ada"))
            await response.messages()
        listening = await session.http("GET")
        assert (await session.http("DELETE")).status == 200
        while await listening.event() is not None:
            pass
        await until(lambda: there.places(session.id) == [None] * 3)
        assert all(len(server.notify) == 0 for server in there.servers)
        assert all(app.sessions._hearing == {} for app in there.apps)
        part = fleet()
        assert not getattr(part.events, "_sessions", None)
        bus = getattr(part.bus, "_bus", part.bus)
        assert set(bus._topics) == {"changes/shop"}
        assert len(getattr(part.sessions, "far", part.sessions)) == 0
    assert bus._topics == {}
    assert all(server.notify.elsewhere == [] for server in there.servers)


async def test_many_requests_that_come_at_once_make_one_place(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session()
        found: list[str] = []

        async def one(id: int) -> None:
            there.at(2)
            found.append(text(await (await session.post(call("log", id=id))).json()))

        async with anyio.create_task_group() as group:
            for id in range(10):
                group.start_soon(one, id)
        assert found == ["logged"] * 10
        assert len(there.servers[2].notify) == 1


async def test_one_place_speaks_whoever_asked_last(share: Any) -> None:
    async with replicas(Shops(), share()) as there:
        session = await there.session()
        for _ in range(2):
            streams = []

            async def listen(number: int, streams: list[Any] = streams) -> None:
                there.at(number)
                streams.append(await session.http("GET"))

            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(listen, number)
            await until(lambda: sum(place.speaks for place in there.places(session.id)) == 1)  # type: ignore[union-attr]
        listening = await session.http("GET")
        for server in there.servers:
            await server.notify.tools_changed()
            assert (await listening.message())["method"] == "notifications/tools/list_changed"


async def test_a_replica_makes_room_by_giving_up_what_is_idle_there(share: Any) -> None:
    async with replicas(Shops(limits=Limits(sessions=2)), share()) as there:
        sessions = [await there.session() for _ in range(3)]
        for _ in range(3):
            for id, session in enumerate(sessions):
                assert (await session.post(call("log", id=id))).status == 200
        assert all(len(app.sessions) <= 2 for app in there.apps)
