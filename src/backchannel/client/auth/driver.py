"""Runs flows for real."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ...errors import BackchannelError, ConfigurationError, LoginFailed
from .loopback import Listening, Redirect
from .steps import (
    Fetch,
    Fetched,
    Flow,
    ListenForRedirect,
    Load,
    Now,
    OpenBrowser,
    Random,
    Save,
    Step,
    Supply,
    WaitForRedirect,
)
from .stores import Store
from .supplied import supplied

logger = logging.getLogger("backchannel.client")
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """What flows reach of the world. redirect: None where there is nobody to log in."""

    fetch: Callable[[Fetch], Awaitable[Fetched]]
    store: Store
    redirect: Redirect | None = None
    now: Callable[[], float] = time.time
    random: Callable[[int], bytes] = secrets.token_bytes


async def drive(flow: Flow[T], world: World) -> T:
    """Run a flow to its end, and return what it returns. If this is cancelled, so is what it waits for.

    Raises: what the flow raises.
    """
    try:
        step = next(flow)
    except StopIteration as end:
        return cast(T, end.value)
    async with AsyncExitStack() as stack:
        stack.callback(flow.close)
        hands = _Hands(world, stack)
        try:
            while True:
                try:
                    answer = await hands.take(step)
                except (BackchannelError, TimeoutError) as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            return cast(T, end.value)


class _Hands:
    """Take the steps of one flow."""

    def __init__(self, world: World, stack: AsyncExitStack):
        self._world = world
        self._stack = stack
        self._listening: Listening | None = None

    async def take(self, step: Step) -> Any:
        match step:
            case Fetch():
                return await self._world.fetch(step)
            case Now():
                return self._world.now()
            case Random(n):
                return self._world.random(n)
            case Supply(function):
                return await supplied(function)
            case Load(key):
                return await self._load(key)
            case Save(key, value):
                return await self._save(key, value)
            case ListenForRedirect(wanted):
                return (await self._listen(wanted)).uri
            case OpenBrowser(url):
                return await (await self._listen(None)).show(url)
            case WaitForRedirect():
                return await (await self._listen(None)).wait()

    async def _listen(self, wanted: str | None) -> Listening:
        if self._listening is None:
            if self._world.redirect is None:
                text = "somebody has to log in, and there is nobody to ask here (redirect=None)"
                raise LoginFailed(f"{text}: log in elsewhere, with this store")
            self._listening = await self._stack.enter_async_context(self._world.redirect.listen(wanted))
        return self._listening

    async def _load(self, key: str) -> bytes | None:
        try:
            return await self._world.store.load(key)
        except OSError as error:
            raise ConfigurationError(f"the stored tokens cannot be read: {type(error).__name__}") from error

    async def _save(self, key: str, value: bytes | None) -> None:
        """A token that cannot be stored can be used all the same."""
        try:
            await self._world.store.save(key, value)
        except OSError as error:
            logger.warning("tokens cannot be stored: %s", type(error).__name__)
