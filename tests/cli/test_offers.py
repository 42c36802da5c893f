"""`backchannel list`, `read`, `prompt`, `complete` and `listen`."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, PATIENCE, backchannel, environment, served

SERVER = '''
from backchannel import Context, Server

server = Server("notes")

@server.tool
async def add(ctx: Context, text: str, mark: bool = False) -> str:
    """Add a note.

    Args:
        text: what it says
    """
    await server.notify.resource_updated("note://1")
    return text

@server.resource("note://1", description="The first note")
def first() -> str:
    return "Buy milk"

@server.resource("note://{id}/picture", mime_type="image/png")
def picture(id: str) -> bytes:
    return b"\\x89PNG" + id.encode()

@server.prompt
async def summarise(ctx: Context, id: str) -> str:
    """Summarise a note."""
    words = (await ctx.elicit("How many words?", int)).unwrap()
    return f"Summarise note {id} in {words} words"

@server.completion("summarise", "id")
def ids(value: str, known: dict[str, str]) -> list[str]:
    return [*(id for id in ("1", "12", "2") if id.startswith(value)), *known]
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "notes.py").write_text(SERVER, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_list(place: Path, version: str) -> None:
    done = backchannel("list", "notes.py", "--version", version, cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n\n") == [
        "tools\n  add text=… [mark=…]  Add a note.",
        "resources\n  note://1  The first note",
        "templates\n  note://{id}/picture",
        "prompts\n  summarise id=…  Summarise a note.\n",
    ]


def test_list_as_json(place: Path) -> None:
    listed = json.loads(backchannel("list", "notes.py", "--json", cwd=place).stdout)
    assert [tool["name"] for tool in listed["tools"]] == ["add"]
    assert listed["templates"][0]["uriTemplate"] == "note://{id}/picture"


def test_list_of_a_server_without_anything_but_tools(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("from backchannel import Server\nserver = Server('empty')\n")
    assert backchannel("list", "empty.py", cwd=tmp_path).stdout == "This server offers nothing.\n"


def test_read(place: Path) -> None:
    assert backchannel("read", "notes.py", "note://1", cwd=place).stdout == "Buy milk\n"
    told = json.loads(backchannel("read", "notes.py", "note://1", "--json", cwd=place).stdout)
    assert told["contents"][0]["text"] == "Buy milk"
    command = [*COMMAND, "read", "notes.py", "note://7/picture"]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, timeout=PATIENCE)
    assert done.stdout == b"\x89PNG7"


def test_read_what_is_not_there(place: Path) -> None:
    done = backchannel("read", "notes.py", "note://none", cwd=place)
    assert done.returncode == 4 and "note://none: Resource not found" in done.stderr


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_prompt(place: Path, version: str) -> None:
    done = backchannel("prompt", "notes.py", "summarise", "id=1", "--version", version, cwd=place, typed="20\n")
    assert done.stdout.splitlines()[-1] == "user: Summarise note 1 in 20 words", done.stderr


def test_prompt_with_what_is_no_argument(place: Path) -> None:
    done = backchannel("prompt", "notes.py", "summarise", "id", cwd=place)
    assert done.returncode == 2 and "key=value" in done.stderr


def test_prompt_as_json(place: Path) -> None:
    done = backchannel("prompt", "notes.py", "summarise", "id=1", "--json", cwd=place, typed="20\n")
    assert json.loads(done.stdout)["messages"][0]["content"]["text"] == "Summarise note 1 in 20 words"


def test_a_prompt_that_is_not_there(place: Path) -> None:
    done = backchannel("prompt", "notes.py", "sumarise", cwd=place)
    assert done.returncode == 2
    assert done.stderr == "backchannel: the server has no prompt 'sumarise'; did you mean 'summarise'?\n"
    (place / "bare.py").write_text("from backchannel import Server\nserver = Server('bare')\n", encoding="utf-8")
    done = backchannel("prompt", "bare.py", "summarise", cwd=place)
    assert done.returncode == 2 and "the server has no prompt 'summarise'; it has none" in done.stderr
    done = backchannel("prompt", "notes.py", "summarise", "ids=1", cwd=place)
    assert done.returncode == 2 and "the prompt 'summarise' has no argument 'ids'; did you mean 'id'?" in done.stderr


def test_complete(place: Path) -> None:
    done = backchannel("complete", "notes.py", "--prompt", "summarise", "id=1", cwd=place)
    assert (done.returncode, done.stdout) == (0, "1\n12\n"), done.stderr
    done = backchannel("complete", "notes.py", "--prompt", "summarise", "words=3", "id=", "--json", cwd=place)
    assert json.loads(done.stdout)["values"] == ["1", "12", "2", "words"]
    for wrong in (["id=1"], ["--prompt", "summarise"], ["--prompt", "a", "--template", "b", "id="]):
        done = backchannel("complete", "notes.py", *wrong, cwd=place)
        assert done.returncode == 2 and "give --prompt NAME or --template URI" in done.stderr


@pytest.mark.parametrize("command", ["list", "read", "prompt"])
def test_a_command_after_two_dashes(place: Path, command: str) -> None:
    given = {"list": [], "read": ["note://1"], "prompt": ["summarise", "id=1"]}[command]
    told = {"list": "note://1", "read": "Buy milk", "prompt": "in 20 words"}[command]
    done = backchannel(command, *given, "--", *COMMAND, "run", "notes.py", cwd=place, typed="20\n")
    assert done.returncode == 0 and told in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["list", "read", "prompt", "listen"])
def test_no_connection(place: Path, command: str) -> None:
    given = {"list": [], "read": ["note://1"], "prompt": ["summarise"], "listen": []}[command]
    done = backchannel(command, "http://127.0.0.1:1/mcp", *given, cwd=place)
    assert done.returncode == 3 and "127.0.0.1:1" in done.stderr


def test_nobody_reads_the_results(place: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "list", "notes.py"]
    with open(writer, "wb") as gone:
        done = subprocess.run(
            command, cwd=place, env=environment(), stdout=gone, stderr=subprocess.PIPE, timeout=PATIENCE
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("version", "options", "line"),
    [
        ("legacy", [], "resource note://1"),
        ("modern", [], "resource note://1"),
        ("modern", ["--json"], '{"kind":"resource","uri":"note://1"}'),
    ],
)
def test_listen(place: Path, version: str, options: list[str], line: str) -> None:
    with served("notes.py", cwd=place) as url:
        command = [*COMMAND, "listen", url, "note://1", "--version", version, *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        listener = subprocess.Popen(command, cwd=place, env=environment(), text=True, **pipes)
        assert listener.stdout is not None and listener.stderr is not None
        try:
            assert "note://1" in listener.stderr.readline()
            assert backchannel("call", url, "add", "text=x", cwd=place).returncode == 0
            assert listener.stdout.readline() == f"{line}\n"
        finally:
            listener.send_signal(signal.SIGINT)
            listener.communicate(timeout=PATIENCE)
        assert listener.returncode == 130
