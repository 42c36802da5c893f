"""How every server file here is run: `python FILE stdio`, `python FILE http PORT`, or `python FILE inprocess SECONDS`,
which calls a tool over the toolkit's own in-process transport and prints how often it did."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

EXTRA_TOOLS = int(os.environ.get("BENCH_TOOLS", "0"))
"""How many tools there are beside those that are called."""
Call = Callable[[], Awaitable[Any]]


def extra(number: int) -> Callable[..., Awaitable[str]]:
    """One of the tools that only make the list longer."""

    async def fill(city: str, nights: int = 1, board: str = "none", vegan: bool = False) -> str:
        """Book a stay in a city, for some nights, with or without board."""
        return f"{number} {city}"

    fill.__name__ = f"fill_{number}"
    return fill


def serve_app(app: Any, port: int) -> None:
    """Serve an ASGI app until SIGTERM: uvicorn with uvloop and httptools, and no access log, for all alike."""
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, log_level="warning", ws="none")


async def repeat(call: Call, seconds: float) -> None:
    """Call for a while, one call after the other, and print calls a second."""
    for _ in range(50):
        await call()
    calls, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        for _ in range(20):
            await call()
        calls += 20
    print(calls / (now - begin))


def main(
    stdio: Callable[[], Any], http: Callable[[int], Any], inprocess: Callable[[float], Awaitable[Any]] | None
) -> None:
    """Do what the command line says."""
    mode, *options = sys.argv[1:]
    if mode == "stdio":
        stdio()
    elif mode == "http":
        http(int(options[0]))
    elif inprocess is not None:
        asyncio.run(inprocess(float(options[0])))  # type: ignore[arg-type]
