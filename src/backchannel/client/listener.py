"""A callback of the host's, for progress or log messages: called with one value after the other, in order."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from ..nursery import Nursery, being_cancelled
from ..protocol.jsonrpc import Notification
from ..protocol.types.requests import LogParams
from ..waiter import Waiter

logger = logging.getLogger("backchannel.client")
MOST = 1000
"""Values that wait for one callback."""


class Listener:
    """Calls a plain function at once. What a coroutine function begins goes on in a task, so that it does not hold up
    what comes in; the next value waits for its end. Beyond 1000 that wait, the oldest are dropped, with a warning. A
    callback that fails is logged.

    drop: called for each value that is dropped.
    """

    def __init__(self, callback: Callable[[Any], Any], nursery: Nursery, drop: Callable[[], None] = lambda: None):
        self._callback = callback
        self._nursery = nursery
        self._drop = drop
        self._late = False
        self._values: deque[Any] = deque()
        self._busy: Waiter | None = None

    def __call__(self, value: Any) -> None:
        """Take the next value."""
        if self._busy is not None:
            self._values.append(value)
            if len(self._values) > MOST:
                self._drop_oldest()
            return
        rest = self._call(value)
        if rest is not None:
            self._busy = Waiter()
            self._nursery.start(self._finish, rest, self._busy)

    async def drained(self) -> None:
        """Wait until the callback has had every value."""
        if self._busy is not None:
            await self._busy.wait()

    def stop(self) -> None:
        """Forget the values that the callback has not had."""
        self._values.clear()

    def _drop_oldest(self) -> None:
        self._values.popleft()
        self._drop()
        if not self._late:
            self._late = True
            text = "a callback is too slow; of more than %s values that wait, the oldest are dropped: %r"
            logger.warning(text, MOST, self._callback)

    def _call(self, value: Any) -> Awaitable[Any] | None:
        try:
            result = self._callback(value)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # which would end what reads from the server
            logger.exception("a callback failed: %r", self._callback)
            return None
        return result if inspect.isawaitable(result) else None

    def _next(self) -> Awaitable[Any] | None:
        while self._values:
            if (rest := self._call(self._values.popleft())) is not None:
                return rest
        return None

    async def _finish(self, rest: Awaitable[Any] | None, busy: Waiter) -> None:
        try:
            while rest is not None:
                try:
                    await rest
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:
                    if isinstance(error, anyio.get_cancelled_exc_class()) and being_cancelled():
                        raise
                    logger.exception("a callback failed: %r", self._callback)
                rest = self._next()
        finally:
            self._busy = None
            busy.resolve(None)


class LogReader:
    """Gives log messages to the host."""

    def __init__(self, listener: Listener):
        self._listener = listener

    def __call__(self, notification: Notification) -> None:
        """Take the next notification, whatever it is."""
        if notification.method != "notifications/message":
            return
        try:
            message = msgspec.json.decode(notification.params or b"{}", type=LogParams)
        except (msgspec.DecodeError, RecursionError):
            logger.debug("a malformed log message was dropped")
        else:
            self._listener(message)
