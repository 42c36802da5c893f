"""What a session knows of the client's roots, and the server's own bounds."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from backchannel import AskTimeout, Context, RootsUnknown, Server
from backchannel.protocol.jsonrpc import Response
from backchannel.server import session_roots
from backchannel.server.roots import RootList
from backchannel.server.streams import EventStream
from tests.server.replay import LEGACY, MODERN, Driver, both_eras, driver, text

pytestmark = pytest.mark.anyio
HOME = {"roots": [{"uri": "file:///home/ada"}]}


def serving(**options: Any) -> Server:
    server = Server("s", debug=True, **options)

    @server.tool
    async def where(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.roots()) or "nowhere"

    @server.tool
    async def known(ctx: Context) -> str:
        return " ".join(root.uri for root in ctx.allowed_roots) or "nowhere"

    return server


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "fetches_roots", True)


def asked(client: Driver) -> list[int]:
    return [message["id"] for message in client.sent if message.get("method") == "roots/list"]


async def fetched(client: Driver, answer: Any = HOME, error: Any = None) -> None:
    """Answer the session's own question."""
    client.answer(await client.until(lambda message: message.get("method") == "roots/list"), answer, error)
    await client.idle()


@pytest.mark.rule("R64", "R65", "R66")
async def test_the_session_asks_once_and_all_its_calls_know(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client, driver(serving(), LEGACY) as other:
        assert "no roots" in (await client.call("known"))["result"]["content"][0]["text"]
        await fetched(client)
        assert text(await client.call("known")) == text(await client.call("where")) == "file:///home/ada"
        assert len(asked(client)) == 1
        await fetched(other, {"roots": []})
        assert text(await other.call("known")) == "nowhere"
        assert text(await client.call("known")) == "file:///home/ada"


@pytest.mark.rule("R64")
async def test_a_call_that_comes_while_the_session_asks_waits_for_it(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client:
        exchange = client.tool("where")
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            await anyio.wait_all_tasks_blocked()
            client.answer(await client.next(), HOME)
        assert text(await client.until(lambda message: message.get("id") == exchange.request.id)) == "file:///home/ada"
        assert len(asked(client)) == 1
        await client.idle()


@pytest.mark.rule("R65")
async def test_a_client_that_does_not_listen_is_asked_on_the_calls_own_stream(
    fetching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backchannel.server.session.Session.standing", False)
    async with driver(serving(), LEGACY) as client:
        exchange, own = client.tool("where"), EventStream()
        exchange.stream = own
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            question: Any = await own.next()
            client.answer({"id": question.id}, HOME)
        assert text(await client.until(lambda message: message.get("id") == exchange.request.id)) == "file:///home/ada"
        assert text(await client.call("known")) == "file:///home/ada"
        client.session.close()


@pytest.mark.rule("R67")
async def test_a_client_without_roots_is_never_asked(fetching: None) -> None:
    async with driver(serving(), LEGACY, {"elicitation": {}}) as client:
        client.tell("notifications/roots/list_changed")
        for tool in ("known", "where"):
            assert "roots" in (await client.call(tool))["result"]["content"][0]["text"]
        assert asked(client) == []


@pytest.mark.rule("R68", "R69")
async def test_changes_are_fetched_and_a_failure_changes_nothing(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client:
        await fetched(client)
        for answer, error in ((None, {"code": -32603, "message": "broken"}), ({"roots": 7}, None), ({}, None)):
            client.tell("notifications/roots/list_changed")
            await fetched(client, answer, error)
            assert text(await client.call("known")) == "file:///home/ada"
        client.tell("notifications/roots/list_changed")
        await fetched(client, {"roots": []})
        assert text(await client.call("known")) == "nowhere"
        assert len(asked(client)) == 5


@pytest.mark.rule("R69", "R73")
async def test_a_burst_of_changes_is_two_fetches_and_the_last_counts(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client:
        await fetched(client, {"roots": []})
        for _ in range(100):
            client.tell("notifications/roots/list_changed")
        await anyio.wait_all_tasks_blocked()
        for _ in range(100):
            client.tell("notifications/roots/list_changed")
        first = await client.next()
        client.answer(first, {"roots": []})
        await fetched(client, HOME)
        assert len(asked(client)) == 3
        assert text(await client.call("known")) == "file:///home/ada"


@pytest.mark.rule("R69")
async def test_a_call_that_comes_while_a_change_is_fetched_gets_the_change(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client:
        await fetched(client, {"roots": []})
        client.tell("notifications/roots/list_changed")
        exchange = client.tool("where")
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            client.answer(await client.until(lambda message: message.get("method") == "roots/list"), HOME)
        assert text(await client.until(lambda message: message.get("id") == exchange.request.id)) == "file:///home/ada"
        assert len(asked(client)) == 2


@pytest.mark.rule("R74")
async def test_a_change_before_the_session_is_there_is_no_news(fetching: None) -> None:
    async with driver(serving(), LEGACY) as client:
        await fetched(client)
    server = serving()
    from backchannel.server.dispatch import start

    async with start(server) as dispatcher:
        early = Driver(dispatcher, LEGACY, {"roots": {}})
        early.tell("notifications/roots/list_changed")
        await early.bring_up(initialized=False)
        early.tell("notifications/roots/list_changed")
        assert len(early.session.stream) == 0
        early.tell("notifications/initialized")
        await fetched(early)
        assert len(asked(early)) == 1


@pytest.mark.rule("R68")
async def test_a_client_that_does_not_answer_is_not_waited_for_for_ever(
    fetching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_roots, "FETCH_LIMIT", 0)
    async with driver(serving(), LEGACY) as client:
        question = await client.next()
        while client.dispatcher.nursery.running:
            await anyio.lowlevel.checkpoint()
        assert (await client.next())["params"]["requestId"] == question["id"]  # withdrawn
        assert client.session.unanswered == 0  # a client that hears nothing of it may answer other questions
        exchange = client.tool("where")
        async with anyio.create_task_group() as group:
            group.start_soon(client.serve, exchange)
            client.answer(await client.until(lambda message: message.get("method") == "roots/list"), HOME)
        assert text(await client.until(lambda message: message.get("id") == exchange.request.id)) == "file:///home/ada"


@pytest.mark.rule("R65", "R72")
async def test_on_the_stateless_protocol_nothing_is_known_before_it_is_asked() -> None:
    async with driver(serving(), MODERN) as client:
        assert "no roots" in (await client.call("known"))["result"]["content"][0]["text"]
        assert text(await client.rounds("where", lambda key, question: HOME)) == "file:///home/ada"


# The server's own roots.


@both_eras
@pytest.mark.rule("R71")
async def test_no_root_of_a_client_reaches_beyond_the_servers(tmp_path: Path, version: str) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    inside, above = own / "deep" / "er", tmp_path
    inside.mkdir(parents=True)
    other.mkdir()
    given = {"roots": [{"uri": place.as_uri()} for place in (inside, above, other)]}

    async with driver(serving(roots=[own]), version) as client:
        assert text(await client.rounds("where", lambda key, question: given)) == f"{inside.as_uri()} {own.as_uri()}"
        assert text(await client.rounds("where", lambda key, question: {"roots": []})) == "nowhere"


@pytest.mark.rule("R71")
async def test_the_bounds_count_for_what_the_session_knows(fetching: None, tmp_path: Path) -> None:
    async with driver(serving(roots=[tmp_path.as_uri()]), LEGACY) as client:
        await fetched(client, {"roots": [{"uri": "file:///"}, {"uri": "file:///nowhere/else"}]})
        assert text(await client.call("known")) == tmp_path.as_uri()


def test_roots_within_bounds(tmp_path: Path) -> None:
    near = RootList.of([tmp_path / "near"])
    assert not near.within(RootList.of([tmp_path / "nearby"]))
    assert list(near.within(RootList.of([tmp_path]))) == list(near)
    assert list(RootList.of([tmp_path]).within(near)) == list(near)
    assert list(near.within(near)) == list(near)
    (tmp_path / "near").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "near")
    assert RootList.of([tmp_path / "link" / ".." / "near"]).within(near)


@pytest.mark.case("B04")
@pytest.mark.rule("R65", "R68", "R72", "R73", "R76")
@pytest.mark.parametrize("answers", ["never", "after its own request"])
async def test_a_session_that_asks_for_roots_serves_meanwhile(fetching: None, answers: str) -> None:
    """The client may answer only once it has what it asked for itself; or it may never answer, which denies."""
    server = serving()
    denied: list[str] = []

    @server.tool
    async def reads(ctx: Context, path: str) -> str:
        try:
            known = ctx.allowed_roots
        except RootsUnknown:
            denied.append(path)
            return "denied"
        return "read" if known.contains(path) else "outside"

    @server.tool
    async def patient(ctx: Context) -> str:
        try:
            return str(len(await ctx.roots(timeout=0.01)))
        except AskTimeout:
            return "nobody says"

    async with driver(server, LEGACY) as client:
        question = await client.until(lambda message: message.get("method") == "roots/list")
        listing = client.exchange("tools/list", {})
        assert isinstance(await client.serve(listing), Response)
        assert "tools" in (await client.until(lambda message: message.get("id") == listing.request.id))["result"]
        assert text(await client.call("reads", {"path": "/home/ada/x"})) == "denied"
        if answers == "never":
            assert text(await client.call("patient")) == "nobody says"
            assert text(await client.call("reads", {"path": "/home/ada/x"})) == "denied"
            client.answer(question, error={"code": -32601, "message": "no"})
            await client.idle()
            assert text(await client.call("reads", {"path": "/home/ada/x"})) == "denied"
            assert denied == ["/home/ada/x"] * 3
        else:
            client.answer(question, HOME)
            await client.idle()
            assert text(await client.call("reads", {"path": "/home/ada/x"})) == "read"
            assert text(await client.call("reads", {"path": "/home/bob/x"})) == "outside"
            assert text(await client.call("patient")) == "1"


async def test_what_is_known_is_read_once_and_keeps_no_more_than_it_needs(fetching: None) -> None:
    server = serving()
    async with driver(server, LEGACY) as client:
        await fetched(client, {**HOME, "_meta": {"x": "x" * 100_000}})
        roots = client.session.roots
        assert roots is not None and roots.raw is not None
        assert roots.known is roots.known and len(bytes(roots.raw)) < 1000
        assert text(await client.call("known")) == text(await client.call("where")) == "file:///home/ada"
