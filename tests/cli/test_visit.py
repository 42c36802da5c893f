"""cli/visit.py and cli/bar.py at a terminal: progress is a bar, and Ctrl-C reaches the server."""

import os
import select
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from backchannel.cli.bar import Bar
from backchannel.protocol.types.requests import ProgressParams
from tests.cli.programs import COMMAND, PATIENCE, Typist, backchannel, environment, served

SERVER = """
import anyio
from backchannel import Context, Server

server = Server("slow")

@server.tool
async def wait(ctx: Context, mark: str) -> str:
    try:
        await ctx.log("info", "at work")
        await ctx.progress(1, total=4, message="\\x1b[31m[b]waiting[/b]")
        await anyio.sleep_forever()
    finally:
        with open(mark, "w") as file:
            file.write("ended")

@server.tool
async def steps(ctx: Context) -> str:
    await ctx.progress(1, message="no end in sight")
    await ctx.progress(2, total=2, message="there")
    sure = (await ctx.elicit("Sure?", bool)).unwrap()
    await ctx.progress(3, total=3, message="answered")
    return f"sure: {sure}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SERVER, encoding="utf-8")
    os.mkfifo(tmp_path / "mark")
    return tmp_path


@contextmanager
def marked(place: Path) -> Iterator[None]:
    """Wait at the end until the tool has ended, wherever it runs."""
    mark = os.open(place / "mark", os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
        ready, _, _ = select.select([mark], [], [], PATIENCE)
        assert ready and os.read(mark, 100) == b"ended"
    finally:
        os.close(mark)


@pytest.mark.parametrize("version", ["legacy", "modern"])
@pytest.mark.parametrize("kind", ["file", "command", "url"])
def test_ctrl_c_at_a_terminal_cancels_the_call(place: Path, kind: str, version: str) -> None:
    command = shlex.join([*COMMAND, "run", "slow.py"])
    target = {"file": nullcontext("slow.py"), "command": nullcontext(command), "url": served("slow.py", cwd=place)}
    with target[kind] as server, marked(place):
        with Typist("call", server, "wait", f"mark={place}/mark", "--version", version, cwd=place) as typist:
            typist.sees("[info] at work")
            typist.sees("1/4 ")
            typist.sees("\\x1b[31m[b]waiting[/b]")
            typist.types("\x03")
            assert typist.ends() == 130
        assert "Traceback" not in typist.shown


@pytest.mark.parametrize("target", ["slow.py", shlex.join([*COMMAND, "run", "slow.py"])])
def test_a_signal_cancels_the_call(place: Path, target: str) -> None:
    command = [*COMMAND, "call", target, "wait", "mark=mark"]
    process = subprocess.Popen(command, cwd=place, env=environment(), stderr=subprocess.PIPE, text=True)
    with process, marked(place):
        assert process.stderr is not None and process.stderr.readline() == "[info] at work\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_the_bar_makes_way_for_a_question_and_the_result(place: Path, version: str) -> None:
    with Typist("call", "slow.py", "steps", "--version", version, cwd=place) as typist:
        typist.sees("2/2 ")
        typist.sees("Answer (y/n):")
        typist.types("y")
        typist.sees("3/3 ")
        typist.sees("sure: True")
        assert typist.ends() == 0
    assert typist.shown.endswith("sure: True\n")


def test_nothing_of_a_bar_where_stderr_is_no_terminal(place: Path) -> None:
    done = backchannel("call", "slow.py", "steps", cwd=place, typed="y\n")
    assert (done.returncode, done.stdout) == (0, "sure: True\n")
    assert "there" not in done.stderr and "\x1b" not in done.stderr


def test_a_bar_that_was_never_there() -> None:
    bar = Bar()
    bar.update(ProgressParams(1, 1))  # pytest's stderr is no terminal
    bar.hide()
    bar.hide()
