"""What runs in a program of its own: calls in one process, clients, imports."""

import subprocess

from ..contenders import ALL, FAST, FLOOR, OURS, SDK, Contender
from ..machine import GENERATOR, on_server_core
from ..process import Fleet, HttpServer, environment
from ..wire import LEGACY, MODERN
from . import Figures, Path, Plan

_ENDING = 60.0  # seconds


def output(command: list[str], errors: bool = False) -> str:
    """What a program prints, on the servers' core. Raises: RuntimeError if it fails."""
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=_ENDING, preexec_fn=on_server_core
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-1000:]}")
    return done.stderr if errors else done.stdout


def _in_process(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    return {"rate": float(output(contender.command("servers", "inprocess", str(plan.seconds))))}


def _client(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    """Processor time of a call in the client, in microseconds. The bare ASGI app answers, from the other core."""
    server = HttpServer(FLOOR, core=GENERATOR)
    figures = {}
    try:
        for version, name in ((MODERN, "modern"), (LEGACY, "legacy")):
            url, calls = f"http://127.0.0.1:{server.port}/mcp", str(round(640 * plan.seconds))
            figures[name] = float(output(contender.command("clients", url, version, calls)))
    finally:
        server.stop()
    return figures


def _import_ms(python: str, statement: str) -> float:
    """The sum of what `-X importtime` says of each module, in milliseconds."""
    lines = output([python, "-X", "importtime", "-c", statement], errors=True).splitlines()
    times = [line.removeprefix("import time:").split("|")[0].strip() for line in lines if "|" in line]
    return sum(int(time) for time in times if time.isdecimal()) / 1000


def _imports(contender: Contender, fleet: Fleet, plan: Plan) -> Figures:
    nothing = _import_ms(contender.python, "pass")
    return {
        "client": _import_ms(contender.python, contender.client) - nothing,
        "server": _import_ms(contender.python, contender.server) - nothing,
    }


PATHS = [
    Path("inprocess", _in_process, who=(OURS, SDK, FAST)),
    Path("client", _client, who=ALL, most=3),
    Path("imports", _imports),
]
