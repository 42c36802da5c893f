"""For tests of wire types: the JSON schemas of the protocol versions, in which objects have no members but the named
ones."""

import functools
import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from backchannel.protocol.jsonrpc import encode
from backchannel.protocol.types.base import Implementation, Wire
from backchannel.protocol.versions import Version, finish
from tests.form_samples import SCHEMAS, close

BOTH = pytest.mark.parametrize("version", [Version.V2025_11_25, Version.V2026_07_28])


@functools.cache
def _validator(version: Version, name: str) -> Any:
    path = SCHEMAS / version / "schema.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    written = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    defs = {key: schema if key.endswith("MetaObject") else close(schema) for key, schema in written.items()}
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": defs})


def check(version: Version, name: str, value: Any) -> Any:
    """The JSON of a value, which the definition `name` of a version allows."""
    written = json.loads(encode(value))
    _validator(version, name).validate(written)
    return written


def check_result(version: Version, name: str, method: str, result: Wire) -> Any:
    """The JSON of a result as it leaves a server."""
    return check(version, name, finish(version, method, result.members(), Implementation("server", "1")))


def read(type: Any, value: Any) -> Any:
    """What somebody's JSON is read as."""
    return msgspec.json.decode(json.dumps(value), type=type)
