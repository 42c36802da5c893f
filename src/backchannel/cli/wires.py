"""The wires that the demo compares: how to start the booking server on each, and how to get to it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from .. import StdioServer
from ..client.transport import Transport
from ..errors import ConnectionFailed
from ..server.keyring import ENVIRONMENT
from ..targets import resolve
from ..testing.replicas import Balancer
from ..testing.transcript import Recorded, Transcript
from .booking import LEDGER
from .serving import ANNOUNCED

RUN = (sys.executable, "-m", "backchannel", "run", "backchannel.cli.booking:server")
Log = list[Recorded]


@dataclass(frozen=True, slots=True)
class Wire:
    """One way to the server. connect: gives a transport that keeps every message in the log, to a server that keeps
    its charges in the file."""

    name: str
    about: str
    version: str
    connect: Callable[[Log, Path], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def stdio(log: Log, ledger: Path) -> AsyncIterator[Transport]:
    """A process of its own, which the transport starts and ends."""
    yield Transcript(log).wrap(resolve(StdioServer(*RUN, env=_environment(ledger), stderr="capture")))


@asynccontextmanager
async def in_process(log: Log, ledger: Path) -> AsyncIterator[Transport]:
    """The Server object itself."""
    from .booking import server

    os.environ[LEDGER] = str(ledger)
    try:
        yield Transcript(log).wrap(resolve(server))
    finally:
        del os.environ[LEDGER]


@asynccontextmanager
async def one_instance(log: Log, ledger: Path) -> AsyncIterator[Transport]:
    """One process that listens."""
    async with _instance(_environment(ledger)) as url:
        yield Transcript(log).wrap(resolve(url))


@asynccontextmanager
async def two_instances(log: Log, ledger: Path) -> AsyncIterator[Transport]:
    """Two processes that have nothing in common but the key of the state; each request goes to the other one."""
    environment = {**_environment(ledger), ENVIRONMENT: secrets.token_urlsafe(32)}
    kept = Transcript(log)
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(_instance(environment)) for _ in range(2)]
        yield Balancer([kept.wrap(resolve(url), name) for url, name in zip(urls, "AB", strict=True)])


WIRES: Sequence[Wire] = (
    Wire("legacy-stdio", "a process; questions are reverse calls", "legacy", stdio),
    Wire("modern-stdio", "a process; questions are results", "modern", stdio),
    Wire("legacy-http", "a session with one instance; questions are reverse calls", "legacy", one_instance),
    Wire("modern-http", "two instances, A and B, that take turns; questions are results", "modern", two_instances),
    Wire("in-process", "no wire at all; questions are results", "modern", in_process),
)


def _environment(ledger: Path) -> dict[str, str]:
    """What a server's process gets besides what every process inherits."""
    path = os.environ.get("PYTHONPATH")
    return {LEDGER: str(ledger), **({"PYTHONPATH": path} if path is not None else {})}


@asynccontextmanager
async def _instance(environment: dict[str, str]) -> AsyncIterator[str]:
    """A process that serves the booking over HTTP. Gives its URL.

    Raises: ConnectionFailed if it does not come up.
    """
    command = [*RUN, "--http", "127.0.0.1:0"]
    process = await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    assert process.stderr is not None
    stderr = TextReceiveStream(process.stderr, errors="replace")
    try:
        yield await _address(stderr)
    finally:
        with anyio.CancelScope(shield=True), contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            async for complaint in stderr:
                print(complaint, end="", file=sys.stderr)
            await process.wait()


async def _address(stderr: TextReceiveStream) -> str:
    """Where a server listens, once it says so."""
    said = ""
    async for part in stderr:
        said += part
        if found := re.search(f"{ANNOUNCED}(\\S+)\n", said):
            return found[1]
    raise ConnectionFailed(f"an HTTP server did not start:\n{said}")
