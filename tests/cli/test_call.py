"""`backchannel call`: targets, arguments, output and exit codes."""

import http.server
import json
import re
import shlex
import threading
from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, backchannel, served

SERVER = """
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
async def talk(ctx: Context) -> str:
    print("printed")
    await ctx.log("debug", "not this")
    await ctx.log("info", "first")
    await ctx.log("warning", {"n": 1}, logger="shop")
    return "done"
"""

VARIABLES = """
import os
from backchannel import Server

server = Server("vars")

@server.tool
def shown() -> str:
    return os.environ.get("A_KEY", "none")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "bad.py").write_text("server = (", encoding="utf-8")
    return tmp_path


RUN = shlex.join([*COMMAND, "run", "tools.py"])


@pytest.mark.parametrize(
    ("target", "version"),
    [("tools.py", "auto"), ("tools:server", "2025-03-26"), (RUN, "auto"), (RUN, "legacy"), (RUN, "modern")],
)
def test_targets(place: Path, target: str, version: str) -> None:
    done = backchannel("call", target, "echo", "text=7", "count=2", "--version", version, cwd=place)
    assert (done.returncode, done.stdout) == (0, "77\n"), done.stderr
    assert done.stderr == ""  # where it is no terminal, progress is not shown


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
        (["tools.py", "echo", "txet=a"], 2, "the tool 'echo' has no argument 'txet'; did you mean 'text'?"),
        (["tools.py", "fail", "a=b"], 2, "the tool 'fail' has no argument 'a'; it has none"),
        (["bad.py", "echo"], 2, "cannot import bad.py: bad.py:1: SyntaxError: "),
        (["bad:server", "echo"], 2, "cannot import bad: bad.py:1: SyntaxError: "),
        (["tools.py", "echo", "count=many"], 2, "the argument 'count' takes an integer, not 'many'"),
        (["tools.py", "echo", "--log-level", "loud"], 2, "there is no log level 'loud'; give one of debug, info"),
        (["tools.py", "echo", "--version", "1999-12-31"], 2, "'1999-12-31'; give one of auto, legacy, modern, 20"),
        (["tools.py", "echo", "--header", "none"], 2, "'none' is no header"),
        (["tools.py", "echo", "--header", "a: b"], 2, "--header is for a server at a URL"),
        (["tools.py", "echo", "--env", "a=b"], 2, "--env is for a command that is launched"),
        (["sh x", "echo", "--env", "NOT_SET_ANYWHERE"], 2, "'NOT_SET_ANYWHERE' is no variable"),
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


@pytest.mark.parametrize("version", ["legacy", "modern"])
@pytest.mark.parametrize("target", ["tools.py", RUN])
def test_what_the_server_says_goes_to_stderr(place: Path, target: str, version: str) -> None:
    done = backchannel("call", target, "talk", "--version", version, cwd=place)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert re.sub(r".*printed.*\n", "", done.stderr) == '[info] first\n[warning shop] {"n": 1}\n'
    assert "printed" in done.stderr
    done = backchannel("call", target, "talk", "--version", version, "--log-level", "none", cwd=place)
    assert "first" not in done.stderr and done.stdout == "done\n"


@pytest.mark.parametrize("version", ["auto", "legacy", "modern"])
def test_a_url_that_is_no_endpoint(place: Path, version: str) -> None:
    with served("tools.py", cwd=place) as url:
        done = backchannel("call", url.removesuffix("/mcp"), "echo", "text=a", "--version", version)
    assert "HTTP 404: is the endpoint /mcp?" in done.stderr
    assert done.returncode == (4 if version == "modern" else 3)


def test_variables_of_a_command(place: Path) -> None:
    (place / "vars.py").write_text(VARIABLES, encoding="utf-8")
    command = shlex.join([*COMMAND, "run", "vars.py"])
    done = backchannel("call", command, "shown", "--env", "A_KEY=1 2", "--env", "PYTHONPATH", cwd=place)
    assert (done.returncode, done.stdout) == (0, "1 2\n"), done.stderr


def test_a_server_without_sessions(place: Path) -> None:
    with served("tools.py", "--workers", "2", cwd=place, quiet=False) as url:
        done = backchannel("call", url, "echo", "text=a", "--version", "legacy", cwd=place)
        assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
        done = backchannel("list", url, "--version", "legacy", "--log-level", "info", cwd=place)
        assert done.returncode == 4 and "logging/setLevel needs a session" in done.stderr


DYING = """
import os
from backchannel import Server

