"""Any form, made from a type: an answer that fits it on the wire reads back as the same values."""

from typing import Annotated, Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, create_model

from backchannel.protocol import forms
from backchannel.protocol.forms import check_content
from backchannel.protocol.versions import SUPPORTED
from backchannel.server.forms import Form
from tests.form_samples import FORMS, UNHURRIED, answers

NUMBER = {"ge": "minimum", "le": "maximum"}
TEXT = {"min_length": "min_length", "max_length": "max_length"}


def annotation(field: forms.Field) -> Any:
    """A type whose form has this field."""
    limits = {"choices": {"min_length": "min_items", "max_length": "max_items"}, "string": TEXT}.get(field.kind, NUMBER)
    values = Literal[tuple(option.value for option in field.options)]  # type: ignore[valid-type]
    kind = {"string": str, "integer": int, "number": float, "boolean": bool, "choices": list[values]}.get(
        field.kind, values
    )
    info = Field(
        title=field.title, description=field.description, **{ours: getattr(field, its) for ours, its in limits.items()}
    )
    return Annotated[kind, info] if field.kind not in ("choice", "boolean") else kind


@UNHURRIED
@given(fields=FORMS, data=st.data())
def test_what_fits_the_form_reads_back(fields: list[forms.Field], data: st.DataObject) -> None:
    made = create_model("Made", **{f"a{field.name}": (annotation(field), ...) for field in fields})
    form = Form.of(made)
    content = {f"a{field.name}": data.draw(answers(field)) for field in fields}
    for version in SUPPORTED[:2]:
        assert check_content(form.schema(version), content) == []
    assert form.read(content).model_dump() == content
