"""The questions as values: their form on each wire, what is compared of them, and what their answers become."""

import dataclasses
import datetime
import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, EmailStr, Field

from backchannel import Client, ConfigurationError, Context, Elicit, InvalidAnswer, Roots, Sample, Server
from backchannel.protocol.types.content import TextContent
from backchannel.protocol.types.roots import Root
from backchannel.protocol.types.sampling import ModelPreferences, SamplingMessage
from backchannel.protocol.types.tools import Tool
from backchannel.protocol.versions import Version
from backchannel.server.asks import Confirm, ElicitUrl
from backchannel.server.outcomes import Accepted, Cancelled, Declined
from backchannel.server.roots import RootList
from tests.server.replay import both_eras

JUNE, NOVEMBER, MODERN = Version("2025-06-18"), Version("2025-11-25"), Version("2026-07-28")


class Flavour(enum.Enum):
    """Titles are the names."""

    MILD = "m"
    HOT = "h"


class Person(BaseModel):
    name: str
    age: int | None = None


@dataclasses.dataclass
class Stay:
    nights: int = 1


KINDS: list[tuple[Any, Any, Any]] = [
    (Literal["a", "b"], "b", "b"),
    (Flavour, "h", Flavour.HOT),
    (Annotated[list[Literal["x", "y", "z"]], Field(min_length=1, max_length=2)], ["x", "z"], ["x", "z"]),
    (int | None, 7, 7),
    (datetime.date, "2026-12-24", datetime.date(2026, 12, 24)),
    (bool, True, True),
    (float, 1.5, 1.5),
    (int, 3, 3),
    (str, "é", "é"),
    (["red", "green"], "red", "red"),
    ({"r": "Red", "g": "Green"}, "g", "g"),
]


@pytest.mark.anyio
@pytest.mark.case("B08")
@both_eras
@pytest.mark.parametrize(("kind", "given", "wanted"), KINDS)
async def test_each_kind_of_answer_from_end_to_end(kind: Any, given: Any, wanted: Any, version: str) -> None:
    """Through a client that checks the question, and the answer."""
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        seen.append((await ctx.elicit("Which?", kind)).unwrap())
        return "done"

    async with Client(server, elicit=lambda question: {"value": given}, version=version) as client:
        assert (await client.call_tool("tool")).text == "done"
    assert seen[-1] == wanted and type(seen[-1]) is type(wanted)


@pytest.mark.anyio
@pytest.mark.case("B08")
@both_eras
async def test_forms_of_several_fields_from_end_to_end(version: str) -> None:
    server, seen = Server("test"), []

    @server.tool
    async def tool(ctx: Context) -> str:
        seen.append((await ctx.elicit("Who?", Person)).unwrap())
        seen.append((await ctx.elicit("How long?", Stay)).unwrap())
        seen.append((await ctx.elicit("Go on?")).unwrap())
        return "done"

    answers = {"Who?": {"name": "Ann"}, "How long?": {}, "Go on?": {}}
    async with Client(server, elicit=lambda q: answers[q.message], version=version) as client:
        assert (await client.call_tool("tool")).text == "done"
    assert seen[-3:] == [Person(name="Ann"), Stay(1), None]


@pytest.mark.case("B08")
@pytest.mark.parametrize(("kind", "path"), [(list[int], "list"), (dict[str, int], "dict")])
def test_what_no_form_can_express_is_refused_where_the_question_is_made(kind: Any, path: str) -> None:
    class Nested(BaseModel):
        person: Person

    with pytest.raises(ConfigurationError, match=path):
        Elicit("Which?", kind)
    with pytest.raises(ConfigurationError, match="person"):
        Elicit("Which?", Nested)


def test_an_email_address_keeps_its_format() -> None:
    pytest.importorskip("email_validator")
    params = Elicit("Where?", EmailStr).params(MODERN, "id")
    assert params.requested_schema is not None
    assert params.requested_schema["properties"]["value"]["format"] == "email"


@pytest.mark.rule("R167")
def test_the_mode_is_named_where_the_version_has_modes() -> None:
    ask = Elicit("Which?", bool)
    assert [ask.params(version, "id").mode for version in (JUNE, NOVEMBER, MODERN)] == [None, "form", "form"]


@pytest.mark.rule("R165")
def test_a_page_has_an_id_where_the_version_has_ids() -> None:
    ask = ElicitUrl("Sign in", "https://a")
    assert [ask.params(version, "id-1").elicitation_id for version in (NOVEMBER, MODERN)] == ["id-1", None]
    assert ask.params(MODERN, "id-1").url == "https://a"


def test_what_sampling_sends() -> None:
    ask = Sample(
        "Hi",
        max_tokens=7,
        system="Be brief",
        tools=[Tool("t", {"type": "object"})],
        model_preferences=ModelPreferences(speed_priority=1.0),
        stop_sequences=("x",),
        metadata={"k": 1},
    )
    assert msgspec.to_builtins(ask.params(MODERN, "id")) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 7,
        "modelPreferences": {"speedPriority": 1.0},
        "systemPrompt": "Be brief",
        "stopSequences": ["x"],
        "metadata": {"k": 1},
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
    }
    assert Roots().params(MODERN, "id") is None


