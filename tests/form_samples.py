"""For tests of forms: the specification's own schema of a `requestedSchema`, and strategies for fields and answers."""

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from backchannel.protocol.forms import Field, Option
from backchannel.protocol.versions import Version

SCHEMAS = Path(__file__).parents[2] / "shared" / "schema"
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
WITH_FORMS = [Version.V2025_06_18, Version.V2025_11_25, Version.V2026_07_28]


def close(schema: Any) -> Any:
    """The same schema, where objects may have no members but the named ones."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {word: close(value) for word, value in schema.items()}
    return {**closed, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed


@functools.cache
def validator(version: Version) -> Any:
    """A validator of the `requestedSchema` of a version. Stricter than the specification's JSON schema, which would let
    the keywords of another version pass."""
    path = SCHEMAS / version / "schema.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    document = json.loads(path.read_text(encoding="utf-8"))
    word = "$defs" if "$defs" in document else "definitions"
    defs = document[word]
    params = defs.get("ElicitRequestFormParams") or defs["ElicitRequest"]["properties"]["params"]
    form = close(params["properties"]["requestedSchema"])
    form["properties"]["properties"] = params["properties"]["requestedSchema"]["properties"]["properties"]
    primitives = {name: close(schema) for name, schema in defs.items() if name.endswith("Schema")}
    return jsonschema_rs.validator_for({**form, word: {**defs, **primitives}})


def specified(version: Version, schema: dict[str, Any]) -> bool:
    """Whether the specification of a version has a `requestedSchema` like this."""
    return bool(validator(version).is_valid(schema))


NAMES = st.text("abcdefgh_", min_size=1, max_size=6)
TEXTS = st.text(max_size=6)
NUMBERS = st.integers(-50, 50) | st.floats(-50, 50).filter(lambda value: value != int(value))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-60, 60) | st.floats(-60, 60) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


@st.composite
def ranges(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[Any, Any]:
    """A lower and an upper bound, either of which may be missing."""
    low, high = sorted((draw(values), draw(values)))
    return (low if draw(st.booleans()) else None), (high if draw(st.booleans()) else None)


@st.composite
def fields(draw: st.DrawFn) -> Field:
    """Any field without a format; its default fits it."""
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "choice", "choices"]))
    parts: dict[str, Any] = {}
    if kind == "string":
        parts["min_length"], parts["max_length"] = draw(ranges(st.integers(0, 6)))
    elif kind in ("integer", "number"):
        parts["minimum"], parts["maximum"] = draw(ranges(st.integers(-50, 50) if kind == "integer" else NUMBERS))
    elif kind.startswith("choice"):
        titles = TEXTS if draw(st.booleans()) else st.none()
        values = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
        parts["options"] = tuple(Option(value, draw(titles)) for value in values)
    if kind == "choices":
        parts["min_items"], parts["max_items"] = draw(ranges(st.integers(0, len(parts["options"]))))
    title, description = draw(st.none() | TEXTS), draw(st.none() | TEXTS)
    field = Field(draw(NAMES), kind, title, description, draw(st.booleans()), **parts)
    if draw(st.booleans()):
        default = draw(answers(field))
        field = Field(
            field.name, kind, title, description, False, tuple(default) if kind == "choices" else default, **parts
        )
    return field


def answers(field: Field) -> st.SearchStrategy[Any]:
    """Answers that fit a field."""
    values = [option.value for option in field.options]
    least, most = field.min_items or 0, len(values) if field.max_items is None else field.max_items
    if field.kind == "integer":
        whole = st.integers(field.minimum, field.maximum)  # type: ignore[arg-type]
        return whole | whole.filter(lambda value: abs(value) < 2**53).map(float)
    return {
        "string": st.text(min_size=field.min_length or 0, max_size=field.max_length),
        "number": st.floats(field.minimum, field.maximum, allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "choice": st.sampled_from(values or [""]),
        "choices": st.lists(st.sampled_from(values or [""]), min_size=least, max_size=most, unique=True),
    }[field.kind]


FORMS = st.lists(fields(), max_size=4, unique_by=lambda field: field.name)
