"""The method table, against the specification's own schemas where they are at hand."""

from collections.abc import Iterator
from typing import Any

import pytest

from backchannel.protocol.methods import METHODS, Direction, lookup
from backchannel.protocol.types.base import Wire
from backchannel.protocol.versions import SUPPORTED, Version
from tests.protocol.schemas import definitions, needs_schemas

CLIENT, SERVER, INPUT = Direction.CLIENT, Direction.SERVER, Direction.INPUT
CORE_TASKS = ("tasks/", "notifications/tasks/")
"""The tasks of 2025-11-25, which are not offered (R147)."""


def methods_of(version: Version, name: str) -> Iterator[str]:
    """The methods in a union of the schema, such as ClientRequest."""
    known = definitions(version)
    union = known.get(name, {"anyOf": []})
    for member in union.get("anyOf", [union]):
        definition = known[member["$ref"].rpartition("/")[2]] if "$ref" in member else member
        method = definition["properties"]["method"]["const"]
        if not method.startswith(CORE_TASKS):
            yield method


def senders_of(version: Version) -> dict[str, Direction]:
    """Who sends what, as the schema of a version has it."""
    unions = {
        "ClientRequest": CLIENT,
        "ClientNotification": CLIENT,
        "ServerRequest": SERVER,
        "ServerNotification": SERVER,
        "InputRequest": INPUT,
    }
    senders: dict[str, Direction] = {}
    for name, sender in unions.items():
        for method in methods_of(version, name):
            senders[method] = senders.get(method, Direction(0)) | sender
    return senders


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
def test_the_table_has_what_the_schema_has(version: Version) -> None:
    ours = {name: method.senders[version] for name, method in METHODS.items() if version in method.senders}
    assert ours == senders_of(version)


@needs_schemas
@pytest.mark.parametrize("version", SUPPORTED)
def test_no_message_of_the_schema_is_forgotten(version: Version) -> None:
    """Not even one that is in no union."""
    known = definitions(version).values()
    named = {found["const"] for each in known if "const" in (found := each.get("properties", {}).get("method", {}))}
    assert {method for method in named if not method.startswith(CORE_TASKS)} == {
        name for name, method in METHODS.items() if version in method.senders
    }


@needs_schemas
def test_what_may_ask_is_what_the_schema_lets_answer_with_questions() -> None:
    known = definitions(Version.V2026_07_28)
    asking = set()
    for name, definition in known.items():
        if name.endswith("ResultResponse"):
            members = definition["properties"]["result"].get("anyOf", [])
            if {"$ref": "#/$defs/InputRequiredResult"} in members:
                request = known[name.removesuffix("ResultResponse") + "Request"]
                asking.add(request["properties"]["method"]["const"])
    assert asking == {name for name, method in METHODS.items() if method.may_ask}


@pytest.mark.parametrize(
    ("method", "version", "sender", "found"),
    [
        ("tools/call", "2024-11-05", CLIENT, True),
        ("tools/call", "2026-07-28", CLIENT, True),
        ("tools/call", "2026-07-28", SERVER, False),
        ("initialize", "2025-11-25", CLIENT, True),
        ("initialize", "2026-07-28", CLIENT, False),
        ("ping", "2025-11-25", SERVER, True),
        ("ping", "2026-07-28", CLIENT, False),
        ("server/discover", "2025-11-25", CLIENT, False),
        ("server/discover", "2026-07-28", CLIENT, True),
        ("resources/subscribe", "2026-07-28", CLIENT, False),
        ("subscriptions/listen", "2025-11-25", CLIENT, False),
        ("logging/setLevel", "2026-07-28", CLIENT, False),
        ("elicitation/create", "2025-03-26", SERVER, False),
        ("elicitation/create", "2025-06-18", SERVER, True),
        ("elicitation/create", "2026-07-28", SERVER, False),  # "Servers MUST NOT initiate JSON-RPC requests"
        ("elicitation/create", "2026-07-28", INPUT, True),
        ("elicitation/create", "2025-11-25", INPUT, False),
        ("roots/list", "2025-11-25", CLIENT, False),
        ("tasks/get", "2025-11-25", CLIENT, False),
        ("acme/thing", "2026-07-28", CLIENT, False),
        ("", "2026-07-28", CLIENT, False),
        ("TOOLS/CALL", "2026-07-28", CLIENT, False),
    ],
)
def test_absence_is_the_version_gate(method: str, version: str, sender: Direction, found: bool) -> None:
    assert (lookup(method, Version(version), sender) is METHODS.get(method, 0)) == found
    assert (lookup(method, Version(version), sender) is None) != found


@pytest.mark.parametrize("method", [name for name in METHODS if name.startswith("notifications/")])
def test_a_notification_with_an_id_is_an_unknown_request(method: str) -> None:
    for version in SUPPORTED:
        assert lookup(method, version, CLIENT) is None and lookup(method, version, SERVER) is None


@pytest.mark.rule("R59")
def test_only_initialize_cannot_be_cancelled() -> None:
    assert [name for name, method in METHODS.items() if not method.cancellable] == ["initialize"]


def test_the_name_header_mirrors_a_member_of_the_params() -> None:
    names = {name: method.name for name, method in METHODS.items() if method.name is not None}
    assert names == {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    for name, member in names.items():
        assert member in fields(METHODS[name].params)


def test_every_client_request_has_the_envelope_in_its_params() -> None:
    for name, method in METHODS.items():
        if not name.startswith("notifications/") and any(CLIENT in sender for sender in method.senders.values()):
            assert "meta" in fields(method.params), name


def test_what_asks_has_a_type_of_answer() -> None:
    assert {name for name, method in METHODS.items() if method.result is not None} == {
        name for name, method in METHODS.items() if INPUT in method.senders.get(Version.V2026_07_28, Direction(0))
    }


def fields(type: type[Wire]) -> Any:
    return type.__struct_fields__
