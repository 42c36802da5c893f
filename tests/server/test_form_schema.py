"""What pydantic makes of a type: typed dicts, and types that it knows nothing about."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest
import typing_extensions
from pydantic import Field

from backchannel.errors import ConfigurationError
from backchannel.server.form_schema import label
from backchannel.server.forms import Form


@dataclass
class Thing:
    pass


@dataclass
class WithThing:
    number: int
    thing: Thing | Callable[[], int]


@dataclass
class WithSlice:
    part: slice


@dataclass
class Undefined:
    x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


class Parts(TypedDict):
    parts: dict[str, int]


@pytest.mark.case("B08")
@pytest.mark.parametrize(
    ("kind", "path", "reason"),
    [
        (WithThing, "WithThing.thing", "union"),
        (WithSlice, "WithSlice.part", "cannot ask for slice"),
        (Parts, "Parts.parts", "cannot ask for a dict"),
        (Undefined, "Undefined", "not defined where the class is"),
        (5, "5", "cannot ask for 5"),
        (print, "<built-in", "cannot ask for"),
        (Annotated[str, Field(pattern="(")], "str", "."),
    ],
)
def test_refused_when_the_form_is_made(kind: Any, path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{path}.*: .*{reason}") as caught:
        Form.of(kind)
    assert "pydantic" not in str(caught.value).lower()


class Mixed(TypedDict, total=False):
    must: Required[int]
    may: str
    null: Required[int | None]


class Derived(Mixed):
    more: NotRequired[Annotated[int, Field(ge=0)]]
    name: str


def test_typed_dicts() -> None:
    form = Form.of(Derived)
    assert {field.name: field.required for field in form.fields} == {
        "must": True,
        "may": False,
        "null": False,
        "more": False,
        "name": True,
    }
    assert form.read({"must": 1, "name": "x", "more": 2}) == {"must": 1, "name": "x", "more": 2, "null": None}


class Modern(typing_extensions.TypedDict):
    must: int
    may: NotRequired[int]


def test_typed_dicts_of_typing_extensions() -> None:
    assert Form.of(Modern).read({"must": 1}) == {"must": 1}


def test_types_are_named_as_they_are_written() -> None:
    assert label(int) == "int"
    assert label(list[int]) == "list[int]"
    assert label(Annotated[int | None, Field(ge=0)]) == "int | None"