@pytest.mark.rule("P6")
def test_what_is_compared_of_a_question() -> None:
    """The text is the question's words, the digest everything else."""
    message = [SamplingMessage("user", TextContent("Hi"))]
    assert Sample("Hi").digest == Sample("Ho", system="x").digest == Sample(message).digest
    assert Sample("Hi", max_tokens=1).digest != Sample("Hi").digest
    assert len({Sample("Hi").text, Sample("Ho").text, Sample("Hi", system="x").text}) == 3
    assert Elicit("a", bool).digest == Confirm("b").digest
    assert len({Elicit("a", bool).digest, Elicit("a", str).digest, ElicitUrl("a", "https://b").digest}) == 3
    assert ElicitUrl("a", "https://a?state=1").digest == ElicitUrl("a", "https://a?state=2").digest


ACCEPT = b'{"action":"accept","content":{"value":%s}}'


def test_what_answers_become() -> None:
    assert Elicit("a", int).read(ACCEPT % b"7") == Accepted(7)
    assert Elicit("a", int).read(b'{"action":"decline"}') == Declined("a")
    assert Elicit("a", int).read(b'{"action":"cancel","content":null}') == Cancelled("a")
    assert Confirm("a").read(ACCEPT % b"true") is True
    assert Confirm("a").read(ACCEPT % b"false") is Confirm("a").read(b'{"action":"cancel"}') is False
    assert ElicitUrl("a", "https://b").read(b'{"action":"accept"}') == Accepted(None)
    with pytest.raises(InvalidAnswer):
        Confirm("a").read(ACCEPT % b'"yes"')
    with pytest.raises(InvalidAnswer):
        Confirm("a").read(b'{"action":"accept"}')
    with pytest.raises(msgspec.DecodeError):
        Elicit("a", int).read(b'{"action":"agree"}')


def test_a_question_asked_again_is_the_same_question() -> None:
    ask = Elicit("Your age?", int)
    again = ask.again(InvalidAnswer("bad", ("value: is too old", "value: is odd")))
    assert (again.text, again.digest) == (ask.text, ask.digest)
    assert (
        again.params(MODERN, "id").message
        == "Your age?\n\nThe last answer would not do: value: is too old; value: is odd"
    )
    assert Confirm("a").again(InvalidAnswer("bad")).text == "a"


@pytest.mark.anyio
@pytest.mark.parametrize(("answer", "wanted"), [(True, True), (1, True), (None, False), ("", False), ({}, False)])
async def test_until_may_be_sync_or_async_and_give_anything(answer: Any, wanted: bool) -> None:
    async def later() -> Any:
        return answer

    for until in (lambda: answer, later):
        assert await ElicitUrl("a", "https://b", until).settled(Accepted(None)) is wanted
    assert await ElicitUrl("a", "https://b", lambda: False).settled(Declined())


# Roots.


@pytest.mark.rule("R70", "R72")
def test_no_roots_allow_nothing(tmp_path: Path) -> None:
    roots = Roots().read(b'{"roots":[]}')
    assert len(roots) == 0 and not roots.contains(tmp_path)


@pytest.mark.rule("R71")
def test_paths_lie_in_roots_by_whole_segments(tmp_path: Path) -> None:
    (tmp_path / "work space").mkdir()
    (tmp_path / "work space-other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work space-other")
    (tmp_path / "work space" / "out").symlink_to(tmp_path)
    roots = RootList([Root((tmp_path / "work space").as_uri()), Root("https://example.com/")])
    inside = ["work space", "work space/a", "work space/a/../b"]
    outside = ["", "work space-other", "link", "work space/..", "work space/out/link", "work space/out"]
    assert all(roots.contains(tmp_path / path) for path in inside)
    assert not any(roots.contains(tmp_path / path) for path in outside)
    assert roots.contains((tmp_path / "work space" / "ä").as_uri())
    assert [root.uri for root in roots] == [roots[0].uri, roots[1].uri] and "https://example.com/" in repr(roots)


@pytest.mark.rule("R21", "R72")
@pytest.mark.parametrize(
    "uri", ["file://[", "file:relative", "file://elsewhere/", "https://a/", "", "file:///%00", "file:"]
)
def test_a_root_that_is_no_directory_of_this_host_allows_nothing(uri: str) -> None:
    roots = Roots().read(msgspec.json.encode({"roots": [{"uri": uri}]}))
    assert len(roots) == 1
    for path in ("/", ".", uri, "relative", "/etc/passwd"):
        assert not roots.contains(path)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("javascript:alert(1)", "the scheme 'javascript'"),
        ("file:///etc/passwd", "the scheme 'file'"),
        ("data:text/html,x", "the scheme 'data'"),
        ("Sign in", "no such form"),
        ("/connect", "no such form"),
        ("https:///connect", "no such form"),
        ("https://[", "no such form"),
        ("https://a:b/", "no such form"),
        ("https://a.example/\nx", "no such form"),
        ("", "no such form"),
    ],
)
def test_a_page_is_on_the_web(url: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"absolute http or https URL with a host, and this one has {wanted}$"):
        ElicitUrl("Sign in", url)
    with pytest.raises(ValueError, match="; the text comes first$"):
        ElicitUrl("https://a.example", url)


@pytest.mark.parametrize(
    "url", ["https://a", "HTTP://localhost:8000/x?y=1#z", "https://[::1]/", "https://münchen.example/ü"]
)
def test_pages(url: str) -> None:
    assert ElicitUrl("Sign in", url).url == url
    with pytest.raises(TypeError, match="a page has a text and a URL"):
        ElicitUrl(url, None)  # type: ignore[arg-type]
