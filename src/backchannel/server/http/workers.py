"""Several processes that serve one address.

How it works: the parent binds a socket for each worker and forks, so that each has the Server as it is. On Linux the
kernel spreads connections over the sockets (SO_REUSEPORT); elsewhere all workers accept from one. The parent serves
nothing. It holds the sockets, so that what waits in one is not lost when its worker is replaced.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from types import FrameType

from ...errors import ConfigurationError

logger = logging.getLogger("backchannel.http")
FAILED = 3
"""The exit code of a server that could not start."""
_PAUSE = 1.0  # seconds before a worker that has ended is replaced
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind_shared(host: str, port: int, workers: int) -> list[socket.socket]:
    """A listening socket for each worker, all on one address; port 0 takes a free one. Every connection that they
    accept has TCP_NODELAY, so that small answers do not wait.

    Raises: ConfigurationError that names the address and the cause, or says that there cannot be several workers.
    """
    if workers < 1:
        raise ConfigurationError(f"workers is a number of processes, at least 1, not {workers}")
    if workers > 1 and not hasattr(os, "fork"):
        raise ConfigurationError("several workers need fork, which this platform lacks: run one process for each")
    spread = workers > 1 and sys.platform == "linux"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if spread:  # alone first: with SO_REUSEPORT a second server would share the port in silence
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        listeners: list[socket.socket] = []
        for _ in range(workers if spread else 1):
            port = listeners[0].getsockname()[1] if listeners else port
            listeners.append(socket.create_server((host, port), family=family, backlog=2048, reuse_port=spread))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error}") from error
    for listener in listeners:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listeners if spread else listeners * workers


def supervise(serve: Callable[[socket.socket], None], listeners: list[socket.socket]) -> None:
    """Run `serve` in a process for each listener until SIGINT or SIGTERM. One that ends by itself is replaced, unless
    it could not start in the first place. A second signal kills what still runs.

    Raises: SystemExit with 128 + n after signal n, and with what the worker said that could not start.
    """
    code = _Supervisor(serve, listeners).run()
    for listener in listeners:
        listener.close()
    raise SystemExit(code)


class _Supervisor:
    def __init__(self, serve: Callable[[socket.socket], None], listeners: list[socket.socket]):
        self._serve = serve
        self._listeners = listeners
        self._workers: dict[ForkProcess, socket.socket] = {}
        self._code: int | None = None

    def run(self) -> int:
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        try:
            for listener in self._listeners:
                self._start(listener)
            replaced = False
            while self._workers:
                multiprocessing.connection.wait([worker.sentinel for worker in self._workers])
                for worker in [worker for worker in self._workers if not worker.is_alive()]:
                    listener = self._workers.pop(worker)
                    if self._code is None and worker.exitcode == FAILED and not replaced:
                        self._stop(FAILED)
                    elif self._code is None:
                        logger.error("worker %s ended with code %s and is replaced", worker.pid, worker.exitcode)
                        replaced = True
                        time.sleep(_PAUSE)
                        self._start(listener)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._code or 0

    def _start(self, listener: socket.socket) -> None:
        """Fork, with signals held back until each of the two has its own handlers."""
        worker = multiprocessing.get_context("fork").Process(target=self._work, args=(listener,))
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        if self._code is None:
            worker.start()
            self._workers[worker] = listener
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _work(self, listener: socket.socket) -> None:
        """In the worker."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for other in self._listeners:
            if other is not listener:
                other.close()
        self._serve(listener)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._stop(128 + number)

    def _stop(self, code: int) -> None:
        """Tell the workers to end; the second time, end them. Ctrl-C reaches them by itself as well, so they are told
        with the other signal, which does not count as a second one."""
        again, self._code = self._code is not None, self._code or code
        for worker in self._workers:
            if again:
                worker.kill()
            else:
                worker.terminate()
