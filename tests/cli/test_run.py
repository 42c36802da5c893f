"""`backchannel run`: stdio and HTTP, and what is said when there is nothing to serve."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backchannel import Client, StdioServer
from tests.cli.programs import COMMAND, PATIENCE, backchannel, environment, served

SERVER = """
import subprocess, sys
from backchannel import Server
print("noise at import")
subprocess.run([sys.executable, "-c", "print('noise of a child')"], check=True)
server = Server("noisy")

@server.tool
def add(a: int, b: int = 1) -> int:
    print("noise in a handler")
    return a + b
"""

STORED = """
from backchannel import MemoryStateStore, RequestState, Server
server = Server("stored", state=RequestState(store=MemoryStateStore()))
"""


PROTECTED = """
from backchannel import BearerAuth, Context, MemoryStateStore, Principal, RequestState, Server, http_app
server = Server("shop")

async def verify(token: str) -> Principal | None:
    return Principal("ada") if token == "good" else None

@server.tool(scopes=[])
def who(ctx: Context) -> str:
    return ctx.principal.subject

auth = BearerAuth(verify=verify)
app = http_app(server, auth=auth, path="/shop", sessions=False)
with_sessions = http_app(server, auth=auth)
stored = http_app(Server("stored", state=RequestState(store=MemoryStateStore())), sessions=False)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "noisy.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "bad.py").write_text("\nimport no_such\n", encoding="utf-8")
    (tmp_path / "shop.py").write_text(PROTECTED, encoding="utf-8")
    (tmp_path / "stored.py").write_text(STORED, encoding="utf-8")
    return tmp_path


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["legacy", "modern", "auto"])
async def test_stdio_whatever_the_module_prints(place: Path, version: str) -> None:
    target = StdioServer(*COMMAND, "run", "noisy.py", cwd=place, env=environment(), stderr="capture")
    async with Client(target, version=version) as client:
        assert (await client.call_tool("add", {"a": 2})).text == "3"


@pytest.mark.parametrize("given", ["noisy.py", "noisy:server"])
def test_http(place: Path, given: str) -> None:
    with served(given, cwd=place) as url:
        for version in ("legacy", "modern"):
            done = backchannel("call", url, "add", "a=2", "--version", version)
            assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_app_is_served_with_its_settings(place: Path, workers: str) -> None:
    with served("shop.py:app", "--workers", workers, cwd=place) as url:
        assert url.endswith("/shop")
        done = backchannel("call", url, "who", "--header", "Authorization: Bearer good")
        assert (done.returncode, done.stdout) == (0, "ada\n"), done.stderr
        assert backchannel("call", url, "who", "--header", "Authorization: Bearer other").returncode == 3


def test_http_ends_at_once_when_it_is_interrupted(place: Path) -> None:
    command = [*COMMAND, "run", "noisy.py", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=place, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with process:
        assert process.stderr is not None and b"is served at" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing:server"], "there is no module 'nothing'"),
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["noisy.py:other"], "noisy.py has no 'other'"),
        (["noisy.py:add"], "noisy.py:add is not a backchannel.Server or an app of http_app(), but of type function"),
        (["bad.py"], "cannot import bad.py: bad.py:2: ModuleNotFoundError: No module named 'no_such'"),
        (["bad.py", "--http", "127.0.0.1:0"], "cannot import bad.py: bad.py:2: ModuleNotFoundError"),
        (["stored.py", "--http", "127.0.0.1:0", "--workers", "2"], "a MemoryStateStore is for one process"),
        (["shop.py:app"], "an app of http_app() is for HTTP: give --http HOST:PORT too"),
        (["shop:with_sessions", "--http", "127.0.0.1:0", "--workers", "2"], "or sessions=False"),
        (["shop.py:stored", "--http", "127.0.0.1:0", "--workers", "2"], "a MemoryStateStore is for one process"),
        (["noisy.py", "--workers", "2"], "--workers is a number of processes"),
        (["noisy.py", "--http", "127.0.0.1:0", "--workers", "0"], "--workers is a number of processes"),
        (["noisy.py", "--http", "here"], "'here' is no address to listen on"),
        ([], "SERVER"),
        (["noisy.py", "--https", "x"], "--https"),
    ],
)
def test_usage_errors(place: Path, arguments: list[str], why: str) -> None:
    done = backchannel("run", *arguments, cwd=place)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout in ("", "noise at import\nnoise of a child\n")


def test_an_address_that_is_taken(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = backchannel("run", "noisy.py", "--http", f"127.0.0.1:{taken.getsockname()[1]}", cwd=place)
    assert done.returncode == 2
    assert "cannot listen on 127.0.0.1:" in done.stderr


@pytest.mark.parametrize("extra", ["cyclopts"])
def test_without_the_extra_it_says_so(extra: str) -> None:
    code = f"import sys; sys.modules[{extra!r}] = None; from backchannel.cli import main; sys.exit(main(['demo']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "pip install 'backchannel[cli]'" in done.stderr


def test_help_and_version() -> None:
    done = backchannel("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("demo", "run", "call"))
    assert backchannel("--version").stdout.strip().count(".") == 2
    assert backchannel("no-such-command").returncode == 2
