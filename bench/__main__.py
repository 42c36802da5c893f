"""`python -m bench`: measure, print the table, and write the page.

Each path is measured for all contenders in turn, several times, so that what disturbs the machine disturbs them alike.
"""

import argparse
import json
import sys
import time

from . import wrk
from .growth import CURVES
from .machine import CORES, busy, describe, on_generator_core
from .page import PAGE, draw, markdown, plain, rows
from .paths import Path, Plan, http, pipes, programs, streams
from .process import Fleet
from .sample import Samples
from .targets import ROWS, Row

PATHS = [*http.PATHS, *streams.PATHS, *pipes.PATHS, *programs.PATHS]
FULL = Plan(seconds=3, repeats=5, count=1000, listeners=1000)
QUICK = Plan(seconds=1, repeats=1, count=200, listeners=1000)
RESULTS = PAGE.parent.parent / "bench" / ".out" / "results.json"


def measure(paths: list[Path], plan: Plan, samples: Samples) -> None:
    """All turns of all paths. What a contender fails at is said, and left out."""
    fleet = Fleet()
    try:
        for path in paths:
            begin, failed = time.monotonic(), set[str]()
            for turn in range(min(plan.repeats, path.most)):
                # Whoever was first is last in the next turn.
                order = path.who[turn % len(path.who) :] + path.who[: turn % len(path.who)]
                for contender in order:
                    if contender.key in failed:
                        continue
                    try:
                        samples.add(path.key, contender.key, path.measure(contender, fleet, plan))
                    except (RuntimeError, OSError, TimeoutError, KeyError) as error:
                        failed.add(contender.key)
                        print(f"{path.key}, {contender.title}: {error}", file=sys.stderr)
            print(f"{path.key}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    finally:
        fleet.stop()


def main() -> int:
    """Returns 1 if ours could not be measured on some path."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("paths", nargs="*", help=f"some of {', '.join(path.key for path in PATHS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="short runs, and no page")
    parser.add_argument("--repeats", type=int, help="turns of each contender")
    options = parser.parse_args()
    if (lack := wrk.missing()) or len(CORES) < 2:
        parser.error(lack or "two cores are needed, one for the server and one for the load")
    plan = QUICK if options.quick else FULL
    if options.repeats:
        plan = Plan(plan.seconds, options.repeats, plan.count, plan.listeners)
    paths = [path for path in PATHS if path.key in options.paths] if options.paths else PATHS
    idle = "" if busy() else ", on an idle machine"
    if not idle:
        print("others use this machine: look at ratios only, and at CPU rather than at rates", file=sys.stderr)
    on_generator_core()
    samples, begin = Samples(), time.monotonic()
    measure(paths, plan, samples)
    print(plain(rows(samples)))
    print(f"{describe()}; {time.monotonic() - begin:.0f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(samples.dump(), indent=1) + "\n")
    if not options.quick and not options.paths:
        runs = f"{plan.repeats} turns of {plan.seconds:g} s for each contender and path{idle}."
        charts = [chart for curve in CURVES for chart in curve(plan.seconds, 1.0)]
        draw(charts)
        PAGE.write_text(markdown(samples, runs, charts), encoding="utf-8")
        print(f"written: {PAGE.relative_to(PAGE.parent.parent)}")
    return int(any(samples.median(row.path, row.metric, "ours") is None for row in _rows(paths)))


def _rows(paths: list[Path]) -> list[Row]:
    keys = {path.key for path in paths}
    return [row for row in ROWS if row.path in keys]


if __name__ == "__main__":
    raise SystemExit(main())
