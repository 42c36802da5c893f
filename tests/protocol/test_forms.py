"""How each version writes a form: the table of rule R167."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import MissingCapability
from backchannel.protocol.forms import Field, Option, requested_schema
from backchannel.protocol.versions import Version
from tests.form_samples import FORMS, UNHURRIED, WITH_FORMS, specified

PLAIN, TITLED = Version.V2025_06_18, [Version.V2025_11_25, Version.V2026_07_28]
SIZES = (Option("s", "Small"), Option("xl", "Extra large"))
BARE = (Option("a"), Option("b"))

# field, its schema in the plain style (None: cannot be asked), its schema in the titled style
TABLE: dict[str, tuple[Field, dict[str, Any] | None, dict[str, Any]]] = {
    "string": (
        Field("x", "string", "Mail", "Yours", format="email", min_length=3, max_length=9, default="a@b"),
        {"type": "string", "title": "Mail", "description": "Yours", "format": "email", "minLength": 3, "maxLength": 9},
        {
            "type": "string",
            "title": "Mail",
            "description": "Yours",
            "format": "email",
            "minLength": 3,
            "maxLength": 9,
            "default": "a@b",
        },
    ),
    "integer": (
        Field("x", "integer", minimum=0, maximum=150, default=0),
        {"type": "integer", "minimum": 0, "maximum": 150},
        {"type": "integer", "minimum": 0, "maximum": 150, "default": 0},
    ),
    "number": (
        Field("x", "number", minimum=0.5, default=1.5),
        {"type": "number", "minimum": 0.5},
        {"type": "number", "minimum": 0.5, "default": 1.5},
    ),
    "boolean": (
        Field("x", "boolean", default=False),
        {"type": "boolean", "default": False},
        {"type": "boolean", "default": False},
    ),
    "choice": (
        Field("x", "choice", options=BARE, default="a"),
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"], "default": "a"},
    ),
    "choice with titles": (
        Field("x", "choice", options=SIZES, default="xl"),
        {"type": "string", "enum": ["s", "xl"], "enumNames": ["Small", "Extra large"]},
        {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}],
            "default": "xl",
        },
    ),
    "choice with some titles": (
        Field("x", "choice", options=(Option("s", "Small"), Option("m"))),
        {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "m"]},
        {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "m"}]},
    ),
    "choices": (
        Field("x", "choices", options=BARE, min_items=1, max_items=2, default=("a", "b")),
        None,
        {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "default": ["a", "b"],
            "items": {"type": "string", "enum": ["a", "b"]},
        },
    ),
    "choices with titles": (
        Field("x", "choices", options=SIZES),
        None,
        {
            "type": "array",
            "items": {"anyOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}]},
        },
    ),
}
ROWS = pytest.mark.parametrize(("field", "plain", "titled"), TABLE.values(), ids=TABLE)


@pytest.mark.rule("R167")
@pytest.mark.parametrize("version", TITLED)
@ROWS
def test_titled_style(version: Version, field: Field, plain: dict[str, Any] | None, titled: dict[str, Any]) -> None:
    schema = requested_schema(version, [field])
    assert schema == {"type": "object", "properties": {"x": titled}, "required": ["x"]}
    assert specified(version, schema)


@pytest.mark.rule("R167")
@ROWS
def test_plain_style(field: Field, plain: dict[str, Any] | None, titled: dict[str, Any]) -> None:
    if plain is None:
        with pytest.raises(MissingCapability, match=r"elicitation\.form.*'x'.*2025-06-18") as caught:
            requested_schema(PLAIN, [field])
        assert caught.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    else:
        schema = requested_schema(PLAIN, [field])
        assert schema == {"type": "object", "properties": {"x": plain}, "required": ["x"]}
        assert specified(PLAIN, schema)


@pytest.mark.rule("R167")
@pytest.mark.parametrize("version", [Version.V2024_11_05, Version.V2025_03_26])
@pytest.mark.parametrize("form", [[], [Field("x", "string")]])
def test_before_elicitation(version: Version, form: list[Field]) -> None:
    with pytest.raises(MissingCapability, match=f"'elicitation'.*{version}") as caught:
        requested_schema(version, form)
    assert caught.value.capability == "elicitation"


@pytest.mark.rule("R167")
@pytest.mark.parametrize("version", WITH_FORMS)
def test_only_required_fields_are_required(version: Version) -> None:
    optional = [Field("a", "string", required=False), Field("b", "boolean", required=False)]
    assert "required" not in requested_schema(version, optional)
    assert requested_schema(version, [*optional, Field("c", "string")])["required"] == ["c"]
    assert requested_schema(version, []) == {"type": "object", "properties": {}}


@pytest.mark.rule("R167")
@UNHURRIED
@given(form=FORMS, version=st.sampled_from(WITH_FORMS))
def test_every_form_is_in_the_specification(form: list[Field], version: Version) -> None:
    try:
        schema = requested_schema(version, form)
    except MissingCapability:
        assert version is PLAIN
        assert any(field.kind == "choices" for field in form)
    else:
        assert list(schema["properties"]) == [field.name for field in form]
        assert specified(version, schema)


def test_the_specification_of_one_version_refuses_the_keywords_of_another() -> None:
    titled = requested_schema(TITLED[0], [Field("x", "choice", options=SIZES)])
    assert not specified(PLAIN, titled)
    assert not specified(PLAIN, requested_schema(TITLED[0], [Field("x", "string", default="a")]))
    assert not specified(TITLED[1], {"type": "object", "properties": {"x": {"type": "string", "pattern": "a"}}})
