"""Clients and servers that want tokens, over real sockets."""

import math
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from backchannel import AuthRequired, Client, ConnectionLost, FileStore, LoginFailed, MemoryStore, RemoteProtocolError
from backchannel.client import sse
from backchannel.client.auth.stores import Store
from backchannel.client.http import HttpTransport
from backchannel.client.sse import SseTransport
from backchannel.protocol.jsonrpc import Request
from backchannel.protocol.versions import Version
from backchannel.testing.auth import AuthServer
from backchannel.testing.auth.misbehaviour import Misbehaviour
from tests.client.auth.guarded import BOUND, Clock, Guarded, Person, Timed
from tests.client.auth.issuing import Issuing
from tests.client.http_server import Got, serving
from tests.client.test_sse import OldServer

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
VERSIONS = ["2026-07-28", "2025-11-25", "2025-03-26"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
async def guarded(clock: Clock) -> AsyncIterator[Guarded]:
    auth = AuthServer(clock=clock, scopes=["read", "write", "admin"])
    async with Guarded(auth, clock).running() as running:
        yield running


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """The text that the tool gives."""
    result: Any = await client.call_tool(tool, arguments)
    return str(result.content[0].text)


async def add(client: Client, a: int = 1, b: int = 2) -> int:
    return int(await call(client, "add", a=a, b=b))


@pytest.mark.parametrize("version", [*VERSIONS, "auto"])
async def test_a_login_and_then_calls(guarded: Guarded, clock: Clock, person: Person, version: str) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version=version, auth=Timed(person, clock)) as client:
            assert await add(client) == 3
            assert await add(client, 2, 2) == 4
    assert len(person.visits) == 1
    assert guarded.auth.count("register") == guarded.auth.count("token") == 1
    assert [seen.answer for seen in guarded.seen].count(401) == 1
    assert guarded.auth.seen("authorize")[0]["resource"] == guarded.url


@pytest.mark.case("I01")
async def test_after_a_restart_it_refreshes_and_asks_nobody(
    guarded: Guarded, clock: Clock, person: Person, tmp_path: Path
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, auth=Timed(person, clock, store=FileStore(tmp_path / "t"))) as client:
            await add(client)
        clock.now += 10_000
        async with Client(guarded.url, auth=Timed(person, clock, store=FileStore(tmp_path / "t"))) as client:
            assert await add(client) == 3
        assert len(person.visits) == 1 and guarded.auth.count("token", grant_type="refresh_token") == 1
        clock.now += 10_000
        guarded.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
        async with Client(guarded.url, auth=Timed(person, clock, store=FileStore(tmp_path / "t"))) as client:
            assert await add(client) == 3
    assert len(person.visits) == 2 and guarded.auth.count("register") == 1


@pytest.mark.case("I06")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refusal_in_the_middle_is_answered_and_no_call_runs_twice(
    guarded: Guarded, clock: Clock, person: Person, version: str
) -> None:
    guarded.scopes["write"] = "write"
    guarded.auth.scopes = ("read", "write", "offline_access")
    guarded.metadata = {"scopes_supported": ["read"]}
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version=version, auth=Timed(person, clock)) as client:
            results = [await add(client, 1, 1), await add(client, 1, 2)]
            guarded.auth.tokens._access.clear()  # the server takes the token no more
            results += [await add(client, 1, 3), await add(client, 1, 4)]
            written = await call(client, "write")
            results.append(await add(client, 1, 5))
    assert results == [2, 3, 4, 5, 6] and written == "written"
    assert guarded.calls == {"add": 5, "write": 1}
    assert guarded.auth.count("token", grant_type="refresh_token") == 1
    assert [one.get("scope") for one in guarded.auth.seen("authorize")] == [
        "read offline_access",
        "read offline_access write",
    ]


