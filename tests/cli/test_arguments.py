"""cli/arguments.py: key=value by the tool's input schema, key:=json as it is."""

from typing import Any

import pytest

from backchannel.cli.arguments import parse
from backchannel.errors import ConfigurationError

SCHEMA: dict[str, Any] = {
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "types": {"type": ["string", "integer"]},
        "choice": {"enum": ["1", 1]},
        "named": {"$ref": "#/$defs/Named"},
        "colour": {"$ref": "#/$defs/Colour"},
        "loop": {"$ref": "#/$defs/Loop"},
        "tags": {"type": "array"},
        "free": {},
        "any": True,
    },
    "$defs": {
        "Named": {"type": "object"},
        "Colour": {"enum": ["red"], "type": "string"},
        "Loop": {"allOf": [{"$ref": "#/$defs/Loop"}]},
    },
}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("text=12", "12"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text:=12", 12),
        ("count=12", 12),
        ("either=null", "null"),
        ("types=3", "3"),
        ("choice=1", "1"),
        ("choice:=1", 1),
        ('named={"a": 1}', {"a": 1}),
        ("colour=red", "red"),
        ("loop=1", 1),
        ("tags=[1, 2]", [1, 2]),
        ("free=12", 12),
        ("free=twelve", "twelve"),
        ("any=true", True),
        ("unknown:=1", 1),
    ],
)
def test_arguments_are_read_as_the_schema_has_them(given: str, value: Any) -> None:
    name = given.partition("=")[0].rstrip(":")
    assert parse([given], SCHEMA) == {name: value}


def test_several() -> None:
    assert parse(["text=a", "count=1", "text=b"], SCHEMA) == {"text": "b", "count": 1}
    assert parse([], {}) == {}


@pytest.mark.parametrize("given", ["text", "=a", ":=1", "count=many", "count=", "text:=a"])
def test_what_cannot_be_read_is_a_usage_error(given: str) -> None:
    with pytest.raises(ConfigurationError):
        parse([given], SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [{}, {**SCHEMA, "additionalProperties": True}, {**SCHEMA, "allOf": [{"$ref": "#/$defs/a"}]}],
    ids=["empty", "additional", "composed"],
)
def test_names_that_the_schema_leaves_open(schema: dict[str, Any]) -> None:
    assert parse(["unknown=yes", "other=1"], schema) == {"unknown": "yes", "other": 1}


@pytest.mark.parametrize("schema", [SCHEMA, {"additionalProperties": False, "properties": {"text": {}}}])
def test_names_that_the_schema_does_not_have(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"the tool has no argument 'txet'; did you mean 'text'\?"):
        parse(["txet=yes"], schema)
