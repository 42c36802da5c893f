"""The server that `scripts/soak.py` drives: `soak_server.py http` says its port on stdout, `soak_server.py stdio`
serves there."""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from backchannel import BackchannelError, Context, Elicit, InputRequired, Limits, NoBackChannel, Server, http_app, run
from backchannel.server.http.listen import listen

server = Server("soak", limits=Limits(session_idle=1.0, away=1.0, keep_alive=0.2, ask_timeout=3.0, grace=0.5))
errors: list[str] = []


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage()}"
        errors.append(f"{text}: {record.exc_info[1]!r}" if record.exc_info else text)


def state() -> dict[str, Any]:
    """What goes on in this process, with nothing counted that the question itself needs."""
    gauges = asdict(server.gauges())
    dropped = gauges.pop("dropped")
    found = {name: value for name, value in gauges.items() if name not in ("calls", "streams")}
    return {
        **found,
        "calls": gauges["calls"] - 1,
        "tasks": len(asyncio.all_tasks()),
        "files": len(list(Path("/proc/self/fd").iterdir())) if os.path.exists("/proc/self/fd") else 0,
        "children": children(),
        "errors": errors,
        "dropped": dropped,
        "threads": threading.active_count(),
    }


def children() -> int:
    """How many processes this one has started that are there."""
    path = Path(f"/proc/self/task/{threading.main_thread().native_id}/children")
    return len(path.read_text().split()) if path.exists() else 0


@server.method("soak/state")
async def tell_state(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
    return state()


@server.tool
async def echo(word: str) -> str:
    return word


@server.tool
async def work(ctx: Context, word: str, turns: int) -> str:
    for number in range(turns):
        await ctx.progress(number + 1, total=turns)
        await anyio.sleep(0.01)
    return word


@server.tool
async def ask(ctx: Context, word: str) -> str:
    return (await ctx.elicit(f"Say {word}", str)).unwrap()


@server.tool
async def gather(ctx: Context, word: str) -> str:
    one, step, two = await ctx.gather(
        ctx.elicit(f"Say {word}", str), ctx.step("work", work_once, word), ctx.sample(f"Say {word}")
    )
    return word if one.unwrap() == step == two.text == word else "something else"


async def work_once(word: str) -> str:
    await anyio.sleep(0.005)
    return word


@server.tool
async def in_turn(ctx: Context, word: str) -> str | InputRequired:
    """Returns its question."""
    question: Elicit[str] = Elicit(f"Say {word}", str)
    said = ctx.answers.read("said", question)
    return InputRequired({"said": question}) if said is None else said.unwrap()


@server.tool
def in_a_thread(ctx: Context, word: str) -> str:
    return ctx.elicit(f"Say {word}", str).wait().unwrap()


@server.tool
async def leaves_work(ctx: Context, word: str) -> str:
    try:
        later: Context | None = ctx.detach()
    except NoBackChannel:
        later = None

    async def job() -> None:
        await anyio.sleep(0.05)
        if later is not None:
            with contextlib.suppress(BackchannelError):  # nobody may be there to answer
                await later.elicit(f"Say {word}", str, timeout=0.5)
        await server.notify.tools_changed()

    ctx.background("job", job)
    return word


@server.tool
async def polls(ctx: Context, word: str) -> str:
    """Lets its client's connection go in between."""
    await ctx.progress(1)
    await ctx.disconnect(retry=0.01)
    await anyio.sleep(0.02)
    return word


@server.resource("note://1")
async def note() -> str:
    return "a note"


def main(wire: str) -> None:
    """Serve."""
    logging.getLogger().addHandler(Errors(logging.ERROR))
    if wire == "stdio":
        return run(server)
    listen(http_app(server), "127.0.0.1:0", announce=lambda host, port: print(port, flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
