"""What the checks find, and how JSON and names are written."""

import json
from dataclasses import replace
from typing import Any

import pytest

from backchannel.protocol.versions import Version

from .checks import faults
from .pretty import WIDTH, pretty
from .schemas import available
from .transcript import Frame, Names, Note, Side, Transcript

MODERN, LEGACY, FIRST = Version.V2026_07_28, Version.V2025_11_25, Version.V2024_11_05
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FORM = {"message": "?", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}


def found(version: Version, *frames: tuple[Side, dict[str, Any]]) -> set[str]:
    """Which of the checks find a fault."""
    lines = [Frame(sender, json.dumps({"jsonrpc": "2.0", **message}).encode()) for sender, message in frames]
    return {line.partition(":")[0] for line in faults(Transcript("", version, "", list(lines)), version)}


def call(**params: Any) -> tuple[Side, dict[str, Any]]:
    return "client", {"id": 1, "method": "tools/call", "params": {"name": "x", **params}}


def answer(**result: Any) -> tuple[Side, dict[str, Any]]:
    return "server", {"id": 1, "result": result}


def test_what_is_right() -> None:
    asked = {"a": {"method": "elicitation/create", "params": FORM}}
    assert found(MODERN, call(_meta=META), answer(resultType="complete", content=[])) == set()
    assert found(MODERN, call(_meta=META), answer(resultType="input_required", inputRequests=asked)) == set()
    assert found(LEGACY, call(), answer(content=[])) == set()


def test_what_is_no_json_is_found_unless_it_is_so_on_purpose() -> None:
    frame = Frame("server", b"hello\n")
    assert faults(Transcript("", MODERN, "", [frame]), MODERN) == ["no message: b'hello\\n'"]
    assert faults(Transcript("", MODERN, "", [replace(frame, valid=False)]), MODERN) == []


@pytest.mark.parametrize(
    "result",
    [
        {"content": []},
        {"resultType": "complete"},
        {"resultType": "other", "content": []},
        {"resultType": "complete", "content": [{"type": "text"}]},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "ping"}}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}},
        {"resultType": "input_required", "requestState": 1},
    ],
)
def test_a_wrong_result_is_found_without_the_schemas(result: dict[str, Any]) -> None:
    assert "by_models" in found(MODERN, call(_meta=META), answer(**result))


@pytest.mark.parametrize(
    ("version", "frame"),
    [
        (MODERN, call()),
        (MODERN, call(_meta={**META, "io.modelcontextprotocol/clientCapabilities": None})),
        (MODERN, ("client", {"id": 1, "method": "ping"})),
        (MODERN, ("server", {"id": 1, "method": "roots/list"})),
        (MODERN, ("server", {"id": 1, "error": {"code": -32021, "message": "x"}})),
        (MODERN, ("server", {"id": 1, "error": {"code": -32022, "message": "x", "data": {"supported": []}}})),
        (LEGACY, ("client", {"id": 1, "method": "server/discover"})),
        (LEGACY, ("server", {"id": 7, "result": {}})),
        (LEGACY, ("server", {"method": "notifications/progress", "params": {"progress": 1}})),
        (FIRST, ("server", {"id": 1, "method": "elicitation/create", "params": FORM})),
    ],
)
def test_a_wrong_message_is_found_without_the_schemas(version: Version, frame: tuple[Side, dict[str, Any]]) -> None:
    assert "by_models" in found(version, frame)


@pytest.mark.parametrize(
    ("version", "frames"),
    [
        (MODERN, [call(_meta=META), answer(resultType="complete", content=[], ttlMs=0)]),
        (MODERN, [call(_meta=META), answer(resultType="complete", content=[{"type": "text", "text": "", "x": 1}])]),
        (LEGACY, [call(), answer(content=[], resultType="complete")]),
        (LEGACY, [call(requestState="x")]),
        (FIRST, [call(), answer(content=[{"type": "audio", "data": "", "mimeType": "audio/wav"}])]),
        (FIRST, [("client", {"id": 1, "method": "ping"}), ("server", {"id": 1, "result": {"pong": True}})]),
    ],
)
def test_a_member_that_the_version_lacks_is_found_by_the_schema(
    version: Version, frames: list[tuple[Side, dict[str, Any]]]
) -> None:
    if not available(version):
        pytest.skip(f"no JSON schema of {version} is at hand")
    assert "by_schema" in found(version, *frames)


@pytest.mark.parametrize(
    "value", [1, [], {}, "é", {"a": [1, {"b": None}]}, ["x" * 200, {"y" * 60: "z" * 60, "w": [1.5]}], [[["x" * 120]]]]
)
def test_what_is_laid_out_is_the_same_json(value: Any) -> None:
    assert json.loads(pretty(value, 4)) == value


def test_what_fits_goes_on_one_line() -> None:
    assert pretty({"a": 1, "b": [True]}) == '{"a": 1, "b": [true]}'
    wide = pretty({"name": "x" * 40, "other": "y" * 40, "nested": {"a": [1] * 20}, "last": {}})
    assert max(map(len, wide.splitlines())) <= WIDTH
    assert wide.splitlines()[1].count('"') == 8


def test_what_is_random_has_a_name_for_each_value() -> None:
    names = Names()
    assert names.replace({"requestState": "a", "x": [{"requestState": "b"}]}) == {
        "requestState": "<state 1>",
        "x": [{"requestState": "<state 2>"}],
    }
    assert names.replace({"requestState": "a"}) == {"requestState": "<state 1>"}
    assert names.header("Mcp-Session-Id: s") == "Mcp-Session-Id: <session 1>"
    assert names.header("Accept: s") == "Accept: s"


def test_the_text_of_a_transcript() -> None:
    entries: list[Frame | Note] = [
        Note("It begins."),
        Frame("client", b'{"id":1}\n'),
        Frame("server", b'{"id":2}', shown=False),
        Frame("server", b"{", ("200 OK", "Mcp-Session-Id: s"), 12),
        Frame("server", b'{"requestState":"s"}', ("id: 1",), 12, "data: "),
    ]
    assert Transcript("f", "v", "Said.", entries).text().split("\n\n") == [
        "f, v",
        "Said.",
        "# It begins.",
        '→ {"id": 1}',
        "← [12] 200 OK\n       Mcp-Session-Id: <session 1>\n       {",
        '← [12] id: 1\n       data: {"requestState": "<state 1>"}\n',
    ]
