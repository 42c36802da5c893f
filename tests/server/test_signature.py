"""What a handler takes: schema, context, binding, and what is refused at registration."""

import dataclasses
import datetime
import enum
import functools
import inspect
import json
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NoReturn, Optional

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Secret, SecretStr, field_validator
from typing_extensions import TypedDict

from backchannel.errors import ConfigurationError
from backchannel.protocol.types.content import ContentBlock, ImageContent, TextContent
from backchannel.protocol.types.tools import CallToolResult
from backchannel.server.signature import BadArguments, Output, Signature


class Context:
    """Stands for the real one, which this module does not import."""


class Later:
    """Stands for the explicit InputRequired."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place on the board."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    widths: list[int] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    deep: bool


class Node(BaseModel):
    name: str
    children: list["Node"] = []


def of(function: Callable[..., Any], **settings: Any) -> Signature:
    return Signature.of(function, context_type=Context, **settings)


def bind(function: Callable[..., Any], arguments: Any, **settings: Any) -> dict[str, Any]:
    data = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    return of(function, **settings).bind(data)


def refusal(function: Callable[..., Any], arguments: Any, **settings: Any) -> str:
    with pytest.raises(BadArguments) as caught:
        bind(function, arguments, **settings)
    return str(caught.value)


# -- the schema ------------------------------------------------------------------------------------------------------


def test_the_schema_says_what_the_parameters_say() -> None:
    def move(
        z: int,
        name: str,
        color: Color,
        mode: Literal["a", "b"] = "a",
        speed: Annotated[float, Field(gt=0, description="in m/s")] = 1.0,
        tags: list[str] = [],  # noqa: B006
        when: datetime.date | None = None,
        *,
        options: Options,
    ) -> None: ...

    assert of(move).input_schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "z": {"type": "integer"},
            "name": {"type": "string"},
            "color": {"$ref": "#/$defs/Color"},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "speed": {"type": "number", "exclusiveMinimum": 0, "description": "in m/s", "default": 1.0},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "options": {"$ref": "#/$defs/Options"},
        },
        "required": ["z", "name", "color", "options"],
        "$defs": {
            "Color": {"type": "string", "enum": ["red", "blue"]},
            "Options": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}
            | {"additionalProperties": False},
        },
    }


@pytest.mark.case("J08")
def test_properties_keep_the_order_of_the_declaration() -> None:
    def f(zebra: int, apple: Line, mango: str = "", *, banana: int = 1) -> None: ...

    schema = of(f).input_schema
    assert list(schema["properties"]) == ["zebra", "apple", "mango", "banana"]
    assert list(schema["$defs"]["Line"]["properties"]) == ["start", "end", "widths"]


def test_no_parameters_is_an_object_without_members() -> None:
    def f() -> None: ...

    assert of(f).input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert of(f).bind(None) == {}


def test_explicit_titles_stay_and_made_up_ones_go() -> None:
    class Named(BaseModel):
        model_config = ConfigDict(title="A good name")
        title: str

    def f(plain: Point, named: Named, own: Annotated[int, Field(title="Mine")]) -> None: ...

    schema = of(f).input_schema
    assert "title" not in schema["properties"]["plain"] | schema["$defs"]["Point"]
    assert schema["$defs"]["Point"]["description"] == "A place on the board."
    assert schema["$defs"]["Named"]["title"] == "A good name"
    assert list(schema["$defs"]["Named"]["properties"]) == ["title"]
    assert schema["properties"]["own"]["title"] == "Mine"


def test_extra_keywords_reach_the_schema() -> None:
    def f(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> None: ...

    assert of(f).input_schema["properties"]["region"] == {"type": "string", "x-mcp-header": "Region"}


def test_a_default_may_be_a_field_and_an_alias_is_the_name_on_the_wire() -> None:
    def f(from_: Annotated[str, Field(alias="from")], count: int = Field(3, ge=1, description="how many")) -> None: ...

    schema = of(f).input_schema
    assert schema["properties"] == {
        "from": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "default": 3, "description": "how many"},
    }
    assert schema["required"] == ["from"]
    assert bind(f, {"from": "a"}) == {"from_": "a", "count": 3}


@pytest.mark.parametrize("default", [object(), float("inf"), "\ud83d", SecretStr("pw"), lambda: 0], ids=repr)
def test_a_default_that_does_not_serialise_is_left_out(default: Any) -> None:
    def f(a: Any = default) -> None: ...

    assert of(f).input_schema["properties"] == {"a": {}}
    assert of(f).bind(b"{}")["a"] is default


def test_names_that_trouble_models_are_fine() -> None:
    def f(schema: int, copy: int, model_config: int, _private: int, json: int = 1) -> None: ...

    arguments = {"schema": 1, "copy": 2, "model_config": 3, "_private": 4, "json": 5}
    assert bind(f, arguments) == arguments


def test_descriptions_come_from_the_docstring() -> None:
    def f(city: str, days: int, own: Annotated[str, Field(description="stays")], note: str = "") -> None:
        """Book a room: quickly.

        Args:
            city: Where to go,
                by its full name.
            days (int): How long.
            own: not this
            other: no parameter

        note: anything else.
        """

    found = {name: node.get("description") for name, node in of(f).input_schema["properties"].items()}
    assert found == {
        "city": "Where to go, by its full name.",
        "days": "How long.",
        "own": "stays",
        "note": "anything else.",
    }


@pytest.mark.case("J08")
def test_inlined_schemas_have_no_references() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]
        at: Point

    class Dog(BaseModel):
        kind: Literal["dog"]
        ref: Annotated[str, Field(alias="$ref")] = ""

    def f(line: Line, color: Optional[Color], pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Line: ...  # noqa: UP045

    signature = of(f, inline_refs=True)
    assert signature.output is not None
    for schema in (signature.input_schema, signature.output.schema):
        text = json.dumps(schema)
        assert "$defs" not in text and "#/" not in text
        jsonschema_rs.meta.validate(schema)
    point = signature.input_schema["properties"]["line"]["properties"]["start"]
    assert point == signature.input_schema["properties"]["line"]["properties"]["end"]
    assert point["properties"] == {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}
    assert "$ref" in signature.input_schema["properties"]["pet"]["oneOf"][1]["properties"]


@pytest.mark.case("J08")
def test_a_recursive_model_cannot_be_inlined() -> None:
    def f(ok: int, tree: list[Node]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"f\(\): parameter 'tree'.*\.tree\[\]\.children\[\]: Node contains"):
        of(f, inline_refs=True)
    assert of(f).input_schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}

    def g() -> Node: ...

    with pytest.raises(ConfigurationError, match=r"g\(\): the return annotation\.children\[\]"):
        of(g, inline_refs=True)


@pytest.mark.case("J08")
def test_the_schema_is_the_same_bytes_in_every_run() -> None:
    code = """
        import sys, json, enum
        from typing import Literal
        from pydantic import BaseModel
        from backchannel.server.signature import Signature
        class Context: ...
        class A(BaseModel):
            z: set[str] = {"b", "a", "c"}
            y: frozenset[int] | None = None
        class B(BaseModel):
            a: A
            l: Literal["x", "a", 3]
        def f(b: B, a: A, c: dict[str, B], x: int = 1) -> list[B]: ...
        signature = Signature.of(f, context_type=Context)
        print(json.dumps([signature.input_schema, signature.output.schema]))
    """
    runs = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""


# -- the context -----------------------------------------------------------------------------------------------------


def _contexts() -> list[Callable[..., Any]]:
    def first(ctx: Context, a: int) -> None: ...
    def last(a: int, ctx: Context) -> None: ...
    def keyword(a: int, *, ctx: Context) -> None: ...
    def optional(a: int, ctx: Context | None = None) -> None: ...
    def old(ctx: Optional[Context], a: int) -> None: ...  # noqa: UP045
    def string(ctx: "Context", a: "int") -> None: ...
    def union(ctx: "Context | None", a: int) -> None: ...
    def annotated(ctx: Annotated[Context, "note"], a: int) -> None: ...

    return [first, last, keyword, optional, old, string, union, annotated]


@pytest.mark.parametrize("function", _contexts(), ids=lambda function: function.__name__)
def test_the_context_is_found_and_never_in_the_schema(function: Callable[..., Any]) -> None:
    signature = of(function)
    assert signature.context == "ctx"
    assert list(signature.input_schema["properties"]) == ["a"]
    assert signature.bind(b'{"a": 1}') == {"a": 1}
    assert refusal(function, {"a": 1, "ctx": {}}) == "ctx: unexpected; allowed: a"


def test_no_context_and_two_contexts() -> None:
    def none(a: int) -> None: ...
    def two(a: Context, b: Context) -> None: ...

    assert of(none).context is None
    with pytest.raises(ConfigurationError, match=r"two\(\): parameter 'b' is a second Context"):
        of(two)


def test_excluded_parameters_are_not_looked_at() -> None:
    def f(a: int, size: "Whatever", *rest: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    signature = of(f, exclude={"size", "rest"})
    assert list(signature.input_schema["properties"]) == ["a"]
    with pytest.raises(BadArguments, match="size: unexpected"):
        signature.bind(b'{"a": 1, "size": 2}')


# -- kinds of functions ----------------------------------------------------------------------------------------------


class Callables:
    async def method(self, a: int) -> None: ...

    async def __call__(self, a: int) -> None: ...


def _traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def _async(a: int) -> None: ...


def _sync(a: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (_async, True),
        (_sync, False),
        (functools.partial(_async), True),
        (functools.partial(functools.partial(_sync)), False),
        (Callables(), True),
        (Callables().method, True),
        (functools.partial(Callables()), True),
        (_traced(_async), True),
        (_traced(_sync), False),
        (functools.lru_cache(_sync), False),
    ],
)
def test_async_is_seen_through_what_wraps_the_function(function: Callable[..., Any], is_async: bool) -> None:
    signature = of(function)
    assert signature.is_async is is_async
    assert signature.bind(b'{"a": 1}') == {"a": 1}


def test_what_a_partial_has_bound_is_not_the_clients_business() -> None:
    def f(tenant: str, a: int, admin: bool = False) -> None: ...

    signature = of(functools.partial(f, "acme", admin=True))
    assert list(signature.input_schema["properties"]) == ["a"]
    with pytest.raises(BadArguments):
        signature.bind(b'{"a": 1, "admin": false}')


# -- names -----------------------------------------------------------------------------------------------------------

FUTURE = """
from __future__ import annotations
from typing import TYPE_CHECKING, Annotated
import dataclasses
import pydantic
if TYPE_CHECKING:
    from somewhere import Context, Hidden

