"""`server.gauges()` of a server over HTTP."""

import dataclasses
from typing import Any

import anyio
import pytest

from backchannel import Context, Limits, Server
from backchannel.server.gauges import Gauges
from tests.server.http.wire import FORMS, Asgi, accept, call, modern, request, text, until, wire

pytestmark = pytest.mark.anyio


class Shop(Server):
    def __init__(self, **limits: Any) -> None:
        super().__init__("shop", limits=Limits(**limits))
        self.go_on = anyio.Event()
        self.tool(self.asks)
        self.tool(self.tells)

    async def asks(self, ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).unwrap()

    async def tells(self, ctx: Context) -> str:
        await ctx.progress(1)
        await self.go_on.wait()
        return "done"


async def test_sessions_questions_and_streams() -> None:
    shop = Shop()
    async with wire(shop) as there:
        assert shop.gauges() == Gauges()
        session = await there.session(FORMS)
        other = await there.session(FORMS)
        two = Gauges(sessions=2, listeners=2)
        assert shop.gauges() == two
        get = await session.http("GET")
        assert shop.gauges() == dataclasses.replace(two, streams=1)
        asking = await session.post(call("asks"))
        question = await asking.message()
        assert shop.gauges() == dataclasses.replace(two, streams=2, calls=1, questions=1)
        await session.answer(question, accept(value="Ann"))
        assert text(await asking.message()) == "Ann"
        await until(lambda: shop.gauges() == dataclasses.replace(two, streams=1))

        await shop.notify.tools_changed()  # nobody reads the other session's standing stream
        assert (await get.message())["method"] == "notifications/tools/list_changed"
        await until(lambda: shop.gauges() == dataclasses.replace(two, streams=1, outbox=1))
        late = await other.http("GET")
        assert (await late.message())["method"] == "notifications/tools/list_changed"
        assert shop.gauges() == dataclasses.replace(two, streams=2)
        late.drop()
        await until(lambda: shop.gauges().streams == 1)
        assert (await other.http("DELETE")).status == 200
        assert shop.gauges() == Gauges(sessions=1, listeners=1, streams=1)
        assert (await session.http("DELETE")).status == 200
        await until(lambda: shop.gauges() == Gauges())


async def test_a_call_whose_client_has_left_and_comes_back() -> None:
    shop = Shop()
    async with wire(shop) as there:
        session = await there.session(FORMS)
        calling = await session.post(call("tells", token="t"))
        first = await calling.event()
        while first is not None and first.message is None:
            first = await calling.event()
        assert first is not None and first.id is not None
        calling.drop()
        await until(lambda: shop.gauges() == Gauges(sessions=1, listeners=1, calls=1))
        back = await session.http("GET", last_event_id=first.id)
        assert shop.gauges() == Gauges(sessions=1, listeners=1, calls=1, streams=1)
        shop.go_on.set()
        assert text(await back.message()) == "done"
        await until(lambda: shop.gauges() == Gauges(sessions=1, listeners=1))


async def test_calls_and_subscriptions_of_the_stateless_protocol() -> None:
    shop = Shop()
    async with wire(shop) as there:
        listening = await there.modern(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        await listening.message()
        assert shop.gauges() == Gauges(listeners=1, streams=1)
        calling = await there.modern(call("tells", token="t"))
        await calling.message()
        assert shop.gauges() == Gauges(listeners=1, streams=2, calls=1)
        calling.drop()
        listening.drop()
        await until(lambda: shop.gauges() == Gauges())
        await (await there.modern(call("asks"), FORMS)).json()
        assert shop.gauges() == Gauges()


@pytest.mark.case("B03")
async def test_what_a_client_that_takes_json_alone_does_not_get_is_counted() -> None:
    shop = Shop()
    shop.go_on.set()
    async with wire(shop) as there:
        message, headers = modern(call("tells", token="t"))
        for number in range(3):
            one = Asgi(there.app, message, {**headers, "accept": "application/json"})
            await one.done
            assert one.status == 200
            assert shop.gauges() == Gauges(dropped=number + 1)


async def test_sessions_that_expire_or_are_ended_with_the_server() -> None:
    shop = Shop(session_idle=1000.0)
    async with wire(shop) as there:
        for _ in range(3):
            await there.session(FORMS)
        await shop.notify.tools_changed()
        assert shop.gauges() == Gauges(sessions=3, listeners=3, outbox=3)
        there.app.sessions._clock = lambda: 1e12
        there.app.sessions.expire()
        assert shop.gauges() == Gauges()
        await there.session(FORMS)
        assert shop.gauges() == Gauges(sessions=1, listeners=1)
    assert shop.gauges() == Gauges()


async def test_two_apps_of_one_server() -> None:
    shop = Shop()
    async with wire(shop) as one, wire(shop) as two:
        await one.session(FORMS)
        await two.session(FORMS)
        assert shop.gauges() == Gauges(sessions=2, listeners=2)
        await one.app.close()
        assert shop.gauges() == Gauges(sessions=1, listeners=1)
