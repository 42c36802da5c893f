"""What an ask or a step returns: something under way, to await, to gather, or to wait for in a worker thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio
import anyio.from_thread

from ..nursery import current_task
from .threads import seat_here

T_co = TypeVar("T_co", covariant=True)
_PACKAGE = __name__.removesuffix("server.question")
"""With the dot that follows it in the names of its modules."""
_NOT_AWAITED = "this is a question and not its answer yet: await it, or call wait() in a synchronous handler"


class Suspend(BaseException):
    """The handler stops here for this round: the client is asked, and the handler runs again with the answer.

    Not an Exception, so that `except Exception` does not catch it, and not a cancellation. Let it pass. It is raised
    again by whatever the handler does next with its context, and what the handler returns after it is discarded.
    """

    def __str__(self) -> str:
        return (
            "this call is waiting for the client and goes on in its next round: do not catch BaseException around a "
            "question, and do not return from a finally block"
        )


def suspend(own: object) -> NoReturn:
    """Stop the task that runs. own: the handler's; of another one that ends so, asyncio does not say that nobody came
    to see what it raised, for the handler is stopped too.

    Raises: Suspend.
    """
    task = current_task()
    if task is not own and isinstance(task, asyncio.Task):
        task.add_done_callback(_see)
    raise Suspend


def _see(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


Where = tuple[str, int]
"""File and line."""


def caller(above: int = 1) -> Where:
    """File and line of the nearest frame that is not of this package: the author's line that asks. above: how many
    frames up the search begins; each that it sees costs."""
    frame = sys._getframe(above)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


OWN_THREAD = "in a thread of your own you cannot ask or tell: do so in the handler's thread, and give it the answer"


def _nothing() -> None:
    pass


class Question(Coroutine[Any, Any, T_co]):
    """An ask or a step that has taken its place.

    It is a real coroutine object: `await` it once, or give it to `ctx.gather`, `asyncio.gather` or a task group. In a
    worker thread call `wait()`.

    where: file and line of the author's code that made it.  awaited: whether somebody waits for it, or did.
    """

    __slots__ = ("_answer", "_coroutine", "_withdraw", "awaited", "where")

    def __init__(
        self,
        answer: Callable[[], Coroutine[Any, Any, T_co]],
        withdraw: Callable[[], None] = _nothing,
        where: Where = ("", 0),
    ):
        self._answer = answer
        self._withdraw = withdraw
        self._coroutine: Coroutine[Any, Any, T_co] | None = None
        self.where = where
        self.awaited = False

    def wait(self) -> T_co:
        """The answer, from a synchronous handler's worker thread. Blocks the thread, not the server.

        Raises: RuntimeError outside such a thread.
        """
        try:
            seat = seat_here()
            if seat is not None:
                return anyio.from_thread.run(seat.lend, self._begin)
            return anyio.from_thread.run(self._begin)
        except anyio.NoEventLoopError:
            raise RuntimeError(
                "wait() is for a synchronous handler, in the thread that the server runs it in: in an async handler "
                f"await the question; {OWN_THREAD}"
            ) from None

    def _begin(self) -> Coroutine[Any, Any, T_co]:
        if self._coroutine is None:
            self.awaited = True
            self._coroutine = self._answer()
        return self._coroutine

    def __await__(self) -> Generator[Any, Any, T_co]:
        if self._coroutine is None:  # as `_begin`
            self.awaited = True
            self._coroutine = self._answer()
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._begin().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise in the coroutine. In one that has not begun, as when its task is cancelled at once, it is given up."""
        begun = self._coroutine is not None
        try:
            return self._begin().throw(*error)
        finally:
            if not begun:
                self._withdraw()

    def __bool__(self) -> bool:
        """Raises: TypeError. A question is no answer, and `if ctx.confirm(...)` without await must not mean yes."""
        raise TypeError(_NOT_AWAITED)

    def __str__(self) -> str:
        """Raises: TypeError. What a person reads is the answer."""
        raise TypeError(_NOT_AWAITED)

    def __format__(self, spec: str) -> str:
        """Raises: TypeError, as `__str__`."""
        raise TypeError(_NOT_AWAITED)

    def __repr__(self) -> str:
        """That it is no answer, and where it was made."""
        return f"<question made at {self.where[0]}:{self.where[1]}, {'' if self.awaited else 'not '}awaited>"

    if not TYPE_CHECKING:  # a type checker is to find such an attribute itself

        def __getattr__(self, name: str) -> Any:
            """Raises: AttributeError, for what only the answer has."""
            if name.startswith("_") or name.startswith("cr_"):  # what others look for in any coroutine
                raise AttributeError(f"a question has no attribute {name!r}")
            raise AttributeError(
                f"a question has no {name!r}, its answer may: await it first: (await ctx.elicit(...)).{name}, or in a "
                f"synchronous handler ctx.elicit(...).wait().{name}"
            )

    def close(self) -> None:
        """Give up waiting. A question that nobody waits for any more is withdrawn where the wire can do that."""
        self._begin().close()
        self._withdraw()


async def gather(questions: Sequence[Question[Any]]) -> tuple[Any, ...]:
    """Wait for all in tasks, so that the first failure ends the others."""
    answers: dict[int, Any] = {}
    ended: list[BaseException] = []

    async def wait(place: int, question: Question[Any]) -> None:
        try:
            answers[place] = await question
        except (Exception, Suspend) as error:
            ended.append(error)
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for place, question in enumerate(questions):
                group.start_soon(wait, place, question)
    finally:
        close_all(questions)
    if ended:
        raise ended[0]
    return tuple(answers[place] for place in range(len(questions)))


def close_all(questions: Sequence[Question[Any]]) -> None:
    """Give up waiting for all."""
    for question in questions:
        question.close()
