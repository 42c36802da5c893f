"""A server in a process of its own, for test_listen.py and test_workers.py: `python child.py OPTIONS`, in JSON."""

import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator

import anyio

from backchannel import Context, Limits, Server, run

options = json.loads(sys.argv[1])


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@contextlib.asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    if os.access(options.get("fail", ""), os.F_OK):
        say("failed")
        raise LookupError("no database")
    say("start", os.getpid())
    try:
        yield
    finally:
        say("end", os.getpid())


server = Server("child", lifespan=lifespan, limits=Limits(grace=options.get("grace", 0.1), keep_alive=0.05))


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def ask(ctx: Context) -> str:
    """Says who asked, in a step, and who goes on."""
    first = await ctx.step("pid", os.getpid)
    name = (await ctx.elicit("Who?", str)).unwrap()
    return f"{name} {first} {os.getpid()}"


@server.tool
async def sleep(ctx: Context) -> str:
    await ctx.progress(1)
    try:
        await anyio.sleep_forever()
    finally:
        say("cancelled")
    return ""


@server.tool
def block_a_thread(ctx: Context) -> str:
    ctx.progress(1).wait()
    time.sleep(1000)
    return ""


@server.tool
async def block_the_loop(ctx: Context) -> str:
    await ctx.progress(1)
    await anyio.sleep(0.01)  # so that it is sent
    say("blocking")
    time.sleep(1000)  # noqa: ASYNC251
    return ""


if __name__ == "__main__":
    if "address" in options:
        run(server, http=options["address"], **options.get("run", {}))
    else:
        from backchannel import http_app
        from backchannel.server.http.listen import listen

        workers = options.get("workers", 1)
        app = http_app(server, sessions=workers == 1)
        listen(app, "127.0.0.1:0", workers=workers, announce=lambda host, port: say("port", port))
