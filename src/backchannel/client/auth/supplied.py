"""What a function of the user's gives, such as the identity that is good now."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ...errors import ConfigurationError, LoginFailed
from ..answers import in_thread
from .steps import Flow, Supply

Supplier: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]
"""A function that is no coroutine function runs in a worker thread."""


def text_of(given: str | Supplier) -> Flow[str]:
    """The text that is given, or that the function gives now. Raises: LoginFailed."""
    text: Any = (yield Supply(given)) if callable(given) else given
    if not isinstance(text, str) or not text.strip():
        raise LoginFailed(f"the function for an identity has returned no text, but a {type(text).__name__}")
    return text.strip()


async def supplied(function: Supplier) -> Any:
    """What the function returns. Raises: LoginFailed where it fails, which says nothing of what may be a secret."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function()
        (value,) = await in_thread(lambda: (function(),))  # in a tuple, for trio takes no coroutine from a thread
        return await value if inspect.isawaitable(value) else value
    except Exception as error:
        raise LoginFailed(f"the function for an identity failed: {type(error).__name__}") from error


def given(what: str, value: str | Supplier) -> str | Supplier:
    """The value. Raises: ConfigurationError for what is no text, and no function."""
    if not callable(value) and not (isinstance(value, str) and value):
        raise ConfigurationError(f"{what} is a text, or a function that returns one")
    return value
