"""The neutral generator: `wrk`, with a Lua script that sends prepared requests in turn and reports in JSON."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .process import HttpServer
from .wire import Connection, Post, raw

_DONE = """
local at = 0
local ready = {}
function init(args)
  for i, name in ipairs(names) do
    local file = io.open(folder .. name, "rb")
    ready[i] = file:read("*a")
    file:close()
  end
end
function request()
  at = at % #ready + 1
  return ready[at]
end
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n@{"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"bad":%d,"broken":%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What a run gave. rate: requests a second.  cpu: processor time of the server for each, in µs.  p50, p99: in
    milliseconds."""

    rate: float
    cpu: float
    p50: float
    p99: float


def missing() -> str | None:
    """What to install, if it is not there."""
    return None if shutil.which("wrk") else "wrk is not installed: apt-get install wrk"


def check(server: HttpServer, posts: Sequence[Post], wanted: bytes) -> None:
    """Each of the POSTs is answered, and the last one with what is wanted. Raises: RuntimeError."""
    connection = Connection(server.port)
    for post in posts:
        status, _, body = connection.ask(post)
        if status != 200:
            raise RuntimeError(f"{server.contender.title} answered {status}: {body[:500]!r}")
    connection.close()
    if wanted not in body:
        raise RuntimeError(f"{server.contender.title} answered {body[:500]!r}")


def run(server: HttpServer, posts: Sequence[Post], connections: int, seconds: float) -> Load:
    """Send the POSTs in turn over so many connections. Raises: RuntimeError if any was not answered with 200."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for number, post in enumerate(posts):
            names.append(f"/{number}")
            Path(folder + names[-1]).write_bytes(raw(post, server.port))
        quoted = ", ".join(f'"{name}"' for name in names)
        script = Path(folder, "load.lua")
        script.write_text(f'names = {{{quoted}}}\nfolder = "{folder}"\n{_DONE}')
        url = f"http://127.0.0.1:{server.port}/mcp"
        options = ["-t1", f"-c{connections}", f"-d{max(seconds, 1):.0f}s", "--timeout", "30s", "-s", str(script), url]
        before = server.cpu
        done = subprocess.run(["wrk", *options], capture_output=True, text=True, timeout=seconds + 60, check=True)
        used = server.cpu - before
    report = json.loads(done.stdout.rpartition("@")[2])
    if report["bad"] or report["broken"] or not report["requests"]:
        raise RuntimeError(f"{server.contender.title}: {report}")
    count = report["requests"]
    return Load(count / report["seconds"], used / count * 1e6, report["p50"], report["p99"])
