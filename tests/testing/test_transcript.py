"""Transcripts: the text, the methods and the diagram of what went over the wire."""

import pytest

from backchannel import Client, RemoteProtocolError
from backchannel.memory import MemoryTransport
from backchannel.testing import Transcript, accept, connect, decline, error
from tests.testing.shop import server

pytestmark = pytest.mark.anyio
M = accept({"size": "M"})

MODERN = """\
→ tools/call #2 {"name": "order", "arguments": {"name": "Ada"}}
← result #2 {"resultType": "input_required", "inputRequests": {"elicit-2": {"method": "elicitation/create", "params": \
{"message": "Which size for Ada?", "mode": "form", "requestedSchema": SCHEMA}}}, "requestState": "<state 1>"}
→ tools/call #3 {"name": "order", "arguments": {"name": "Ada"}, "inputResponses": {"elicit-2": {"action": "decline"}}, \
"requestState": "<state 1>"}
← result #3 {"content": [{"type": "text", "text": "Declined"}], "resultType": "complete"}
"""
SCHEMA = (
    '{"type": "object", "properties": {"size": {"type": "string", "title": "Size", "enum": ["S", "M", "L"]}}, '
    '"required": ["size"]}'
)
LEGACY = """\
sequenceDiagram
    participant C as client
    participant S1 as server
    C->>S1: 2 tools/call order
    S1->>C: 1 elicitation/create Which size for Ada?
    C-->>S1: 1 accept {"size": "M"}
    S1->>C: 2 elicitation/create M for 42?
    C-->>S1: 2 error -1 no#59; not me
    S1-->>C: 2 isError RemoteProtocolError: no#59; not me
"""
REPLICAS = """\
sequenceDiagram
    participant C as client
    participant S1 as server B
    participant S2 as server C
    participant S3 as server A
    C->>S1: 2 tools/call order
    S1-->>C: 2 input_required elicit-2 Which size for Ada?
    C->>S2: 3 tools/call order, elicit-2 = accept {"size": "M"}
    S2-->>C: 3 input_required elicit-3 M for 42?
    C->>S3: 4 tools/call order, elicit-3 = accept {"value": true}
    S3-->>C: 4 Ada: M
"""


async def test_text() -> None:
    transcript = Transcript()
    async with connect(server, era="modern", people=[decline()], transcript=transcript) as client:
        transcript.clear()
        await client.call_tool("order", {"name": "Ada"})
    assert str(transcript) == MODERN.replace("SCHEMA", SCHEMA)
    assert '"io.modelcontextprotocol/protocolVersion": "2026-07-28"' in transcript.text(full=True)


async def test_methods() -> None:
    transcript = Transcript()
    async with connect(server, era="legacy", people=[M, True], transcript=transcript) as client:
        await client.call_tool("order", {"name": "Ada"})
    assert transcript.methods == [
        "→ initialize",
        "→ notifications/initialized",
        "→ tools/call",
        "← elicitation/create",
        "← elicitation/create",
    ]


async def test_a_diagram_of_reverse_calls() -> None:
    transcript = Transcript()
    people = [M, error(-1, "no; not me")]
    async with connect(server, era="legacy", people=people, transcript=transcript) as client:
        transcript.clear()
        await client.call_tool("order", {"name": "Ada"})
    assert transcript.mermaid() == LEGACY


async def test_a_diagram_of_rounds_over_instances() -> None:
    transcript = Transcript()
    async with connect(server, era="modern", replicas=3, people=[M, True], transcript=transcript) as client:
        transcript.clear()
        await client.call_tool("order", {"name": "Ada"})
    assert transcript.mermaid() == REPLICAS


async def test_any_transport_can_be_recorded() -> None:
    transcript = Transcript()
    async with Client(transcript.wrap(MemoryTransport(server)), version="modern") as client:
        transcript.clear()
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("none")
    assert transcript.text() == '→ tools/call #2 {"name": "none", "arguments": {}}\n' + (
        '← error #2 {"code": -32602, "message": "Unknown tool: none"}\n'
    )
