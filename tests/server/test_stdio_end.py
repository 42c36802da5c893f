"""The end of a stdio server: its process is gone soon after its client is, whatever runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backchannel.server.limits import Limits
from tests.server.raw_child import BOUND, META_CAPABILITIES, META_VERSION, Child, call, encode, initialize, line, text
from tests.server.raw_child import write_server as write

FORM = {"elicitation": {"form": {}}}
BOUND_OF_THE_END = Limits().grace + 10
"""Seconds, generous: the tools of these tests would take a minute."""
FORCED = "a handler did not stop in time"


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    return lambda body="", **options: write(tmp_path, body, **options)


BUSY = """
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(server):
        job = asyncio.create_task(asyncio.sleep(60))
        yield
        print("the lifespan ended", file=sys.stderr, flush=True)

    server.lifespan = lifespan

    @server.tool
    async def step(ctx: Context) -> str:
        await ctx.step("stuck", sleep_deep)
        return "done"

    def sleep_deep() -> None:
        time.sleep(60)
"""
CALLS = [
    initialize(**FORM),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    call(1, "step"),
    call(2, "sleep", token=2),
    call(3, "sleep_in_thread", token=3),
    call(4, "ask"),
]


def spent(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.case("H01")
def test_the_end_of_stdin_ends_the_process_whatever_runs(script: Callable[..., Path]) -> None:
    with Child(script(BUSY)) as child:
        child.send(*CALLS)
        child.until("elicitation/create")
        assert child.process.stdin is not None
        before, start = spent(child.process.pid), time.monotonic()
        child.process.stdin.close()
        _, status, usage = os.wait4(child.process.pid, 0)
        took = time.monotonic() - start
        child.process.returncode = os.waitstatus_to_exitcode(status)
        errors = child.end()
    assert child.process.returncode == 0
    assert took < BOUND_OF_THE_END
    assert usage.ru_utime + usage.ru_stime - before < 0.25
    assert "a finally block ran" in errors and "the lifespan ended" in errors
    assert not any(message.get("id") in (1, 2, 3) and "method" not in message for message in child.heard)


@pytest.mark.case("H01")
@pytest.mark.parametrize("busy", ["time.sleep(60)", "while True: pass"])
def test_it_ends_even_while_a_handler_blocks_the_event_loop(script: Callable[..., Path], busy: str) -> None:
    body = f"""
    import atexit, logging
    atexit.register(print, "exit functions ran", file=sys.stderr)

    @server.tool
    async def block() -> str:
        print("blocking", file=sys.stderr, flush=True)
        {busy}
    """
    with Child(script(body)) as child:
        child.ready()
        child.send(line(1, "ping"), call(2, "block"))
        child.response(1)
        errors = child.end()
    assert child.process.returncode == 0
    assert "blocking" in errors and FORCED in errors and "exit functions ran" in errors


@pytest.mark.case("H01")
def test_the_death_of_the_client_ends_the_process(script: Callable[..., Path], tmp_path: Path) -> None:
    """The client is killed. That the server has ended shows in a pipe that it alone still holds."""
    client = tmp_path / "client.py"
    client.write_text(
        "import subprocess, sys, time\n"
        f"server = subprocess.Popen([sys.executable, {str(script(BUSY))!r}], stdin=subprocess.PIPE, "
        "pass_fds=[int(sys.argv[1])])\n"
        f"server.stdin.write({encode(*CALLS)!r})\n"
        "server.stdin.flush()\n"
        "time.sleep(600)\n"
    )
    alive, theirs = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, client, str(theirs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[theirs]
    )
    os.close(theirs)
    with parent, os.fdopen(alive, "rb") as held:
        assert parent.stdout is not None and parent.stderr is not None
        while json.loads(parent.stdout.readline()).get("method") != "elicitation/create":
            pass
        start = time.monotonic()
        parent.kill()
        assert held.read() == b""
        assert time.monotonic() - start < BOUND_OF_THE_END
        assert b"the lifespan ended" in parent.stderr.read()


def test_handlers_that_end_within_the_grace_are_answered(script: Callable[..., Path]) -> None:
    """What a shell pipe does: `printf ... | server`."""
    with Child(script()) as child:
        child.send(initialize(), call(1, "sleep", seconds=0.2), call(2, "sleep_in_thread", seconds=0.2))
        errors = child.end()
    assert sorted(message["id"] for message in child.heard[1:]) == [1, 2]
    assert FORCED not in errors and child.process.returncode == 0


def test_a_question_that_is_open_at_the_end_fails_at_once(script: Callable[..., Path]) -> None:
    with Child(script()) as child:
        child.ready(**FORM)
        child.send(call(1, "ask"))
        child.until("elicitation/create")
        child.end()
    assert "session ended" in text(child.heard[-1])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_reads_no_more_ends_it_quietly(script: Callable[..., Path], backend: str) -> None:
    run = f"\nanyio.run(serve_stdio, server, backend={backend!r})\n"
    server = subprocess.Popen(
        [sys.executable, script(run=run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        server.stdin.write(encode(initialize(), call(1, "sleep", token=1)))
        server.stdin.flush()
        server.stdout.readline(), server.stdout.readline()
        server.stdout.close()
        server.stdin.write(encode(line(2, "ping")))
        server.stdin.flush()
        assert server.wait(BOUND) == 0  # stdin is still open
        assert server.stderr.read() == b"a finally block ran\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(script: Callable[..., Path], number: signal.Signals) -> None:
    with Child(script(BUSY)) as child:
        child.send(*CALLS)
        child.until("elicitation/create")
        child.process.send_signal(number)
        assert child.process.wait(BOUND) == 128 + number
        errors = child.end()
    assert "a finally block ran" in errors and "the lifespan ended" in errors and "Traceback" not in errors


def test_a_signal_ends_it_while_the_lifespan_begins(script: Callable[..., Path]) -> None:
    body = """
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(server):
        os.write(2, b"begun")
        await anyio.sleep(60)
        yield

    server.lifespan = lifespan
    """
    with subprocess.Popen(
        [sys.executable, script(body)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stderr is not None
        assert server.stderr.read(5) == b"begun"
        server.terminate()
        assert server.wait(BOUND) == 143


def test_what_comes_after_run_comes_after_it(script: Callable[..., Path]) -> None:
    after = "\nrun_stdio(server)\nprint('after', file=sys.stderr)\nsys.exit(5)\n"
    with Child(script(run=after)) as child:
        child.ready()
        assert child.end() == "after\n"
    assert child.process.returncode == 5


def test_a_lifespan_that_fails_is_reported_and_its_jobs_end_before_it(script: Callable[..., Path]) -> None:
    body = """
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(server):
        yield
        raise ValueError("the lifespan failed")

    server.lifespan = lifespan
    """
    with Child(script(body)) as child:
        child.ready()
        child.send(call(1, "sleep_in_thread", token=1))
        child.until("notifications/progress")
        errors = child.end()
    assert child.process.returncode == 1
    assert errors.count("ValueError: the lifespan failed") == 1


def test_nothing_watches_over_what_comes_after_run(script: Callable[..., Path]) -> None:
    """The client reads no more, which ends the server; the hang-up of stdin later is no news."""
    after = "\nrun_stdio(server)\nos.write(2, b'after')\ntime.sleep(2)\nsys.exit(5)\n"
    with subprocess.Popen(
        [sys.executable, script(run=after)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        server.stdout.close()
        server.stdin.write(encode(line(1, "ping")))
        server.stdin.flush()
        assert server.stderr.read(5) == b"after"
        server.stdin.close()
        assert server.wait(BOUND) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_subscription_gets_its_result_before_a_signal_ends_it(
    script: Callable[..., Path], number: signal.Signals
) -> None:
    meta = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}
    with Child(script()) as child:
        child.send(line(7, "subscriptions/listen", {"_meta": meta, "notifications": {"toolsListChanged": True}}))
        child.until("notifications/subscriptions/acknowledged")
        child.process.send_signal(number)
        assert child.response(7)["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
        assert child.process.wait(BOUND) == 128 + number
        assert "Traceback" not in child.end()


def test_a_signal_ends_what_does_not_end_by_itself_after_the_end_of_stdin(script: Callable[..., Path]) -> None:
    with Child(script("server.limits = Limits(grace=20)\n")) as child:
        child.send(initialize(), call(1, "sleep", token=1))
        child.until("notifications/progress")
        assert child.process.stdin is not None
        child.process.stdin.close()
        child.process.terminate()
        assert child.process.wait(BOUND) == 143
        child.end()
