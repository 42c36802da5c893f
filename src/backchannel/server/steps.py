"""A step: work whose value is recorded, so that later rounds of the call return it and do not do it again."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pydantic

from ..errors import CallFinished, StepError
from ..protocol.journal import Entry, Status
from ..waiter import Waiter
from .question import Suspend


@functools.lru_cache(maxsize=1024)
def _adapter(function: Callable[..., Any]) -> pydantic.TypeAdapter[Any]:
    """Reads and writes what `function` returns: by its annotation, else as plain JSON."""
    try:
        annotation = typing.get_type_hints(function, include_extras=True).get("return", Any)
        return pydantic.TypeAdapter(annotation)
    except (NameError, TypeError, pydantic.PydanticUserError):
        return pydantic.TypeAdapter(Any)


class StepRun:
    """One step of one call. Its value passes through JSON before it is first seen, so that a replay sees the same."""

    def __init__(self, entry: Entry, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.entry = entry
        self.done = Waiter()
        self._call = functools.partial(function, *args, **kwargs)
        self._function = function
        self._scope = anyio.CancelScope()
        if entry.status is not Status.OPEN:
            self.done.resolve(None)

    async def run(self) -> None:
        """Do the work and record it. Ordinary failures are recorded; cancellation and suspension are not."""
        try:
            with self._scope:
                self._record(await self._work())
        except Suspend as suspended:
            self.done.fail(suspended)
        finally:
            self.done.fail(CallFinished(f"the step {self.entry.text!r} was cancelled"))

    async def _work(self) -> tuple[Status, Any]:
        try:
            if inspect.iscoroutinefunction(inspect.unwrap(self._function)):
                value = await self._call()
            else:
                value = await anyio.to_thread.run_sync(self._call)
                if inspect.isawaitable(value):
                    value = await value
            return Status.DONE, value
        except Exception as error:
            return Status.FAILED, error

    def _record(self, outcome: tuple[Status, Any]) -> None:
        status, value = outcome
        if status is Status.DONE:
            try:
                self.entry.value = msgspec.Raw(_adapter(self._function).dump_json(value))
            except (pydantic.ValidationError, ValueError, TypeError) as error:
                status, value = Status.FAILED, error
        if status is Status.FAILED:
            self.entry.value = msgspec.Raw(msgspec.json.encode((type(value).__name__, _text(value))))
        self.entry.status = status
        self.done.resolve(None)

    def cancel(self) -> None:
        """Stop the work. Nothing is recorded."""
        self._scope.cancel()

    def result(self) -> Any:
        """What was recorded.

        Raises: StepError if the step failed.
        """
        if self.entry.status is Status.FAILED:
            raise StepError(*msgspec.json.decode(self.entry.value, type=tuple[str, str]))
        return _adapter(self._function).validate_json(bytes(self.entry.value))


def _text(error: BaseException) -> str:
    return str(error).encode("utf-8", "replace").decode()
