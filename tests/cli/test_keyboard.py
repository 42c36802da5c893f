"""cli/keyboard.py at a pseudo-terminal, and with lines from a pipe."""

import json
from pathlib import Path

import pytest

from tests.cli.programs import Typist, backchannel

SERVER = """
from typing import Literal
from pydantic import BaseModel
from backchannel import Context, Server

server = Server("asker")

class Coffee(BaseModel):
    size: Literal["small", "large"]
    cups: int = 1

@server.tool
async def order(ctx: Context) -> str:
    return repr(await ctx.elicit("Which \\x1b[31mcoffee?", Coffee))

@server.tool
async def agree(ctx: Context) -> str:
    return repr(await ctx.elicit("The terms are fine?"))

@server.tool
async def page(ctx: Context) -> str:
    return repr(await ctx.elicit_url("Sign in", "https://example.com/sign-in"))

@server.tool
async def slogan(ctx: Context) -> str:
    return (await ctx.sample("A slogan")).text

@server.tool
async def both(ctx: Context) -> str:
    a, b = await ctx.gather(ctx.elicit("First?", str), ctx.elicit("Second?", int))
    return f"{a.unwrap()} {b.unwrap()}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "asker.py").write_text(SERVER, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_an_answer_after_an_invalid_one(place: Path, version: str) -> None:
    with Typist("call", "asker.py", "order", "--version", version, cwd=place) as typist:
        typist.sees("The server asks: Which \\x1b[31mcoffee?")
        typist.sees("Size (small, large):")
        typist.types("medium")
        typist.sees('size expected one of "small", "large", got "medium"')
        typist.sees("Size (small, large):")
        typist.types("Large")
        typist.sees("Cups (integer) [1]:")
        typist.types("")
        assert typist.ends() == 0
    assert "Accepted(value=Coffee(size='large', cups=1))" in typist.shown


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_declining(place: Path, version: str) -> None:
    with Typist("call", "asker.py", "order", "--version", version, cwd=place) as typist:
        typist.sees("Size (small, large):")
        typist.types("!no")
        assert typist.ends() == 0
    assert "Declined(" in typist.shown


@pytest.mark.parametrize("typed", ["!cancel", "\x03", "\x04"], ids=["word", "ctrl-c", "ctrl-d"])
def test_cancelling(place: Path, typed: str) -> None:
    with Typist("call", "asker.py", "order", cwd=place) as typist:
        typist.sees("Size (small, large):")
        typist.types(typed)
        assert typist.ends() == 0
    assert "Cancelled(" in typist.shown


def test_questions_that_come_at_once_are_asked_one_after_the_other(place: Path) -> None:
    with Typist("call", "asker.py", "both", cwd=place) as typist:
        typist.sees("First?")
        typist.sees("Answer (text):")
        typist.types("a")
        typist.sees("Second?")
        typist.sees("Answer (integer):")
        typist.types("2")
        assert typist.ends() == 0
    assert "a 2" in typist.shown


@pytest.mark.parametrize(
    ("tool", "typed", "printed"),
    [
        ("agree", "perhaps\ny\n", "Accepted(value=None)"),
        ("agree", "n\n", "Declined("),
        ("agree", "!no\n", "Declined("),
        ("agree", "", "Cancelled("),
        ("page", "yes\n", "Accepted(value=None)"),
        ("page", "no\n", "Declined("),
        ("page", "!no\n", "Declined("),
        ("page", "!cancel\n", "Cancelled("),
        ("slogan", "Go!\n", "Go!"),
        ("order", "small\n3", "Coffee(size='small', cups=3)"),
    ],
)
def test_lines_from_a_pipe(place: Path, tool: str, typed: str, printed: str) -> None:
    done = backchannel("call", "asker.py", tool, cwd=place, typed=typed)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert "The server" in done.stderr


def test_a_page_is_shown_with_its_host(place: Path) -> None:
    done = backchannel("call", "asker.py", "page", cwd=place, typed="y\n")
    assert "https://example.com/sign-in\n  (on the host example.com)" in done.stderr


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_a_completion_that_is_refused_is_an_error(place: Path, version: str) -> None:
    done = backchannel("call", "asker.py", "slogan", "--version", version, cwd=place, typed="!no\n")
    assert done.returncode in (1, 4)
    assert "User rejected sampling request" in done.stdout + done.stderr


def test_the_result_alone_is_on_stdout(place: Path) -> None:
    done = backchannel("call", "asker.py", "agree", "--json", cwd=place, typed="y\n")
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "Accepted(value=None)"}]
