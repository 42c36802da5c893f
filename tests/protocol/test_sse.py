"""Server-Sent Events: bytes in, events out."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.protocol.lines import EDGE, Oversized
from backchannel.protocol.sse import COMMENT, Event, SSEDecoder, encode_event

LIMIT = 1_000_000


def decode(data: bytes, *, limit: int = LIMIT, cuts: list[int] | None = None) -> tuple[list[Event | Oversized], object]:
    """The events, and what the decoder remembers after them."""
    decoder = SSEDecoder(limit)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    events = [event for start, end in zip(places, places[1:], strict=False) for event in decoder.feed(data[start:end])]
    return events, (decoder.last_event_id, decoder.retry)


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data:a\r\n\r\ndata:  b \n\n", [Event(b"a"), Event(b" b ")]),
        (b"data: a\ndata\ndata:\ndata: b\n\n", [Event(b"a\n\n\nb")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(b"a")]),
        (b"\xef\xbb\xbf\ndata: a\n\n", [Event(b"a")]),
        (b": hi\ndata: a\n:\nother: b\nother\n data: c\n\n", [Event(b"a")]),
        (b"event: x\ndata: a\n\nevent: y\n\ndata: b\n\n", [Event(b"a", "x"), Event(b"b")]),
        (b"data: a:b\rc\x0b\x85\xe2\x80\xa8\n\n", [Event(b"a:b\rc\x0b\x85\xe2\x80\xa8")]),
        (b"data: \x97\n\ndata: a\n", [Event(b"\x97")]),
        (b"data\n\n\n\n", [Event(b"")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [Event(b"a", id="1"), Event(b"b")]),
        (b"id: 1\nid: \xff\xc3\xa9\n\n", [Event(b"", id="\ufffd\u00e9")]),
        (b"id: 1\x002\ndata: a\n\n", [Event(b"a")]),
        (b"retry: 12a\nretry: -1\nretry:\nretry: \xd9\xa1\nretry: " + b"9" * 5000 + b"\n\n", []),
        (b"id: s-0\nretry: 500\ndata: \n\n", [Event(b"", id="s-0", retry=500)]),
        (b"id: s-0\n\nretry: 007\n\n", [Event(b"", id="s-0"), Event(b"", retry=7)]),
    ],
)
def test_the_rules_of_the_event_stream(data: bytes, events: list[Event]) -> None:
    assert decode(data)[0] == events
    assert decode(data, cuts=list(range(len(data)))) == decode(data)


@pytest.mark.parametrize(
    ("data", "last_event_id", "retry"),
    [
        (b"data: a\n\n", None, None),
        (b"id: 1\nretry: 9\ndata: a\n\ndata: b\n\n", "1", 9),
        (b"id: 1\n\nid: 2\nretry: 9\ndata: cut o", "1", 9),
        (b"id: 1\ndata: too long\n\n", "1", None),
        (b"id: 1\n\nid\ndata: a\n\n", None, None),
        (b"id: 1\n\nid: 2\x00\nretry: x\ndata: a\n\n", "1", None),
    ],
)
def test_only_complete_events_move_the_place_to_resume_at(data: bytes, last_event_id: str, retry: int) -> None:
    assert decode(data, limit=7)[1] == (last_event_id, retry)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("before", [b"", b"retry: 5\n", b"id: 0\n", b"data: a\n", b"event: other\n", b": hi\n\n"])
@pytest.mark.parametrize("lines", [[], [b"event: message"], [b"id: 7"], [b"id: 7", b"event: message"]])
def test_an_event_in_one_chunk_is_like_any_other(lines: list[bytes], before: bytes, end: bytes) -> None:
    event = end.join([*lines, b'data: {"a": 1}', b"", b""])
    data = before + event + event
    in_pieces = decode(data, cuts=list(range(len(data))))
    assert decode(data, cuts=[len(before), len(before) + len(event)]) == in_pieces
    assert decode(data, limit=3, cuts=[len(before), len(before) + len(event)]) == decode(data, limit=3)


@pytest.mark.rule("R80")
def test_one_message_is_one_event() -> None:
    assert encode_event(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert encode_event(b"{}", id="s-1", event="x", retry=5) == b"id: s-1\nevent: x\nretry: 5\ndata: {}\n\n"
    assert encode_event(b"", id="s-0") == b"id: s-0\ndata: \n\n"
    assert encode_event(b"{\n\r\n\r}") == b"data: {\ndata: \ndata: \ndata: }\n\n"


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_ids_and_types_cannot_break_out_of_their_line(bad: str) -> None:
    with pytest.raises(ValueError, match="the id of an event"):
        encode_event(b"{}", id=bad)
    with pytest.raises(ValueError, match="the event of an event"):
        encode_event(b"{}", event=bad)


def test_a_negative_retry_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        encode_event(b"{}", retry=-1)


def test_the_keep_alive_is_no_event() -> None:
    assert decode(COMMENT + encode_event(b"{}", id="1") + COMMENT * 3) == ([Event(b"{}", id="1")], ("1", None))


@pytest.mark.parametrize("field", [b"data:", b"data: ", b"\xef\xbb\xbfdata: "])
@pytest.mark.parametrize("limit", [1, EDGE - 1, EDGE, 50_000])
def test_the_limit_is_the_last_size_that_passes(field: bytes, limit: int) -> None:
    for size in (limit, limit + 1, limit + 20, limit + 9000):
        data = (bytes(range(33, 127)) * (size // 94 + 1))[:size]
        [event, following] = decode(field + data + b"\nid: 7\n\ndata: b\n\n", limit=limit)[0]
        assert following == Event(b"b")
        if size == limit:
            assert event == Event(data, id="7")
        else:
            assert isinstance(event, Oversized) and (event.size, event.limit) == (size, limit)
            assert (data[: len(event.head)], data[-len(event.tail) :]) == (event.head, event.tail)
            assert min(len(event.head), len(event.tail)) >= min(size, EDGE - 16)


def test_many_short_or_long_lines_of_data_count_as_one_event() -> None:
    assert decode(b"data: ab\n" * 3 + b"\n", limit=7)[0] == [Oversized(8, 7, b"ab\nab\nab", b"ab\nab\nab")]
    long = b"x" * 10_000
    [event] = decode(b"data: a\ndata: " + long + b"\ndata: b\ndata:" + long + b"\ndata: c\n\n", limit=100)[0]
    assert isinstance(event, Oversized) and event.size == 20_007
    assert event.head[:3] == b"a\nx" and event.tail[-3:] == b"x\nc"


def test_long_lines_that_are_not_data_are_passed_over() -> None:
    long = b"x" * 10_000
    stream = b":" + long + b"\nid:" + long + b"\nother: " + long + b"\nevent: " + long + b"\ndata: a\n\n"
    assert decode(stream, limit=100) == ([Event(b"a")], (None, None))


@pytest.mark.parametrize("id", [b"a\rb", b"a\x01b", b"\x7f", b"\0", b"\x1f", b"x" * 1001, "é".encode() * 501])
def test_an_id_that_no_header_can_carry_is_ignored(id: bytes) -> None:
    stream = b"id: 1\ndata: a\n\nid: " + id + b"\ndata: b\n\n"
    assert decode(stream) == ([Event(b"a", id="1"), Event(b"b")], ("1", None))


@pytest.mark.parametrize("id", ["x" * 1000, "é☃", "a\tb"])
def test_an_id_that_a_header_can_carry_is_kept(id: str) -> None:
    assert decode(f"id: {id}\ndata: a\n\n".encode()) == ([Event(b"a", id=id)], (id, None))


@pytest.mark.parametrize("chunk", [b"x" * 60_000, b"data: xyz\n" * 400, b"id: x\n" * 400, b"\ndata: " + b"x" * 60_000])
def test_memory_is_bound_by_the_limit(chunk: bytes) -> None:
    decoder = SSEDecoder(5000)
    decoder.feed(b"data: ")
    tracemalloc.start()
    try:
        for _ in range(100):
            decoder.feed(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


words = [b"data", b"id", b"event", b"retry", b":", b": ", b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b"\xef\xbb\xbf", b"7"]
streams = st.lists(st.sampled_from(words) | st.binary(max_size=4) | st.integers(0, 9000).map(lambda n: b"x" * n))


@given(streams.map(b"".join), st.integers(1, 20) | st.integers(4000, 9000), st.lists(st.integers(0, 100_000)))
def test_any_chunking_gives_the_same_events(data: bytes, limit: int, cuts: list[int]) -> None:
    assert decode(data, limit=limit, cuts=cuts) == decode(data, limit=limit)


fields = [b"id: 7", b"id: 8", b"id:", b"id: " + b"x" * 1001, b"id: \xc3\xa9", b"id: a b", b"event: message"]
fields += [b"event: other", b"data: ab", b"data:  a", b"data:a", b"data: a\rb", b"data: ", b"data", b"retry: 5", b":"]
usual = st.sampled_from([b"data: ab\n\n", b"id: 7\ndata: ab\n\n", b"id: 7\r\nevent: message\r\ndata: a\r\n\r\n"])
ends = st.sampled_from([b"\n", b"\r\n"])
lines = st.lists(st.builds(bytes.__add__, st.sampled_from(fields), ends), max_size=4).map(b"".join)
chunks = (
    usual | lines | st.builds(bytes.__add__, lines, ends) | st.sampled_from([b"\n", b"\r", b"data: ", b"\xef\xbb\xbf"])
)


@given(st.lists(chunks, max_size=6), st.sampled_from([1, 2, LIMIT]))
def test_chunks_that_are_whole_events_are_read_as_they_are_byte_by_byte(sent: list[bytes], limit: int) -> None:
    decoder, data = SSEDecoder(limit), b"".join(sent)
    events = [event for chunk in sent for event in decoder.feed(chunk)]
    assert (events, (decoder.last_event_id, decoder.retry)) == decode(data, limit=limit, cuts=list(range(len(data))))


names = st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), min_size=1)
ids = st.text(st.characters(exclude_categories=["Cc"], codec="utf-8"), min_size=1, max_size=250)
events = st.builds(Event, st.binary(), st.just("message") | names, st.none() | ids, st.none() | st.integers(0, 10**9))


@pytest.mark.rule("R80")
@given(st.lists(events))
def test_what_is_encoded_is_decoded(sent: list[Event]) -> None:
    stream = b"".join(encode_event(e.data, id=e.id, event=e.event, retry=e.retry) for e in sent)
    whole = [Event(e.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), e.event, e.id, e.retry) for e in sent]
    assert decode(stream)[0] == whole
