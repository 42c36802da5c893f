"""`backchannel call`: targets, arguments, output and exit codes."""

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, PATIENCE, backchannel, environment, served

SERVER = """
import anyio
from backchannel import Context, Server, ToolError
from backchannel.protocol.types.content import ImageContent, ResourceLink

server = Server("tools")

@server.tool
async def echo(ctx: Context, text: str, count: int = 1) -> str:
    await ctx.progress(1, total=2, message="half")
    await ctx.progress(2, total=2)
    return text * count

@server.tool
def fail() -> str:
    raise ToolError("It cannot be done.\\x07")

@server.tool
async def whereabouts(ctx: Context) -> list[str]:
    return [root.uri for root in await ctx.roots()]

@server.tool
def show() -> list:
    return [ImageContent("AAAA", "image/png"), ResourceLink("file:///a", "a"), "text"]

@server.tool
async def wait(ctx: Context, mark: str) -> str:
    try:
        await ctx.progress(1, message="waiting")
        await anyio.sleep_forever()
    finally:
        open(mark, "w").close()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(SERVER, encoding="utf-8")
    return tmp_path


RUN = shlex.join([*COMMAND, "run", "tools.py"])


@pytest.mark.parametrize(
    ("target", "version"),
    [("tools.py", "auto"), ("tools:server", "2025-03-26"), (RUN, "auto"), (RUN, "legacy"), (RUN, "modern")],
)
def test_targets(place: Path, target: str, version: str) -> None:
    done = backchannel("call", target, "echo", "text=7", "count=2", "--version", version, cwd=place)
    assert (done.returncode, done.stdout) == (0, "77\n"), done.stderr
    assert "[1/2] half\n[2/2]\n" in done.stderr


def test_a_url(place: Path) -> None:
    with served("tools.py", cwd=place) as url:
        done = backchannel("call", url, "echo", "text=a")
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr


def test_a_command_after_two_dashes(place: Path) -> None:
    done = backchannel("call", "echo", "text=a", "--", *COMMAND, "run", "tools.py", cwd=place)
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr


def test_json(place: Path) -> None:
    done = backchannel("call", "tools.py", "echo", "text=a", "count:=3", "--json", cwd=place)
    result = json.loads(done.stdout)
    assert result["content"] == [{"type": "text", "text": "aaa"}]


def test_roots(place: Path) -> None:
    done = backchannel("call", "tools.py", "whereabouts", "--json", cwd=place)
    assert json.loads(done.stdout)["structuredContent"] == []
    done = backchannel("call", "tools.py", "whereabouts", "--root", "here", "--root", "/there", cwd=place)
    assert f"{place.as_uri()}/here" in done.stdout and "file:///there" in done.stdout


def test_content_that_is_no_text(place: Path) -> None:
    done = backchannel("call", "tools.py", "show", cwd=place)
    assert done.stdout == "[image/png, 3 bytes]\n[a: file:///a]\ntext\n", done.stderr


def test_a_tool_that_fails(place: Path) -> None:
    done = backchannel("call", "tools.py", "fail", cwd=place)
    assert (done.returncode, done.stdout) == (1, "It cannot be done.\x07\n")
    assert backchannel("call", "tools.py", "echo", "count=1", cwd=place).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["tools.py", "ecco"], 2, "the server has no tool 'ecco'; did you mean 'echo'?"),
        (["tools.py", "zzz"], 2, "it has echo, fail"),
        (["tools.py", "echo", "text"], 2, "'text' is no argument: give key=value"),
        (["tools.py", "echo", "count=many"], 2, "the argument 'count' takes JSON"),
        (["tools.py", "echo", "--version", "1999-12-31"], 2, "there is no protocol version '1999-12-31'"),
        (["tools.py", "echo", "--header", "none"], 2, "'none' is no header"),
        (["tools.py"], 2, "TOOL"),
        (["tools.py", "echo", "--bogus"], 2, "--bogus"),
        (["nothing", "echo"], 2, "'nothing' is no server"),
        (["http://127.0.0.1:1/mcp", "echo"], 3, "127.0.0.1:1"),
        (["no-such-program-here --at-all", "echo"], 3, "no-such-program-here"),
        (["sh -c 'echo gone >&2; exit 7'", "echo"], 3, "exited with code 7"),
    ],
)
def test_exit_codes(place: Path, arguments: list[str], code: int, why: str) -> None:
    done = backchannel("call", *arguments, cwd=place)
    assert done.returncode == code, done.stderr
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_server_without_a_version_in_common(place: Path) -> None:
    info = {"protocolVersion": "1999-12-31", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": info})
    (place / "old.sh").write_text(f"read line\necho '{answer}'\ncat >/dev/null\n", encoding="utf-8")
    done = backchannel("call", "sh old.sh", "echo", "--version", "legacy", cwd=place)
    assert done.returncode == 4
    assert "the server speaks 1999-12-31" in done.stderr


@pytest.mark.parametrize("target", ["tools.py", RUN])
def test_ctrl_c_cancels_the_call(place: Path, target: str) -> None:
    command = [*COMMAND, "call", target, "wait", "mark=mark"]
    process = subprocess.Popen(command, cwd=place, env=environment(), stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None and process.stderr.readline() == "[1] waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""
    assert (place / "mark").exists()
