"""cli/keyboard.py at a pseudo-terminal, and with lines from a pipe."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backchannel.cli.keyboard import Keyboard
from backchannel.cli.terminal import Terminal
from backchannel.protocol.types.content import ImageContent, TextContent
from backchannel.protocol.types.elicitation import ElicitParams
from backchannel.protocol.types.sampling import CreateMessageParams, SamplingMessage
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
        typist.sees('Size: expected one of "small", "large", got "medium"')
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


def test_lines_from_a_pipe(place: Path) -> None:
    done = backchannel("call", "asker.py", "order", cwd=place, typed="small\n3")
    assert (done.returncode, done.stdout) == (0, "Accepted(value=Coffee(size='small', cups=3))\n"), done.stderr


def test_the_end_of_the_pipe_cancels(place: Path) -> None:
    done = backchannel("call", "asker.py", "order", cwd=place, typed="small\n")
    assert done.returncode == 0 and "Cancelled(" in done.stdout, done.stderr


class Script(Terminal):
    """A terminal with lines to type, and what it showed."""

    def __init__(self, lines: str):
        super().__init__()
        self.lines = lines.splitlines()
        self.shown = ""

    def say(self, text: str = "") -> None:
        self.shown += text + "\n"

    async def ask(self, prompt: str, words: Sequence[str] = ()) -> str:
        self.shown += prompt
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


FORM = {"properties": {"cups": {"type": "integer", "description": "How many"}, "note": {}}, "required": ["cups"]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (FORM, "many\n2\nhot", {"cups": 2, "note": "hot"}),
        (FORM, "2\n\n", {"cups": 2}),
        (FORM, "2\n!no", "decline"),
        (FORM, "!cancel", "cancel"),
        (FORM, "2", "cancel"),
        (None, "perhaps\ny", {}),
        (None, "n", "decline"),
        (None, "!no", "decline"),
        (None, "", "cancel"),
    ],
)
async def test_forms(schema: dict[str, Any] | None, typed: str, answer: Any) -> None:
    script = Script(typed)
    assert await Keyboard(script).elicit(ElicitParams("Coffee?", requested_schema=schema)) == answer
    assert "The server asks: Coffee?" in script.shown
    assert ("How many" in script.shown) is (schema is FORM)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("typed", "answer"),
    [("yes", "accept"), ("no", "decline"), ("!no", "decline"), ("!cancel", "cancel"), ("", "cancel")],
)
async def test_pages(typed: str, answer: str) -> None:
    script = Script(typed)
    assert await Keyboard(script).elicit_url(ElicitParams("Sign in", "url", url="https://example.com/in")) == answer
    assert "https://example.com/in\n  (on the host example.com)" in script.shown


@pytest.mark.anyio
async def test_a_completion_shows_the_conversation() -> None:
    script = Script("Go!")
    image = ImageContent("AAAA", "image/png")
    messages = [SamplingMessage("user", TextContent("A slogan")), SamplingMessage("assistant", [image])]
    assert await Keyboard(script).sample(CreateMessageParams(messages, 10)) == "Go!"
    assert "  user: A slogan\n  assistant: <ImageContent>\n" in script.shown


@pytest.mark.parametrize("version", ["legacy", "modern"])
def test_a_completion_that_is_refused_is_an_error(place: Path, version: str) -> None:
    done = backchannel("call", "asker.py", "slogan", "--version", version, cwd=place, typed="!no\n")
    assert done.returncode in (1, 4)
    assert "User rejected sampling request" in done.stdout + done.stderr


def test_the_result_alone_is_on_stdout(place: Path) -> None:
    done = backchannel("call", "asker.py", "agree", "--json", cwd=place, typed="y\n")
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "Accepted(value=None)"}]