@pytest.mark.case("G09")
@pytest.mark.parametrize("version", VERSIONS)
async def test_twenty_calls_with_an_expired_token_make_one_refresh(
    guarded: Guarded, clock: Clock, person: Person, version: str
) -> None:
    results = []

    async def one(number: int) -> None:
        results.append(await add(client, number, 0))

    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version=version, auth=Timed(person, clock)) as client:
            clock.now += 10_000
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(one, number)
    assert sorted(results) == list(range(20))
    assert guarded.auth.count("token", grant_type="refresh_token") == 1 and len(person.visits) == 1


@pytest.mark.case("G09")
async def test_also_where_the_server_is_first_to_know(guarded: Guarded, clock: Clock, person: Person) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, auth=Timed(person, clock)) as client:
            guarded.auth.tokens._access.clear()
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(add, client)
    assert guarded.calls["add"] == 20
    assert guarded.auth.count("token", grant_type="refresh_token") == 1 and len(person.visits) == 1


@pytest.mark.case("G09")
async def test_who_is_cancelled_takes_no_refresh_along(guarded: Guarded, clock: Clock, person: Person) -> None:
    """The first that finds the token expired is cancelled with four others, before the token endpoint has answered."""
    results = []
    scopes: list[anyio.CancelScope] = []

    async def one(number: int) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            results.append(await add(client, number, 0))

    with anyio.fail_after(BOUND):
        async with Client(guarded.url, auth=Timed(person, clock)) as client:
            clock.now += 10_000
            guarded.auth.misbehaviour = Misbehaviour(delay=0.2)
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(one, number)
                while not guarded.auth.count("token", grant_type="refresh_token"):
                    await anyio.lowlevel.checkpoint()
                for scope in scopes[:5]:
                    scope.cancel()
    assert sorted(results) == list(range(5, 20))
    assert guarded.auth.count("token", grant_type="refresh_token") == 1 and len(person.visits) == 1


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_clients_that_share_a_store_share_a_login_and_its_renewals(
    guarded: Guarded, clock: Clock, person: Person, tmp_path: Path, kind: str
) -> None:
    """A file is shared by processes too: the lock is that of the file."""
    memory = MemoryStore()

    def store() -> Store:
        return memory if kind == "memory" else FileStore(tmp_path / "tokens.json")

    with anyio.fail_after(BOUND):
        clients = [Client(guarded.url, auth=Timed(person, clock, store=store())) for _ in range(3)]
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(client.open)
        clock.now += 10_000
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(add, client)
        for client in clients:
            await client.close()
    assert len(person.visits) == 1 and guarded.auth.count("token", grant_type="refresh_token") == 1


