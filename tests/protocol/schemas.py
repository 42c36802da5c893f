"""The specification's JSON schemas of each version. They lie beside the repository, not in it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from backchannel.protocol.versions import SUPPORTED, Version

FOLDER = Path(__file__).parents[3] / "shared" / "schema"
SCHEMAS: dict[Version, dict[str, Any]] = {
    version: json.loads(path.read_text(encoding="utf-8"))
    for version in SUPPORTED
    if (path := FOLDER / version / "schema.json").exists()
}
needs_schemas = pytest.mark.skipif(len(SCHEMAS) < len(SUPPORTED), reason=f"there are no schemas in {FOLDER}")


def place(version: Version) -> str:
    """Where a version's schema has its definitions."""
    return "$defs" if "$defs" in SCHEMAS[version] else "definitions"


def definitions(version: Version) -> dict[str, Any]:
    """The definitions of a version, by name."""
    found: dict[str, Any] = SCHEMAS[version][place(version)]
    return found


def schema_errors(version: Version, name: str, value: Any) -> list[str]:
    """What is wrong with `value` as an instance of the definition `name`."""
    return [f"{error.instance_path}: {error.message}" for error in _validator(version, name).iter_errors(value)]


@cache
def _validator(version: Version, name: str) -> Any:
    kept = {key: SCHEMAS[version][key] for key in ("$schema", place(version))}
    return jsonschema_rs.validator_for(kept | {"allOf": [{"$ref": f"#/{place(version)}/{name}"}]})
