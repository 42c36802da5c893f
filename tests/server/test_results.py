"""What a tool returns, as the result that goes over the wire."""

import dataclasses
import datetime
import decimal
import enum
import json
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, SerializeAsAny, TypeAdapter, computed_field
from typing_extensions import TypedDict

from backchannel.errors import ConfigurationError, ToolError
from backchannel.protocol.types.base import Annotations
from backchannel.protocol.types.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
    ToolUseContent,
    UnknownContent,
)
from backchannel.protocol.types.tools import CallToolResult
from backchannel.server.results import Output, error_result, may_hold_floats, to_result

LONE = "half \ud83d of a pair"


class Point(BaseModel):
    x: int
    label: str | None = Field(default=None, serialization_alias="theLabel")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.x


@dataclasses.dataclass
class Line:
    start: Point
    size: float = 1.0


class Options(TypedDict):
    deep: bool


class Color(enum.Enum):
    RED = "red"


def output(annotation: Any) -> Output:
    return Output(annotation, "f()")


def structured(result: CallToolResult) -> Any:
    assert isinstance(result.structured_content, msgspec.Raw)
    return json.loads(bytes(result.structured_content))


# -- without a description -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("hello", ["hello"]),
        ("", [""]),
        ("naïve 日本 😀", ["naïve 日本 😀"]),
        (None, []),
        (5, ["5"]),
        (True, ["true"]),
        (1.5, ["1.5"]),
        ({"a": [1, None]}, ['{"a":[1,null]}']),
        ([1, "x"], ['[1,"x"]']),
        (["a", "b"], ['["a","b"]']),
        ([], []),
        (Point(x=1), ['{"x":1,"theLabel":null,"double":2}']),
        (Line(Point(x=1)), ['{"start":{"x":1,"theLabel":null,"double":2},"size":1.0}']),
        (datetime.date(2026, 7, 28), ['"2026-07-28"']),
        (Color.RED, ['"red"']),
        (Annotations(priority=0.5), ['{"priority":0.5}']),
        ([TextContent("a"), "b"], ["a", "b"]),
        (("a", TextContent("b")), ["a", "b"]),
    ],
    ids=repr,
)
def test_values_that_no_schema_describes(value: Any, texts: list[str]) -> None:
    result = to_result(value, None)
    assert result == CallToolResult([TextContent(text) for text in texts])
    assert result.structured_content is msgspec.UNSET
    assert not result.is_error


@pytest.mark.parametrize(
    "block",
    [
        TextContent("a", Annotations(priority=1.0)),
        ImageContent("aGk=", "image/png"),
        EmbeddedResource(ResourceContents("file:///a", text="b")),
        UnknownContent(b'{"type":"new"}'),
    ],
    ids=repr,
)
def test_content_blocks_are_content(block: Any) -> None:
    assert to_result(block, None).content == [block]
    assert to_result([block, "x"], None).content == [block, TextContent("x")]


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_bytes_are_refused_with_a_hint(value: Any) -> None:
    with pytest.raises(ValueError, match="Image, Audio or File of backchannel.types"):
        to_result(value, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([TextContent("a"), 5], "a list of content blocks holds a int"),
        ([TextContent("a"), ToolUseContent("1", "f", {})], "holds a ToolUseContent"),
        ({"a": float("nan")}, "JSON cannot carry"),
        (float("inf"), "JSON cannot carry"),
        (object(), "a result of type object is what JSON cannot carry"),
        ({"a": object()}, "a result of type dict"),
        (Point, "JSON cannot carry"),
    ],
    ids=repr,
)
def test_what_json_cannot_carry_is_the_authors_fault(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        to_result(value, None)


def test_a_circle_is_the_authors_fault() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    for described in (None, output(list[Any])):
        with pytest.raises(ValueError, match="cannot carry"):
            to_result(circle, described)


def test_the_authors_own_result_passes() -> None:
    own = CallToolResult([TextContent("no")], {"n": [1, None]}, True, {"a": 1})
    assert to_result(own, output(Point)) is own
    raw = CallToolResult([UnknownContent(b"{}")], msgspec.Raw(b"[1]"))
    assert to_result(raw, None) is raw
    with pytest.raises(ValueError, match="structured_content is not JSON"):
        to_result(CallToolResult(structured_content=Point(x=1)), None)


# -- with a description ----------------------------------------------------------------------------------------------


@pytest.mark.rule("R129")
@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 5, 5),
        (bool, False, False),
        (float, 1, 1.0),
        (list[int], [1, 2], [1, 2]),
        (list[int], (1, 2), [1, 2]),
        (list[int], [], []),
        (dict[str, Any], {"a": None}, {"a": None}),
        (Point, Point(x=1), {"x": 1, "theLabel": None, "double": 2}),
        (Point, {"x": 1}, {"x": 1, "theLabel": None, "double": 2}),
        (Line, Line(Point(x=1)), {"start": {"x": 1, "theLabel": None, "double": 2}, "size": 1.0}),
        (Options, {"deep": True}, {"deep": True}),
        (Literal["a", "b"], "a", "a"),
        (Color, Color.RED, "red"),
        (datetime.date, datetime.date(2026, 7, 28), "2026-07-28"),
        (int | None, None, None),
        (Annotated[str, Field(max_length=3)], "abc", "abc"),
        (dict[str, str], {"naïve": "日本 😀"}, {"naïve": "日本 😀"}),
        (str | int, "null � NaN", "null � NaN"),
    ],
)
def test_described_values_are_structured_content_and_text(annotation: Any, value: Any, expected: Any) -> None:
    described = output(annotation)
    result = to_result(value, described)
    assert structured(result) == expected
    assert result.text.encode() == bytes(result.structured_content)
    assert [type(block) for block in result.content] == [TextContent]
    assert jsonschema_rs.is_valid(described.schema, expected)
    assert msgspec.json.decode(msgspec.json.encode(result))["structuredContent"] == expected


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (int, "x", "f() returned what its return annotation does not allow: result: expected integer"),
        (Point, None, "f() returned what its return annotation does not allow: result: expected"),
        (Line, {"start": {"x": "a"}}, 'start.x: expected integer, got "a"'),
        (list[Point], [Point(x=1), 5], "[1]: expected"),
        (Options, {}, "deep: missing"),
        (Point, Point.model_construct(x="a"), "f() returned what JSON cannot carry"),
        (float, float("nan"), "f() returned what JSON cannot carry: a number is not finite"),
        (list[Line], [Line(Point(x=1), float("inf"))], "a number is not finite"),
        (dict[str, Any], {"a": object()}, "f() returned what JSON cannot carry"),
    ],
)
def test_a_value_that_does_not_fit_is_the_authors_fault(annotation: Any, value: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        to_result(value, output(annotation))
    assert text in str(caught.value)
    assert "http" not in str(caught.value)


def test_members_that_the_annotation_lacks_stay_home() -> None:
    class Account(BaseModel):
        name: str

    class Stored(Account):
        password: str

    assert structured(to_result(Stored(name="a", password="b"), output(Account))) == {"name": "a"}


def test_an_output_that_json_schema_cannot_carry() -> None:
    with pytest.raises(ConfigurationError, match=r"^f\(\): the return annotation cannot be described"):
        output(type("Strange", (), {}))


# -- text that cannot be encoded -------------------------------------------------------------------------------------


class Bad(BaseModel):
    text: str


@pytest.mark.case("H03")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, LONE),
        (None, [LONE, TextContent("a")]),
        (None, TextContent(LONE)),
        (None, TextContent("a", meta={"a": [LONE]})),
        (None, ImageContent("", LONE)),
        (None, EmbeddedResource(ResourceContents(LONE))),
        (None, {"a": LONE}),
        (None, {LONE: 1}),
        (None, [LONE]),
        (None, Bad(text=LONE)),
        (None, CallToolResult([TextContent(LONE)])),
        (None, CallToolResult(structured_content={"a": {LONE: 1}})),
        (None, CallToolResult(meta={"a": LONE})),
        (Bad, Bad(text=LONE)),
        (Bad, {"text": LONE}),
        (dict[str, Any], {"a": [LONE]}),
        (dict[str, Any], {LONE: 1}),
        (dict[str, dict[str, int]], {"a": {LONE: 1}}),
        (str | int, LONE),
    ],
    ids=ascii,
)
def test_half_a_surrogate_pair_is_a_tool_error(annotation: Any, value: Any) -> None:
    with pytest.raises(ToolError, match="surrogate") as caught:
        to_result(value, None if annotation is None else output(annotation))
    assert str(caught.value).isascii()


