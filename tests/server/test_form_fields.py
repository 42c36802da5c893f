"""Which types become which fields, and what is refused when a form is made (case B08)."""

import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from annotated_types import Ge, Len
from msgspec import UNSET
from pydantic import AnyUrl, BaseModel, EmailStr, Field, HttpUrl, RootModel, SecretStr

from backchannel.errors import ConfigurationError, MissingCapability
from backchannel.protocol.forms import Option
from backchannel.protocol.versions import Version
from backchannel.server.forms import Form
from tests.form_samples import WITH_FORMS, specified

NEWEST, PLAIN = Version.V2026_07_28, Version.V2025_06_18


class Size(enum.Enum):
    SMALL = "s"
    EXTRA_LARGE = "xl"
    TINY = "s"


class Level(enum.IntEnum):
    LOW = 1
    veryHigh = 2


class Person(BaseModel):
    name: str


class Booking(BaseModel):
    letter: Literal["a", "b"]
    size: Size
    toppings: Annotated[list[Literal["a", "b", "c"]], Field(min_length=1, max_length=2)]
    age: int | None
    day: datetime.date
    mail: str = Field(json_schema_extra={"format": "email"})


def wire(kind: Any, version: Version = NEWEST) -> Any:
    """The schema of the one property of a wrapped form."""
    return Form.of(kind).schema(version)["properties"]["value"]


@pytest.mark.case("B08")
@pytest.mark.rule("R167")
@pytest.mark.parametrize("version", WITH_FORMS)
@pytest.mark.parametrize("name", Booking.model_fields)
def test_each_answer_type_of_the_case(version: Version, name: str) -> None:
    info = Booking.model_fields[name]
    form = Form.of(Annotated[info.annotation, info])
    if name == "toppings" and version is PLAIN:
        with pytest.raises(MissingCapability, match="'value'"):
            form.schema(version)
    else:
        assert specified(version, form.schema(version))


@pytest.mark.case("B08")
@pytest.mark.parametrize("version", WITH_FORMS[1:])
def test_all_answer_types_of_the_case_in_one_form(version: Version) -> None:
    schema = Form.of(Booking).schema(version)
    assert specified(version, schema)
    assert schema == {
        "type": "object",
        "properties": {
            "letter": {"type": "string", "title": "Letter", "enum": ["a", "b"]},
            "size": {
                "type": "string",
                "title": "Size",
                "oneOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}],
            },
            "toppings": {
                "type": "array",
                "title": "Toppings",
                "minItems": 1,
                "maxItems": 2,
                "items": {"type": "string", "enum": ["a", "b", "c"]},
            },
            "age": {"type": "integer", "title": "Age"},
            "day": {"type": "string", "title": "Day", "format": "date"},
            "mail": {"type": "string", "title": "Mail", "format": "email"},
        },
        "required": ["letter", "size", "toppings", "day", "mail"],
    }
    with pytest.raises(MissingCapability, match="'toppings'"):
        Form.of(Booking).schema(PLAIN)


class Pair(NamedTuple):
    a: int
    b: int


class Half(enum.Enum):
    HALF = 0.5


def model(annotation: Any) -> type[BaseModel]:
    return type("Order", (BaseModel,), {"__annotations__": {"part": annotation}, "__module__": __name__})


def titled(word: str) -> Any:
    """A choice as JSON Schema writes it, with a title for each constant."""
    return Annotated[str, Field(json_schema_extra={word: [{"const": "a", "title": "An A"}, {"const": "b"}]})]


