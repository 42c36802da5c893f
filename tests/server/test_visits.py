"""Pages that a person has to visit: an error with a session, a round without one, and the word that they are completed
(client/elicitation, URL Mode)."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from backchannel import Client, Context, Elicit, ElicitUrl, InputRequired, Server, UrlRequired
from backchannel.testing import replaying
from tests.server.replay import (
    DECLINED,
    LEGACY,
    MODERN,
    YES,
    Driver,
    Message,
    asked,
    both_eras,
    driver,
    failed,
    retry,
    text,
)

pytestmark = pytest.mark.anyio
ACCEPTED = {"action": "accept"}
COMPLETE = "notifications/elicitation/complete"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backchannel.server.lookout.POLL_INTERVAL", 0)


class Files:
    """A server whose one tool needs the person to have signed in. tokens: who has."""

    def __init__(self, *pages: str, until: Any = None):
        self.server = Server("test")
        self.tokens: list[str] = []
        self.runs = 0

        @self.server.tool
        async def read(ctx: Context, path: str) -> str:
            self.runs += 1
            if not self.tokens:
                wanted = [ElicitUrl(f"Sign in to {page}", f"https://{page}/", until) for page in pages]
                raise UrlRequired(*wanted)
            return f"{path} for {self.tokens[0]}"


@pytest.mark.rule("R165")
async def test_with_a_session_it_is_an_error_with_the_pages() -> None:
    files = Files("a.example", "b.example")
    async with driver(files.server, LEGACY) as wire:
        errors = [(await wire.call("read", {"path": "x"}))["error"] for _ in range(2)]
        files.tokens.append("ann")
        assert text(await wire.call("read", {"path": "x"})) == "x for ann"
        assert not [message for message in wire.sent if "method" in message]
        await wire.idle()
    listed = errors[0]["data"]["elicitations"]
    ids = [page.pop("elicitationId") for error in errors for page in error["data"]["elicitations"]]
    assert errors[0]["code"] == -32042 and "Sign in to a.example; Sign in to b.example" in errors[0]["message"]
    assert listed == [
        {"mode": "url", "url": f"https://{page}/", "message": f"Sign in to {page}"}
        for page in ("a.example", "b.example")
    ]
    assert len(set(ids)) == 4 and all(ids)


@pytest.mark.rule("R165")
async def test_without_one_it_is_a_round_after_which_the_handler_runs_again() -> None:
    files = Files("a.example", "b.example")
    async with driver(files.server, MODERN) as wire:
        first = await wire.call("read", {"path": "x"})
        again = await wire.call("read", {"path": "x"}, **retry(first, **{"url-1": ACCEPTED, "url-2": ACCEPTED}))
        for response in (first, again):
            assert [question["params"] for question in asked(response).values()] == [
                {"mode": "url", "url": f"https://{page}/", "message": f"Sign in to {page}"}
                for page in ("a.example", "b.example")
            ]
        files.tokens.append("ann")
        response = await wire.call("read", {"path": "x"}, **retry(again, **{"url-1": ACCEPTED, "url-2": ACCEPTED}))
        assert text(response) == "x for ann"
        await wire.idle()
    assert files.runs == 3


@pytest.mark.rule("R165")
@pytest.mark.parametrize("refusal", [DECLINED, {"action": "cancel"}])
async def test_who_refuses_a_page_is_not_asked_again(refusal: Message) -> None:
    files = Files("a.example", "b.example")
    async with driver(files.server, MODERN) as wire:
        first = await wire.call("read", {"path": "x"})
        response = await wire.call("read", {"path": "x"}, **retry(first, **{"url-1": ACCEPTED, "url-2": refusal}))
        assert f"'Sign in to b.example' was answered with '{refusal['action']}'" in failed(response)


@pytest.mark.rule("R165", "R17")
@pytest.mark.case("A14")
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        ("2025-03-26", {"elicitation": {"url": {}}}),
        ("2025-06-18", {"elicitation": {"url": {}}}),
        (LEGACY, {}),
        (LEGACY, {"elicitation": {}}),
        (MODERN, {"elicitation": {"form": {}}}),
    ],
)
async def test_who_takes_no_urls_is_sent_none(version: str, capabilities: dict[str, Any]) -> None:
    files = Files("a.example")
    async with driver(files.server, version, capabilities) as wire:
        response = await wire.call("read", {"path": "x"})
        assert "https://" not in str(response)
        if version == MODERN:
            assert response["error"]["code"] == -32021
            assert response["error"]["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
        else:
            assert "did not declare the capability 'elicitation" in failed(response)
        await wire.idle()


async def test_what_the_handler_keeps_is_kept() -> None:
    """Its steps, what was asked before, and the state of its explicit questions."""
    server, tokens, ran = Server("test"), list[str](), list[str]()

    @server.tool
    async def tool(ctx: Context) -> Any:
        if ctx.state is None:
            return InputRequired({"size": Elicit("Which size?", bool)}, state={"begun": True})
        await ctx.step("work", lambda: ran.append("work"))
        assert await ctx.confirm("sure?")
        if not tokens:
            raise UrlRequired(ElicitUrl("Sign in", "https://a/"))
        return f"{ctx.state} {ctx.answers.read('size', Elicit('Which size?', bool)).unwrap()}"  # type: ignore[union-attr]

    def answer(key: str, question: Message) -> Message:
        if question["params"]["mode"] == "form":
            return YES
        tokens.append("ann")
        return ACCEPTED

    async with driver(server, MODERN) as wire:
        assert text(await wire.rounds("tool", answer)) == "{'begun': True} True"
    assert ran == ["work"]


@both_eras
async def test_a_prompt_a_resource_and_a_sync_tool_can_raise_it(version: str) -> None:
    server = Server("test")

    @server.tool
    def tool() -> str:
        raise UrlRequired(ElicitUrl("Sign in", "https://a/"))

    @server.prompt
    async def prompt() -> str:
        raise UrlRequired(ElicitUrl("Sign in", "https://a/"))

    @server.resource("note://1")
    async def note() -> str:
        raise UrlRequired(ElicitUrl("Sign in", "https://a/"))

    requests = [
        ("tools/call", {"name": "tool"}),
        ("prompts/get", {"name": "prompt"}),
        ("resources/read", {"uri": "note://1"}),
    ]
    async with driver(server, version) as wire:
        for method, params in requests:
            await wire.serve(wire.exchange(method, params))
            response = await wire.next()
            if version == LEGACY:
                assert response["error"]["code"] == -32042
            else:
                assert list(asked(response)) == ["url-1"]


async def until_told(wire: Driver) -> Message:
    return (await wire.until(lambda message: message.get("method") == COMPLETE))["params"]


@pytest.mark.rule("R165")
async def test_after_the_error_the_client_is_told_that_a_page_is_completed() -> None:
    files = Files("a.example", "b.example", until=lambda: bool(files.tokens))
    async with driver(files.server, LEGACY) as wire:
        error = (await wire.call("read", {"path": "x"}))["error"]
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert len(wire.session.stream) == 0
        files.tokens.append("ann")
        told = [await until_told(wire) for _ in range(2)]
        await wire.idle()
    ids = [page["elicitationId"] for page in error["data"]["elicitations"]]
    assert sorted(ids) == sorted(page["elicitationId"] for page in told)


async def test_nobody_watches_a_page_whose_session_ended() -> None:
    files = Files("a.example", until=lambda: False)
    async with driver(files.server, LEGACY) as wire:
        await wire.call("read", {"path": "x"})
        assert wire.dispatcher.nursery.running == 1
        wire.session.close()
        await wire.idle()


async def test_a_page_that_more_calls_name_is_looked_out_for_once() -> None:
    files, looks = Files("a.example", until=lambda: looks.append(1) or bool(files.tokens)), list[int]()
    async with driver(files.server, LEGACY) as wire:
        errors = [(await wire.call("read", {"path": "x"}))["error"] for _ in range(5)]
        assert wire.dispatcher.nursery.running == 1
        files.tokens.append("ann")
        told = [(await until_told(wire))["elicitationId"] for _ in errors]
        await wire.idle()
        assert not wire.session.watched
    assert told == [error["data"]["elicitations"][0]["elicitationId"] for error in errors]


async def test_a_session_has_so_many_pages_looked_out_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("backchannel.server.lookout.PAGES", 2)
    files = Files("a.example", "b.example", "c.example", until=lambda: False)
    async with driver(files.server, LEGACY) as wire:
        await wire.call("read", {"path": "x"})
        assert wire.dispatcher.nursery.running == 2 and "has 2 pages open" in caplog.text
        wire.session.close()
        await wire.idle()


async def test_a_look_that_hangs_ends_with_its_session() -> None:
    files = Files("a.example", until=anyio.sleep_forever)
    async with driver(files.server, LEGACY) as wire:
        await wire.call("read", {"path": "x"})
        wire.session.close()
        await wire.idle()


@pytest.mark.rule("R165")
@pytest.mark.parametrize(("given", "times"), [(ACCEPTED, 1), (DECLINED, 0)])
async def test_a_question_that_waited_for_its_page_says_that_it_is_completed(given: Message, times: int) -> None:
    server, polls = Server("test"), list[int]()

    @server.tool
    async def tool(ctx: Context) -> str:
        outcome = await ctx.elicit_url("Sign in", "https://a/", until=lambda: polls.append(1) or len(polls) > 2)
        return type(outcome).__name__

    async with driver(server, LEGACY) as wire:
        text(await wire.rounds("tool", lambda *_: given))
        sent = [
            message["params"]["elicitationId"] for message in wire.sent if message.get("method") == "elicitation/create"
        ]
        assert [params for method, params in wire.told if method == COMPLETE] == [{"elicitationId": sent[0]}] * times


@pytest.mark.rule("R165")
@pytest.mark.parametrize("replayed", [True, False])
async def test_a_client_that_waits_for_the_call_is_not_asked_again(replayed: bool) -> None:
    """Also where the handler runs in rounds although there is a session."""
    server, polls, asked_for = Server("test"), list[int](), list[str]()

    @server.tool
    async def tool(ctx: Context) -> Any:
        if not replayed and ctx.state is None:
            return InputRequired({"size": Elicit("Which size?", bool)}, state=1)
        await ctx.elicit_url("Sign in", "https://a/", until=lambda: polls.append(1) or len(polls) > 2)
        return f"{await ctx.confirm('sure?')} {len(polls)}"

    def answer(key: str, question: Message) -> Message:
        asked_for.append(question["params"]["message"])
        return YES if question["params"]["mode"] == "form" else ACCEPTED

    async with driver(replaying(server) if replayed else server, LEGACY) as wire:
        assert text(await wire.rounds("tool", answer)) == "True 3"
        ids = [message["params"]["elicitationId"] for message in wire.sent if "Id" in str(message.get("params", ""))]
    assert asked_for == ["Which size?"] * (not replayed) + ["Sign in", "sure?"]
    assert len(ids) == 2 and len(set(ids)) == 1


@pytest.mark.rule("R165")
async def test_on_the_stateless_protocol_there_is_neither_id_nor_word() -> None:
    server, polls = Server("test"), list[int]()

    @server.tool
    async def tool(ctx: Context) -> str:
        await ctx.elicit_url("Sign in", "https://a/", until=lambda: polls.append(1) or len(polls) > 2)
        return "done"

    def answer(key: str, question: Message) -> Message:
        assert "elicitationId" not in question["params"]
        return ACCEPTED

    async with driver(server, MODERN) as wire:
        assert text(await wire.rounds("tool", answer)) == "done"
        assert wire.told == []


@pytest.mark.rule("R165")
@both_eras
async def test_a_client_goes_there_and_calls_again(version: str) -> None:
    """The same tool on both eras, over a client."""
    files = Files("a.example", until=lambda: bool(files.tokens))

    def visit(question: Any) -> bool:
        assert question.url == "https://a.example/"
        files.tokens.append("ann")
        return True

    async with Client(files.server, elicit_url=visit, version=version) as client:
        assert (await client.call_tool("read", {"path": "x"})).text == "x for ann"
    assert files.runs == 2


@pytest.mark.parametrize("pages", [(), ("https://a/",), (Elicit("Name?", str),)])
def test_what_is_no_page(pages: Any) -> None:
    with pytest.raises(TypeError, match="UrlRequired takes pages"):
        UrlRequired(*pages)
