"""How pydantic writes the JSON Schema of what tools take and give."""

from __future__ import annotations

from typing import Any

from pydantic import Secret, SecretBytes, SecretStr
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from ..errors import ToolError
from .results import inspect_value


class ToolSchema(GenerateJsonSchema):
    """Pydantic's generator without titles made of field names, and without silent omissions."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-discriminator"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def json_or_python_schema(self, schema: Any) -> dict[str, Any]:
        found = super().json_or_python_schema(schema)
        if getattr(schema.get("serialization", {}).get("function"), "__name__", "").startswith("_serialize_secret"):
            found["writeOnly"] = True  # pydantic marks SecretStr, and forgets Secret[...]
        return found

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, Secret | SecretStr | SecretBytes):
            raise PydanticSerializationError("a secret is not shown")
        if isinstance(dft, set | frozenset):
            dft = sorted(dft, key=repr)  # the same in every run
        plain = dft is None or type(dft) in (bool, int, float, str)  # for these pydantic would make an adapter each
        encoded = dft if plain else super().encode_default(dft)
        try:
            inspect_value(encoded)
        except (ValueError, ToolError) as error:
            raise PydanticSerializationError(str(error)) from None
        return encoded

    def emit_warning(self, kind: Any, detail: str) -> None:
        if kind == "skipped-choice":
            raise PydanticInvalidForJsonSchema(detail)
        super().emit_warning(kind, detail)
