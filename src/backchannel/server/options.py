"""Checks of what an author gives: what is wrong is told where it is given, and with what would be right."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ConfigurationError


def listed(what: str, value: Any, of: type | tuple[type, ...] = str) -> list[Any]:
    """The members of a list. Raises: ConfigurationError for one text or path, whose letters are no members, and for
    members that are not `of` this type."""
    if isinstance(value, str | bytes | os.PathLike):
        raise ConfigurationError(f"{what} is a list, such as [{value!r}]")
    members = list(value) if isinstance(value, Iterable) else None
    if members is None or not all(isinstance(member, of) for member in members):
        kinds = " or ".join(kind.__name__ for kind in (of if isinstance(of, tuple) else (of,)))
        raise ConfigurationError(f"{what} is a list of {kinds}, not {value!r}")
    return members


def number(what: str, value: Any, *, positive: bool = False, whole: bool = False) -> None:
    """Raises: ConfigurationError for what is no number, NaN, or below zero; `positive` refuses zero, and `whole` what
    is neither an int nor math.inf."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and whole:
        is_number = isinstance(value, int) or value == math.inf
    if not is_number or not (value > 0 if positive else value >= 0):
        kind = f"a {'whole ' if whole else ''}number {'above 0' if positive else 'of at least 0'}"
        raise ConfigurationError(f"{what} is {kind}, not {value!r}")


def instance(what: str, value: Any, of: type) -> None:
    """Raises: ConfigurationError for what is not `of` this type, such as the type itself."""
    if not isinstance(value, of):
        given = "the class itself" if value is of else type(value).__name__
        raise ConfigurationError(f"{what} is a {of.__name__}, not {given}: write {what}={of.__name__}(...)")


def offers(what: str, value: Any, *methods: str) -> None:
    """Raises: ConfigurationError for an object that lacks one of these methods, or a class in place of an object."""
    if isinstance(value, type):
        raise ConfigurationError(f"{what} is an object, not a class: write {what}={value.__name__}(...)")
    if missing := [name for name in methods if not callable(getattr(value, name, None))]:
        raise ConfigurationError(
            f"{what} has the methods {', '.join(methods)}; {type(value).__name__} has no {', '.join(missing)}"
        )


def function(what: str, value: Any) -> None:
    """Raises: ConfigurationError for what cannot be called."""
    if not callable(value):
        raise ConfigurationError(f"{what} is a function, not {type(value).__name__}")


def known(what: str, given: Mapping[str, Any], by: Callable[..., Any]) -> None:
    """Raises: ConfigurationError for an option that is no keyword of the function, or class, that takes it."""
    parameters = inspect.signature(by).parameters.values()
    there = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    if unknown := [name for name in given if name not in there]:
        raise ConfigurationError(f"{what} has no option {', '.join(map(repr, unknown))}; it has {', '.join(there)}")


def takes(what: str, value: Any, *names: str) -> None:
    """Raises: ConfigurationError for what is no function of so many arguments, by position."""
    function(what, value)
    try:
        inspect.signature(value).bind(*names)
    except TypeError:
        raise ConfigurationError(f"{what} has to take ({', '.join(names)})") from None
    except ValueError:  # a builtin without a signature
        pass


def called(value: Any) -> str:
    """The name of a function, for messages."""
    inner = getattr(value, "func", value)
    return f"{getattr(inner, '__name__', type(inner).__name__)}()"
