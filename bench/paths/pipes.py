"""Stdio: raw pipes, to a server that is started for each run."""

import contextlib
import json
import os
import selectors
import time
from statistics import median

from ..contenders import Contender
from ..process import Fleet, Process
from ..wire import modern_message
from . import Figures, Path, Plan

_WINDOW = 128
"""Calls on their way at once, when they are not sent one by one."""
_PATIENCE = 30.0  # seconds


class Pipe:
    """The two pipes of a server."""

    def __init__(self, process: Process):
        stdin, stdout = process.child.stdin, process.child.stdout
        assert stdin is not None and stdout is not None
        self.input, self.output = stdin.fileno(), stdout.fileno()
        self._rest = b""

    def line(self) -> bytes:
        """The next line."""
        while b"\n" not in self._rest:
            got = os.read(self.output, 1 << 16)
            if not got:
                raise RuntimeError("the server has ended")
            self._rest += got
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def call(self, request: bytes) -> bytes:
        """Send a line, and wait for one."""
        os.write(self.input, request)
        return self.line()


def request(id: int) -> bytes:
    """A `tools/call` as a line."""
    return modern_message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, id) + b"\n"


def _sequential(pipe: Pipe, seconds: float) -> float:
    """The median time of a call, in microseconds."""
    line, times = request(1), []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        pipe.call(line)
        times.append(time.perf_counter() - begin)
    return median(times) * 1e6


def _pipelined(pipe: Pipe, seconds: float) -> float:
    """Calls a second, with a window of them on their way."""
    waiting, sent, done = b"", 0, 0
    head, _, tail = request(77777).partition(b"77777")
    os.set_blocking(pipe.input, False)
    os.set_blocking(pipe.output, False)
    begin = time.perf_counter()
    while (running := time.perf_counter() < begin + seconds) or done < sent:
        room = _WINDOW - (sent - done) if running else 0
        if room > _WINDOW // 4 and not waiting:
            waiting = b"".join(b"%s%d%s" % (head, sent + number, tail) for number in range(room))
            sent += room
        if waiting:
            with contextlib.suppress(BlockingIOError):
                waiting = waiting[os.write(pipe.input, waiting) :]
        try:
            done += os.read(pipe.output, 1 << 18).count(b"\n")
        except BlockingIOError:
            if not _wait(pipe, bool(waiting)):
                raise RuntimeError("the server answers no more") from None
    return done / (time.perf_counter() - begin)


def _wait(pipe: Pipe, writing: bool) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe.output, selectors.EVENT_READ)
        if writing:
            selector.register(pipe.input, selectors.EVENT_WRITE)
        return bool(selector.select(_PATIENCE))


def _stdio(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    process = Process(contender.command("servers", "stdio"), pipes=True)
    try:
        pipe = Pipe(process)
        answer = json.loads(pipe.call(request(1)))
        if answer.get("result", {}).get("content", [{}])[0].get("text") != "3":
            raise RuntimeError(f"{contender.title} answered {answer}")
        for _ in range(100):
            pipe.call(request(1))
        p50 = _sequential(pipe, plan.seconds / 2)
        cpu, begin = process.cpu, time.perf_counter()
        rate = _pipelined(pipe, plan.seconds)
        used = process.cpu - cpu
        return {"p50": p50, "rate": rate, "cpu": used / (rate * (time.perf_counter() - begin)) * 1e6}
    finally:
        process.stop()


def _hello(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    """The smallest server: from its start to its first answer, and its memory then."""
    begin = time.perf_counter()
    process = Process(contender.command("hello"), pipes=True)
    try:
        Pipe(process).call(request(1))
        return {"ms": (time.perf_counter() - begin) * 1e3, "mib": process.peak_kib / 1024}
    finally:
        process.stop()


PATHS = [Path("stdio", _stdio), Path("hello", _hello)]
