"""How cost grows: one thing becomes more, step by step, and a call is measured at each step."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any

from . import wire, wrk
from .chart import Chart, Points
from .contenders import OURS, SDK
from .paths.http import ADD, rounds
from .paths.streams import LISTEN, open_streams, run
from .process import HttpServer, fresh
from .wire import Connection, call

_AT_ONCE = 16


def _steps(most: int, least: int = 1) -> list[int]:
    """1, 10, 100 … and `most`."""
    steps = [least]
    while steps[-1] * 10 < most:
        steps.append(steps[-1] * 10)
    return [*steps, most]


def _each(steps: Iterable[int], measure: Callable[[int], float], title: str) -> Points:
    """The points of a curve. It ends where the server can do no more."""
    points: Points = []
    for step in steps:
        try:
            points.append((step, measure(step)))
        except (RuntimeError, OSError, TimeoutError) as error:
            print(f"{title} at {step}: {error}", file=sys.stderr)
            break
    return points


def _cpu(server: HttpServer, seconds: float) -> float:
    """Processor time of a call, in microseconds."""
    return wrk.run(server, [ADD], _AT_ONCE, seconds).cpu


def tools(seconds: float, scale: float) -> list[Chart]:
    """Tools: what a call costs, and a list."""
    calls = Chart("tools-call", "tools/call", "tools of the server", "µs of CPU a call")
    lists = Chart("tools-list", "tools/list", "tools of the server", "ms, median of one at a time")
    for contender in (OURS, SDK):
        called: Points = []
        listed: Points = []
        for step in _steps(round((10_000 if contender is OURS else 1000) * scale)):
            with fresh(contender, step) as server:
                called.append((step, _cpu(server, seconds)))
                listed.append((step, wrk.run(server, [wire.modern("tools/list", {})], 1, seconds).p50))
        calls.series[contender.title], lists.series[contender.title] = called, listed
    return [calls, lists]


def sessions(seconds: float, scale: float) -> list[Chart]:
    """Sessions that are open while one calls."""
    chart = Chart("sessions", "A call while sessions are open", "open sessions", "µs of CPU a call")
    for contender in (OURS, SDK):
        with fresh(contender) as server:
            connection, there = Connection(server.port), 0

            def measure(count: int, server: HttpServer = server, connection: Connection = connection) -> float:
                nonlocal there
                for _ in range(count - there):
                    _, headers, _ = connection.ask(wire.initialize())
                    id = headers["mcp-session-id"]
                    connection.ask(wire.legacy(id, "notifications/initialized", {}, None))
                there = count
                params = {"name": "add", "arguments": {"a": 1, "b": 2}}
                return wrk.run(server, [wire.legacy(id, "tools/call", params)], _AT_ONCE, seconds).cpu

            chart.series[contender.title] = _each(_steps(round(9_990 * scale)), measure, "sessions")
    return [chart]


def streams(seconds: float, scale: float) -> list[Chart]:
    """Streams that listen for changes while others call."""
    chart = Chart("streams", "A call while streams are open", "open listen streams", "µs of CPU a call")
    for contender in (OURS, SDK):
        with fresh(contender) as server:
            chart.series[contender.title] = run(_with_streams(server, _steps(round(5000 * scale)), seconds))
    return [chart]


async def _with_streams(server: HttpServer, steps: list[int], seconds: float) -> Points:
    """The points of a curve. It ends where the server opens no more."""
    points: Points = []
    held: list[Any] = []
    for step in steps:
        try:
            held += await open_streams(server, [LISTEN] * (step - len(held)), b"acknowledged")
        except (TimeoutError, OSError):
            print(f"{server.contender.title} opens no {step} streams", file=sys.stderr)
            break
        points.append((step, await asyncio.to_thread(_cpu, server, seconds)))
    return points


def journal(seconds: float, scale: float) -> list[Chart]:
    """Answers that a round replays."""
    chart = Chart("journal", "The last round of a call", "answers in the journal", "µs of CPU a round")

    with fresh(OURS) as server:

        def measure(questions: int) -> float:
            last = rounds(server, "interview", {"questions": questions})[-1]
            return wrk.run(server, [last], _AT_ONCE, seconds).cpu

        chart.series[OURS.title] = _each((1, 2, 4, 8, 16, 31), measure, "journal")
    return [chart]


def payload(seconds: float, scale: float) -> list[Chart]:
    """The size of a result, and of an argument."""
    results = Chart("results", "A long result", "bytes", "ms, median of one at a time")
    arguments = Chart("arguments", "A long argument", "bytes", "ms, median of one at a time")
    for contender in (OURS, SDK):
        with fresh(contender) as server:

            def result(size: int, server: HttpServer = server) -> float:
                return wrk.run(server, [call("blob", {"size": size})], 1, seconds).p50

            def argument(size: int, server: HttpServer = server) -> float:
                return wrk.run(server, [call("length", {"text": "x" * size})], 1, seconds).p50

            title = contender.title
            results.series[title] = _each(_steps(round(50_000_000 * scale), 1000), result, f"results, {title}")
            most = 10_000_000 if contender is OURS else 3_000_000  # what it takes by default
            arguments.series[title] = _each(_steps(round(most * scale), 1000), argument, f"arguments, {title}")
    return [results, arguments]


CURVES = (tools, sessions, streams, journal, payload)