Size = int

class Item(pydantic.BaseModel):
    part: Part

class Part(pydantic.BaseModel):
    n: int

def at_module(ctx: Context, item: Item, size: Size = 1) -> Part: ...

def make(of):
    class Extent(pydantic.BaseModel):
        w: int
    class Size(Extent):
        pass
    @dataclasses.dataclass
    class Box:
        size: Extent
    def handler(box: Box, sizes: list[Size], ctx: Context | None = None) -> Size: ...
    return of(handler)

def with_shadow(of):
    Size = "not a type"
    return of(at_module)

def through(of, call):
    class Local(pydantic.BaseModel):
        n: int
    def handler(a: Local) -> None: ...
    return call(handler)

def hidden(a: int, b: list[Hidden]) -> None: ...
def hidden_result() -> Hidden: ...
def nested(a: int, bag: Bag) -> None: ...

class Bag(pydantic.BaseModel):
    what: Missing

class Tools:
    class Inner(pydantic.BaseModel):
        n: int
    def method(self, a: Tools.Inner) -> None: ...
"""


@pytest.fixture
def future() -> Any:
    module = types.ModuleType("future_module")
    sys.modules["future_module"] = module
    exec(FUTURE, module.__dict__)
    yield module
    del sys.modules["future_module"]


def test_string_annotations_of_a_module(future: Any) -> None:
    signature = of(future.at_module)
    assert signature.context == "ctx"
    assert signature.bind(b'{"item": {"part": {"n": 1}}}')["item"] == future.Item(part=future.Part(n=1))
    assert signature.output is not None


def test_string_annotations_that_name_locals(future: Any) -> None:
    signature = future.make(of)
    assert signature.context == "ctx"
    bound = signature.bind(b'{"box": {"size": {"w": 1.0}}, "sizes": [{"w": 2}]}')
    assert bound["box"].size.w == 1 and bound["sizes"][0].w == 2
    assert list(signature.output.schema["properties"]) == ["w"]


def test_names_of_a_caller_that_is_not_around_the_function_do_not_count(future: Any) -> None:
    assert future.with_shadow(of).input_schema["properties"]["size"] == {"type": "integer", "default": 1}


def test_locals_are_found_when_another_module_registers(future: Any) -> None:
    def decorator(function: Callable[..., Any]) -> Signature:
        return of(function)

    assert future.through(of, decorator).bind(b'{"a": {"n": 1}}')["a"].n == 1


def test_methods_and_the_namespace_of_the_caller(future: Any) -> None:
    assert list(of(future.Tools().method).input_schema["properties"]) == ["a"]
    assert of(future.hidden, namespace={"Hidden": int}).bind(b'{"a": 1, "b": [2]}') == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hidden", r"hidden\(\): parameter 'b' mentions 'Hidden', which is not defined"),
        ("hidden_result", r"hidden_result\(\): the return annotation mentions 'Hidden'"),
        ("nested", r"nested\(\): parameter 'bag' mentions 'Missing'"),
    ],
)
def test_a_name_that_is_not_there_is_told(future: Any, name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        of(getattr(future, name))


# -- refused at registration -----------------------------------------------------------------------------------------


class Strange:
    pass


def _refused() -> list[Any]:
    def positional(a: int, b: int, /) -> None: ...
    def args(a: int, *b: int) -> None: ...
    def kwargs(a: int, **b: int) -> None: ...
    def strange(a: int, b: Strange) -> None: ...
    def strange_list(a: int, b: list[Strange]) -> None: ...
    def call(a: int, b: Callable[[int], int]) -> None: ...
    def arm(a: int, b: int | Callable[[int], int]) -> None: ...
    def number(a: int, b: 5) -> None: ...  # type: ignore[valid-type]
    def syntax(a: int, b: "int |") -> None: ...  # type: ignore[syntax]  # noqa: F722
    def pattern(a: int, b: Annotated[str, Field(pattern="(")]) -> None: ...

    return [positional, args, kwargs, strange, strange_list, call, arm, number, syntax, pattern]


@pytest.mark.parametrize("function", _refused(), ids=lambda function: function.__name__)
def test_what_no_client_could_supply_is_refused_by_name(function: Callable[..., Any]) -> None:
    culprit = "a" if function.__name__ == "positional" else "b"
    with pytest.raises(ConfigurationError, match=rf"^{function.__name__}\(\): parameter '{culprit}'") as caught:
        of(function)
    assert "\n" not in str(caught.value) and "http" not in str(caught.value)


# -- binding ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R129")
def test_arguments_arrive_as_what_was_annotated() -> None:
    def f(line: Line, color: Color, options: Options, when: datetime.date, n: float, ok: bool = True) -> None: ...

    bound = bind(
        f,
        {
            "line": {"start": {"x": 1}, "end": {"x": 2, "y": 3}, "widths": [1]},
            "color": "red",
            "options": {"deep": True},
            "when": "2026-07-28",
            "n": 1,
        },
    )
    assert bound == {
        "line": Line(Point(x=1), Point(x=2, y=3), [1]),
        "color": Color.RED,
        "options": {"deep": True},
        "when": datetime.date(2026, 7, 28),
        "n": 1.0,
        "ok": True,
    }


@pytest.mark.parametrize("empty", [None, b"", b"{}", b" { } ", b"null", msgspec.Raw(), msgspec.Raw(b"{}")], ids=repr)
def test_nothing_means_no_arguments(empty: Any) -> None:
    def f(a: int = 1) -> None: ...

    assert of(f).bind(empty) == {"a": 1}


@pytest.mark.case("J01")
@pytest.mark.parametrize("text", ["123", "null", '{"a":1}', "[1]", " 1", "true", "1.0", '"x"', "NaN"])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_string_stays_the_string_it_is(text: str, lenient: bool) -> None:
    def f(s: str, u: str | int, o: str | None = None, a: Any = None) -> None: ...

    arguments = {"s": text, "u": text, "o": text, "a": text}
    assert bind(f, arguments, lenient=lenient) == arguments


@pytest.mark.case("J01")
def test_stringified_values_are_read_in_lenient_mode_only() -> None:
    def f(s: str, n: int, d: dict[str, Any], u: str | int, m: Point | None = None) -> None: ...

    arguments = {"s": "1", "n": "5", "d": '{"a":1}', "u": "1", "m": '{"x":"2.0"}'}
    assert refusal(f, arguments) == (
        'n: expected integer, got "5"; d: expected object, got "{\\"a\\":1}"; '
        'm: expected object, got "{\\"x\\":\\"2.0\\"}"'
    )
    bound = bind(f, arguments, lenient=True)
    assert bound == {"s": "1", "n": 5, "d": {"a": 1}, "u": "1", "m": Point(x=2)}
    for bad in ("x", "NaN", "1e999", "[" * 100_000, '"5"', "½"):
        with pytest.raises(BadArguments):
            bind(f, {**arguments, "n": bad}, lenient=True)


def test_integral_floats_are_integers_everywhere() -> None:
    def f(a: int, line: Line, u: str | int, o: int | None, t: tuple[int, str], m: dict[str, list[int]]) -> None: ...

    data = b"""{"a": 1.0, "line": {"start": {"x": 2.0}, "end": {"x": -3e2, "y": 0.0}, "widths": [1, 2.0, 3E0]},
        "u": 5.0, "o": 6.00, "t": [7.0, "x"], "m": {"k": [8.0, 9]}}"""
    assert bind(f, data) == {
        "a": 1,
        "line": Line(Point(x=2), Point(x=-300, y=0), [1, 2, 3]),
        "u": 5,
        "o": 6,
        "t": (7, "x"),
        "m": {"k": [8, 9]},
    }


def test_mending_one_number_leaves_the_others_exact() -> None:
    def f(a: int, b: int, c: float, d: Any, e: Decimal) -> None: ...

    data = b'{"a": 9007199254740993.0, "b": 123456789012345678901234, "c": 2.0, "d": [1.0, 1e0], "e": 1.10}'
    bound = bind(f, data)
    assert bound == {"a": 9007199254740993, "b": 123456789012345678901234, "c": 2, "d": [1, 1], "e": Decimal("1.1")}
    assert [type(value) for value in (bound["c"], *bound["d"])] == [float, float, float]


def test_a_fraction_is_no_integer() -> None:
    def f(a: int, b: list[int]) -> None: ...

    assert refusal(f, {"a": 1.5, "b": [2.0, 2.5]}) == "a: expected integer, got 1.5; b[1]: expected integer, got 2.5"


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1" * 400 + b".0"])
@pytest.mark.parametrize("place", [b'{"a": %s}', b'{"b": [%s]}', b'{"c": {"x": {"y": %s}}}', b'{"d": %s}'])
def test_numbers_that_are_not_finite_are_refused(place: bytes, value: bytes) -> None:
    class Inner(BaseModel):
        y: float = 0

    class Outer(BaseModel):
        x: Inner = Inner()

    def f(a: float = 0, b: Sequence[float] = (), c: Outer | None = None, d: Any = None) -> None: ...

    assert refusal(f, place % value).startswith("arguments: not valid JSON")


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[",
        b"\xff",
        b'{"a": "\xff"}',
        b'{"a": "\\ud83d"}',
        b'{"\\ud83d": 1}',
        b"[" * 300 + b"]" * 300,
        b"[" * 100_000,
        b'{"a": ' * 300 + b"1" + b"}" * 300,
        b'{"a": ' + b"1" * 5000 + b"}",
        b"nul",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b'{"a": "\x01"}',
        b'{"a": 01}',
    ],
    ids=lambda data: repr(data[:20]),
)
def test_bytes_that_are_no_json_are_bad_arguments(data: bytes) -> None:
    def f(a: Any = None) -> None: ...

    assert refusal(f, data).startswith("arguments: ")
    with pytest.raises(BadArguments):
        of(f).bind(msgspec.Raw(data))


def test_the_last_of_two_equal_names_counts() -> None:
    def f(a: int) -> None: ...

    assert bind(f, b'{"a": 1, "a": 2}') == {"a": 2}
    assert bind(f, b'{"a": "x", "a": 2.0}') == {"a": 2}


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_bind_or_are_bad_arguments(data: bytes) -> None:
    with pytest.raises(BadArguments):
        _ANY.bind(b"[" + data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "start", "a"]), inner),
    max_leaves=6,
)
_MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "a": _JSON | st.integers() | st.integers().map(float),
        "p": _JSON | st.fixed_dictionaries({"x": st.integers() | st.integers(-9, 9).map(float)}),
        "u": _JSON,
        "l": _JSON | st.lists(st.integers() | st.integers(-9, 9).map(float)),
        "c": st.sampled_from(["red", "blue", "green", 1]),
        "z": _JSON,
    },
)


def _any(a: int, p: Point | None = None, u: str | bool = "", l: list[int] = [], c: Color = Color.RED) -> None: ...  # noqa: B006, E741


_ANY = of(_any)
_VALIDATOR = jsonschema_rs.validator_for(_ANY.input_schema)


@pytest.mark.rule("R128")
@given(_MEMBERS | _JSON)
def test_bind_takes_exactly_what_the_schema_allows(arguments: Any) -> None:
    data = json.dumps(arguments).encode()
    try:
        _ANY.bind(data)
    except BadArguments as error:
        assert not _VALIDATOR.is_valid(arguments)
        assert error.errors and "http" not in str(error) and len(str(error)) <= 300
    else:
        assert _VALIDATOR.is_valid({} if arguments is None else arguments)


@pytest.mark.case("J01")
@given(st.text().filter(lambda text: text.isascii() or text.encode(errors="ignore").decode() == text))
def test_any_text_arrives_unchanged(text: str) -> None:
    def f(s: str) -> None: ...

    assert bind(f, {"s": text}) == {"s": text}


# -- the text of a refusal -------------------------------------------------------------------------------------------


@pytest.mark.rule("R128")
@pytest.mark.case("J06")
def test_the_text_helps_the_model() -> None:
    def f(count: int, when: datetime.date) -> None: ...

    assert refusal(f, {"count": "x"}) == 'count: expected integer, got "x"; when: missing'


@pytest.mark.case("J06")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": True}, "a: expected integer, got true"),
        ({"a": None}, "a: expected integer, got null"),
        ({"a": [1]}, "a: expected integer, got array"),
        ({"a": {"secret": 1}}, "a: expected integer, got object"),
        ({"a": 1, "u": []}, "u: expected string or integer, got array"),
        ({"a": 1, "line": {"start": {"x": "1"}}}, 'line.start.x: expected integer, got "1"; line.end: missing'),
        ({"a": 1, "points": [{"x": 1}, {}]}, "points[1].x: missing"),
        ({"a": 1, "m": "c"}, "m: expected 'x' or 'y', got \"c\""),
        ({"a": 1, "color": "green"}, "color: expected 'red' or 'blue', got \"green\""),
        ({"a": 1, "day": "soon"}, 'day: expected date in the format YYYY-MM-DD, got "soon"'),
        ({"a": 1, "low": 0}, "low: expected greater than 0, got 0"),
        ({"a": 1, "even": 3}, "even: must be even, got 3"),
        ({"a": 1, "options": {"deep": True, "wide": 1}}, "options.wide: unexpected"),
        ({"a": 1, "b" * 100: 1, "zz": 2}, f"{'b' * 39}…: unexpected; zz: unexpected; allowed: a, u, line, points, m, "),
        ([1], "arguments: expected object, got array"),
        ("x", 'arguments: expected object, got "x"'),
        (5, "arguments: expected object, got 5"),
    ],
)
def test_each_kind_of_fault(arguments: Any, text: str) -> None:
    def check(n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n

    def f(
        a: int,
        u: str | int = "",
        line: Line | None = None,
        points: list[Point] = [],  # noqa: B006
        m: Literal["x", "y"] = "x",
        color: Color = Color.RED,
        day: datetime.date | None = None,
        low: Annotated[int, Field(gt=0)] = 1,
        even: Annotated[int, AfterValidator(check)] = 2,
        options: Options | None = None,
    ) -> None: ...

    assert refusal(f, arguments).startswith(text)


@pytest.mark.case("J06")
def test_long_inputs_are_cut_and_many_faults_are_counted() -> None:
    def f(**names: int) -> None: ...

    many = [inspect.Parameter(f"p{i}", inspect.Parameter.KEYWORD_ONLY, annotation=int) for i in range(50)]
    f.__signature__ = inspect.Signature(many)  # type: ignore[attr-defined]
    text = refusal(f, {f"p{i}": "x" * 10_000 for i in range(50)})
    assert len(text) <= 300
    assert "more" in text and "…" in text
    with pytest.raises(BadArguments) as caught:
        of(f).bind(b"{}")
    assert len(caught.value.errors) == 50


class Credentials(BaseModel):
    user: str
    password: SecretStr


def _secrets() -> list[Any]:
    def plain(s: SecretStr) -> None: ...
    def optional(s: SecretStr | None = None) -> None: ...
    def listed(s: list[SecretStr]) -> None: ...
    def mapped(s: dict[str, SecretStr]) -> None: ...
    def model(s: Credentials) -> None: ...
    def models(s: list[Credentials] | int) -> None: ...
    def generic(s: Secret[int]) -> None: ...
    def short(s: Annotated[SecretStr, Field(min_length=90)]) -> None: ...

    return [plain, optional, listed, mapped, model, models, generic, short]


@pytest.mark.case("J06")
@pytest.mark.parametrize("function", _secrets(), ids=lambda function: function.__name__)
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    "value",
    ["hunter2", 7392, ["hunter2", 7392], {"user": "hunter2", "password": 7392}, {"password": ["hunter2"]}, 7392.5],
)
def test_secrets_are_masked(function: Callable[..., Any], value: Any, lenient: bool) -> None:
    for arguments in ({"s": value}, {"s": [value]}, {"s": {"k": value}}, {"s": None, "extra": value}, value):
        try:
            bind(function, arguments, lenient=lenient)
        except BadArguments as error:
            assert "hunter2" not in str(error.errors) and "7392" not in str(error.errors)


def test_an_authors_validator_may_fail_in_its_own_way() -> None:
    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2 == 0:
                raise AssertionError("n is even\n  and not odd")
            return n

    def f(odd: Odd) -> None: ...

    assert refusal(f, {"odd": {"n": 2}}) == "odd.n: n is even and not odd, got 2"


# -- the result's description ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        None,
        str,
        str | None,
        TextContent,
        ContentBlock,
        list[ContentBlock],
        list[TextContent | str],
        list[ContentBlock] | None,
        tuple[TextContent, ...],
        Sequence[ImageContent],
        str | ImageContent,
        CallToolResult,
        CallToolResult | Later,
        str | Later | None,
        list,
        list[Any],
        NoReturn,
        "str",
        "list[TextContent]",
    ],
    ids=str,
)
def test_results_that_no_schema_describes(annotation: Any) -> None:
    def f() -> None: ...

    f.__annotations__["return"] = annotation
    assert of(f, passes=[Later]).output is None


def test_no_annotation_is_not_described() -> None:
    def f():  # type: ignore[no-untyped-def]
        ...

    assert of(f).output is None


@pytest.mark.rule("R129")
@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Options, {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Options | Later, {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]}),
        (int | CallToolResult, {"type": "integer"}),
    ],
    ids=str,
)
def test_results_that_are_described(annotation: Any, schema: Any) -> None:
    def f() -> None: ...

    f.__annotations__["return"] = annotation
    output = of(f, passes=[Later, CallToolResult]).output
    assert isinstance(output, Output) and output.schema == schema
    assert of(f, passes=[Later], describe_result=False).output is None


def test_the_schema_of_a_recursive_result_has_a_type_at_the_top() -> None:
    def f() -> Node: ...

    output = of(f).output
    assert output is not None
    assert output.schema["type"] == "object"
    assert jsonschema_rs.is_valid(output.schema, json.loads(output.dump(Node(name="a", children=[Node(name="b")]))))


def test_a_result_that_json_schema_cannot_carry_is_refused() -> None:
    def f() -> Strange: ...
    def g() -> dict[str, TextContent]: ...

    for function in (f, g):
        with pytest.raises(ConfigurationError, match=rf"{function.__name__}\(\): the return annotation cannot be"):
            of(function)


def test_the_limit_of_a_text() -> None:
    assert str(BadArguments(("x" * 290, "y"))) == "x" * 290 + "; and 1 more"
    assert str(BadArguments(("a", "b", "c"))) == "a; b; c"