@pytest.mark.case("I03")
async def test_a_loop_of_logins_is_cut(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.refuse = lambda seen: True
    with anyio.fail_after(BOUND):
        with pytest.raises(AuthRequired) as caught:
            async with Client(guarded.url, auth=Timed(person, clock)):
                pass
    assert len(person.visits) == 2
    assert caught.value.challenge.startswith("Bearer ")


async def test_a_token_that_is_refused_once_and_for_all_is_not_replaced_for_ever(
    guarded: Guarded, clock: Clock, person: Person
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2026-07-28", auth=Timed(person, clock)) as client:
            guarded.refuse = lambda seen: seen.name == "add"
            for _ in range(4):
                with pytest.raises(AuthRequired):
                    await add(client)
            guarded.refuse = lambda seen: False
            assert guarded.auth.count("token") <= 4 and len(person.visits) <= 3


async def test_scopes_that_are_never_enough_are_asked_for_once(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.scopes["write"] = "admin"
    guarded.auth.misbehaviour = Misbehaviour(granted=("read",))
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2026-07-28", auth=Timed(person, clock)) as client:
            for _ in range(3):
                with pytest.raises(AuthRequired, match="admin"):
                    await client.call_tool("write", {})
    assert len(person.visits) == 2 and guarded.calls["write"] == 0


async def test_ever_more_scopes_have_a_limit(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.auth.scopes = ()  # there are all that anybody asks for

    def more(seen: Any) -> bool:
        if seen.name == "write":
            guarded.scopes["write"] = f"scope-{len(guarded.seen)}"
        return False

    guarded.refuse = more
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2026-07-28", auth=Timed(person, clock)) as client:
            with pytest.raises(AuthRequired, match="has not the scopes"):
                await client.call_tool("write", {})
    assert len(person.visits) == 1 + 3


async def test_a_refusal_that_says_nothing_of_scopes_is_not_answered(
    guarded: Guarded, clock: Clock, person: Person
) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2026-07-28", auth=Timed(person, clock)) as client:
            guarded.forbidden = {"write"}
            with pytest.raises(RemoteProtocolError, match="HTTP 403"):
                await call(client, "write")
    assert len(person.visits) == 1


async def test_where_nobody_can_log_in_the_error_says_so(guarded: Guarded, clock: Clock, person: Person) -> None:
    with anyio.fail_after(BOUND):
        with pytest.raises(LoginFailed, match="nobody to ask") as caught:
            async with Client(guarded.url, auth=Timed(person, clock, redirect=None)):
                pass
    assert "resource_metadata" in caught.value.challenge


async def test_a_login_that_is_refused_is_said_to_all_who_wait(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.free = {"server/discover"}
    guarded.auth.misbehaviour = Misbehaviour(refuse="access_denied")
    errors: list[LoginFailed] = []

    async def one() -> None:
        with pytest.raises(LoginFailed) as caught:
            await add(client)
        errors.append(caught.value)

    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2026-07-28", auth=Timed(person, clock)) as client:
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(one)
    assert {error.error for error in errors} == {"access_denied"}
    assert len({id(error) for error in errors}) == 3 and len(person.visits) == 1


@pytest.mark.parametrize("version", ["auto", *VERSIONS])
async def test_the_clocks_stand_still_while_somebody_logs_in(
    guarded: Guarded, clock: Clock, person: Person, version: str
) -> None:
    """That of the probe too: a person takes longer than a server that does not know it."""
    held: list[tuple[str, int, float]] = []

    async def look() -> None:
        assert client._connection is not None
        held.extend((call.method, call._held, call._end) for call in client._connection._calls)

    person.gate = look
    client = Client(guarded.url, version=version, auth=Timed(person, clock))
    with anyio.fail_after(BOUND):
        async with client:
            pass
    first = "server/discover" if version in ("auto", "2026-07-28") else "initialize"
    assert held == [(first, 1, math.inf)]


async def test_a_server_that_wants_no_token_for_the_beginning(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.free = {"initialize", "notifications/initialized", "server/discover"}
    with anyio.fail_after(BOUND):
        for version in VERSIONS:
            person.visits.clear()
            async with Client(guarded.url, version=version, auth=Timed(person, clock)) as client:
                assert not person.visits
                assert await add(client) == 3
            assert len(person.visits) == 1


async def test_the_end_of_a_client_is_the_end_of_its_login(guarded: Guarded, clock: Clock, person: Person) -> None:
    guarded.free = {"server/discover"}
    shown = anyio.Event()

    async def wait() -> None:
        shown.set()
        await anyio.sleep_forever()

    person.gate = wait
    client = Client(guarded.url, version="2026-07-28", auth=Timed(person, clock))

    async def one() -> None:
        with pytest.raises(ConnectionLost):
            await add(client)

    with anyio.fail_after(BOUND):
        await client.open()
        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await shown.wait()
            await client.close()


async def test_nobody_logs_in_to_say_goodbye(guarded: Guarded, clock: Clock, person: Person) -> None:
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2025-11-25", auth=Timed(person, clock)) as client:
            await add(client)
            guarded.refuse = lambda seen: seen.verb == "DELETE"
    assert len(person.visits) == 1 and [seen.verb for seen in guarded.seen].count("DELETE") == 1


async def test_every_request_shows_the_token(guarded: Guarded, clock: Clock, person: Person) -> None:
    """ "authorization MUST be included in every HTTP request from client to server" """
    with anyio.fail_after(BOUND):
        async with Client(
            guarded.url, version="2025-11-25", auth=Timed(person, clock), elicit=lambda ask: True
        ) as client:
            assert await call(client, "ask") == "true"
    assert {"POST", "DELETE"} <= {seen.verb for seen in guarded.seen}
    assert [seen.verb for seen in guarded.seen if not seen.token] == ["POST"]


async def test_a_session_that_is_lost_begins_again_with_a_token_that_is_good(
    guarded: Guarded, clock: Clock, person: Person
) -> None:
    """Its server has forgotten the session, and the token has expired meanwhile."""
    with anyio.fail_after(BOUND):
        async with Client(guarded.url, version="2025-11-25", auth=Timed(person, clock)) as client:
            assert await add(client) == 3
            await guarded.app.close()
            guarded.renew()
            guarded.auth.tokens._access.clear()
            assert await add(client, 2, 2) == 4
    assert len(person.visits) == 1 and guarded.auth.count("token", grant_type="refresh_token") == 1
    assert [seen.name for seen in guarded.seen if not seen.answer].count("initialize") == 2


async def test_a_stream_of_notifications_shows_tokens_too(clock: Clock, person: Person) -> None:
    """The GET stream of a session begins again with a new token when the server ends it."""
    auth, gets = Issuing(), []

    async def script(got: Got) -> None:
        if got.method == "GET":
            gets.append(got.headers.get("authorization"))
            if len(gets) == 2:
                return await got.reply(401, b"", www_authenticate="Bearer")
            await got.stream()
            await got.event({"jsonrpc": "2.0", "method": f"notifications/{len(gets)}"}, id="1")
            return await got.end() if len(gets) == 1 else await got.wait()
        if got.headers.get("authorization") is None:
            return await got.reply(401, b"", www_authenticate="Bearer")
        return await got.result({}, mcp_session_id="s") if "id" in got.json else await got.reply(202)

    heard: list[Any] = []
    async with serving(script) as server:
        transport = HttpTransport(server.url, auth=auth)
        with anyio.fail_after(BOUND):
            await transport.open(heard.append, lambda error: None)
            await transport.send(Request(0, "initialize", {}))
            transport.negotiated(Version.V2025_11_25)
            await transport.listen()
            while len(heard) < 3:
                await anyio.lowlevel.checkpoint()
            await transport.close()
    assert gets == ["Bearer t1", "Bearer t1", "Bearer t2"]


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[anyio.CancelScope]:
    """Time is the test's: the scopes whose time it can end."""
    made: list[anyio.CancelScope] = []

    def scope(seconds: float) -> anyio.CancelScope:
        made.append(anyio.CancelScope())
        return made[-1]

    monkeypatch.setattr(sse, "anyio", SimpleNamespace(move_on_after=scope, CancelScope=anyio.CancelScope))
    return made


async def test_the_old_transport_shows_tokens_too(deadlines: list[anyio.CancelScope]) -> None:
    """HTTP+SSE: the stream, which waits for a login longer than for a connection, and the messages."""

    class Old(OldServer):
        async def __call__(self, got: Got) -> None:
            tokens.append((got.method, got.headers.get("authorization")))
            if got.headers.get("authorization") is None:
                return await got.reply(401, b"", www_authenticate="Bearer")
            return await super().__call__(got)

    tokens: list[tuple[str, str | None]] = []
    auth = Issuing()

    async def gate() -> None:
        for number in range(3):
            if len(deadlines) == number + 1:
                deadlines[number].cancel()
                await anyio.wait_all_tasks_blocked()

    auth.gate = gate
    async with serving(Old()) as server:
        transport = SseTransport(f"{server.url.rsplit('/', 1)[0]}/sse", auth=auth)
        with anyio.fail_after(BOUND):
            await transport.open(lambda message: None, lambda error: None)
            await transport.send(Request(0, "initialize", {}))
            await transport.close()
    assert len(deadlines) == 4
    assert [token for _, token in tokens if token] == ["Bearer t1", "Bearer t2"]  # each connection has its own
