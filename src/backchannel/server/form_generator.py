"""How pydantic writes the JSON schema of a form."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError, core_schema

from .form_schema import INVALID, NAMES, Schema

FAILURES = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, NameError, TypeError)
"""What pydantic raises for a type that it cannot work with."""


class FormSchema(GenerateJsonSchema):
    """Writes the schema with our keywords, and a decimal as the number that it is on the wire."""

    def enum_schema(self, schema: core_schema.EnumSchema) -> Schema:
        written = {**super().enum_schema(schema), NAMES: [member.name for member in schema["members"]]}
        written.pop("title", None)
        return written

    def literal_schema(self, schema: core_schema.LiteralSchema) -> Schema:
        if any(isinstance(value, enum.Enum) for value in schema["expected"]):
            return {INVALID: "a Literal of enum members cannot be read from JSON"}
        return super().literal_schema(schema)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        written = super().decimal_schema(schema)
        return next((branch for branch in written.get("anyOf", ()) if branch.get("type") == "number"), written)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Schema:
        return {INVALID: f"it has no JSON schema ({error_info})"}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Silent: it is about defaults that JSON cannot express, and those pydantic applies."""
