"""How every client here is run: `python FILE URL VERSION CALLS` makes so many calls, 64 at once, and prints the
processor time of each in microseconds."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE = 64
Call = Callable[[], Awaitable[Any]]


async def measure(call: Call, calls: int) -> None:
    """Call, after some calls that are not counted."""
    left = 0

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await call()

    async def all_at_once(calls: int) -> None:
        nonlocal left
        left = calls
        await asyncio.gather(*[work() for _ in range(AT_ONCE)])

    await all_at_once(3 * AT_ONCE)
    begin = time.process_time()
    await all_at_once(calls)
    print((time.process_time() - begin) / calls * 1e6)


def main(run: Callable[[str, str, int], Any]) -> None:
    """run: takes URL, version, and how many calls to make."""
    url, version, calls = sys.argv[1:]
    asyncio.run(run(url, version, int(calls)))
