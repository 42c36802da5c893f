"""What a command names, as the server lists it; a name that it does not list is wrong usage."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Collection
from typing import Protocol, TypeVar

from ..errors import METHOD_NOT_FOUND, ConfigurationError, RemoteProtocolError


class Named(Protocol):
    """A tool, or a prompt."""

    @property
    def name(self) -> str:
        """What it is called by."""
        ...


T = TypeVar("T", bound=Named)


async def find(what: str, name: str, listed: AsyncIterator[T]) -> T:
    """The entry of a list that has this name. what: such as "tool".

    Raises: ConfigurationError that says what there is.
    """
    names = []
    try:
        async for one in listed:
            if one.name == name:
                return one
            names.append(one.name)
    except RemoteProtocolError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
    raise ConfigurationError(f"the server has no {what} {name!r}; {instead(name, names)}")


def known(owner: str, name: str, names: Collection[str]) -> None:
    """Check the name of an argument. owner: what takes it, such as "the tool 'add'".

    Raises: ConfigurationError that says what there is.
    """
    if name not in names:
        raise ConfigurationError(f"{owner} has no argument {name!r}; {instead(name, names)}")


def instead(name: str, names: Collection[str]) -> str:
    """What could have been meant."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names) or 'none'}"
