"""A step: work whose value is recorded, so that later rounds of the call return it and do not do it again."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, get_args, get_origin

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar
from pydantic_core import ValidationError

from ..errors import CallFinished, ConfigurationError, SessionClosed, StepError
from ..protocol.journal import Entry, Status
from ..waiter import Waiter
from .exchange import serving
from .signature import resolve
from .threads import Threads

if TYPE_CHECKING:
    from pydantic import TypeAdapter

logger = logging.getLogger("backchannel.server")
in_step: ContextVar[bool] = ContextVar("in_step", default=False)
"""True in the work of a step, which is never replayed."""
in_job: ContextVar[bool] = ContextVar("in_job", default=False)
"""True in a background job, which is no part of the call that started it."""
JOBS = 40
"""How many synchronous background jobs of an event loop run at once."""
_JOBS: RunVar[Threads] = RunVar("backchannel_jobs")


class StepRun:
    """One step of one call. Its value passes through JSON before it is first seen, so that a replay sees the same."""

    def __init__(self, entry: Entry, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.entry = entry
        self._call = functools.partial(function, *args, **kwargs)
        self._adapter = _adapter(function)
        self._scope = anyio.CancelScope()
        self._ended = Waiter()
        self._cause: Exception | None = None
        self._broken: BaseException = CallFinished(f"the step {entry.text!r} was cancelled")
        if self.done:
            self._ended.resolve(None)

    @property
    def done(self) -> bool:
        """Whether a value or a failure is recorded."""
        return self.entry.status is not Status.OPEN

    async def run(self) -> None:
        """Do the work and record it. Ordinary failures are recorded; cancellation and suspension are not."""
        in_step.set(True)
        try:
            with self._scope:
                if not self._scope.cancel_called:
                    await self._work()
        except (KeyboardInterrupt, SystemExit, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:
            self._broken = error  # such as Suspend: it goes to whoever waits for the step
        finally:
            self._ended.resolve(None)

    async def _work(self) -> None:
        try:
            if inspect.iscoroutinefunction(inspect.unwrap(self._call.func)):
                value = await self._call()
            else:
                # In a tuple, for trio takes no awaitable from a thread.
                (value,) = await anyio.to_thread.run_sync(lambda: (self._call(),), abandon_on_cancel=True)
                if inspect.isawaitable(value):
                    value = await value
            recorded, status = self._written(value), Status.DONE
        except Exception as error:
            logger.warning("the step %r failed", self.entry.text, exc_info=error)
            self._cause = error
            recorded, status = msgspec.json.encode((type(error).__name__, _text(error))), Status.FAILED
        self.entry.value, self.entry.status = msgspec.Raw(recorded), status

    def _written(self, value: Any) -> bytes:
        """The JSON to record. Raises: TypeError for what has none."""
        try:
            return self._adapter.dump_json(value, warnings=False)
        except (TypeError, ValueError, RecursionError) as error:
            kind = "object" if type(value) is object else f"object of type {type(value).__name__}"
            raise TypeError(
                f"the step {self.entry.text!r} returned an {kind}, which JSON cannot carry; return an id, or plain data"
            ) from error

    async def wait(self) -> None:
        """Wait for the end of the work, however it ends."""
        await self._ended.wait()

    def cancel(self) -> None:
        """Stop the work. Nothing is recorded."""
        self._scope.cancel()

    def result(self) -> Any:
        """What was recorded, in the type of the function's return annotation.

        Raises: StepError if the step failed; what broke it off if nothing is recorded.
        """
        if not self.done:
            raise self._broken
        if self.entry.status is Status.FAILED:
            raise StepError(*msgspec.json.decode(self.entry.value, type=tuple[str, str])) from self._cause
        try:
            return self._adapter.validate_json(bytes(self.entry.value))
        except ValidationError as error:
            raise StepError(type(error).__name__, _text(error)) from error


async def run_job(name: str, job: Callable[[], Any]) -> None:
    """Do the work of `ctx.background`: async, or sync in a worker thread. name: for the log."""
    serving.set(None)  # what it prints belongs to no call
    in_job.set(True)
    try:
        if inspect.iscoroutinefunction(inspect.unwrap(_bare(job))):
            await job()
        else:
            await _job_threads().run(job)
    except Exception as error:
        if isinstance(error, SessionClosed):
            logger.info("the background job %r ended with its session: %s", name, error)
        else:
            logger.error("the background job %r failed", name, exc_info=error)


def _job_threads() -> Threads:
    """Those of this event loop. They are apart from the threads of steps, which calls wait for."""
    threads = _JOBS.get(None)
    if threads is None:
        threads = Threads(JOBS)
        _JOBS.set(threads)
    return threads


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Reads and writes what `function` returns: by its annotation, else as plain JSON.

    Raises: ConfigurationError if the annotation cannot be read, or has no JSON form.
    """
    function = _bare(function)
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    what = f"{getattr(function, '__qualname__', function)}: the return annotation"
    annotation = _returned(inspect.unwrap(function), what)
    from pydantic import PydanticUserError, TypeAdapter

    try:
        return _adapter_of(annotation)
    except TypeError:  # it cannot be hashed
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise ConfigurationError(f"{what} of a step cannot be recorded as JSON: {error.message}") from error


def _returned(function: Any, what: str) -> Any:
    """The type of what a function returns, when it has been awaited."""
    if isinstance(function, type):
        return function
    hint = getattr(function, "__annotations__", {}).get("return", Any)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True) if isinstance(hint, str) else ()
    names = getattr(function, "__globals__", {})
    annotation = resolve(hint, what, {**names, **{name: cell.cell_contents for name, cell in cells}})
    return get_args(annotation)[-1] if get_origin(annotation) in (Awaitable, Coroutine) else annotation


@functools.lru_cache(maxsize=1024)
def _adapter_of(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(annotation)


def _text(error: BaseException) -> str:
    return str(error).encode("utf-8", "replace").decode()
