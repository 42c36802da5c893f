"""Where the browser is sent after a login: to this machine, for as long as it takes (RFC 8252, 7.3)."""

from __future__ import annotations

import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.abc

from ...errors import ConfigurationError
from ...nursery import Nursery
from .browser import show as show_in_browser
from .redirect_request import LONGEST, parameters_of, read, response, split

logger = logging.getLogger("backchannel.client")
Show = Callable[[str], Awaitable[Any]]
_LIMIT = 10.0  # seconds for a request of the browser
_MOST = 16  # answers that wait to be looked at: any page in the browser can send some


class Listening(Protocol):
    """One login that is under way. `uri`: where the browser is to be sent to."""

    uri: str

    async def show(self, url: str) -> None:
        """Show this page to the person."""

    async def wait(self) -> dict[str, str]:
        """The query parameters of the next answer. Raises: TimeoutError."""


class Redirect(Protocol):
    """How the answer to a login comes back."""

    def listen(self, wanted: str | None) -> AbstractAsyncContextManager[Listening]:
        """Listen for the time of the block. wanted: the URI that was used before, to use again if it can be."""


class Loopback:
    """Listens on this machine: shows the login in the browser, and waits until that is sent back.

    host, port, path: of the redirect URI; port 0 is any that is free, and the one from before if it still is.
    timeout: seconds that the person gets.  show: an async function that shows a URL to the person; default the browser,
    or a line on stderr where there is none.  paste: an async function that returns the URL to which the browser was
    sent, for a browser on another machine: that cannot reach this one, so the person copies the URL.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/callback",
        timeout: float = 300.0,
        show: Show | None = None,
        paste: Callable[[], Awaitable[str]] | None = None,
    ):
        if host not in ("127.0.0.1", "::1", "localhost") or not path.startswith("/"):
            raise ConfigurationError("a loopback redirect goes to 127.0.0.1, ::1 or localhost, and a path with a slash")
        self._host, self._port, self._path = host, port, path
        self._timeout = timeout
        self._show = show or show_in_browser
        self._paste = paste

    @asynccontextmanager
    async def listen(self, wanted: str | None) -> AsyncIterator[Listening]:
        """Listen for the time of the block. Raises: ConfigurationError where the port is taken."""
        listener = await self._listener(wanted)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        host = f"[{self._host}]" if ":" in self._host else self._host
        visit = _Visit(f"http://{host}:{port}{self._path}", self._path, self._timeout, self._show)
        nursery = Nursery()
        try:
            nursery.start(listener.serve, visit.take)
            if self._paste is not None:
                nursery.start(visit.pasted, self._paste)
            yield visit
        finally:
            with anyio.CancelScope(shield=True):
                await nursery.close(_LIMIT)
                await listener.aclose()

    async def _listener(self, wanted: str | None) -> anyio.abc.Listener[anyio.abc.SocketStream]:
        """At the port that is given, or that was used before, or at any."""
        host = "127.0.0.1" if self._host == "localhost" else self._host
        before = urlsplit(wanted or "")
        same = before.hostname == self._host and before.path == self._path
        for port in dict.fromkeys([self._port or (before.port if same else None) or 0, self._port]):
            with contextlib.suppress(OSError):
                return (await anyio.create_tcp_listener(local_host=host, local_port=port)).listeners[0]
        raise ConfigurationError(
            f"nothing can listen at port {self._port} of {self._host}, to which logins are sent back"
        )


class _Visit:
    """One login with the browser."""

    def __init__(self, uri: str, path: str, timeout: float, show: Show):
        self.uri = uri
        self._path = path
        self._timeout = timeout
        self._show = show
        self._end = math.inf
        self._answers: deque[dict[str, str]] = deque()
        self._news = anyio.Event()

    async def show(self, url: str) -> None:
        """Show this page to the person, who has the time from now on."""
        self._end = anyio.current_time() + self._timeout
        await self._show(url)

    async def wait(self) -> dict[str, str]:
        """The query parameters of the next answer. Raises: TimeoutError."""
        with anyio.fail_after(max(0.0, self._end - anyio.current_time())):
            while not self._answers:
                self._news = anyio.Event()
                await self._news.wait()
            return self._answers.popleft()

    async def take(self, stream: anyio.abc.SocketStream) -> None:
        """Answer one request of a browser."""
        async with stream:
            with anyio.move_on_after(_LIMIT), contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < LONGEST:
                    head += await stream.receive()
                answer = read(head, self._path)
                try:
                    await stream.send(response(answer is not None))
                finally:
                    self._note(answer)  # not before: the login may end with it, and with the login all this

    async def pasted(self, paste: Callable[[], Awaitable[str]]) -> None:
        """Take the URL that the person copies, until it is one."""
        while True:
            answer = parameters_of(split((await paste()).strip())[1])
            if answer is not None:
                return self._note(answer)
            logger.warning("what was pasted is not the URL to which the browser was sent")

    def _note(self, answer: dict[str, str] | None) -> None:
        if answer is not None and len(self._answers) < _MOST:
            self._answers.append(answer)
            self._news.set()