@pytest.mark.case("B08")
@pytest.mark.parametrize(
    ("kind", "path", "reason"),
    [
        (model(Person), "Order.part", "a form is flat; put the fields"),
        (model(Person | None), "Order.part", "a form is flat"),
        (model(list[int]), "Order.part", r"use list\[Literal"),
        (model(list[Person]), "Order.part", r"use list\[Literal"),
        (model(tuple[int, str]), "Order.part", r"use list\[Literal"),
        (model(Pair), "Order.part", r"use list\[Literal"),
        (model(int | str), "Order.part", "one type, not a union"),
        (model(dict[str, int]), "Order.part", "cannot ask for a dict"),
        (model(bytes), "Order.part", "cannot ask for bytes"),
        (model(None), "Order.part", "cannot ask for None"),
        (model(Any), "Order.part", "a value of any type"),
        (model(Callable[[], int]), "Order.part", "no JSON schema"),
        (model(Half), "Order.part", "strings or integers"),
        (model(Literal["1", 1]), "Order.part", "the same string on the wire"),
        (model(Literal[Size.SMALL]), "Order.part", "Literal of enum members"),
        (model(list[Literal["1", 1]]), r"Order.part\[\]", "the same string on the wire"),
        (model(SecretStr), "Order.part", "must not ask for a secret; ask with ctx.elicit_url"),
        (list[int], r"list\[int\]", r"use list\[Literal"),
        (Annotated[list[int], Len(1)], r"list\[int\]", r"use list\[Literal"),
        (dict[str, int], r"dict\[str, int\]", "cannot ask for a dict"),
        (int | str, r"int \| str", "union"),
        (object, "object", "any type"),
        ("str", "'str'", "give str itself"),
        ([], r"\[\]", "one or more strings"),
        ([1], r"\[1\]", "one or more strings"),
        ([("a", 1)], r'\[\["a", 1\]\]', "one or more strings"),
        ([("a",)], r'\[\["a"\]\]', "one or more strings"),
        ([("a", "b", "c")], r'\[\["a", "b", "c"\]\]', "one or more strings"),
        ([("a", "A"), "a"], r'\[\["a", "A"\], "a"\]', "listed twice"),
        (["a", "a"], r'\["a", "a"\]', "listed twice"),
        ({"a": 1}, r'{"a": 1}', "one or more strings"),
    ],
)
def test_what_the_wire_cannot_express_is_refused_when_the_form_is_made(kind: Any, path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{path}: .*{reason}") as caught:
        Form.of(kind)
    assert "pydantic.dev" not in str(caught.value)


@pytest.mark.rule("R167")
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (bool, {"type": "boolean"}),
        (Literal[True], {"type": "boolean"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (decimal.Decimal, {"type": "number"}),
        (str, {"type": "string"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.time, {"type": "string"}),
        (uuid.UUID, {"type": "string"}),
        (AnyUrl, {"type": "string", "format": "uri", "minLength": 1}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),
        (Literal[1, 2], {"type": "string", "enum": ["1", "2"]}),
        (Annotated[int, Field(title="T", description="D", ge=1, le=9.0)], {"minimum": 1, "maximum": 9}),
        (Annotated[int, Ge(0)], {"type": "integer", "minimum": 0}),
        (Annotated[int, Field(gt=0, lt=9, multiple_of=2)], {"type": "integer", "minimum": 1, "maximum": 8}),
        (Annotated[float, Field(gt=0, lt=9.5)], {"type": "number", "minimum": 0, "maximum": 9.5}),
        (Annotated[int, Field(le=2**70)], {"type": "integer"}),
        (Annotated[str, Field(pattern="^a", max_length=3)], {"type": "string", "maxLength": 3}),
        (Annotated[list[Size], Len(1, 2)], {"minItems": 1, "maxItems": 2}),
        (set[Literal["a"]], {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
        (RootModel[int], {"type": "integer"}),
        ({"a": "An A"}, {"oneOf": [{"const": "a", "title": "An A"}]}),
        ([("a", "An A"), ("b", "B")], {"oneOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "B"}]}),
        ([("a", "An A"), "b"], {"oneOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "b"}]}),
        (Annotated[Annotated[int, Ge(0)], Field(le=9)], {"type": "integer", "minimum": 0, "maximum": 9}),
        (Literal["a", "b"] | Literal["c"] | None, {"type": "string", "enum": ["a", "b", "c"]}),
        (titled("oneOf"), {"oneOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "b"}]}),
        (titled("anyOf"), {"oneOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "b"}]}),
        (
            list[titled("anyOf")],
            {"items": {"anyOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "b"}]}},
        ),
        (["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (("a", "b"), {"type": "string", "enum": ["a", "b"]}),
    ],
)
def test_what_reaches_the_wire(kind: Any, schema: dict[str, Any]) -> None:
    written = wire(kind)
    assert written == written | schema
    assert not {"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "anyOf", "$ref"} & written.keys()
    for version in WITH_FORMS if written["type"] != "array" else WITH_FORMS[1:]:
        assert specified(version, Form.of(kind).schema(version))


@pytest.mark.rule("R167")
def test_formats_of_pydantic() -> None:
    pytest.importorskip("email_validator")
    assert wire(EmailStr)["format"] == "email"
    assert wire(HttpUrl)["format"] == "uri"


def test_enum_titles_come_from_the_names() -> None:
    assert Form.of(Size).fields[0].options == (Option("s", "Small"), Option("xl", "Extra large"))
    assert Form.of(Level).fields[0].options == (Option("1", "Low"), Option("2", "VeryHigh"))
    assert wire(enum.Enum("Color", {"red": "Red", "BLUE": "Blue"}))["enum"] == ["Red", "Blue"]
    assert wire(Size | None, PLAIN)["enumNames"] == ["Small", "Extra large"]


@pytest.mark.parametrize("kind", [Literal["s", "xl"], Size, Literal["s", "xl"] | None])
@pytest.mark.parametrize("version", [NEWEST, PLAIN])
def test_titles_of_the_older_spelling(kind: Any, version: Version) -> None:
    """They go out as they were given, at every version."""
    form = Form.of(Annotated[kind, Field(json_schema_extra={"enumNames": ["small", "XL"]})])
    schema = form.schema(version)
    field = schema["properties"]["value"]
    assert (field["enum"], field["enumNames"], "oneOf" in field) == (["s", "xl"], ["small", "XL"], False)
    assert specified(version, schema)


@pytest.mark.parametrize("titles", [["Small"], ["Small", "Large", "Extra large"], ["Small", 2], "XL", None])
def test_titles_that_do_not_fit(titles: Any) -> None:
    with pytest.raises(ConfigurationError, match="one title for each option"):
        Form.of(Annotated[Literal["s", "xl"], Field(json_schema_extra={"enumNames": titles})])


@dataclass
class Defaults:
    size: Size = Size.EXTRA_LARGE
    level: Level | None = Level.LOW
    day: datetime.date = datetime.date(2026, 7, 28)
    sizes: list[Size] = field(default_factory=list)
    several: frozenset[Literal["c", "a", "b"]] = frozenset({"a", "b", "c"})
    count: int = 3
    none: int | None = None
    bad: Annotated[str, Field(min_length=3)] = ""
    endless: float = float("inf")
    flag: bool = False
    price: decimal.Decimal = decimal.Decimal("0.1")


@pytest.mark.rule("R167")
def test_defaults() -> None:
    form = Form.of(Defaults)
    assert not any(field.required for field in form.fields)
    assert {field.name: field.default for field in form.fields if field.default is not UNSET} == {
        "size": "xl",
        "level": "1",
        "day": "2026-07-28",
        "several": ("c", "a", "b"),
        "count": 3,
        "flag": False,
    }
    assert specified(NEWEST, form.schema(NEWEST))


def test_a_field_has_its_alias_title_and_description() -> None:
    class Labelled(BaseModel):
        """Not shown: the question has its own text."""

        first_name: str = Field(alias="firstName", description="As in your passport")
        home: Size = Field(title="How big?")

    first, home = Form.of(Labelled).fields
    assert (first.name, first.title, first.description) == ("firstName", "Firstname", "As in your passport")
    assert home.title == "How big?"
