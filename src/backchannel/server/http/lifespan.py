"""One life of the app, from its start to its end: a task of its own, inside the server's lifespan all the while."""

from __future__ import annotations

import asyncio
from contextvars import Context

from ...waiter import Waiter
from ..dispatch import start
from ..server import Server
from .posts import Posts
from .sessions import Sessions


class Lifespan:
    """Starts when it is made.

    sessions: whether legacy clients get sessions.
    """

    def __init__(self, server: Server, sessions: bool):
        self.posts: Posts | None = None
        self._ready = Waiter()
        self._stop = asyncio.Event()
        self._grace = 0.0
        self._loop = asyncio.get_running_loop()
        # Not in the context of the request that happens to be the first.
        self._task = self._loop.create_task(self._live(server, sessions), context=Context())

    @property
    def over(self) -> bool:
        """Whether it has ended, or belongs to an event loop that is not the running one."""
        return self._task.done() or self._loop is not asyncio.get_running_loop()

    async def started(self) -> Posts:
        """Wait for the start. Raises: what the server's lifespan raises."""
        posts: Posts = await self._ready.wait()
        return posts

    async def end(self, grace: float) -> None:
        """End it (see Posts.close), and wait. May be called any number of times.

        Raises: what the server's lifespan raises when it ends.
        """
        self._grace = grace
        self._stop.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    async def _live(self, server: Server, sessions: bool) -> None:
        try:
            async with start(server) as dispatcher:
                self.posts = Posts(dispatcher, Sessions(server.limits) if sessions else None)
                self._ready.resolve(self.posts)
                try:
                    await self._stop.wait()
                finally:
                    await self.posts.close(self._grace)
        except Exception as error:
            if self._ready.done:
                raise
            self._ready.fail(error)
        finally:
            self._ready.fail(RuntimeError("the app was stopped while it started"))
