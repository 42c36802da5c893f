"""One life of the app, from its start to its end: a task of its own, inside the server's lifespan all the while."""

from __future__ import annotations

import asyncio
import math
from contextvars import Context

import anyio

from ...waiter import Waiter
from ..dispatch import start
from ..server import Server
from .fleet import Fleet
from .posts import Posts
from .sessions import Sessions
from .shared_sessions import SharedSessions

_TURNS = 4  # how often sessions are looked after in the time that an idle one lasts


class Lifespan:
    """Starts when it is made.

    sessions: whether legacy clients get sessions.  fleet: where these live; None: here.

    posts: what serves, from when there is something.  ready: the same, while requests may come in.  loop: its event
    loop.
    """

    def __init__(self, server: Server, sessions: bool, fleet: Fleet | None = None):
        self.posts: Posts | None = None
        self.ready: Posts | None = None
        self._ready = Waiter()
        self._stop = asyncio.Event()
        self._grace = 0.0
        self.loop = asyncio.get_running_loop()
        # Not in the context of the request that happens to be the first.
        self._task = self.loop.create_task(self._live(server, sessions, fleet), context=Context())

    @property
    def over(self) -> bool:
        """Whether it has ended, or belongs to an event loop that is not the running one."""
        return self._task.done() or self.loop is not asyncio.get_running_loop()

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

    async def _live(self, server: Server, with_sessions: bool, fleet: Fleet | None) -> None:
        try:
            async with start(server) as dispatcher:
                sessions = None
                if with_sessions:
                    sessions = Sessions(server.limits) if fleet is None else SharedSessions(dispatcher, fleet)
                if sessions is not None:
                    dispatcher.tally.connections.append(sessions)
                    sessions.on_end = dispatcher.tally.ended
                self.posts = Posts(dispatcher, sessions)
                try:
                    await self._tend(sessions, server.limits.session_idle / _TURNS)
                finally:
                    await self.posts.close(self._grace)
        except Exception as error:
            if self._ready.done:
                raise
            self._ready.fail(error)
        finally:
            self.ready = None
            self._ready.fail(RuntimeError("the app was stopped while it started"))

    async def _tend(self, sessions: Sessions | None, seconds: float) -> None:
        """Until it is to end, tend to the sessions."""
        while not self._stop.is_set():
            if sessions is not None:
                await sessions.tend()
            self.ready = self.posts
            self._ready.resolve(self.posts)
            with anyio.move_on_after(seconds if sessions is not None else math.inf):
                await self._stop.wait()
