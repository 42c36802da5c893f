"""A coroutine that runs in its caller's task, and in a context of its own.

How it works: a task runs in one context, and what it awaits does too. So the coroutine is driven by hand here, a step
at a time, each in the other context; what it waits for is handed on to the event loop, and what comes of that is handed
back. Neither side sees the context variables of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def apart(
    context: Context, inner: Coroutine[Any, Any, T], waits: Callable[[], object] | None = None
) -> Generator[Any, Any, T]:
    """What `inner` returns. Raises: what it raises.

    context: one that is not entered anywhere, and is not given to anybody else.  waits: called when `inner` waits for
    the first time, if it does.
    """
    step: Callable[[Any], Any] = inner.send
    value: Any = None
    while True:
        try:
            wanted = context.run(step, value)
        except StopIteration as end:
            result: T = end.value
            return result
        if waits is not None:
            waits()
            waits = None
        try:
            step, value = inner.send, (yield wanted)
        except BaseException as error:  # a cancellation, or the end of the event loop: it is for `inner`
            step, value = inner.throw, error
