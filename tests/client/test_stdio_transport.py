"""The stdio transport of the client against real child processes."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from backchannel import Client
from backchannel.client import stdio
from backchannel.client.stdio import INHERITED, StdioServer, StdioTransport
from backchannel.client.transport import SessionGone
from backchannel.errors import ConfigurationError, ConnectionFailed, ConnectionLost, LocalProtocolError, OutcomeUnknown
from backchannel.protocol.jsonrpc import ErrorResponse, Malformed, Message, Notification, Request, Response
from backchannel.protocol.versions import Version

BOUND = 20

PREAMBLE = """
import json, os, sys
def answer(id, result):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\\n")
    sys.stdout.buffer.flush()
def lines():
    while line := sys.stdin.buffer.readline():
        yield json.loads(line)
"""
ECHOING = """
    for message in lines():
        if "id" in message:
            answer(message["id"], message.get("params"))
"""


class Ear:
    """What a transport received, and whether it was lost."""

    def __init__(self) -> None:
        self.messages: list[Message | Malformed] = []
        self.losses: list[Exception] = []
        self._news = anyio.Event()

    def receive(self, message: Message | Malformed) -> None:
        self.messages.append(message)
        self._news.set()

    def lost(self, error: Exception) -> None:
        self.losses.append(error)
        self._news.set()

    async def until(self, happened: Callable[[], Any]) -> None:
        with anyio.fail_after(BOUND):
            while not happened():
                self._news = anyio.Event()
                await self._news.wait()

    async def hear(self, count: int) -> list[Any]:
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def loss(self) -> str:
        await self.until(lambda: self.losses)
        [error] = self.losses
        assert type(error) is ConnectionLost
        return str(error)

    @property
    def results(self) -> list[Any]:
        return [json.loads(bytes(one.result)) for one in self.messages if isinstance(one, Response)]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "server.py") -> Path:
        path = tmp_path / name
        path.write_text(PREAMBLE + textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@contextlib.asynccontextmanager
async def running(path: Path, *args: Any, **options: Any) -> AsyncIterator[tuple[StdioTransport, Ear]]:
    options = {"grace": 5.0, "stderr": "capture", **options}
    transport, ear = StdioTransport(StdioServer(sys.executable, path, *args, **options)), Ear()
    with anyio.fail_after(2 * BOUND):
        await transport.open(ear.receive, ear.lost)
        try:
            yield transport, ear
        finally:
            await transport.close()
    assert gone(transport.pid)


def gone(pid: int | None) -> bool:
    """Whether a process does not run any more; one that only waits to be reaped does not."""
    assert pid is not None
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def eventually(happened: Callable[[], bool]) -> None:
    """For what no event tells: another process."""
    with anyio.fail_after(BOUND):
        while not happened():  # noqa: ASYNC110
            await anyio.sleep(0.01)


# Messages


@pytest.mark.anyio
@pytest.mark.rule("R75")
@pytest.mark.case("H03")
async def test_a_message_is_a_line_in_utf8_each_way(script: Callable[..., Path]) -> None:
    text = "naïve 日本 😀 \u2028 line\nend\r"
    environment = {"PYTHONIOENCODING": "cp1252", "LC_ALL": "C"}
    async with running(script(ECHOING), env=environment) as (transport, ear):
        await transport.send(Request(1, "echo", {"text": text}))
        await transport.send(Notification("notifications/x"))
        await transport.send(Request("two", "echo", msgspec.Raw(b'{\n  "pretty":\r\n [1]\n}')))
        first, second = await ear.hear(2)
    assert (first.id, second.id) == (1, "two")
    assert ear.results == [{"text": text}, {"pretty": [1]}]
    assert not ear.losses


@pytest.mark.anyio
@pytest.mark.rule("R76", "R23")
async def test_a_question_is_answered_while_the_call_runs(script: Callable[..., Path]) -> None:
    server = """
        stream = lines()
        call = next(stream)
        print(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}), flush=True)
        reply = next(stream)
        answer(call["id"], reply)
    """
    async with running(script(server)) as (transport, ear):
        await transport.send(Request(1, "tools/call", {}))
        [question] = await ear.hear(1)
        assert question == Request(7, "roots/list")
        await transport.send(Response(7, {"roots": []}))
        await ear.hear(2)
    assert ear.results == [{"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}]


@pytest.mark.anyio
@pytest.mark.rule("R75")
async def test_lines_of_many_tasks_do_not_mix(script: Callable[..., Path]) -> None:
    async with running(script(ECHOING)) as (transport, ear), anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(transport.send, Request(number, "echo", {"text": str(number % 10) * 100_000}))
        await ear.hear(40)
    assert {len(set(result["text"])) for result in ear.results} == {1}
    assert {one.id for one in ear.messages if isinstance(one, Response)} == set(range(40))


@pytest.mark.anyio
@pytest.mark.rule("R75")
async def test_a_cancelled_write_does_not_cut_a_line(script: Callable[..., Path]) -> None:
    server = """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        answer(0, "ready")
        signal.sigwait([signal.SIGUSR1])
        for message in lines():
            answer(message["id"], len(message["params"]["text"]))
    """
    async with running(script(server)) as (transport, ear):
        await ear.hear(1)
        for number in (1, 2):
            with anyio.move_on_after(0.05) as scope:  # the server does not read, so this cannot end
                await transport.send(Request(number, "echo", {"text": "x" * 1_000_000}))
            assert scope.cancelled_caught
        assert transport.pid is not None
        os.kill(transport.pid, signal.SIGUSR1)
        await transport.send(Request(3, "echo", {"text": "after"}))
        await ear.until(lambda: ear.results[-1] == 5)
    assert ear.results == ["ready", 1_000_000, 5]  # the one that waited was not written at all


@pytest.mark.anyio
async def test_what_is_no_json_is_refused_here(script: Callable[..., Path]) -> None:
    async with running(script(ECHOING)) as (transport, ear):
        for params in ({"text": "\ud83d"}, {"it": object()}):
            with pytest.raises(LocalProtocolError, match="echo cannot be sent as JSON"):
                await transport.send(Request(1, "echo", params))
        await transport.send(Request(2, "echo", {}))
        await ear.hear(1)


@pytest.mark.anyio
@pytest.mark.rule("R89")
async def test_batches_are_read_where_the_version_has_them(script: Callable[..., Path]) -> None:
    server = """
        for message in lines():
            print('[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":1,"result":{}},5]', flush=True)
    """
    async with running(script(server)) as (transport, ear):
        transport.negotiated(Version.V2025_03_26)
        await transport.send(Request(1, "echo"))
        notification, response = await ear.hear(2)
        transport.negotiated(Version.V2025_11_25)
        await transport.send(Request(2, "echo"))
    assert (notification, response.id) == (Notification("n"), 1)
    assert len(ear.messages) == 2


# What a server writes that it should not


@pytest.mark.anyio
@pytest.mark.case("H06")
async def test_junk_is_skipped_with_a_warning(script: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    server = """
        print("Loading weights", flush=True)
        answer(1, "first")
        print('{"level": "info", "msg": "started"}\\n{\\'a\\': 1}', flush=True)
        os.write(1, b"caf\\x97\\n")
        answer(2, "second")
        for number in range(100):
            print("more", number, flush=True)
        answer(3, "third")
        sys.stdin.read()
    """
    with caplog.at_level(logging.WARNING):
        async with running(script(server)) as (_, ear):
            await ear.until(lambda: ear.results == ["first", "second", "third"])
    assert len(ear.messages) == 3
    warnings = [record.getMessage() for record in caplog.records if record.name == "backchannel.client"]
    assert "Loading weights" in warnings[0] and "stdout" in warnings[0]
    assert "started" in warnings[1] and "'a'" in warnings[2].replace("\\", "") and "caf" in warnings[3]
    assert len(warnings) == 20
    assert "no more of these" in warnings[-1]


@pytest.mark.anyio
@pytest.mark.case("H03")
async def test_a_broken_message_is_handed_on(script: Callable[..., Path]) -> None:
    server = """
        out = sys.stdout.buffer
        out.write(b'{"jsonrpc":"2.0","id":1,"result":{"text":"\\x97"}}\\n')
        out.write(b'{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"both"}}\\n')
        out.write(b'{"jsonrpc":"2.0","id":3,"method":5}\\n')
        out.write(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}\\n')
        out.flush()
        answer(4, "fine")
        sys.stdin.read()
    """
    async with running(script(server)) as (_, ear):
        utf8, both, method, error, _fine = await ear.hear(5)
    assert (utf8.id, utf8.is_response, utf8.code) == (1, True, -32700)
    assert (both.id, both.is_response) == (2, True)
    assert (method.id, method.is_response) == (3, False)
    assert isinstance(error, ErrorResponse) and error.id is None
    assert ear.results == ["fine"]


@pytest.mark.anyio
async def test_a_message_over_the_limit_fails_its_waiter(
    script: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    server = """
        big = '"' + "x" * 200_000 + '"'
        print('{"jsonrpc":"2.0","id":1,"result":{"text":' + big + '}}')
        print('{"result":{"id":9,"text":' + big + '},"jsonrpc":"2.0","id":"two"}')
        print('{"jsonrpc":"2.0","method":"notifications/message","params":{"data":' + big + '}}')
        print(big, flush=True)
        answer(3, "fine")
        sys.stdin.read()
    """
    async with running(script(server), max_message=100_000) as (_, ear):
        first, last, _fine = await ear.hear(3)
    assert (first.id, first.is_response, last.id, last.is_response) == (1, True, "two", True)
    assert "over the limit of 100000" in first.message
    assert ear.results == ["fine"]
    assert len([record for record in caplog.records if "over the limit" in record.getMessage()]) == 2


@pytest.mark.anyio
async def test_a_large_message_gets_through(script: Callable[..., Path]) -> None:
    async with running(script(ECHOING)) as (transport, ear):
        await transport.send(Request(1, "echo", {"text": "y" * 8_000_000}))
        await ear.hear(1)
    assert len(ear.results[0]["text"]) == 8_000_000


# stderr


@pytest.mark.anyio
@pytest.mark.case("H12")
async def test_much_stderr_does_not_block_and_its_end_is_kept(script: Callable[..., Path]) -> None:
    server = """
        for number in range(10_000):
            sys.stderr.write(f"{number:06}" + "." * 1017 + "\\n")
        sys.stderr.write("the last line")
        sys.stderr.flush()
        answer(1, "done")
        sys.stdin.read()
        os._exit(3)
    """
    async with running(script(server)) as (transport, ear):
        await ear.hear(1)
        await eventually(lambda: transport.stderr.endswith("the last line"))
    assert len(transport.stderr) == 65536
    assert "009999" in transport.stderr and "009000" not in transport.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["inherit", "capture"])
async def test_stderr_is_passed_through_unless_captured(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    server = """
        os.write(2, "né".encode()[:2])
        os.write(2, "né".encode()[2:] + b"\\xff\\n")
        answer(1, "done")
        sys.stdin.read()
    """
    async with running(script(server), stderr=mode) as (transport, ear):
        await ear.hear(1)
        await eventually(lambda: transport.stderr.endswith("\n"))
    assert transport.stderr == "né\ufffd\n"
    assert capsys.readouterr().err == ("né\ufffd\n" if mode == "inherit" else "")


@pytest.mark.anyio
async def test_a_closed_stderr_of_ours_is_no_harm(script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    server = """
        os.write(2, b"one\\n")
        answer(1, "done")
        sys.stdin.read()
    """
    monkeypatch.setattr(sys, "stderr", None)
    async with running(script(server), stderr="inherit") as (transport, ear):
        await ear.hear(1)
        await eventually(lambda: transport.stderr == "one\n")


# How a server ends


@pytest.mark.anyio
@pytest.mark.case("C06")
async def test_the_death_of_the_server_is_told_with_its_last_words(script: Callable[..., Path]) -> None:
    server = """
        for message in lines():
            for number in range(30):
                sys.stderr.write(f"line {number}\\n")
            sys.stderr.flush()
            os._exit(3)
    """
    async with running(script(server)) as (transport, ear):
        await transport.send(Request(1, "tools/call"))
        told = await ear.loss()
        with pytest.raises(ConnectionLost, match="exited with code 3"):
            await transport.send(Request(2, "tools/call"))
    assert "server.py' exited with code 3" in told
    assert [line.strip() for line in told.splitlines()[1:]] == [f"line {number}" for number in range(10, 30)]
    assert len(ear.losses) == 1


@pytest.mark.anyio
@pytest.mark.case("C06")
async def test_a_killed_server_is_lost_with_all_that_was_to_be_written(script: Callable[..., Path]) -> None:
    failures: list[ConnectionLost] = []

    async def send(transport: StdioTransport, number: int) -> None:
        try:
            await transport.send(Request(number, "echo", {"text": "x" * 1_000_000}))
        except ConnectionLost as error:
            failures.append(error)

    server = """
        answer(0, "ready")
        import signal
        signal.pause()
    """
    async with running(script(server)) as (transport, ear):
        await ear.hear(1)
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(send, transport, number)
            await anyio.wait_all_tasks_blocked()
            assert transport.pid is not None
            os.kill(transport.pid, signal.SIGKILL)
            told = await ear.loss()
    assert "was ended by signal SIGKILL" in told
    assert [str(error) for error in failures] == [told] * 3
    assert len(set(map(id, failures))) == 3


@pytest.mark.anyio
async def test_what_was_written_before_the_end_is_received(script: Callable[..., Path]) -> None:
    server = """
        for number in range(5000):
            print(json.dumps({"jsonrpc": "2.0", "id": number, "result": "x" * 100}))
        sys.stdout.write('{"jsonrpc": "2.0", "id": "whole", "result": 1}')
    """
    async with running(script(server)) as (_, ear):
        assert "exited with code 0" in await ear.loss()
    assert [one.id for one in ear.messages if isinstance(one, Response)] == [*range(5000), "whole"]


@pytest.mark.anyio
async def test_a_line_that_the_end_cut_off_is_not_received(script: Callable[..., Path]) -> None:
    async with running(script('print(\'{"jsonrpc": "2.0", "id": 1, "res\', end="")')) as (_, ear):
        await ear.loss()
    assert ear.messages == []


@pytest.mark.anyio
@pytest.mark.case("G03")
async def test_a_server_that_ends_at_once(script: Callable[..., Path]) -> None:
    async with running(script("raise SystemExit('no configuration')")) as (transport, ear):
        told = await ear.loss()
        with pytest.raises(ConnectionLost, match="no configuration"):
            await transport.send(Request(1, "initialize"))
    assert "exited with code 1" in told and "no configuration" in told


@pytest.mark.anyio
async def test_a_server_that_only_closes_its_stdout_is_lost_and_ended(script: Callable[..., Path]) -> None:
    server = """
        import os, signal
        os.close(1)
        signal.pause()
    """
    async with running(script(server), grace=0.1) as (transport, ear):
        assert "closed its standard output" in await ear.loss()
        await eventually(lambda: gone(transport.pid))


@pytest.mark.anyio
async def test_a_server_that_closes_its_stdin_gets_no_more(script: Callable[..., Path]) -> None:
    server = """
        os.close(0)
        answer(1, "closed")
        import signal
        signal.pause()
    """
    async with running(script(server), grace=0.1) as (transport, ear):
        await ear.hear(1)
        with pytest.raises(ConnectionLost, match="closed its standard input"):
            while True:  # the first ones may still fit into the pipe
                await transport.send(Request(2, "echo"))
        with pytest.raises(ConnectionLost, match="closed its standard input"):
            await transport.send(Request(3, "echo"))


# Launching


@pytest.mark.anyio
@pytest.mark.case("G03")
async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("no program")
    for server, cause, words in (
        (StdioServer("no-such-command", "server.py"), FileNotFoundError, "'no-such-command server.py': No such file"),
        (StdioServer("no-such-command --x"), FileNotFoundError, "each argument as a string of its own"),
        (StdioServer(plain), PermissionError, "Permission denied"),
        (StdioServer(sys.executable, cwd=tmp_path / "nowhere"), FileNotFoundError, "nowhere"),
        (StdioServer(sys.executable, "a\0b"), ValueError, "null byte"),
    ):
        transport, ear = StdioTransport(server), Ear()
        with pytest.raises(ConnectionFailed) as caught:
            await transport.open(ear.receive, ear.lost)
        assert words in str(caught.value) and server.command in str(caught.value).replace("\\\\", "\\")
        assert isinstance(caught.value.__cause__, cause)
        assert not ear.losses
        with pytest.raises(ConnectionLost):
            await transport.send(Request(1, "ping"))
        await transport.close()


@pytest.mark.anyio
async def test_the_environment_is_the_safe_part_and_what_is_given(
    script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TERM", "() { evil; }")
    server = """
        answer(1, {"env": dict(os.environ), "cwd": os.getcwd(), "args": sys.argv[1:]})
        sys.stdin.read()
    """
    async with running(script(server), "--one", "two words", env={"MINE": "yes", "TZ": "UTC"}, cwd=tmp_path) as (
        _,
        ear,
    ):
        await ear.hear(1)
    [seen] = ear.results
    environment = seen["env"]
    assert environment["PATH"] == os.environ["PATH"]
    assert (environment["MINE"], environment["TZ"], environment["LC_TIME"]) == ("yes", "UTC", "C")
    assert not {"AWS_SECRET_ACCESS_KEY", "TERM"} & set(environment)
    allowed = INHERITED | {"MINE", "LC_TIME", "LC_ALL", "LC_CTYPE", "PWD", "SHLVL", "_"}
    assert {name for name in environment if not name.startswith("LC_")} <= allowed
    assert (seen["cwd"], seen["args"]) == (str(tmp_path), ["--one", "two words"])


def test_a_server_is_a_plain_value() -> None:
    server = StdioServer("python", "server.py", "--token=hush", env={"KEY": "hush"}, cwd="/tmp")
    assert server == StdioServer("python", Path("server.py"), "--token=hush", env={"KEY": "hush"}, cwd=Path("/tmp"))
    assert server.args == ("server.py", "--token=hush")
    assert "hush" not in repr(server)
    assert server.label == "python server.py"
    assert StdioServer("serve", "postgres://me:hush@host").label == "serve"
    assert StdioServer("npx", "-y", "server").label == "npx"
    for wrong in ({"grace": -1}, {"max_message": 0}, {"stderr": "drop"}):
        with pytest.raises(ConfigurationError):
            StdioServer("python", **wrong)
    with pytest.raises(ConfigurationError):
        StdioServer("")


# Closing


@pytest.mark.anyio
@pytest.mark.case("H10")
async def test_the_whole_process_tree_is_ended(script: Callable[..., Path], tmp_path: Path) -> None:
    child = script(
        """
        import os, pathlib, signal, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        path = pathlib.Path(sys.argv[1])
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path)
        signal.pause()
        """,
        "child.py",
    )
    noted = tmp_path / "pid"
    server = StdioServer("sh", "-c", f"'{sys.executable}' '{child}' '{noted}' & wait", grace=0.5, stderr="capture")
    transport, ear = StdioTransport(server), Ear()
    await transport.open(ear.receive, ear.lost)
    await eventually(noted.exists)
    with anyio.fail_after(BOUND):
        await transport.close()
    await eventually(lambda: gone(transport.pid) and gone(int(noted.read_text())))
    assert not ear.losses


@pytest.mark.anyio
@pytest.mark.case("H10")
async def test_a_polite_server_gets_its_time(script: Callable[..., Path], tmp_path: Path) -> None:
    server = """
        import os, pathlib, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
        print('{"jsonrpc": "2.0", "id": 1, "result": 1}', flush=True)
        sys.stdin.read()
        for _ in range(200):  # more than the pipes hold: somebody still has to read them
            sys.stdout.write("." * 1000 + "\\n")
            sys.stderr.write("." * 1000 + "\\n")
        time.sleep(0.2)
        pathlib.Path(sys.argv[1]).write_text("flushed")
    """
    async with running(script(server), tmp_path / "file", grace=BOUND) as (_, ear):
        await ear.hear(1)
    assert (tmp_path / "file").read_text() == "flushed"
    assert not ear.losses and len(ear.messages) == 1


@pytest.mark.anyio
@pytest.mark.case("H10")
async def test_what_outlives_a_dead_server_is_ended(script: Callable[..., Path]) -> None:
    server = """
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        answer(1, child.pid)
        os._exit(4)
    """
    async with running(script(server), grace=0.1) as (_, ear):
        assert "exited with code 4" in await ear.loss()  # although the pipes are still held open
        await eventually(lambda: gone(ear.results[0]))


@pytest.mark.anyio
@pytest.mark.case("G01")
async def test_opened_in_one_task_and_closed_in_another(script: Callable[..., Path]) -> None:
    path, ear = script(ECHOING), Ear()
    transports = [StdioTransport(StdioServer(sys.executable, path)) for _ in range(3)]
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for transport in transports:
                group.start_soon(transport.open, ear.receive, ear.lost)
        for transport in transports:  # in the order of their opening
            await transport.send(Request(1, "echo", {}))
        await ear.hear(3)
        async with anyio.create_task_group() as group:
            for transport in transports * 2:  # each twice, at once
                group.start_soon(transport.close)
        await transports[0].close()
    assert all(gone(transport.pid) for transport in transports)
    assert not ear.losses
    with pytest.raises(ConnectionLost, match="is closed"):
        await transports[0].send(Request(2, "echo"))
    with pytest.raises(ConnectionFailed, match="make a new one"):
        await transports[0].open(ear.receive, ear.lost)


@pytest.mark.anyio
async def test_closed_without_being_opened() -> None:
    transport, ear = StdioTransport(StdioServer(sys.executable)), Ear()
    with pytest.raises(ConnectionLost, match="is not running"):
        await transport.send(Request(1, "ping"))
    await transport.listen()
    await transport.close()
    with pytest.raises(ConnectionFailed):
        await transport.open(ear.receive, ear.lost)


@pytest.mark.anyio
@pytest.mark.case("G04")
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
async def test_an_open_that_is_cancelled_leaves_no_process(script: Callable[..., Path], steps: int) -> None:
    transport, ear = StdioTransport(StdioServer(sys.executable, script(ECHOING), grace=1)), Ear()
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(transport.open, ear.receive, ear.lost)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        if transport.pid is not None and steps < 8:
            await eventually(lambda: gone(transport.pid))
        await transport.close()
    assert transport.pid is None or gone(transport.pid)
    assert not ear.losses


STUBBORN = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('{"jsonrpc": "2.0", "id": 1, "result": 1}', flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.anyio
@pytest.mark.case("G04")
async def test_a_cancelled_call_ends_the_process(script: Callable[..., Path]) -> None:
    transport, ear = StdioTransport(StdioServer(sys.executable, script(STUBBORN), grace=0.1)), Ear()

    async def agent() -> None:
        await transport.open(ear.receive, ear.lost)
        try:
            await anyio.sleep_forever()
        finally:
            await transport.close()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(agent)
            await ear.hear(1)
            group.cancel_scope.cancel()
    assert gone(transport.pid)


@pytest.mark.anyio
@pytest.mark.case("G04")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_close_that_is_cancelled_twice_still_ends_the_process(script: Callable[..., Path]) -> None:
    """`Task.cancel` of asyncio goes through every shield."""
    transport, ear = StdioTransport(StdioServer(sys.executable, script(STUBBORN), grace=0.1)), Ear()
    await transport.open(ear.receive, ear.lost)
    await ear.hear(1)
    closing = asyncio.ensure_future(transport.close())
    for _ in range(2):
        await asyncio.sleep(0)
        closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        closing = asyncio.ensure_future(transport.close())
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await eventually(lambda: gone(transport.pid))


@pytest.mark.case("G04")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_event_loop_that_ends_takes_the_process_with_it(script: Callable[..., Path], backend: str) -> None:
    program = script(
        f"""
        import sys, anyio
        from backchannel.client.stdio import StdioServer, StdioTransport
        async def main():
            transport = StdioTransport(StdioServer(sys.executable, sys.argv[1], grace=0.1))
            heard = anyio.Event()
            await transport.open(lambda message: heard.set(), print)
            await heard.wait()
            print(transport.pid)
        anyio.run(main, backend={backend!r})
        """,
        "program.py",
    )
    command = [sys.executable, str(program), str(script(STUBBORN))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    assert gone(int(done.stdout))


# Starting it again


@pytest.mark.anyio
async def test_a_server_that_crashes_is_started_again_so_many_times(script: Callable[..., Path]) -> None:
    path = script("""
        for message in lines():
            if message["method"] == "die":
                sys.exit(3)
            answer(message["id"], os.getpid())
    """)
    transport, ear = StdioTransport(StdioServer(sys.executable, path, restart=2, stderr="capture")), Ear()
    with anyio.fail_after(2 * BOUND):
        await transport.open(ear.receive, ear.lost)
        pids = set()
        for death in range(1, 4):
            await transport.send(Request(death, "ping"))
            await ear.hear(death)
            pids.add(ear.results[-1])
            assert ear.results[-1] == transport.pid
            await transport.send(Notification("die"))
            await ear.until(lambda death=death: len(ear.losses) == death)
        assert [type(loss) for loss in ear.losses] == [SessionGone, SessionGone, ConnectionLost]
        assert all("exited with code 3" in str(loss) for loss in ear.losses)
        with pytest.raises(ConnectionLost, match="exited with code 3"):
            await transport.send(Request(9, "ping"))
        await transport.close()
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)


@pytest.mark.anyio
async def test_after_a_long_life_a_death_is_the_first_again(
    script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "_STABLE", 0.0)
    path = script("next(lines())\n")
    transport, ear = StdioTransport(StdioServer(sys.executable, path, restart=1, stderr="capture")), Ear()
    with anyio.fail_after(2 * BOUND):
        await transport.open(ear.receive, ear.lost)
        for death in range(1, 4):
            await transport.send(Notification("die"))
            await ear.until(lambda death=death: len(ear.losses) == death)
        await transport.close()
    assert [type(loss) for loss in ear.losses] == [SessionGone] * 3


@pytest.mark.anyio
async def test_a_command_that_is_not_there_any_more_is_the_end(script: Callable[..., Path], tmp_path: Path) -> None:
    command = tmp_path / "server"
    command.write_text(f"#!{sys.executable}\nimport sys\nsys.stdin.readline()\n")
    command.chmod(0o755)
    transport, ear = StdioTransport(StdioServer(command, restart=5, stderr="capture")), Ear()
    with anyio.fail_after(2 * BOUND):
        await transport.open(ear.receive, ear.lost)
        command.unlink()
        await transport.send(Notification("die"))
        await ear.until(lambda: len(ear.losses) == 2)
        assert [type(loss) for loss in ear.losses] == [SessionGone, ConnectionLost]
        assert "cannot launch" in str(ear.losses[1])
        with pytest.raises(ConnectionLost):
            await transport.send(Notification("n"))
        await transport.close()


@pytest.mark.anyio
@pytest.mark.case("G04")
async def test_closed_while_it_waits_to_be_started_again(script: Callable[..., Path]) -> None:
    path = script("sys.exit(1)\n")
    transport, ear = StdioTransport(StdioServer(sys.executable, path, restart=100, stderr="capture")), Ear()
    with anyio.fail_after(BOUND):
        await transport.open(ear.receive, ear.lost)
        await ear.until(lambda: len(ear.losses) >= 3)
        sending = anyio.Event()

        async def send() -> None:
            sending.set()
            with pytest.raises(ConnectionLost):
                while True:
                    await transport.send(Notification("n"))

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await sending.wait()
            await transport.close()
    assert gone(transport.pid)
    assert all(type(loss) is SessionGone for loss in ear.losses)


SERVED = """
    from pathlib import Path

    from backchannel import Context, Server, run

    server = Server("s")
    log = Path(sys.argv[1])

    @server.tool(annotations={"readOnlyHint": True})
    async def look(ctx: Context) -> str:
        log.write_text(log.read_text() + "look\\n")
        if log.read_text().count("look") == 1:
            os._exit(3)
        return "seen"

    @server.tool
    async def pay(ctx: Context) -> str:
        log.write_text(log.read_text() + "pay\\n")
        if log.read_text().count("pay") == 1:
            os._exit(3)
        return "paid"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).unwrap()

    run(server)
"""


@pytest.mark.anyio
@pytest.mark.rule("R116")
@pytest.mark.case("C06", "F04")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_calls_go_on_with_a_server_that_was_started_again(
    version: str, script: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("")
    server = StdioServer(
        sys.executable, script(SERVED), log, restart=3, stderr="capture", env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    with anyio.fail_after(2 * BOUND):
        async with Client(server, version=version, elicit=lambda question: {"value": "Ada"}) as client:
            assert len([tool async for tool in client.tools()]) == 3
            assert (await client.call_tool("look")).text == "seen", "it may run twice, so it did"
            with pytest.raises(OutcomeUnknown, match="exited with code 3") as caught:
                await client.call_tool("pay")
            assert log.read_text() == "look\nlook\npay\n"
            assert (await client.resume(caught.value.pending)).text == "paid"
            assert (await client.call_tool("ask")).text == "Ada"
            assert client.gauges().reconnects == 2
