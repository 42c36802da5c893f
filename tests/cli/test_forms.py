"""cli/forms.py: what a field's line says, and how what was typed is read, in the form styles of every version."""

from typing import Any

import pytest

from backchannel.cli.forms import Blank


def blank(schema: dict[str, Any], required: bool = True) -> Blank:
    return Blank("size", schema, required)


@pytest.mark.parametrize(
    ("schema", "required", "prompt"),
    [
        ({"type": "string"}, True, "size (text): "),
        ({"type": "string", "title": "Size"}, False, "Size (text, optional): "),
        ({"type": "string", "format": "date"}, True, "size (YYYY-MM-DD): "),
        ({"type": "integer", "minimum": 1, "maximum": 9, "default": 2}, False, "size (integer, 1 to 9) [2]: "),
        ({"type": "number", "minimum": 0.5}, True, "size (number, at least 0.5): "),
        ({"type": "number", "maximum": 3}, True, "size (number, at most 3): "),
        ({"type": "boolean", "default": False}, True, "size (y/n) [n]: "),
        ({"type": "string", "enum": ["s", "l"], "default": "l"}, True, "size (s, l) [l]: "),
        ({"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}, True, "size (Small, Large): "),
        (
            {"type": "string", "oneOf": [{"const": "s", "title": "Small"}], "default": "s"},
            True,
            "size (Small) [Small]: ",
        ),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a", "b"]},
            True,
            "size (some of: a, b) [a, b]: ",
        ),
        ({"type": "boolean"}, False, "size (y/n, optional): "),
        ({"type": "string", "minLength": 2, "maxLength": 9}, True, "size (text, 2 to 9 characters): "),
        ({"type": "string", "minLength": 4, "maxLength": 4}, True, "size (text, 4 characters): "),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, True, "size (some of: a, b, at least 1): "),
        ({"type": "string", "enum": ["s", "l"]}, False, "size (s, l, optional): "),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "Size"}, False, "Size (integer, optional): "),
        ({}, True, "size (text): "),
        (None, True, "size (text): "),
    ],
)
def test_the_prompt_says_what_is_wanted(schema: Any, required: bool, prompt: str) -> None:
    assert blank(schema, required).prompt == prompt


def test_a_form_without_a_field_name_of_its_own_asks_for_an_answer() -> None:
    assert Blank("value", {"type": "boolean"}, True).prompt == "Answer (y/n): "


TITLED = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
SEVERAL = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Pear"}]}}


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "12.0", 12.0),
        ({"type": "number"}, "-1.5", -1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "string", "enum": ["s", "l"]}, "L", "l"),
        ({"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}, "large", "l"),
        (TITLED, "small", "s"),
        (TITLED, "l", "l"),
        (SEVERAL, "apple, b", ["a", "b"]),
        (SEVERAL, "", []),
        (SEVERAL | {"default": ["a"]}, "", ["a"]),
        (SEVERAL | {"default": ["a"]}, ",", []),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"type": "integer", "default": 4}, "", 4),
        ({}, "anything", "anything"),
    ],
)
def test_what_was_typed_becomes_the_value(schema: dict[str, Any], typed: str, value: Any) -> None:
    assert blank(schema).read(typed) == (True, value)


def test_an_optional_field_may_be_left_out() -> None:
    assert blank({"type": "string"}, required=False).read("") == (False, None)


@pytest.mark.parametrize(
    ("schema", "typed", "reason"),
    [
        ({"type": "string"}, "", "is required"),
        ({"type": "integer"}, "many", 'expected integer, got "many"'),
        ({"type": "integer"}, "1.5", "expected integer, got 1.5"),
        ({"type": "number"}, "NaN", 'expected number, got "NaN"'),
        ({"type": "integer", "maximum": 3}, "4", "expected at most 3, got 4"),
        ({"type": "boolean"}, "perhaps", 'expected y or n, got "perhaps"'),
        ({"type": "string", "minLength": 2}, "a", "expected at least 2 characters, got 1"),
        ({"type": "string", "format": "email"}, "me", 'expected an email address, got "me"'),
        (TITLED, "m", 'expected one of "Small", "Large", got "m"'),
        (SEVERAL, "apple, fig", 'expected one of "Apple", "Pear", got "fig"'),
        (SEVERAL | {"minItems": 1}, "", "expected at least 1 item, got 0"),
        ({"type": "string", "format": "date"}, "tomorrow", 'expected a date (YYYY-MM-DD), got "tomorrow"'),
        ({"type": "string", "enum": ["s", "l"]}, "m", 'expected one of "s", "l", got "m"'),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(schema: dict[str, Any], typed: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        blank(schema).read(typed)
    assert str(caught.value) == reason


def test_the_fields_of_a_form_keep_their_order() -> None:
    schema = {"properties": {"b": {"description": "Second letter"}, "a": {}}, "required": ["a"]}
    blanks = Blank.all(schema)
    assert [(one.name, one.required, one.description) for one in blanks] == [
        ("b", False, "Second letter"),
        ("a", True, ""),
    ]
    assert Blank.all(None) == Blank.all({}) == []
