"""Newline framing: one JSON-RPC message per line, for stdio and any other byte stream.

How it works: only the new chunk is searched for line ends. A line that it has a part of goes into a `Bounded`, which
keeps all bytes up to the limit and, once it is passed, the two edges only. So time is linear in the bytes that come
in, and memory does not depend on what the other side sends.
"""

import msgspec

_BLANK = b" \t\r"
EDGE = 4096  # bytes that are kept from each end of what was dropped


class Oversized(msgspec.Struct, frozen=True):
    """Stands in the place of a message that was dropped because it is longer than `limit`; sizes are in bytes.

    The edges are there so that the caller can still look for the id: some peers write it first, others last.
    """

    size: int
    limit: int
    head: bytes
    """The first bytes, at most `EDGE`."""
    tail: bytes = b""
    """The last bytes, at most `EDGE`; they overlap `head` where the message is short."""


class Bounded:
    """Collects the pieces of one message: all of them up to `limit` bytes, beyond it the edges and the size only.

    Raises: ValueError where `limit` is less than 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"the limit is a number of bytes, at least 1, not {limit}")
        self.limit = limit
        self.size = 0
        self._room = max(limit + 1, EDGE)  # one more than the limit: a last \r may turn out to be half of a line end
        self._kept: bytes | bytearray = b""  # bytes as long as it is one piece, so that one is not copied
        self._tail = bytearray()  # empty until something was dropped

    def add(self, piece: bytes) -> None:
        """Append `piece`."""
        if self._tail or self.size + len(piece) > self._room:
            self._drop(piece)
        elif not self.size:
            self._kept = piece
        else:
            if isinstance(self._kept, bytes):
                self._kept = bytearray(self._kept)
            self._kept += piece
        self.size += len(piece)

    def add_dropped(self, part: Oversized) -> None:
        """Append a part of which only the edges are known; it is longer than both the limit and `EDGE`."""
        self.add(part.head)
        self.size += part.size - len(part.head)
        self._kept = bytes(self._kept[:EDGE])
        self._tail = bytearray(part.tail)

    def take(self, *, strip_cr: bool = False) -> bytes | Oversized:
        """Give the message, or what is known of one that is too long, and start afresh."""
        kept, last = self._kept, self._tail or self._kept
        cut = 1 if strip_cr and last.endswith(b"\r") else 0
        size = self.size - cut
        self.size, self._kept, self._tail = 0, b"", bytearray()
        if size > self.limit:
            tail = bytes(last[: len(last) - cut])[-EDGE:]
            return Oversized(size, self.limit, bytes(kept[: min(size, EDGE)]), tail)
        return kept if isinstance(kept, bytes) and not cut else bytes(memoryview(kept)[:size])

    def _drop(self, piece: bytes) -> None:
        """Append `piece` to the tail, of which one byte more than `EDGE` is held, for the \\r."""
        if not self._tail:
            self._tail += self._kept[-EDGE - 1 :]
            self._kept = bytes(self._kept[:EDGE]) + piece[: max(0, EDGE - len(self._kept))]
        self._tail += piece[-EDGE - 1 :]
        if len(self._tail) > 2 * EDGE + 1:
            del self._tail[: -EDGE - 1]


def encode_line(message: bytes) -> bytes:
    r"""Frame one encoded message as a line.

    `message` is JSON text in UTF-8. A lone \r in it is refused too: readers with universal newlines split there.

    Raises: ValueError where `message` holds a raw \n or \r.
    Specification: 2026-07-28/basic/transports/stdio.
    """
    # "Messages are delimited by newlines, and MUST NOT contain embedded newlines." (2026-07-28/basic/transports/stdio)
    for newline in (b"\n", b"\r"):
        if (place := message.find(newline)) >= 0:
            raise ValueError(f"a message on a line may not hold a raw newline, but has {newline!r} at byte {place}")
    return message + b"\n"


class LineDecoder:
    r"""Splits a byte stream into lines, at \n and \r\n and nowhere else, however it is cut into chunks.

    `limit` is the most bytes that a line may have, without its end. Lines that are empty or JSON white space only are
    skipped; `blanks=True` hands out every line, for SSE, where an empty one means something.

    Raises: ValueError where `limit` is less than 1.
    Specification: 2026-07-28/basic/transports/stdio, 2025-11-25/basic/transports#stdio.
    """

    def __init__(self, limit: int, *, blanks: bool = False) -> None:
        self._line = Bounded(limit)
        self._blanks = blanks

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Take the next bytes; return the lines they complete, without ends, those over `limit` as `Oversized`."""
        lines: list[bytes | Oversized] = []
        *ended, rest = data.split(b"\n")
        for line in ended:
            if self._line.size or len(line) > self._line.limit:
                self._line.add(line)
                self._finish(lines, strip_cr=True)
                continue
            if line.endswith(b"\r"):
                line = line[:-1]
            if self._blanks or line.strip(_BLANK):
                lines.append(line)
        if rest:
            self._line.add(rest)
        return lines

    def eof(self) -> list[bytes | Oversized]:
        """Return what came after the last line end: an empty list, or one item."""
        lines: list[bytes | Oversized] = []
        if self._line.size:
            self._finish(lines, strip_cr=False)
        return lines

    def _finish(self, lines: list[bytes | Oversized], *, strip_cr: bool) -> None:
        line = self._line.take(strip_cr=strip_cr)
        if self._blanks or isinstance(line, Oversized) or line.strip(_BLANK):
            lines.append(line)
