"""The process around a stdio server: nothing but the protocol gets at its standard streams."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.raw_child import BOUND, HEAD, RUN, Child, call, encode, initialize, line, text
from tests.server.raw_child import write_server as write


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    return lambda body="", **options: write(tmp_path, body, **options)


# Standard streams


@pytest.mark.case("H04")
def test_a_child_process_of_a_tool_finds_an_empty_stdin(script: Callable[..., Path]) -> None:
    body = """
    @server.tool
    def cat() -> str:
        return repr(subprocess.run(["cat"], timeout=1, stdout=subprocess.PIPE).stdout)

    @server.tool
    async def read() -> str:
        return repr((sys.stdin.read(), sys.stdin.buffer.read(), os.read(0, 10)))
    """
    with Child(script(body)) as child:
        child.ready()
        child.send(
            *(call(id, ("cat", "echo", "read")[id % 3], **{"text": "x"} if id % 3 == 1 else {}) for id in range(12))
        )
        answers = {message["id"]: text(message) for message in (child.receive() for _ in range(12)) if message}
    assert answers == {id: ("b''", "x", "('', b'', b'')")[id % 3] for id in range(12)}


@pytest.mark.rule("R75")
@pytest.mark.case("H06")
@pytest.mark.parametrize("kind", ["async def", "def"])
def test_stray_output_goes_to_stderr_with_one_warning(script: Callable[..., Path], kind: str) -> None:
    body = f"""
    print("early, and still buffered", end="")

    @server.tool
    {kind} shout() -> str:
        print("hi")
        print("progress", end="\\r", flush=True)
        sys.stdout.buffer.write(b"buffer\\n")
        os.write(1, b"raw\\n")
        subprocess.run(["echo", "x"])
        print("old", file=sys.__stdout__, flush=True)
        print("unfinished", end="")
        return "said"
    """
    with Child(script(body)) as child:
        child.ready()
        for id in (1, 2):
            child.send(call(id, "shout"))
            assert text(child.response(id)) == "said"
        errors = child.end()
    for stray in ("hi\n", "progress\r", "buffer\n", "raw\n", "x\n", "old\n", "unfinished"):
        assert errors.count(stray) == 2, stray
    assert "early, and still buffered" in errors
    [warning] = [line for line in errors.splitlines() if "stdout carries the protocol" in line]
    assert "tools/call 'shout' printed" in warning


@pytest.mark.case("H06")
def test_a_print_does_not_fail_because_stderr_is_gone(script: Callable[..., Path]) -> None:
    body = """
    @server.tool
    async def shout() -> str:
        for _ in range(10_000):
            print("hi" * 20)
        return "said"
    """
    broken, theirs = os.pipe()
    os.close(broken)
    command = [sys.executable, script(body)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs) as server:
        os.close(theirs)
        out, _ = server.communicate(encode(initialize(), call(1, "shout")), BOUND)
    assert text(json.loads(out.splitlines()[1])) == "said"


@pytest.mark.case("H06")
def test_claimed_before_the_import_of_a_module_that_prints(script: Callable[..., Path]) -> None:
    head = "from backchannel.server.stdio import claim\nassert claim() == claim()\nprint('a banner')\n" + HEAD
    with Child(script(head=head)) as child:
        child.ready()
        errors = child.end()
    assert errors.endswith("a banner\n") and "outside of any request printed" in errors


def test_the_driver_loads_no_http_and_no_cryptography(script: Callable[..., Path]) -> None:
    body = """
    @server.tool
    async def loaded() -> str:
        return " ".join(sys.modules)
    """
    with Child(script(body)) as child:
        child.ready()
        child.send(call(1, "loaded"))
        modules = text(child.response(1)).split()
    assert not {"aiohttp", "cryptography", "uvicorn", "starlette", "jsonschema_rs", "backchannel.client"} & set(modules)


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stdin_or_stdout_is_named(script: Callable[..., Path], closed: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" "$1" {closed}', sys.executable, script()], stderr=subprocess.PIPE, timeout=BOUND
    )
    assert ended.returncode == 1
    assert b"needs stdin and stdout" in ended.stderr


def test_a_closed_stderr_does_no_harm(script: Callable[..., Path]) -> None:
    """Stray text is lost then."""
    shell = ["sh", "-c", 'exec "$0" "$1" 2>&-', sys.executable, script(run="\nprint('stray')" + RUN)]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    ended = subprocess.run(shell, input=encode(line(1, "ping")), stdout=subprocess.PIPE, timeout=BOUND, env=environment)
    assert json.loads(ended.stdout)["id"] == 1


# Files and shared pipes


def test_from_a_file_into_a_file(script: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(encode(initialize(), call(1, "sleep_in_thread", seconds=0.1), line(2, "ping")))
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        assert subprocess.run([sys.executable, script()], stdin=stdin, stdout=stdout, timeout=BOUND).returncode == 0
    answers = [json.loads(answer) for answer in (tmp_path / "out").read_bytes().splitlines()]
    assert [answer["id"] for answer in answers] == ["init", 2, 1]


def test_the_mode_of_a_shared_pipe_is_restored(script: Callable[..., Path]) -> None:
    from_server, stdout = os.pipe()
    server = subprocess.Popen([sys.executable, script()], stdin=subprocess.PIPE, stdout=stdout)
    with server, os.fdopen(from_server, "rb") as reader:
        assert server.stdin is not None
        server.stdin.write(encode(line(1, "ping")))
        server.stdin.flush()
        assert json.loads(reader.readline())["id"] == 1
        assert not os.get_blocking(stdout)
        assert os.get_blocking(server.stdin.fileno())
        server.stdin.close()
        assert server.wait(BOUND) == 0
        assert os.get_blocking(stdout)
        os.close(stdout)
