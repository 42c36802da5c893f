"""Reading answers back, what is wrong with them, and the identity of forms."""

import datetime
import decimal
import enum
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, field_validator, model_validator

from backchannel.errors import InvalidAnswer, MissingCapability
from backchannel.protocol.forms import with_defaults
from backchannel.protocol.versions import SUPPORTED, Version
from backchannel.server.forms import Form


class Size(enum.Enum):
    SMALL = "s"
    EXTRA_LARGE = "xl"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Person(BaseModel):
    age: int = Field(ge=0, le=150)
    name: str = "you"


@dataclass
class Trip:
    day: datetime.date
    size: Size = Size.SMALL


def errors(kind: Any, content: dict[str, Any] | None) -> tuple[str, ...]:
    with pytest.raises(InvalidAnswer) as caught:
        Form.of(kind).read(content)
    assert str(caught.value) == "; ".join(caught.value.errors)
    assert "pydantic" not in str(caught.value)
    return caught.value.errors


@pytest.mark.case("B08")
@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (bool, True, True),
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (decimal.Decimal, 0.1, decimal.Decimal("0.1")),
        (str, "x", "x"),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Literal["x", 2], "2", 2),
        (Literal[True], True, True),
        (Size, "xl", Size.EXTRA_LARGE),
        (Level, "2", Level.HIGH),
        (Size | None, "s", Size.SMALL),
        (Size | None, None, None),
        (list[Level], ["2", "1"], [Level.HIGH, Level.LOW]),
        (list[Literal[1, 2]], [], []),
        (set[Size], ["s", "s"], {Size.SMALL}),
        (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
        (datetime.datetime, "2026-07-28T10:00", datetime.datetime(2026, 7, 28, 10)),
        (datetime.datetime, "2026-07-28t10:00:00z", datetime.datetime(2026, 7, 28, 10, tzinfo=datetime.UTC)),
        (AnyUrl, "https://example.com/", AnyUrl("https://example.com/")),
        (["a", "b"], "b", "b"),
        ({"a": "An A"}, "a", "a"),
        ([("a", "An A"), "b"], "a", "a"),
        (Literal["a"] | Literal["b", "c"], "c", "c"),
    ],
)
def test_one_value(kind: Any, answer: Any, value: Any) -> None:
    read = Form.of(kind).read({"value": answer})
    assert read == value
    assert type(read) is type(value)


def test_objects() -> None:
    assert Form.of(Person).read({"age": 30.0}) == Person(age=30)
    assert Form.of(Trip).read({"day": "2026-07-28"}) == Trip(datetime.date(2026, 7, 28))


@pytest.mark.parametrize("content", [None, {}, {"value": 1}])
def test_nothing_to_fill_in(content: dict[str, Any] | None) -> None:
    assert Form.of(None) is Form.of(type(None))
    assert Form.of(None).schema(SUPPORTED[0]) == {"type": "object", "properties": {}}
    assert Form.of(None).read(content) is None


@pytest.mark.rule("R39")
@pytest.mark.parametrize(("kind", "value"), [(int | None, None), (Annotated[int, Field(default=3)], 3)])
@pytest.mark.parametrize("content", [None, {}])
def test_omitted_values_have_their_default(kind: Any, value: Any, content: dict[str, Any] | None) -> None:
    assert Form.of(kind).read(content) == value


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"age": "old"}, ('age: expected integer, got "old"',)),
        ({"age": 200}, ("age: expected at most 150, got 200",)),
        ({"age": "30"}, ('age: expected integer, got "30"',)),
        ({"age": True}, ("age: expected integer, got true",)),
        ({"age": None}, ("age: expected integer, got null",)),
        ({"name": 5, "age": -1}, ("age: expected at least 0, got -1", "name: expected string, got 5")),
        ({"name": None, "age": 1}, ("name: expected string, got null",)),
        ({}, ("age: is required",)),
        (None, ("age: is required",)),
    ],
)
def test_an_invalid_answer_has_one_sentence_a_field(content: dict[str, Any] | None, expected: tuple[str, ...]) -> None:
    assert errors(Person, content) == expected


