"""The README: its two programs do what they say, and its commands run as they are written."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from backchannel import Client, StdioServer
from tests.cli.programs import COMMAND, PATIENCE, environment, served
from tests.gates.source import ROOT
from tests.gates.test_docs import blocks, readme_commands


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the README's programs, under the names in their first lines."""
    for _, code in blocks(ROOT / "README.md", "python"):
        if named := re.match(r"# (\w+\.py)\n", code):
            (tmp_path / named[1]).write_text(code, encoding="utf-8")
    return tmp_path


def command(beginning: str) -> list[str]:
    """The README's shortest command that begins so, as arguments of the command line."""
    found = min((one for one in readme_commands() if one.startswith(beginning)), key=len)
    return shlex.split(found)[1:]


def answered(arguments: list[str], place: Path) -> str:
    """Run `backchannel` and order one large coffee. Returns what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=place,
        env={**environment(), "PATH": path},
        input="large\n\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_programs_have_the_length_that_was_promised(place: Path) -> None:
    sizes = {path.name: len(re.findall(r"\S.*\n", path.read_text(encoding="utf-8"))) for path in place.iterdir()}
    assert sizes["shop.py"] <= 25 and sizes["client.py"] <= 12


def test_the_client(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "client.py"],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr) == ("Ticket 1: 1 large for Ada\n", "")


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["legacy", "modern"])
async def test_run(place: Path, version: str) -> None:
    target = StdioServer(*COMMAND, *command("backchannel run shop.py"), cwd=place, env=environment())
    async with Client(target, elicit=lambda _: {"size": "small", "cups": 2}, version=version) as client:
        assert (await client.call_tool("coffee", {"name": "Ada"})).text == "Ticket 1: 2 small for Ada"


def test_run_http_and_call(place: Path) -> None:
    run, call = command("backchannel run shop.py --http"), command("backchannel call http:")
    assert run[:2] == ["run", "shop.py"] and call[1] == f"http://{run[-1]}/mcp"
    with served(run[1], cwd=place) as url:
        assert answered(["call", url, *call[2:]], place) == "Ticket 1: 1 large for Ada\n"


@pytest.mark.parametrize("beginning", ["backchannel call shop.py", 'backchannel call "python'])
def test_call(place: Path, beginning: str) -> None:
    assert "Ticket 1: 1 large for Ada" in answered(command(beginning), place)


def test_call_from_a_configuration(place: Path) -> None:
    shop = {"command": "python", "args": ["shop.py"], "env": {"PYTHONPATH": environment()["PYTHONPATH"]}}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": shop}}), encoding="utf-8")
    assert answered(command("backchannel call mcp.json"), place) == "Ticket 1: 1 large for Ada\n"


def test_list(place: Path) -> None:
    assert "coffee name=…  Order coffee for somebody." in answered(command("backchannel list"), place)
