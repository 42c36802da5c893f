"""cli/diagram.py and cli/captions.py: recorded messages as text."""

import json
from typing import Any

import pytest

from backchannel.cli.captions import Captions
from backchannel.cli.diagram import ASCII, LINES, draw, glyphs_for
from backchannel.protocol.jsonrpc import decode
from backchannel.testing.transcript import Recorded

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def client(instance: str = "", **message: Any) -> Recorded:
    return Recorded("client", decode(json.dumps({"jsonrpc": "2.0", **message}).encode()), instance)


def server(instance: str = "", **message: Any) -> Recorded:
    return Recorded("server", decode(json.dumps({"jsonrpc": "2.0", **message}).encode()), instance)


LEGACY_CALL = [
    client(id=1, method="initialize", params={"protocolVersion": "2025-11-25"}),
    server(id=1, result={"protocolVersion": "2025-11-25"}),
    client(method="notifications/initialized"),
    client(id=2, method="tools/call", params={"name": "f", "arguments": {"a": 1}}),
    server(id=1, method="elicitation/create", params={"message": "Which\nday?"}),
    client(id=1, result={"action": "accept", "content": {"b": 2}}),
    server(method="notifications/progress", params={"progressToken": 2, "progress": 1, "total": 3, "message": "x"}),
    server(id=2, result={"content": [{"type": "text", "text": "no"}], "isError": True}),
    server(id=9, error={"code": -32601, "message": "Method not found"}),
]

MODERN_CALL = [
    client("A", id=1, method="tools/call", params={"name": "f", "arguments": {}, "_meta": MODERN}),
    server(
        "A",
        id=1,
        result={
            "resultType": "input_required",
            "requestState": "opaque",
            "inputRequests": {
                "q": {"method": "sampling/createMessage", "params": {"messages": [{"content": {"text": "hi"}}]}},
                "r": {"method": "roots/list"},
            },
        },
    ),
    client(
        "B",
        id=2,
        method="tools/call",
        params={
            "name": "f",
            "arguments": {},
            "requestState": "opaque",
            "inputResponses": {
                "q": {"content": {"type": "text", "text": "ho"}},
                "r": {"roots": [{"uri": "file:///a"}]},
            },
            "_meta": MODERN,
        },
    ),
    server("B", id=2, result={"resultType": "complete", "content": [], "structuredContent": {"ok": True}}),
]


def drawn(log: list[Recorded], width: int) -> str:
    return "\n".join(row.text for row in draw(log, width, ASCII))


def test_a_legacy_call() -> None:
    assert (
        drawn(LEGACY_CALL, 64)
        == """\
 client                                                server
  |-- #1 initialize 2025-11-25 --------------------------->|
  |<--------------------------- result of #1: 2025-11-25 --|
  |-- initialized ---------------------------------------->|
  |-- #2 tools/call f {"a": 1} --------------------------->|
  |<---------------- #1 elicitation/create "Which\\nday?" --|
  |-- answer to #1: accept {"b": 2} ---------------------->|
  |<----------------------------------- progress 1/3 "x" --|
  |<------------------------- result of #2: isError "no" --|
  |<--------------- error of #9: -32601 Method not found --|"""
    )


def test_a_modern_call_shows_rounds_questions_answers_and_instances() -> None:
    assert (
        drawn(MODERN_CALL, 64)
        == """\
 client                                                server
  |-- #1 tools/call f {} (round 1) ----------------------->| A
  |<----------------------- result of #1: input_required --| A
  |                    q = sampling/createMessage "hi"     |
  |                                     r = roots/list     |
  |                             requestState (6 bytes)     |
  |-- #2 tools/call f {} (round 2) ----------------------->| B
  |     q = "ho"                                           |
  |     r = roots file:///a                                |
  |     requestState (6 bytes)                             |
  |<------------------------- result of #2: {"ok": true} --| B"""
    )


def test_what_is_too_long_is_cut_and_what_is_wrong_stands_out() -> None:
    long = server(id=1, method="elicitation/create", params={"message": "x" * 100})
    broken = Recorded("server", decode(b'{"jsonrpc": "2.0", "id": 1}'))
    rows = list(draw([long, broken], 50, LINES))
    assert {len(row.text) for row in rows[1:]} == {46}
    assert "xx… ──│" in rows[1].text
    assert [row.style for row in rows] == ["head", "message", "error"]


def test_control_characters_cannot_leave_the_diagram() -> None:
    evil = client(id=1, method="tools/call", params={"name": "\x1b[2J\u202e"})
    assert "\\x1b[2J\\u202e" in drawn([evil], 80)


@pytest.mark.parametrize(("encoding", "glyphs"), [("utf-8", LINES), ("ascii", ASCII), ("cp1252", ASCII), (None, ASCII)])
def test_lines_are_drawn_where_the_output_can_show_them(encoding: str | None, glyphs: object) -> None:
    assert glyphs_for(encoding) is glyphs


def test_captions_stand_strange_payloads() -> None:
    captions = Captions()
    strange = [
        client(id=1, method="tools/call", params={}),
        server(id=1, result={"content": []}),
        server(id=2, method="sampling/createMessage", params={"messages": []}),
        client(id=2, result={"role": "user", "content": [{"type": "image"}]}),
        client(id=3, method="server/discover"),
        server(id=3, result={}),
        server(method="notifications/cancelled", params={"requestId": 1}),
        server(id="x", result={"resultType": "input_required"}),
        server(id=4, result=[]),
    ]
    assert [captions.caption(one).text for one in strange] == [
        "#1 tools/call None null",
        "result of #1: null",
        "#2 sampling/createMessage null",
        'answer to #2: [{"type": "image"}]',
        "#3 server/discover None",
        "result of #3: ",
        "cancelled #1",
        "result of #x: input_required",
        "result of #4: null",
    ]