@pytest.mark.parametrize(
    ("kind", "answer", "problem"),
    [
        (float, 10**400, f"expected number, got 1{38 * '0'}…"),
        (Size, "m", 'expected one of "s", "xl", got "m"'),
        (Size, "SMALL", 'expected one of "s", "xl", got "SMALL"'),
        (Level, 1, "expected string, got 1"),
        (Literal[1, 2], "3", 'expected one of "1", "2", got "3"'),
        (Literal[True], False, "should be True, got false"),
        (list[Size], ["s", "m"], 'item 2: expected one of "s", "xl", got "m"'),
        (datetime.date, "tomorrow", 'expected a date (YYYY-MM-DD), got "tomorrow"'),
        (Annotated[str, Field(json_schema_extra={"format": "email"})], "me", 'expected an email address, got "me"'),
        (["a", "b"], "c", 'expected one of "a", "b", got "c"'),
        (Annotated[str, Field(pattern="^a")], "b", "should match pattern '^a', got \"b\""),
        (Annotated[int, Field(gt=0)], 0, "expected at least 1, got 0"),
        (Annotated[float, Field(gt=0)], 0, "should be greater than 0, got 0"),
        (Annotated[int, Field(multiple_of=2)], 3, "should be a multiple of 2, got 3"),
        (datetime.time, "late", 'should be in a valid time format, input is too short, got "late"'),
    ],
)
def test_what_is_wrong_with_one_value(kind: Any, answer: Any, problem: str) -> None:
    assert errors(kind, {"value": answer}) == (f"value: {problem}",)


class Stay(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: datetime.date
    last: datetime.date
    guests: list[Literal["ann", "bob"]] = []
    code: str = Field("A", pattern="^A")

    @field_validator("code")
    @classmethod
    def known(cls, code: str) -> str:
        if code == "A0":
            raise ValueError("this code is used up")
        return code

    @field_validator("guests")
    @classmethod
    def not_both(cls, guests: list[str]) -> list[str]:
        assert len(guests) < 2, "one guest only"
        return guests

    @model_validator(mode="after")
    def in_order(self) -> "Stay":
        if self.last < self.first:
            raise ValueError("the last day is before the first")
        return self


DAYS = {"first": "2026-07-28", "last": "2026-07-29"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"last": 1, "code": "B"}, ("first: is required", "last: expected string, got 1")),
        ({**DAYS, "code": "B", "extra": 1}, ("code: should match pattern '^A', got \"B\"", "extra: is not asked for")),
        ({**DAYS, "code": "A0"}, ("code: this code is used up",)),
        ({**DAYS, "guests": ["ann", "bob"]}, ("guests: one guest only",)),
        ({**DAYS, "extra": 1}, ("extra: is not asked for",)),
        ({**DAYS, "last": "2026-07-01"}, ("the last day is before the first",)),
    ],
)
def test_what_only_the_type_can_tell(content: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert errors(Stay, content) == expected


def test_reading_leaves_the_answer_alone() -> None:
    content: dict[str, Any] = {"age": 3.0}
    Form.of(Person).read(content)
    assert content == {"age": 3.0}
    assert type(content["age"]) is float


def test_one_form_per_type_and_one_schema_per_version() -> None:
    assert Form.of(Person) is Form.of(Person)
    assert Form.of(list[Literal["a"]]) is Form.of(list[Literal["a"]])
    assert Form.of(Literal[1]) is not Form.of(Literal[True])
    assert Form.of(["a"]) is not Form.of(["a"])
    assert Form.of(Form.of(Person)) is Form.of(Person)
    assert Form.of(Person).schema(SUPPORTED[0]) is Form.of(Person).schema(SUPPORTED[0])
    assert Form.of(Annotated[int, []]).read({"value": 1}) == 1  # cannot be hashed


@pytest.mark.rule("R167")
def test_a_version_without_elicitation() -> None:
    with pytest.raises(MissingCapability):
        Form.of(None).schema(Version.V2025_03_26)


def test_the_digest_is_of_what_is_asked() -> None:
    kinds = [None, bool, int, str, Size, Level, list[Size], Person, Trip, Literal["a"], ["a"], {"a": "A"}]
    assert len({Form.of(kind).digest for kind in kinds}) == len(kinds) - 1  # a choice known early or late is the same
    assert Form.of(["a"]).digest == Form.of(Literal["a"]).digest
    assert Form.of(Annotated[int, Field(ge=0)]).digest == Form.of(Annotated[int, Field(ge=0.0)]).digest


def test_the_digest_is_the_same_in_every_process() -> None:
    code = (
        "from typing import Literal\n"
        "from backchannel.server.forms import Form\n"
        "from pydantic import BaseModel\n"
        "class M(BaseModel):\n x: set[Literal['a', 'b', 'c']] = {'c', 'b', 'a'}\n y: int = 3\n"
        "print(Form.of(M).digest)"
    )
    printed = set()
    for seed in "12":
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout.strip())
    assert len(printed) == 1
    assert len(printed.pop()) == 16


@pytest.mark.rule("R39")
def test_a_client_that_merges_defaults_and_one_that_does_not_agree() -> None:
    form = Form.of(Trip)
    for version in SUPPORTED[:3]:
        merged = with_defaults(form.schema(version), {"day": "2026-07-28"})
        assert form.read(merged) == Trip(datetime.date(2026, 7, 28), Size.SMALL)
