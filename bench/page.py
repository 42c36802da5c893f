"""The table, for the terminal and for docs/performance.md."""

from .chart import Chart, short
from .contenders import ALL, FLOOR, HERE, OURS, SDK
from .machine import describe
from .sample import Samples
from .targets import ROWS, Row, Target, Up, reached

PAGE = HERE.parent / "docs" / "performance.md"
PICTURES = PAGE.with_suffix("")
NOTES = HERE / "notes.md"
"""Where the time goes, by profiles: written by hand."""
_ABOUT = """# What it costs

Written by `make bench`; `make bench-quick` prints the same table from shorter runs. Absolute figures move with the
machine, and on one that others use as well they move a lot: look at the ratios, which come from one run.

{machine}. {runs}

- A server runs on one core, the load comes from the other: `wrk` for HTTP, raw sockets and pipes for the rest. All HTTP
  servers are uvicorn with uvloop and httptools, without an access log.
- Contenders take turns within a path; a figure is the median of the turns. *Noise* is how far the turns of backchannel
  were apart, as a part of the median.
- The *floor* is written by hand for this benchmark: a bare ASGI app, a raw loop over pipes, raw sockets. It parses the
  message and answers, and checks nothing.
- × SDK: how many times better than the official SDK; *by CPU*: by the processor time of the server for a request,
  which others on the machine disturb less.  A limit in absolute figures is for a machine on which the SDK has
  the figure that it had where the limit was set; elsewhere it is as much higher or lower as the SDK is.  *Now* is what
  holds in this run.

"""
_HEAD = ["path", "", *(who.title for who in ALL), "× SDK", "by CPU", "of floor", "noise", "must", "goal", "now"]


def figure(value: float | None) -> str:
    """A figure with as many digits as mean something."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _limit(target: Target | None, samples: Samples, row: Row) -> str:
    if target is None:
        return "–"
    limit = target.limit(samples, row.path, row.metric)
    moves = isinstance(target, Up) and target.then is not None and limit is not None
    return f"{target} (here {figure(limit)})" if moves else str(target)


def _ratio(samples: Samples, path: str, metric: str, other: str, upward: bool) -> float | None:
    """How many times better ours is than another."""
    own, theirs = (samples.median(path, metric, key) for key in (OURS.key, other))
    if not own or not theirs:
        return None
    return own / theirs if upward else theirs / own


def _cells(samples: Samples, row: Row) -> list[str]:
    values = [samples.median(row.path, row.metric, who.key) for who in ALL]
    times = _ratio(samples, row.path, row.metric, SDK.key, row.upward)
    less = _ratio(samples, row.path, "cpu", SDK.key, False) if row.metric == "rate" else None
    part = _ratio(samples, row.path, row.metric, FLOOR.key, row.upward)
    spread = samples.spread(row.path, row.metric, OURS.key)
    must, goal = reached(row.must, samples, row), reached(row.goal, samples, row)
    now = "–" if must is None else "goal" if goal else "must" if must else "**missed**"
    return [
        row.title,
        row.unit,
        *map(figure, values),
        f"{times:.1f}" if times else "–",
        f"{less:.1f}" if less else "–",
        f"{part:.0%}" if part else "–",
        f"±{spread / 2:.0%}" if spread is not None else "–",
        _limit(row.must, samples, row),
        _limit(row.goal, samples, row),
        now,
    ]


def rows(samples: Samples) -> list[list[str]]:
    """The cells of the table, of what was measured, with its head."""
    return [_HEAD] + [
        _cells(samples, row) for row in ROWS if samples.median(row.path, row.metric, OURS.key) is not None
    ]


def plain(table: list[list[str]]) -> str:
    """The table for a terminal."""
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).replace("**", "")
        for cells in table
    )


def markdown(samples: Samples, runs: str, charts: list[Chart]) -> str:
    """The page."""
    table = rows(samples)
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    lines.insert(1, "|" + " --- |" * len(_HEAD))
    missed = [cells[0] for cells in table[1:] if cells[-1] == "**missed**"]
    rest = "\n## Missed in this run\n\n" + "".join(f"- {title}\n" for title in missed) if missed else ""
    curves = "".join(f"\n![{chart.title}: {_in_words(chart)}]({PICTURES.name}/{chart.name}.svg)\n" for chart in charts)
    growth = f"\n## How cost grows\n\nBoth axes are logarithmic.\n{curves}" if charts else ""
    notes = "\n" + NOTES.read_text(encoding="utf-8")
    return _ABOUT.format(machine=describe(), runs=runs) + "\n".join(lines) + "\n" + rest + notes + growth


def _in_words(chart: Chart) -> str:
    """What a picture shows, for those who do not see it."""
    ends = [
        f"{title} from {figure(line[0][1])} at {short(line[0][0])} to {figure(line[-1][1])} at {short(line[-1][0])}"
        for title, line in chart.series.items()
        if line
    ]
    return f"{chart.y} by {chart.x}; {'; '.join(ends)}"


def draw(charts: list[Chart]) -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for chart in charts:
        (PICTURES / f"{chart.name}.svg").write_text(chart.svg(), encoding="utf-8")
