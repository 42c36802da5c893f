"""The figures to reach: for each path what must hold, and what is the goal. They are ratios within one run wherever
there is something to compare with."""

from dataclasses import dataclass

from .contenders import FLOOR, OURS, SDK
from .sample import Samples


class Target:
    """What a figure is held against."""

    def limit(self, samples: Samples, path: str, metric: str) -> float | None:
        """The figure that has to be reached in this run; None if what it depends on was not measured."""
        raise NotImplementedError

    upward = True
    """Whether more is better."""


@dataclass(frozen=True)
class Times(Target):
    """So many times what the official SDK does."""

    factor: float

    def limit(self, samples: Samples, path: str, metric: str) -> float | None:
        theirs = samples.median(path, metric, SDK.key)
        return theirs * self.factor if theirs is not None else None

    def __str__(self) -> str:
        return f"≥ {self.factor:g} × SDK"


@dataclass(frozen=True)
class Part(Target):
    """This part of what the floor does."""

    part: float

    def limit(self, samples: Samples, path: str, metric: str) -> float | None:
        floor = samples.median(path, metric, FLOOR.key)
        return floor * self.part if floor is not None else None

    def __str__(self) -> str:
        return f"≥ {self.part:.0%} of floor"


@dataclass(frozen=True)
class Like(Target):
    """This part of what it does itself on another path."""

    part: float
    other: str

    def limit(self, samples: Samples, path: str, metric: str) -> float | None:
        own = samples.median(self.other, metric, OURS.key)
        return own * self.part if own is not None else None

    def __str__(self) -> str:
        return f"≥ {self.part:.0%} of {self.other}"


@dataclass(frozen=True)
class Up(Target):
    """An absolute figure, on a machine where the SDK does `then`; on another one as much more or less as the SDK."""

    figure: float
    then: float | None = None

    def limit(self, samples: Samples, path: str, metric: str) -> float | None:
        theirs = samples.median(path, metric, SDK.key)
        return self.figure * (theirs / self.then if self.then and theirs else 1.0)

    def __str__(self) -> str:
        return f"{'≥' if self.upward else '≤'} {self.figure:,g}"


class Down(Up):
    """The same for a figure that should be small."""

    upward = False


@dataclass(frozen=True)
class Row:
    """One figure of a path."""

    title: str
    path: str
    metric: str
    unit: str
    must: Target
    goal: Target | None = None

    @property
    def upward(self) -> bool:
        """Whether more is better."""
        return self.must.upward


def down(title: str, path: str, metric: str, unit: str, must: float, goal: float, then: float | None = None) -> Row:
    """A row with absolute limits. then: what the SDK had where they were set."""
    return Row(title, path, metric, unit, Down(must, then), Down(goal, then))


def up(title: str, path: str, metric: str, unit: str, must: float, goal: float, then: float | None = None) -> Row:
    """A row with absolute limits, of which more is better."""
    return Row(title, path, metric, unit, Up(must, then), Up(goal, then))


ROWS = [
    Row("HTTP 2026-07-28 tools/call, async tool", "call-16", "rate", "/s", Times(8), Times(11)),
    Row("tools/call against the bare ASGI app", "call-16", "rate", "/s", Part(0.45), Part(0.65)),
    down("tools/call, CPU of the server", "call-16", "cpu", "µs", 75, 54, 584),
    Row("tools/call, async tool that waits", "later-16", "rate", "/s", Times(6), Times(8)),
    Row("tools/call, sync tool in a thread", "sync-16", "rate", "/s", Times(6), Times(8)),
    Row("tools/call, concurrency 64", "call-64", "rate", "/s", Times(10), Times(14)),
    Row("concurrency 64 against 16", "call-64", "rate", "/s", Like(0.9, "call-16")),
    down("p99 at concurrency 64", "call-64", "p99", "ms", 5, 2.5, 56),
    down("p50 at concurrency 1", "call-1", "p50", "ms", 0.18, 0.13, 0.57),
    Row("HTTP 2025-11-25 session, SSE", "session-16", "rate", "/s", Times(10), Times(15)),
    Row("rounds, sealed state, replay", "mrtr-16", "rate", "/s", Times(7), Times(10)),
    Row("reverse-call elicitation", "reverse-16", "rate", "/s", Times(6), Times(10)),
    down("stdio, one by one, p50", "stdio", "p50", "µs", 130, 90, 695),
    up("stdio, pipelined", "stdio", "rate", "/s", 20_000, 40_000, 1485),
    up("in process, 2026-07-28", "inprocess", "rate", "/s", 20_000, 40_000, 3583),
    down("parked reverse call", "parked", "kib", "KiB", 30, 20),
    down("idle session", "sessions", "kib", "KiB", 6, 2),
    down("listen stream", "listening", "kib", "KiB", 30, 20),
    down("one change to 1,000 listeners", "change", "ms", "ms", 40, 25, 111),
    down("tools/list of 1,000 tools, p50", "list-1000", "p50", "ms", 3, 0.5, 153),
    Row("tools/call with 1,000 tools", "call-1000", "rate", "/s", Like(0.95, "call-16")),
    down("1 MB result, p50", "blob-1", "p50", "ms", 2, 1.2, 4.6),
    down("10 MB result, p50", "blob-10", "p50", "ms", 15, 8, 40),
    down("1 MB argument, p50", "argument-1", "p50", "ms", 4, 3, 4.7),
    down("import of the client", "imports", "client", "ms", 120, 90, 514),
    down("import of the server", "imports", "server", "ms", 180, 130, 561),
    down("hello on stdio: peak memory", "hello", "mib", "MiB", 42, 36),
    down("hello on stdio: start to first reply", "hello", "ms", "ms", 200, 130, 563),
    down("HTTP client, CPU of a call, 2026-07-28", "client", "modern", "µs", 190, 120, 1104),
    down("HTTP client, CPU of a call, 2025-11-25", "client", "legacy", "µs", 210, 140, 1574),
]


def reached(target: Target | None, samples: Samples, row: Row) -> bool | None:
    """Whether ours reaches a target; None if it cannot be told."""
    own = samples.median(row.path, row.metric, OURS.key)
    limit = target.limit(samples, row.path, row.metric) if target is not None else None
    if own is None or target is None or limit is None:
        return None
    return own >= limit if target.upward else own <= limit
