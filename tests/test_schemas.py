"""Schemas that somebody else wrote, and what is wrong with values."""

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.schemas import DEEPEST, LARGEST, MOST_ERRORS, Validator
from tests.gates.source import SRC

DRAFTS = [
    *("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema"),
    *("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema"),
    *("http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#"),
]


def forked(levels: int) -> dict[str, Any]:
    """A schema that is small, and looks at one value 2 ** levels times."""
    fork = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**fork, f"d{levels}": {"type": "integer"}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize("dialect", DRAFTS)
def test_dialects(dialect: str) -> None:
    validator = Validator({"$schema": dialect, "properties": {"a": {"type": "integer"}}})
    assert validator.errors({"a": 1}) == []
    assert validator.errors({"a": "x"}) == ['a: expected integer, got "x"']


def test_2020_12_is_meant_where_nothing_is_said() -> None:
    assert Validator({"prefixItems": [{"type": "string"}]}).errors([1]) == ["[0]: expected string, got 1"]
    old = Validator({"$schema": DRAFTS[2], "prefixItems": [{"type": "string"}], "dependencies": {"a": ["b"]}})
    assert old.errors([1]) == []
    assert old.errors({"a": 1}) == ["b: missing"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$schema": "https://example.com/mine"}, "dialect 'https://example.com/mine' is not supported; supported are"),
        ({"$schema": 5}, "dialect '5' is not supported"),
        ({"$schema": None}, "dialect 'None' is not supported"),
        ({"$ref": "https://example.com/x.json"}, "refers to 'https://example.com/x.json', which is outside of it"),
        ({"$ref": "http://169.254.169.254/latest"}, "refers to 'http://169.254.169.254/latest'"),
        (
            {"$ref": "file:///etc/passwd"},
            "'file:///etc/passwd', which is outside of it, and is never fetched",
        ),
        ({"$ref": "other.json"}, "refers to 'other.json'"),
        ({"$ref": "#/$defs/nowhere"}, "not valid: at the top: Pointer '/$defs/nowhere' does not exist"),
        ({"properties": {"a": {"type": "objekt"}}}, "not valid: properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "not valid: properties.a.pattern"),
        ({"required": "a"}, "not valid: required: "),
        (nested(DEEPEST + 1), "more than 200 levels deep"),
        (nested(5000 // 10), "more than 200 levels deep"),
        ({"enum": [{}] * LARGEST}, "more than 20000 objects"),
        (forked(14), "too costly"),
        (forked(60), "too costly"),
        ({"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)}, "$ref": "#/$defs/d0"}, "chain"),
        ([], "is a list, not an object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        Validator(schema)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "options",
    [
        [{"x": n} for n in range(8000)],
        [[n] for n in range(8000)],
        [[0] * 100 + [n] for n in range(100)],
        [n + 0.5 for n in range(1000)],
        [10**30 + n for n in range(1000)],
        [*map(str, range(12_000)), {}],
        [1, *map(str, range(12_000))],
    ],
)
def test_options_that_are_compared_one_by_one_count(options: list[Any]) -> None:
    for schema in ({"enum": options}, {"const": options}, {"anyOf": [{"const": option} for option in options]}):
        with pytest.raises(ValueError, match="too costly"):
            Validator({"properties": {"a": {"items": schema}}})


def test_few_such_options_and_many_that_are_looked_up_are_good() -> None:
    few = [{"x": n} for n in range(400)]
    assert Validator({"enum": few}).errors(few[-1]) == []
    for many in ([str(n) for n in range(20_000)], list(range(20_000))):
        assert Validator({"items": {"enum": many}}).errors(many) == []


def test_what_is_wrong_is_found_fast_where_each_error_repeats_the_schema() -> None:
    validator = Validator({"items": {"enum": [str(n) for n in range(8000)]}})
    before = time.process_time()
    [text] = validator.errors(["x"] * 8000)
    assert text.startswith("[0]: expected ")
    assert time.process_time() - before < 2


def test_bounds_leave_room() -> None:
    Validator(nested(DEEPEST))
    assert Validator(forked(11)).errors(1) == []
    tree = Validator(
        {
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
                    "additionalProperties": False,
                }
            },
            "$ref": "#/$defs/node",
        }
    )
    assert tree.errors({"left": {"right": {}}}) == []
    assert tree.errors({"left": {"right": {"x": 1}}}) == ["left.right.x: unexpected"]


def test_references_inside_the_schema() -> None:
    schema = {
        "$id": "https://example.com/root",
        "$ref": "#/$defs/a~1b",
        "$defs": {
            "a/b": {"properties": {"x": {"$ref": "#here"}, "y": {"$ref": "part"}}},
            "c": {"$anchor": "here", "type": "integer"},
            "d": {"$id": "part", "type": "string"},
        },
    }
    assert Validator(schema).errors({"x": "1", "y": 2}) == ['x: expected integer, got "1"', "y: expected string, got 2"]


@pytest.mark.parametrize(
    ("schema", "value", "sentences"),
    [
        ({"required": ["a", "b"]}, {}, ["a: missing", "b: missing"]),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, ["a.b: missing"]),
        ({"additionalProperties": False}, {"x": 1, "y": 2}, ["x: unexpected", "y: unexpected"]),
        ({"type": ["string", "null"]}, {"secret": 1}, ["the value: expected null or string, got object"]),
        ({"items": {"items": {"type": "string"}}}, [["a"], [[]]], ["[1][0]: expected string, got array"]),
        ({"enum": ["é", 1]}, "x", ['the value: expected "é" or 1, got "x"']),
        ({"const": {"a": 1}}, 1, ['the value: expected {"a": 1}, got 1']),
        ({"pattern": "^a"}, "b", ['the value: expected text that matches ^a, got "b"']),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, ["the value: expected string or null, got 5"]),
        ({"maximum": 3}, 4, ["the value: is greater than the maximum of 3, got 4"]),
        ({"minLength": 3}, "é", ['the value: is shorter than 3 characters, got "é"']),
        ({"type": "integer"}, True, ["the value: expected integer, got true"]),
        ({"type": "integer"}, None, ["the value: expected integer, got null"]),
        ({"type": "integer"}, "x" * 100, [f'the value: expected integer, got "{"x" * 39}…"']),
        ({"properties": {"a": False}}, {"a": 1}, ["a: False schema does not allow the value, got 1"]),
    ],
)
def test_sentences(schema: Any, value: Any, sentences: list[str]) -> None:
    assert Validator(schema).errors(value) == sentences


def test_a_property_name() -> None:
    [text] = Validator({"propertyNames": {"maxLength": 1}}).errors({"aa": 1})
    assert "is longer than 1 character" in text


@pytest.mark.parametrize("value", [1.0, 3, 10**30, -(2**63)])
def test_integers(value: Any) -> None:
    assert Validator({"type": "integer"}).errors(value) == []


def test_formats_are_annotations() -> None:
    for dialect in DRAFTS:
        assert Validator({"$schema": dialect, "format": "email"}).errors("no address") == []


def test_at_most_ten_sentences() -> None:
    validator = Validator({"items": {"type": "integer"}})
    assert len(validator.errors(["x"] * 100)) == MOST_ERRORS
    assert validator.errors(["x"] * 1_000_000) == ['[0]: expected integer, got "x"']


def test_checking_has_an_end() -> None:
    before = time.process_time()
    assert len(Validator(forked(11)).errors("x")) == 1
    text = Validator({"pattern": "^(a|aa)+$(?<!b)"}).errors("a" * 100 + "!")
    assert len(text) == 1
    assert time.process_time() - before < 5


@pytest.mark.parametrize("value", [object(), {1: 2}, "\ud83d", b"x"])
def test_what_is_no_json_is_a_sentence(value: Any) -> None:
    [text] = Validator({"type": "integer"}).errors(value)
    assert text.startswith("the value cannot be checked: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = {
    "type": st.sampled_from(["string", "integer", "object", "array", ["null", "number"]]),
    "enum": st.lists(JSON, min_size=1, max_size=3),
    "const": JSON,
    "required": st.lists(st.text(max_size=3), max_size=3, unique=True),
    "minLength": st.integers(0, 5),
    "maxItems": st.integers(0, 5),
}


def more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=3)
    below = {"items": inner, "not": inner, "anyOf": some, "oneOf": some, "additionalProperties": inner}
    return st.fixed_dictionaries({}, optional={**KEYWORDS, **below})


@given(st.recursive(st.fixed_dictionaries({}, optional=KEYWORDS), more, max_leaves=5), JSON)
def test_any_schema_and_any_value_give_plain_sentences(schema: dict[str, Any], value: Any) -> None:
    for text in Validator(schema).errors(value):
        assert "\n" not in text and len(text) < 500


def test_the_library_is_imported_when_it_is_needed() -> None:
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import backchannel.schemas; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "backchannel.schemas" in done.stdout.split()
    assert "jsonschema_rs" not in done.stdout.split()
