"""Authorization over HTTP: an app that is protected, on both eras, in batches, mounted, behind a proxy."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from backchannel import (
    Client,
    ConfigurationError,
    Context,
    Elicit,
    InputRequired,
    MemoryStateStore,
    Principal,
    RequestState,
    Server,
    http_app,
)
from backchannel.server.auth.bearer import BearerAuth
from tests.server.auth.issuing import ISSUER, AuthorizationServer
from tests.server.http.wire import (
    ASKS,
    LEGACY,
    Asgi,
    Response,
    Session,
    Wire,
    accept,
    call,
    notification,
    request,
    serving,
    text,
    wire,
)

pytestmark = pytest.mark.anyio
KNOWN = "/.well-known/oauth-protected-resource"
RESOURCE = "http://localhost/mcp"
WHERE = f'resource_metadata="http://localhost{KNOWN}/mcp"'


class Shop:
    """A server with tools of several scopes, which count how often they ran, and what gives tokens for it."""

    def __init__(self) -> None:
        self.server = server = Server("shop")
        self.there = AuthorizationServer()
        self.ran: list[str] = []
        self.seen: list[Principal | None] = []

        @server.tool
        async def browse(ctx: Context) -> str:
            self.ran.append("browse")
            self.seen.append(ctx.principal)
            return "tea"

        @server.tool(scopes=["buy"])
        async def buy() -> str:
            self.ran.append("buy")
            return "bought"

        @server.tool(scopes=["refund", "audit"])
        async def refund() -> str:
            self.ran.append("refund")
            return "refunded"

        @server.tool(scopes=["secret"], visible=lambda principal: principal is not None and principal.subject == "root")
        async def hidden() -> str:
            return "hidden"

        @server.tool
        async def ask(ctx: Context) -> str:
            return f"hello {(await ctx.elicit('Your name?', str)).unwrap()}"

    def auth(self, **options: Any) -> BearerAuth:
        return self.there.auth(**{"resource": None, "audience": RESOURCE, "scopes": ["read"], **options})

    def header(self, scope: str = "read", **claims: Any) -> str:
        return f"Bearer {self.there.token(**{'aud': RESOURCE, 'scope': scope, **claims})}"


def challenge(response: Response) -> str:
    return response.headers["www-authenticate"]


# The metadata.


async def test_the_metadata_is_for_anybody_and_for_scripts_of_any_page() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        for path in (f"{KNOWN}/mcp", KNOWN):
            there.path = path
            response = await there.http("GET", {"origin": "https://anywhere.test"})
            assert (response.status, response.headers["content-type"]) == (200, "application/json")
            assert response.headers["access-control-allow-origin"] == "*"
            document = await response.json()
            assert document["resource"] == RESOURCE and document["authorization_servers"] == [ISSUER]
            head = await there.http("HEAD", {})
            assert (head.status, head.headers["content-length"]) == (200, response.headers["content-length"])
        preflight = await there.http("OPTIONS", {"origin": "https://x.test", "access-control-request-method": "GET"})
        assert preflight.status == 204 and preflight.headers["access-control-allow-headers"] == "*"
        assert (await there.http("POST", {})).status == 405
        there.path = f"{KNOWN}/other"
        assert (await there.http("GET", {})).status == 404


async def test_without_auth_there_is_none() -> None:
    async with wire(Server("shop")) as there:
        there.path = KNOWN
        assert (await there.http("GET", {})).status == 404


async def test_the_challenge_of_a_mounted_app_leads_to_its_metadata() -> None:
    shop = Shop()
    app = http_app(shop.server, auth=shop.auth())
    site = Starlette(routes=[Mount("/api", app=app), Mount(KNOWN, app=app)], lifespan=lambda site: app.running())
    async with serving(site) as port:
        there = Wire(port, path="/api/mcp")
        response = await there.modern(request("tools/list"))
        assert response.status == 401
        url = challenge(response).partition('resource_metadata="')[2].partition('"')[0]
        assert url == f"http://localhost/api{KNOWN}/mcp"
        for path in (url.removeprefix("http://localhost"), f"{KNOWN}/api/mcp"):
            there.path = path
            assert (await (await there.http("GET", {})).json())["resource"] == "http://localhost/api/mcp"
        await there.close()


@pytest.mark.case("I05")
async def test_behind_a_proxy_the_url_that_is_given_counts_and_a_wrong_host_comes_first() -> None:
    shop = Shop()
    auth = shop.auth(resource="https://mcp.example.test/mcp", audience=None)
    async with wire(shop.server, auth=auth, allowed_hosts=["inner", "mcp.example.test"]) as there:
        header = shop.header(aud="https://mcp.example.test/mcp")
        for host in ("inner:8000", "mcp.example.test"):
            response = await there.modern(request("tools/list"), host=host)
            assert f'resource_metadata="https://mcp.example.test{KNOWN}/mcp"' in challenge(response)
            assert (await there.modern(call("browse"), host=host, authorization=header)).status == 200
        refused = await there.modern(request("tools/list"), host="evil.test", authorization=header)
        assert refused.status == 421 and "www-authenticate" not in refused.headers


# Who gets in.


async def test_every_request_needs_a_token_before_anything_is_read() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        for response in (
            await there.modern(call("browse")),
            await there.post(b"{", authorization="Bearer x.y.z"),
            await there.http("GET", {"accept": "text/event-stream"}),
            await there.http("DELETE", {"mcp-session-id": "x"}),
            await there.modern(call("browse"), authorization=shop.header(exp=1)),
            await there.modern(call("browse"), authorization=shop.header(aud="https://other.test")),
        ):
            assert (response.status, await response.body()) == (401, b"")
            assert challenge(response).startswith("Bearer ") and WHERE in challenge(response)
        there.path = f"/mcp?access_token={shop.header().removeprefix('Bearer ')}"
        assert (await there.modern(call("browse"))).status == 401
    assert shop.ran == []


async def test_a_handler_knows_who_calls_and_not_with_what() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        header = shop.header("read more", sub="eve", tenant="t1")
        assert text(await (await there.modern(call("browse"), authorization=header)).json()) == "tea"
    [principal] = shop.seen
    assert principal == Principal("eve", ISSUER, "app", frozenset({"read", "more"}))
    assert principal is not None and principal.claims["tenant"] == "t1"
    assert header.split(".")[2] not in repr(principal)


async def test_two_headers_are_a_bad_request() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        connection = await there.connect()
        value = shop.header()
        await connection.send("GET", "/mcp", {"authorization": f"{value}\r\nauthorization: {value}"})
        assert (await connection.head()).status == 400


async def test_where_keys_cannot_be_fetched_it_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    shop.there.down = True
    async with wire(shop.server, auth=shop.auth()) as there:
        with caplog.at_level(logging.ERROR):
            response = await there.modern(call("browse"), authorization=shop.header())
        assert (response.status, response.headers["retry-after"]) == (503, "5")
        assert "www-authenticate" not in response.headers
        assert "try again" in (await response.json())["error"]["message"]
    assert "the network is down" in caplog.text


# What they may do.


async def test_a_tool_may_need_more_scopes_than_the_server() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        little, enough = shop.header(), shop.header("read refund audit")
        response = await there.modern(call("refund"), authorization=little)
        assert response.status == 403
        assert challenge(response) == (
            'Bearer error="insufficient_scope", error_description="This needs the scopes: audit read refund", '
            f'scope="audit read refund", {WHERE}'
        )
        answer = await response.json()
        assert answer["id"] == 1 and "audit read refund" in answer["error"]["message"]
        assert shop.ran == []
        assert text(await (await there.modern(call("refund"), authorization=enough)).json()) == "refunded"
        assert text(await (await there.modern(call("browse"), authorization=little)).json()) == "tea"
        listed = await (await there.modern(request("tools/list"), authorization=little)).json()
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["browse", "buy", "refund", "ask"]


async def test_also_in_a_session_where_each_request_has_its_own_token() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(authorization=shop.header())
        response = await session.post(call("buy"))
        assert response.status == 403 and 'scope="buy read"' in challenge(response)
        assert shop.ran == []
        stepped = {"authorization": shop.header("read buy")}
        assert text(await (await session.post(call("buy"), **stepped)).json()) == "bought"
        assert (await session.post(call("buy"))).status == 403  # the session has not learned it


async def test_a_batch_needs_the_scopes_of_all_its_calls_or_none_runs() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(version="2025-03-26", authorization=shop.header())
        batch = [call("browse", 1), call("buy", 2), notification("notifications/initialized"), call("refund", 3)]
        response = await session.post(batch)
        assert response.status == 403 and 'scope="audit buy read refund"' in challenge(response)
        assert shop.ran == []
        answers = await (await session.post(batch, authorization=shop.header("read audit buy refund"))).json()
        assert sorted(text(one) for one in answers) == ["bought", "refunded", "tea"]


async def test_what_is_hidden_asks_for_no_scopes() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        unknown = await there.modern(call("hidden"), authorization=shop.header())
        assert "www-authenticate" not in unknown.headers
        assert "Unknown tool" in (await unknown.json())["error"]["message"]
        response = await there.modern(call("hidden"), authorization=shop.header(sub="root"))
        assert response.status == 403 and 'scope="read secret"' in challenge(response)


@pytest.mark.parametrize("body", [call("buy") | {"params": {"name": 7}}, call("buy") | {"params": [1]}, b"[", b"[{}]"])
async def test_what_cannot_be_read_is_refused_for_that(body: Any) -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(authorization=shop.header())
        response = await session.post(body)
        assert response.status in (200, 400) and "www-authenticate" not in response.headers


async def test_a_name_that_is_given_twice_is_the_one_that_is_called() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(authorization=shop.header())
        for first, second in (("browse", "buy"), ("buy", "browse")):
            body = (
                '{"jsonrpc":"2.0","id":1,"method":"tools/call",'
                f'"params":{{"name":"{first}","name":"{second}","arguments":{{}}}}}}'
            )
            await session.post(body.encode())
        assert "buy" not in shop.ran


async def test_scopes_with_a_verify_of_ones_own() -> None:
    shop = Shop()

    async def verify(token: str) -> Principal | None:
        return Principal(token, scopes=frozenset({"buy"} if token == "ada" else ()))

    async with wire(shop.server, verify=verify) as there:
        assert text(await (await there.modern(call("buy"), authorization="Bearer ada")).json()) == "bought"
        response = await there.modern(call("buy"), authorization="Bearer bob")
        assert response.status == 403
        assert challenge(response) == (
            'Bearer error="insufficient_scope", error_description="This needs the scopes: buy", scope="buy"'
        )


def test_scopes_that_nobody_would_check_are_a_mistake() -> None:
    shop = Shop()
    with pytest.raises(ConfigurationError, match="'buy'.*auth="):
        http_app(shop.server)
    with pytest.raises(ConfigurationError, match="verify"):
        http_app(shop.server, auth=shop.auth(), verify=lambda token: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigurationError, match="BearerAuth"):
        http_app(shop.server, auth="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="scopes"):
        shop.server.tool(scopes="buy")(lambda: None)  # type: ignore[arg-type]


async def test_scopes_of_a_tool_that_came_later_count_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    server, ran = Server("shop"), []
    app = http_app(server)

    @server.tool(scopes=["buy"])
    async def buy() -> None:
        ran.append("buy")

    @server.tool
    async def browse() -> str:
        return "tea"

    async with serving(app) as port:
        there = Wire(port)
        assert (await there.modern(call("buy"))).status == 403
        session = await there.session()
        assert (await session.post(call("buy"))).status == 403
        assert text(await (await there.modern(call("browse"))).json()) == "tea"
        await there.close()
    assert ran == [] and "no auth=BearerAuth" in caplog.text


async def test_what_is_hidden_does_not_show_by_its_headers() -> None:
    server = Server("shop")
    place = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    @server.tool(input_schema=place, visible=lambda principal: False)
    async def hidden(region: str = "") -> str:
        return region

    async with wire(server) as there:
        answers = [await (await there.modern(call(name, region="eu"))).json() for name in ("hidden", "other")]
        message, unknown = (answer["error"]["message"] for answer in answers)
        assert message == unknown.replace("other", "hidden") == "Unknown tool: hidden"


async def test_a_process_of_ones_own_has_no_tokens_and_needs_no_scopes() -> None:
    shop = Shop()
    async with Client(shop.server) as client:
        assert (await client.call_tool("buy")).text == "bought"


# What belongs to whom.


@pytest.mark.case("F06")
async def test_a_session_is_for_the_one_who_began_it_and_for_no_other_token() -> None:
    shop = Shop()
    ada, bob = shop.header(), shop.header(sub="bob")
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(ASKS, authorization=ada)
        response = await session.post(call("ask"))
        question = await response.message()
        attempts: list[Callable[[Session], Awaitable[Response]]] = [
            lambda it: it.post(call("browse", id="h")),
            lambda it: it.post(call("buy", id="h")),
            lambda it: it.answer(question, accept(value="Bob")),
            lambda it: it.post(notification("notifications/cancelled", {"requestId": 1})),
            lambda it: it.http("GET"),
            lambda it: it.http("GET", last_event_id="1-0"),
            lambda it: it.http("DELETE"),
        ]
        others = [bob, shop.header(client_id="other"), shop.header(sub="bob", scope="read buy")]
        for attempt in attempts:
            for other in others:
                stolen = await attempt(Session(there, session.id, LEGACY, {"authorization": other}))
                unknown = await attempt(Session(there, "unknown", LEGACY, {"authorization": other}))
                assert stolen.status == unknown.status and stolen.status in (403, 404)
                assert await stolen.body() == await unknown.body()
            expired = await attempt(Session(there, session.id, LEGACY, {"authorization": shop.header(exp=1)}))
            assert expired.status == 401
        later = {"authorization": shop.header(jti="refreshed")}
        await session.answer(question, accept(value="Ada"), **later)
        assert text(await response.message()) == "hello Ada"


@pytest.mark.case("F07")
async def test_events_are_read_on_by_the_one_they_are_for() -> None:
    shop = Shop()
    async with wire(shop.server, auth=shop.auth()) as there:
        session = await there.session(ASKS, authorization=shop.header())
        response = await session.post(call("ask"))
        while (event := await response.event()) is not None and event.message is None:
            pass
        assert event is not None and event.id is not None
        response.drop()
        name = event.id.partition("-")[0]
        stolen = await session.http("GET", last_event_id=f"{name}-0", authorization=shop.header(sub="bob"))
        assert stolen.status == 404
        mine = await session.http("GET", last_event_id=f"{name}-0", authorization=shop.header(jti="another"))
        assert mine.status == 200
        question = await mine.message()
        await session.answer(question, accept(value="Ada"))
        assert text(await mine.message()) == "hello Ada"


@pytest.mark.case("F10")
@pytest.mark.parametrize("stored", [False, True])
async def test_a_state_is_for_the_one_it_was_given_to(stored: bool) -> None:
    server = Server("test", state=RequestState(store=MemoryStateStore() if stored else None))

    @server.tool
    async def keeps(ctx: Context) -> str | InputRequired:
        if ctx.state is None:
            assert ctx.principal is not None
            return InputRequired({"go": Elicit("Go on?", bool)}, state=[f"value of {ctx.principal.subject}"])
        return str(ctx.state)

    shop = Shop()
    async with wire(server, auth=shop.auth()) as there:

        async def send(who: str, state: str | None = None) -> Any:
            message = call("keeps")
            if state is not None:
                message["params"] |= {"requestState": state, "inputResponses": {"go": accept(value=True)}}
            header = shop.header(sub=who)
            return await (await there.modern(message, ASKS, authorization=header)).json()

        states = {who: (await send(who))["result"]["requestState"] for who in ("ada", "bob")}
        for who, other in (("ada", "bob"), ("bob", "ada")):
            assert (await send(who, states[other]))["error"]["code"] == -32602
            assert text(await send(who, states[who])) == f"['value of {who}']"
        assert (await send("bob", states["ada"]))["error"]["code"] == -32602  # nor the result that is kept for it


@pytest.mark.case("E08")
async def test_calls_at_the_same_time_each_have_their_own_principal() -> None:
    server, shop = Server("who"), Shop()
    here, all_here = [0], anyio.Event()

    @server.tool
    async def whoami(ctx: Context) -> str:
        here[0] += 1
        if here[0] == 3:
            all_here.set()
        await all_here.wait()
        assert ctx.principal is not None
        return " ".join(sorted(ctx.principal.scopes))

    said: dict[str, str] = {}
    async with wire(server, auth=shop.auth(scopes=[])) as there:
        session = await there.session(authorization=shop.header())

        async def ask(number: int, scope: str) -> None:
            response = await session.post(call("whoami", number), authorization=shop.header(scope))
            said[scope] = text((await response.messages())[-1])

        async with anyio.create_task_group() as group:
            for number, scope in enumerate(("a", "b", "c")):
                group.start_soon(ask, number, scope)
    assert said == {"a": "a", "b": "b", "c": "c"}


async def test_a_listener_hears_of_what_its_principal_may_read() -> None:
    server, shop = Server("notes"), Shop()

    @server.resource("note://secret", visible=lambda principal: principal is not None and principal.subject == "ada")
    async def secret() -> str:
        return "x"

    @server.resource("note://open")
    async def open_to_all() -> str:
        return "y"

    async with wire(server, auth=shop.auth()) as there:
        wanted = {"notifications": {"resourceSubscriptions": ["note://secret", "note://open"]}}
        for who, heard in (("ada", ["note://secret", "note://open"]), ("bob", ["note://open"])):
            header = shop.header(sub=who)
            response = await there.modern(request("subscriptions/listen", wanted), authorization=header)
            acknowledged = await response.message()
            assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == heard
            response.drop()


async def test_nothing_that_is_logged_has_a_token(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    headers = [shop.header(), shop.header(exp=1), shop.header(aud="x"), shop.header() + "x", "Bearer opaque-1234"]
    with caplog.at_level(logging.DEBUG):
        async with wire(shop.server, auth=shop.auth()) as there:
            for header in headers:
                for tool in ("browse", "buy", "nothing"):
                    await there.modern(call(tool), authorization=header)
    written = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert "The token is expired" in written
    assert [header for header in headers if header.removeprefix("Bearer ").rsplit(".")[-1] in written] == []


async def test_a_client_that_leaves_while_it_is_refused() -> None:
    shop = Shop()
    app = http_app(shop.server, auth=shop.auth())

    async def gone(message: dict[str, Any]) -> None:
        raise OSError("gone")

    for path in ("/mcp", f"{KNOWN}/mcp"):
        ask = Asgi(app, call("browse"), method="GET")
        ask.scope["path"] = path
        ask.on_send = gone
        await ask.done