server = Server("dying")

@server.tool
def die() -> None:
    os._exit(7)
"""


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_a_server_that_dies_under_a_call(place: Path, version: str) -> None:
    (place / "dying.py").write_text(DYING, encoding="utf-8")
    done = backchannel("call", shlex.join([*COMMAND, "run", "dying.py"]), "die", "--version", version, cwd=place)
    assert done.returncode == 3
    assert "nothing says whether 'die' ran" in done.stderr and "code 7" in done.stderr
    assert "resume" not in done.stderr and "Traceback" not in done.stderr


PAGES = """
from backchannel import Context, ElicitUrl, Server

server = Server("pages")

@server.tool
async def visit(ctx: Context, url: str) -> str:
    page = ElicitUrl("Sign in", "https://example.com")
    page.url = url  # unchecked, as other servers may be
    return type(await ctx.ask(page)).__name__
"""


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_pages_to_open(place: Path, version: str) -> None:
    (place / "pages.py").write_text(PAGES, encoding="utf-8")
    visit = ["call", shlex.join([*COMMAND, "run", "pages.py"]), "visit", "--version", version]
    done = backchannel(*visit, "url=https://ex\u00e4mple.com/in", cwd=place, typed="y\n")
    assert (done.returncode, done.stdout) == (0, "Accepted\n"), done.stderr
    assert "(on the host ex\u00e4mple.com, which is xn--exmple-cua.com)" in done.stderr
    for url, why in (("javascript:alert(1)", "javascript:"), ("file:///a", "file:"), ("https:///a", "no host")):
        done = backchannel(*visit, f"url={url}", cwd=place, typed="y\n")
        assert done.returncode in (1, 4)
        assert [line for line in done.stderr.splitlines() if why in line and url in line], done.stderr
        assert "Open this page" not in done.stderr


def test_credentials_that_are_missing(place: Path) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        address = f"127.0.0.1:{web.server_port}/mcp"
        done = backchannel("list", f"http://{address}", cwd=place)
        plain = backchannel("list", f"https://{address}", cwd=place)
        refused = backchannel("list", f"http://{address}", "--header", "Authorization: Bearer old", cwd=place)
        web.shutdown()
        thread.join()
    assert done.returncode == 3 and "with a token of your own, give --header 'Authorization: Bearer" in done.stderr
    hint = "wants credentials (HTTP 401); give another --header 'Authorization: Bearer TOKEN', or none, to log in\n"
    assert refused.returncode == 3 and refused.stderr.endswith(hint)
    assert plain.returncode == 3 and "the port may speak plain HTTP: try http://" in plain.stderr


def test_headers(place: Path) -> None:
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["x-key"])
            self.send_error(403, "Not for you")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{web.server_port}/mcp"
        done = backchannel("list", url, "--header", "X-Key: a: b", cwd=place)
        web.shutdown()
        thread.join()
    assert done.returncode == 3 and "HTTP 403" in done.stderr
    assert set(seen) == {"a: b"}


@pytest.mark.parametrize("command", ["list", "call", "read", "prompt", "complete", "listen"])
def test_help_says_what_there_is(command: str) -> None:
    text = " ".join(backchannel(command, "--help").stdout.split())
    assert all(
        word in text for word in ("--json", "--header", "--env", "--version", "--log-level", "CONFIG.json:ENTRY")
    )
    assert all(f"{code} " in text.partition("Exit codes:")[2] for code in (0, 1, 2, 3, 4, 130))
