"""Newline framing: bytes in, lines out."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.protocol.lines import EDGE, LineDecoder, Oversized, encode_line

LIMIT = 1_000_000


def decode(data: bytes, *, limit: int = LIMIT, cuts: list[int] | None = None) -> list[bytes | Oversized]:
    decoder = LineDecoder(limit)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    lines = []
    for start, end in zip(places, places[1:], strict=False):
        lines += decoder.feed(data[start:end])
    return lines + decoder.eof()


def by_hand(data: bytes, limit: int) -> list[bytes | Oversized]:
    """What the decoder must return, written as the definition: no chunks, no care for memory."""
    *ended, rest = data.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in ended] + [rest]
    return [
        line if len(line) <= limit else Oversized(len(line), limit, line[:EDGE], line[-EDGE:])
        for line in lines
        if line.strip(b" \t\r") or len(line) > limit
    ]


@pytest.mark.rule("R75")
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b'{"a":1}\n', [b'{"a":1}']),
        (b"a\nb\r\nc\n", [b"a", b"b", b"c"]),
        (b"\n\r\n \t\n\r\r\na\n\n", [b"a"]),
        (b"a\n\nrest", [b"a", b"rest"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\r", [b"a\r"]),
        ("a\u2028b\u2029c\x85d\n".encode(), ["a\u2028b\u2029c\x85d".encode()]),
        (b"a\x0bb\x0cc\x1cd\x85e\n", [b"a\x0bb\x0cc\x1cd\x85e"]),
        (b" a \n", [b" a "]),
    ],
)
def test_lines_end_at_newlines_and_nowhere_else(data: bytes, lines: list[bytes]) -> None:
    assert decode(data) == lines
    assert decode(data, cuts=list(range(len(data)))) == lines


@pytest.mark.rule("R75")
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_a_raw_newline_in_a_message_is_refused(newline: bytes) -> None:
    with pytest.raises(ValueError, match="raw newline, but has .* at byte"):
        encode_line(b"{ " + newline + b"}")


@pytest.mark.case("H03")
def test_a_bad_byte_spoils_its_own_line_only() -> None:
    text = "naïve 日本 😀".encode()
    assert decode(b"\x97\n" + text + b"\n") == [b"\x97", text]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit_is_the_last_size_that_passes(end: bytes) -> None:
    data = b"12345" + end + b"123456" + end + b"next" + end
    lines = [b"12345", Oversized(6, 5, b"123456", b"123456"), b"next"]
    assert decode(data, limit=5) == lines
    assert decode(data, limit=5, cuts=list(range(len(data)))) == lines


def test_a_dropped_line_shows_both_its_edges_and_the_next_is_served() -> None:
    long = b'{"id":1' + b"x" * 100_000 + b'"id":2}'
    dropped, following = decode(long + b"\nnext\n", limit=50_000, cuts=list(range(0, 100_000, 777)))
    assert dropped == Oversized(len(long), 50_000, long[:EDGE], long[-EDGE:])
    assert following == b"next"


def test_a_dropped_line_is_reported_once_its_end_arrives_or_the_stream_ends() -> None:
    decoder = LineDecoder(3)
    assert decoder.feed(b"12345") == []
    assert decoder.feed(b"6\nab") == [Oversized(6, 3, b"123456", b"123456")]
    assert decoder.feed(b"cd") == []
    assert decoder.eof() == [Oversized(4, 3, b"abcd", b"abcd")]
    assert decoder.eof() == []


def test_a_line_of_50_mb_in_small_chunks() -> None:
    decoder = LineDecoder(50_000_000)
    chunk = b"x" * 62_500
    assert all(decoder.feed(chunk) == [] for _ in range(800))
    assert decoder.feed(b"\n") == [chunk * 800]


def test_memory_is_bound_by_the_limit() -> None:
    decoder = LineDecoder(100_000)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1000):
            decoder.feed(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500_000
    [dropped] = decoder.feed(b"\n")
    assert isinstance(dropped, Oversized) and dropped.size == 65_536_000


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LineDecoder(limit)


pieces = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x0b", b"\x85", "\u2028".encode(), b"{}", b"\x97"])
    | st.binary(max_size=8)
    | st.integers(0, 10_000).map(lambda size: bytes(range(32, 232)) * (size // 200) + b"." * (size % 200))
).map(b"".join)


@given(pieces, st.integers(1, 40) | st.integers(EDGE - 3, 2 * EDGE + 3), st.lists(st.integers(0, 100_000)))
def test_any_chunking_gives_the_lines_of_the_definition(data: bytes, limit: int, cuts: list[int]) -> None:
    assert decode(data, limit=limit, cuts=cuts) == by_hand(data, limit)


@pytest.mark.rule("R75")
@given(st.lists(st.binary(min_size=1).filter(lambda m: not set(m) & set(b"\r\n") and m.strip(b" \t"))))
def test_what_is_encoded_is_decoded(messages: list[bytes]) -> None:
    assert decode(b"".join(map(encode_line, messages))) == messages
