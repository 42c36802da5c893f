"""Rules of streamable HTTP that hold in every transcript, or that one of them shows."""

from __future__ import annotations

import json

import pytest

from backchannel.protocol.versions import FEATURES, LEGACY, MODERN, Version

from .reading import events, posts, transcripts


@pytest.mark.rule("R77", "R78", "R24")
def test_a_post_without_a_request_is_accepted_without_a_body() -> None:
    accepted = 0
    for transcript in transcripts():
        for post, response in posts(transcript):
            assert "Accept: application/json, text/event-stream" in post.head
            if post.messages and not any({"id", "method"} <= message.keys() for message in post.messages):
                assert [(frame.head, frame.data) for frame in response] == [(("202 Accepted",), None)]
                accepted += 1
    assert accepted > 8


@pytest.mark.rule("R79", "R80")
def test_an_event_is_one_message_and_a_stream_ends_with_the_response() -> None:
    streams = 0
    for transcript in transcripts():
        for post, response in posts(transcript):
            for event in events(response):
                value = json.loads(event.data or b"")
                assert isinstance(value, dict) or FEATURES[Version(transcript.version)].batches
            if response and response[-1].head == ("(the stream ends)",):
                assert {message["id"] for message in response[-2].messages} == {
                    message["id"] for message in post.messages if "method" in message
                }
                streams += 1
    assert streams > 8


@pytest.mark.rule("R81")
def test_event_ids_name_their_stream_and_count_in_it() -> None:
    for transcript in transcripts("http-session", "http-resumption", "http-batch", versions=LEGACY):
        seen: dict[str, int] = {}
        for event in events(transcript.frames):
            [line] = event.head
            stream, number = line.removeprefix("id: ").split("-")
            assert int(number) == seen.get(stream, 0) + 1
            seen[stream] = int(number)
        assert len(seen) >= 1
    for transcript in transcripts(versions=MODERN):
        assert all(event.head == () for event in events(transcript.frames))


@pytest.mark.rule("R84", "R82")
def test_a_session_id_is_given_once_and_comes_back_with_every_request() -> None:
    for transcript in transcripts("http-session"):
        given, *rest = [frame for frame in transcript.frames if frame.exchange == 1 and frame.sender == "server"]
        assert not rest
        [header] = [line for line in given.head if line.startswith("Mcp-Session-Id: ")]
        for frame in transcript.frames:
            assert header.partition(": ")[2].encode() not in (frame.data or b"")
            if frame.sender == "client" and frame.exchange != 1:
                assert header in frame.head
            elif frame is not given:
                assert header not in frame.head
        heads = [frame.head[0] for frame in transcript.frames if frame.sender == "client"]
        assert heads[2] == "GET /mcp" and heads[-1] == "DELETE /mcp" and heads.count("GET /mcp") == 1
    for transcript in transcripts(versions=MODERN):
        assert not any("Mcp-Session-Id" in line for frame in transcript.frames for line in frame.head)


@pytest.mark.rule("R87")
def test_a_session_that_has_ended_is_not_found() -> None:
    for transcript in transcripts("http-session-faults"):
        heads = [frame.head[0] for frame in transcript.frames]
        after = heads[heads.index("DELETE /mcp") :]
        assert after == ["DELETE /mcp", "200 OK", "POST /mcp", "404 Not Found", "GET /mcp", "404 Not Found"]


@pytest.mark.rule("R52", "R90")
def test_a_stream_that_broke_off_goes_on_after_the_last_event_and_nothing_comes_twice() -> None:
    for transcript in transcripts("http-resumption"):
        [get, _] = [frame for frame in transcript.frames if frame.head[:1] == ("GET /mcp",)]
        ids = [event.head[0] for event in events(transcript.frames)]
        assert ids == ["id: 1-1", "id: 1-2", "id: 1-3"]
        assert "Last-Event-ID: 1-1" in get.head
        assert [event.exchange for event in events(transcript.frames)] == [3, 4, 4]


@pytest.mark.rule("R89")
def test_a_batch_is_answered_as_a_batch() -> None:
    for transcript in transcripts("http-batch"):
        answers = [[frame.head[0] for frame in response] for _, response in posts(transcript)][2:]
        assert answers[0] == ["200 OK"] and answers[1] == ["202 Accepted"]
        batches = [frame for frame in transcript.frames if (frame.data or b"").startswith(b"[")]
        assert [frame.sender for frame in batches] == ["client", "server"] + ["client"] * 3 + ["server"] + [
            "client",
            "client",
            "server",
        ]


@pytest.mark.rule("R126", "R161")
def test_the_statuses_and_codes_of_what_is_wrong() -> None:
    [transcript] = transcripts("http-faults")
    found = []
    for frame in transcript.frames:
        if frame.sender == "server":
            found.append((frame.head[0][:3], *(message["error"]["code"] for message in frame.messages)))
    assert found == [
        *[("400", -32020)] * 5,
        ("400", -32022),
        ("400", -32021),
        ("404", -32601),
        ("404", -32601),
        ("200", -32602),
        ("400", -32700),
        ("405",),
        ("405",),
    ]
