"""The determinism check: calls a tool in a session, where its code runs once, then replayed, then over instances that
take turns, and reports what is different and what ran again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import BackchannelError, ConfigurationError, RemoteProtocolError
from ..server.server import Server
from .calls import Call, Calls
from .connection import connect
from .people import Script, ScriptError

LIVE, REPLAYED, REPLICAS = "live", "replayed", "replicas"
_SEEN = ("content", "isError")
"""The members of a result that are the same on every wire. Structured content, which is also there as text, is not."""


@dataclass(frozen=True)
class Again:
    """A call in the handler's code that a replay makes more often. file, line: of the call.  name: what is called.
    live, replayed: how often."""

    file: str
    line: int
    name: str
    live: int
    replayed: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}() ran {self.replayed} times instead of {self.live}"


@dataclass(repr=False)
class Report:
    """What came of the runs.

    results: by run ("live", "replayed", "replicas"), the members of the tool's result, or what failed as a text.
    mismatch: what was recorded and what was asked in its place, where the handler went another way.
    again: calls that ran again before a question.  fails: whether the tool was expected to fail.
    """

    results: dict[str, Any] = field(default_factory=dict)
    mismatch: tuple[str, str] | None = None
    again: list[Again] = field(default_factory=list)
    fails: bool = False

    @property
    def failed(self) -> list[str]:
        """The runs whose result is an error."""
        return [run for run, result in self.results.items() if isinstance(result, str) or result.get("isError")]

    @property
    def same(self) -> bool:
        """Whether all runs had the same result."""
        return all(result == self.results[LIVE] for result in self.results.values())

    @property
    def ok(self) -> bool:
        """Whether there is nothing to report, and runs failed only if that is expected: `assert report.ok, report`."""
        return self.same and self.mismatch is None and not self.again and bool(self.failed) == self.fails

    def __str__(self) -> str:
        lines = []
        if self.mismatch is not None:
            recorded, asked = self.mismatch
            lines.append(f"the handler went another way: {recorded} was recorded, and then it was {asked}")
        if not self.same:
            lines += [f"the result {run}: {result}" for run, result in self.results.items()]
        if self.failed and not self.fails:
            failure = f": {self.results[LIVE]}" if self.same else ""
            lines.append(f"{_runs(self.failed)} failed{failure}; if that is what is tested, say fails=True")
        if self.fails and not self.failed:
            lines.append("no run failed, and fails=True expects it")
        lines += [f"{one}; if that does harm, make it a step" for one in self.again]
        return "\n".join(lines or ["the same on every wire, and nothing ran again"])

    __repr__ = __str__


async def check(
    server: Server,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    people: Script | None = None,
    replicas: int = 2,
    allow: Collection[str] = (),
    before: Callable[[], Any] | None = None,
    fails: bool = False,
    **options: Any,
) -> Report:
    """Call a tool three times, and compare.

    Its effects happen three times too, so give it a server without customers. Run it on one event loop at a time.

    arguments: of the tool.  people: answers, the same in each run (see People).  replicas: how many instances take
    turns in the last run.  allow: names of functions that may run again, such as those that only read.  before: called,
    or awaited, before each run, to put back what the tool changes.  fails: the tool is expected to fail; otherwise a
    report of runs that failed is not ok.  options: for `connect` and the Client.

    Raises: ScriptError if `people` does not fit what the tool asks in the first run; ConfigurationError if there is no
    such tool, or `era` or `replay` is given.
    """
    if not {"era", "replay", "wire"}.isdisjoint(options):
        raise ConfigurationError("era, replay and wire are the check's own to choose")
    handler = server.tools.handlers.get(tool)
    if handler is None:
        raise ConfigurationError(f"there is no tool {tool!r}; there are {', '.join(server.tools.handlers)}")
    calls = {run: Calls(handler.function) for run in (LIVE, REPLAYED)}
    runs: dict[str, dict[str, Any]] = {
        LIVE: {"era": "legacy"},
        REPLAYED: {"era": "legacy", "replay": "always"},
        REPLICAS: {"era": "modern", "replicas": replicas},
    }
    report = Report(fails=fails)
    for run, how in runs.items():
        if before is not None and inspect.isawaitable(done := before()):
            await done
        counted = calls.get(run)
        watched = server if counted is None else _watched(server, tool, counted)
        with nullcontext() if counted is None else counted.counting():
            report.results[run] = await _call(watched, tool, arguments, people, {**how, **options}, report)
    live = calls[LIVE].counts
    for call, count in sorted(calls[REPLAYED].counts.items()):
        if count > live[call] and not _allowed(call, allow):
            report.again.append(Again(*call, live[call], count))
    return report


async def _call(
    server: Server,
    tool: str,
    arguments: dict[str, Any] | None,
    people: Script | None,
    options: dict[str, Any],
    report: Report,
) -> Any:
    """What a run gives. A script that fitted the first run fits: what does not fit a later one is the handler."""
    raw = None
    try:
        async with connect(server, people=people, **options) as client:
            raw = await client.request("tools/call", {"name": tool, "arguments": arguments or {}})
    except ScriptError as error:
        if not report.results:
            came = f"; the tool {tool!r} gave {_seen(raw)}" if raw is not None else ""
            raise ScriptError(f"{error}{came}") from None
        return f"{type(error).__name__}: {error}"
    except RemoteProtocolError as error:
        if isinstance(error.data, dict) and {"recorded", "asked"} <= error.data.keys() and report.mismatch is None:
            report.mismatch = error.data["recorded"], error.data["asked"]
        return f"{type(error).__name__}: {error}"
    except BackchannelError as error:
        return f"{type(error).__name__}: {error}"
    return _seen(raw)


def _seen(raw: msgspec.Raw) -> dict[str, Any]:
    result = msgspec.json.decode(raw)
    return {name: result[name] for name in _SEEN if result.get(name)}


def _runs(names: list[str]) -> str:
    return "every run" if len(names) == len((LIVE, REPLAYED, REPLICAS)) else f"the run {', '.join(names)}"


def _watched(server: Server, tool: str, calls: Calls) -> Server:
    """The server, with a synchronous tool that is counted in its thread."""
    handler = copy.copy(server.tools.handlers[tool])
    if handler.threaded:
        handler.function = calls.threaded(handler.function)
    watched = copy.copy(server)
    watched.tools = copy.copy(server.tools)
    watched.tools.handlers = {**server.tools.handlers, tool: handler}
    return watched


def _allowed(call: Call, allow: Collection[str]) -> bool:
    return call[2] in allow or call[2].rpartition(".")[2] in allow
