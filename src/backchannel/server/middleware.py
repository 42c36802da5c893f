"""Middleware around requests, and around questions: what it may be, and how it is put around."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .asks import Ask
from .options import called, takes

if TYPE_CHECKING:
    from .context import Context

CallNext = Callable[["Context"], Awaitable[Any]]
Middleware = Callable[["Context", CallNext], Awaitable[Any]]
AskMiddleware = Callable[["Context", Ask[Any]], AbstractContextManager[Any]]


def check_middleware(middleware: Any) -> None:
    """Raises: ConfigurationError for what cannot be around a request."""
    what = f"the middleware {called(middleware)}"
    takes(what, middleware, "ctx", "call_next")
    if inspect.isasyncgenfunction(middleware) or inspect.isgeneratorfunction(middleware):
        raise ConfigurationError(f"{what} is a generator: instead of yield, write return await call_next(ctx)")


def check_ask_middleware(middleware: Any) -> None:
    """Raises: ConfigurationError for what cannot be around a question."""
    what = f"the ask_middleware {called(middleware)}"
    takes(what, middleware, "ctx", "ask")
    inner = inspect.unwrap(middleware)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"{what} is async, and a question leaves when it is made: write def and @contextmanager"
        )
    if inspect.isgeneratorfunction(middleware):
        raise ConfigurationError(f"{what} is no context manager yet: write @contextmanager above it")


def layer(middleware: Middleware, inner: CallNext) -> CallNext:
    """The middleware around what is further in."""

    async def call(context: Context) -> Any:
        made: Any = middleware(context, inner)
        result = await made if inspect.isawaitable(made) else made
        if result is None or inspect.isawaitable(result):
            if isinstance(result, Coroutine):
                result.close()
            given = "None" if result is None else "what is still to be awaited"
            raise TypeError(f"the middleware {called(middleware)} returned {given}: write return await call_next(ctx)")
        return result

    return call


def manager(middleware: partial[AbstractContextManager[Any]], ask: Ask[Any]) -> AbstractContextManager[Any]:
    """What the middleware puts around this question. Raises: TypeError for what is no context manager."""
    made: Any = middleware(ask)
    if not isinstance(made, AbstractContextManager):
        raise TypeError(
            f"the ask_middleware {called(middleware)} gave {type(made).__name__}, and no context manager: write "
            "@contextmanager above it, and yield once"
        )
    return made
