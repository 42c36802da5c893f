"""The checker of answers, against examples and against a whole JSON Schema validator."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.protocol.form_check import plain_types
from backchannel.protocol.forms import Field, check_content, requested_schema, with_defaults
from backchannel.protocol.versions import SUPPORTED, Version
from tests.form_samples import FORMS, JSON, UNHURRIED, WITH_FORMS, answers

NEWEST = SUPPORTED[0]


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TITLES = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}]}
NAMED = {"type": "string", "enum": ["s", "xl"], "enumNames": ["Small", "Extra large"]}
SEVERAL = {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}}
OPTIONAL = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None}


@pytest.mark.rule("R39")
@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "integer"}, "old", 'expected integer, got "old"'),
        ({"type": "integer"}, True, "expected integer, got true"),
        ({"type": "integer"}, 1.5, "expected integer, got 1.5"),
        ({"type": "integer"}, 30.0, None),
        ({"type": "integer", "minimum": 0, "maximum": 150}, 200, "expected at most 150, got 200"),
        ({"type": "integer", "minimum": 0, "maximum": 150}, -1, "expected at least 0, got -1"),
        ({"type": "number"}, 1, None),
        ({"type": "number"}, False, "expected number, got false"),
        ({"type": "boolean"}, 1, "expected boolean, got 1"),
        ({"type": "boolean"}, "true", 'expected boolean, got "true"'),
        ({"type": "string"}, None, "expected string, got null"),
        ({"type": "string", "minLength": 1}, "", "expected at least 1 character, got 0"),
        ({"type": "string", "maxLength": 2}, "äöü", "expected at most 2 characters, got 3"),
        ({"type": "string", "maxLength": 2}, "\U0001f600\U0001f600", None),
        ({"type": "integer"}, "x" * 99, f'expected integer, got "{"x" * 38}…'),
        (NAMED, "s", None),
        (NAMED, "Small", 'expected one of "s", "xl", got "Small"'),
        (TITLES, "xl", None),
        (TITLES, "m", 'expected one of "s", "xl", got "m"'),
        (SEVERAL, ["a", "c"], None),
        (SEVERAL, [], "expected at least 1 item, got 0"),
        (SEVERAL, ["a", "b", "c"], "expected at most 2 items, got 3"),
        (SEVERAL, ["a", "d"], 'item 2: expected one of "a", "b", "c", got "d"'),
        (SEVERAL, "a", 'expected array, got "a"'),
        (OPTIONAL, None, None),
        (OPTIONAL, 3, None),
        (OPTIONAL, -3, "expected at least 0, got -3"),
        ({"const": 1}, True, "expected 1, got true"),
        ({"enum": list(range(12))}, 12, "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …, got 12"),
    ],
)
def test_one_sentence_a_field(schema: dict[str, Any], value: Any, problem: str | None) -> None:
    assert check_content(form(x=schema), {"x": value}) == ([f"x: {problem}"] if problem else [])


@pytest.mark.rule("R39")
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("email", ["a@b", "jo.doe+x@example.com"], ["", "a", "a@", "@b", "a@b@c", "a b@c"]),
        ("uri", ["https://example.com/?q=1", "mailto:a@b", "urn:x:y"], ["", "example.com", "/a", "1a:b", "a: b"]),
        ("date", ["2026-07-28", "2024-02-29"], ["", "2026-7-28", "2025-02-29", "20260728", "2026-07-28T00:00:00Z"]),
        (
            "date-time",
            ["2026-07-28T10:00:00Z", "2026-07-28t10:00:00.5+02:00", "2026-07-28T10:00", "2026-07-28 10:00:00"],
            ["", "2026-07-28", "2026-07-28T25:00:00Z", "2026-02-30T10:00:00Z", "10:00", "2026-07-28T10:00:00+2"],
        ),
        ("uuid", ["whatever: not a format of the specification"], []),
    ],
)
def test_formats(name: str, right: list[str], wrong: list[str]) -> None:
    schema = form(x={"type": "string", "format": name})
    assert [text for text in right if check_content(schema, {"x": text})] == []
    assert [text for text in wrong if not check_content(schema, {"x": text})] == []


@pytest.mark.rule("R39")
def test_the_whole_answer_in_the_order_of_the_form() -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["age", "name", "phantom"],
    }
    assert check_content(schema, {"extra": 1, "age": "old"}) == [
        "name: is required",
        'age: expected integer, got "old"',
        "phantom: is required",
    ]
    closed = {**schema, "required": ["age"], "additionalProperties": False}
    assert check_content(closed, {"age": 1, "extra": 1}) == ["extra: is not asked for"]


@pytest.mark.rule("R39")
def test_defaults_are_merged_for_omitted_keys_only() -> None:
    schema = form(a={"default": ["x"]}, b={"default": 1}, c={"type": "string"}, d={"default": False})
    content = {"b": None, "z": 0}
    merged = with_defaults(schema, content)
    assert merged == {"b": None, "z": 0, "a": ["x"], "d": False}
    assert content == {"b": None, "z": 0}
    merged["a"].append("y")
    assert schema["properties"]["a"]["default"] == ["x"]


@pytest.mark.rule("R39")
@UNHURRIED
@given(fields=FORMS, version=st.sampled_from(SUPPORTED[:2]))
def test_defaults_are_right_answers(fields: list[Field], version: Version) -> None:
    given_default = [field for field in fields if not field.required]
    schema = requested_schema(version, given_default)
    assert check_content(schema, with_defaults(schema, {})) == []


@UNHURRIED
@given(fields=FORMS, data=st.data())
def test_right_answers_are_right(fields: list[Field], data: st.DataObject) -> None:
    content = {field.name: data.draw(answers(field)) for field in fields}
    assert check_content(requested_schema(NEWEST, fields), content) == []


@UNHURRIED
@given(fields=FORMS, data=st.data())
def test_of_a_plain_field_each_value_of_its_type_is_right(fields: list[Field], data: st.DataObject) -> None:
    schema = requested_schema(NEWEST, fields)
    types = plain_types(schema)
    assert types.keys() == schema["properties"].keys()
    content = {name: data.draw(st.from_type(type)) for name, type in types.items() if type is not None}
    assert [text for text in check_content(schema, content) if text.partition(":")[0] in content] == []


def test_a_field_with_more_than_a_type_is_not_plain() -> None:
    number = {"type": "number", "title": "Price"}
    name = {"type": "string", "default": "x"}
    schema = form(name=name, size=TITLES, age={"type": "integer", "minimum": 0}, sum=number)
    assert plain_types(schema) == {"name": str, "size": None, "age": None, "sum": None}


@UNHURRIED
@given(fields=FORMS, version=st.sampled_from(WITH_FORMS), data=st.data())
def test_agrees_with_a_json_schema_validator(fields: list[Field], version: Version, data: st.DataObject) -> None:
    plain = version not in SUPPORTED[:2]
    fields = [field for field in fields if not (plain and field.kind == "choices")]
    schema = requested_schema(version, fields) | data.draw(st.sampled_from([{}, {"additionalProperties": False}]))
    near = {field.name: answers(field) | JSON for field in fields} | {"other": JSON}
    content = data.draw(st.fixed_dictionaries({}, optional=near))
    assert (check_content(schema, content) == []) is jsonschema_rs.validator_for(schema).is_valid(content)


@UNHURRIED
@given(schema=st.dictionaries(st.sampled_from(["properties", "required", "additionalProperties"]), JSON), content=JSON)
def test_a_strange_form_does_no_harm(schema: dict[str, Any], content: Any) -> None:
    check_content(schema, {"a": content})
    with_defaults(schema, {"a": content})


KEYWORDS = ["type", "enum", "const", "oneOf", "anyOf", "items", "format", "minimum", "maxLength", "minItems", "default"]


@UNHURRIED
@given(
    member=st.dictionaries(st.sampled_from(KEYWORDS), JSON | st.sampled_from(["string", "array", "date"])), value=JSON
)
def test_a_strange_field_does_no_harm(member: dict[str, Any], value: Any) -> None:
    check_content(form(x=member), {"x": value})


def test_a_deep_form_does_no_harm() -> None:
    member: dict[str, Any] = {"type": "string"}
    value: Any = 1
    for _ in range(5000):
        member, value = {"anyOf": [member], "items": member}, [value]
    assert check_content(form(x=member), {"x": []}) == []
