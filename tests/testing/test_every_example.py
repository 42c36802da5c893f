"""Every example and every sample that runs is deterministic: replayed, it does what it does live."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backchannel import Server
from backchannel.cli import booking
from backchannel.cli.person import ScriptedPerson
from backchannel.testing import check, connect
from tests.gates.source import ROOT, SRC
from tests.gates.test_docs import SAMPLES, blocks

pytestmark = pytest.mark.rule("P10")
PROGRAMS = [
    path for path in sorted((ROOT / "examples").rglob("*.py")) if "__main__" in path.read_text(encoding="utf-8")
]
README = {code.splitlines()[0].removeprefix("# "): code for _, code in blocks(ROOT / "README.md", "python")}
ANSWERS: dict[str, Any] = {
    "Which day": {"date": "2026-12-24", "nights": 2},
    "Book 2": True,
    "slogan": "Come for a day, stay for the light",
}


def run(program: Path, cwd: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.testing.replayed", str(program)]
    path = os.pathsep.join([str(SRC), str(ROOT), str(program.parent)])
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples(program: Path, tmp_path: Path) -> None:
    run(program, tmp_path)


OTHERWISE = ("import accept, check", "Pending", "ctx.round")
"""What marks the samples that are about the difference between the wires."""
RUNS = [sample for sample in SAMPLES if str(sample.values[0]).startswith("# runs")]


@pytest.mark.parametrize("code", [one for one in RUNS if not any(part in str(one.values[0]) for part in OTHERWISE)])
def test_samples(code: str, tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(code, encoding="utf-8")
    run(tmp_path / "sample.py", tmp_path)


FLIP = """
import asyncio, itertools
from backchannel import Client, Context, Server

server, flips = Server("flip"), itertools.count()

@server.tool
async def flip(ctx: Context) -> str:
    return (await ctx.elicit(f"Heads, number {next(flips)}?", str)).unwrap()

async def main():
    async with Client(server, elicit=lambda _: {"value": "yes"}) as client:
        await client.call_tool("flip")

asyncio.run(main())
"""


def test_a_program_that_goes_another_way_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "flip.py").write_text(FLIP)
    with pytest.raises(AssertionError, match="took another way"):
        run(tmp_path / "flip.py", tmp_path)


def test_the_readme(tmp_path: Path) -> None:
    for name in ("shop.py", "client.py"):
        (tmp_path / name).write_text(README[name], encoding="utf-8")
    run(tmp_path / "client.py", tmp_path)


@pytest.mark.anyio
@pytest.mark.parametrize("how", [{"era": "legacy", "replay": "always"}, {"era": "modern", "replicas": 3}], ids=str)
async def test_the_booking_charges_once(how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger"
    monkeypatch.setenv(booking.LEDGER, str(ledger))
    async with connect(booking.server, people=ANSWERS, roots=ScriptedPerson.roots, **how) as client:
        result = await client.call_tool("book", {"city": "Oslo"})
    assert result.structured_content is not None and result.structured_content["booked"] is True
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.anyio
async def test_the_booking_does_nothing_again() -> None:
    report = await check(booking.server, "book", {"city": "Oslo"}, people=ANSWERS, roots=ScriptedPerson.roots)
    assert report.ok, report


@pytest.mark.anyio
async def test_the_serverless_function_does_nothing_again() -> None:
    report = await check(_server("serverless/function.py"), "book", {"city": "Oslo"}, people=[{"value": 2}, True])
    assert report.ok, report


def _server(program: str) -> Server:
    spec = importlib.util.spec_from_file_location("example", ROOT / "examples" / program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server: Server = module.server
    return server
