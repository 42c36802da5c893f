"""The specification's JSON schemas, read strictly: an object has no members but those that its definition names."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema_rs

from backchannel.protocol.versions import Version
from tests.form_samples import SCHEMAS

Json = dict[str, Any]

LATER: dict[str, set[str]] = {
    "Annotations": {"lastModified"},
    "ProgressNotification": {"message"},
    "Implementation": {"title"},
    "ServerCapabilities": {"completions", "extensions"},
}
"""Members that came with a later version and are sent at earlier ones too, by the definitions that lack them there. The
earlier schemas leave their objects open, so that a client passes over what it does not know."""


def available(version: Version) -> bool:
    """Whether the schema of a version is at hand."""
    return (SCHEMAS / version / "schema.json").exists()


@functools.cache
def definitions(version: Version) -> Json:
    """The definitions of a version, as they are written."""
    document = json.loads((SCHEMAS / version / "schema.json").read_text(encoding="utf-8"))
    found: Json = document.get("$defs") or document["definitions"]
    return found


@functools.cache
def by_method(version: Version) -> dict[tuple[str, bool], str]:
    """The definitions of requests and notifications: by their method, and whether they have an id."""
    found = {}
    for name, definition in definitions(version).items():
        method = definition.get("properties", {}).get("method", {}).get("const")
        if method is not None:
            found[method, not method.startswith("notifications/")] = name
    return found


@functools.cache
def validator(version: Version, name: str) -> Any:
    """The strict validator of a definition of a version."""
    strict = {key: _definition(key, value) for key, value in definitions(version).items()}
    # References have either spelling of the place of the definitions.
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": strict, "definitions": strict})


def _definition(name: str, written: Json) -> Json:
    closed: Json = _close(written)
    if name == "Tool":  # a JSON Schema may have every keyword
        for word in ("inputSchema", "outputSchema"):
            if word in closed["properties"]:
                closed["properties"][word] = {"type": "object", "required": ["type"]}
    if name == "ElicitResult":  # "string | number | boolean", of which the schema file makes an integer
        content = closed["properties"]["content"]["additionalProperties"]
        kinds = content["anyOf"][-1]["type"] if "anyOf" in content else content["type"]
        kinds.append("number")
    _extend(closed, name)
    return closed


def _extend(closed: Json, name: str) -> None:
    """Allow what came later."""
    properties = closed.get("properties", {})
    for member in LATER.get(name, ()):
        properties.get("params", closed).get("properties", properties).setdefault(member, {})


def _close(schema: Any, name: str = "") -> Any:
    """name: of the member that it describes."""
    if isinstance(schema, list):
        return [_close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        word: _members(value) if word == "properties" else value if word == "allOf" else _close(value)
        for word, value in schema.items()
    }
    properties = schema.get("properties")
    if not isinstance(properties, dict) or {"additionalProperties", "allOf"} & schema.keys():
        return closed
    if "allOf" in str(schema) or any("/" in member for member in properties):
        return closed  # one that joins others, or an open `_meta`
    if name == "params":  # what every request and notification may have, which earlier schemas say in one place only
        closed["properties"].setdefault("_meta", {"type": "object"})
    if name == "annotations":  # which is written out there in the first version
        _extend(closed, "Annotations")
    return {**closed, "additionalProperties": False}


def _members(properties: Json) -> Json:
    return {name: _close(schema, name) for name, schema in properties.items()}