@pytest.mark.case("H03")
@pytest.mark.parametrize(
    ("text", "sent"), [("plain", "plain"), ("日本 😀", "日本 😀"), ("\ud83d\ude00", "😀"), (LONE, "half � of a pair")]
)
def test_an_error_can_say_anything(text: str, sent: str) -> None:
    assert error_result(text) == CallToolResult([TextContent(sent)], is_error=True)


ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.case("H03")
@given(ANY_TEXT)
def test_every_text_is_sent_or_a_tool_error(text: str) -> None:
    msgspec.json.encode(error_result(text))
    for value, described in ((text, None), ({"a": [text]}, None), ({text: text}, output(dict[str, str]))):
        try:
            sent = to_result(value, described)
        except ToolError:
            assert any(0xD800 <= ord(character) < 0xE000 for character in text)
        else:
            msgspec.json.encode(sent)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_arrives_as_it_was(value: Any) -> None:
    result = to_result({"value": value}, output(dict[str, Any]))
    assert structured(result) == {"value": value}
    assert json.loads(to_result({"value": value}, None).text) == {"value": value}


# -- what need not be looked at --------------------------------------------------------------------------------------


class Open(BaseModel, extra="allow"):
    x: int


class Node(BaseModel):
    name: str | None
    inner: "list[Node] | None" = None


class Ratio(BaseModel):
    part: Annotated[str, PlainSerializer(lambda text: float(text), return_type=float)]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, False),
        (str | None, False),
        (list[dict[str, bool]], False),
        (Node, False),
        (tuple[Node, Color], False),
        (Options, False),
        (float, True),
        (Any, True),
        (dict, True),
        (list, True),
        (int | float, True),
        (dict[str, Line], True),
        (Open, True),
        (Ratio, True),
        (decimal.Decimal, True),
        (SerializeAsAny[Node], True),
        (Annotated[int, BeforeValidator(int)], True),
        (Point, True),  # what its computed field gives is not known
    ],
)
def test_where_there_may_be_a_float(annotation: Any, expected: bool) -> None:
    assert may_hold_floats(TypeAdapter(annotation).core_schema) is expected


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Ratio, Ratio(part="nan")),
        (Open, Open(x=1, y=float("nan"))),  # type: ignore[call-arg]
        (list[Line | None], [None, Line(Point(x=1), float("inf"))]),
        (dict[str, Any], {"a": None, "b": [float("-inf")]}),
    ],
)
def test_a_number_that_is_not_finite_is_found_beside_nothing(annotation: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="a number is not finite"):
        to_result(value, output(annotation))
