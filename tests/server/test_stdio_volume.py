"""The stdio driver under load: many requests, big messages, a client that does not read."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.raw_child import Child, call, line, text
from tests.server.raw_child import write_server as write

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
YES = {"action": "accept", "content": {"value": True}}
LIMITED = """
server = Server("raw", limits=Limits(message=1_000_000))

@server.tool
async def echo(text: str) -> str:
    return text

@server.tool
async def ask(ctx: Context) -> str:
    return str(await ctx.elicit("Go on?", bool))
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    return lambda body="", **options: write(tmp_path, body, **options)


@ERAS
@pytest.mark.parametrize("count", [1000, 5000])
def test_many_requests_at_once(script: Callable[..., Path], modern: bool, count: int) -> None:
    with Child(script()) as child:
        child.ready()
        child.send(*(call(id, "echo", modern=modern, text=str(id)) for id in range(count)))
        answers = [child.receive() or {} for _ in range(count)]
        assert {answer["id"]: text(answer) for answer in answers} == {id: str(id) for id in range(count)}


def test_a_client_that_does_not_read_gets_every_response_in_the_end(tmp_path: Path) -> None:
    count = 30_000
    requests, answers = tmp_path / "in", tmp_path / "out"
    requests.write_bytes(b"".join(json.dumps(line(id, "ping")).encode() + b"\n" for id in range(count)))
    with (
        requests.open("rb") as stdin,
        subprocess.Popen([sys.executable, write(tmp_path)], stdin=stdin, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdout is not None
        head = server.stdout.readline()  # it runs, and soon blocks on a full pipe
        with answers.open("wb") as out:
            out.write(head + server.stdout.read())
    assert [json.loads(answer)["id"] for answer in answers.read_bytes().splitlines()] == list(range(count))


def peak(child: Child) -> int:
    """The most memory that the process ever had, in bytes."""
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.case("H08")
@ERAS
@pytest.mark.parametrize("way", ["result", "argument"])
def test_big_messages(script: Callable[..., Path], modern: bool, way: str) -> None:
    body = """
    @server.tool
    async def result(size: int):
        return "x" * size

    @server.tool
    async def argument(text: str):
        return str(len(text))
    """
    with Child(script(body)) as child:
        child.ready()
        for size in (1, 100_000, 5_000_000):
            before = peak(child)
            data: Any = {"size": size} if way == "result" else {"text": "y" * size}
            child.send(call(size, way, modern=modern, **data))
            assert text(child.response(size)) == ("x" * size if way == "result" else str(size))
        assert peak(child) - before < 4 * size


@pytest.mark.case("H08")
@pytest.mark.parametrize("last", [False, True], ids=["id-first", "id-last"])
def test_a_message_over_the_limit_is_refused_by_its_id(script: Callable[..., Path], last: bool) -> None:
    with Child(script(tools=LIMITED)) as child:
        child.ready(elicitation={"form": {}})
        big = call("big", "echo", text="x" * 5_000_000)
        if last:
            big["id"] = big.pop("id")
        child.send(big)
        error = child.response("big")["error"]
        size = len(json.dumps(big))
        assert error["code"] == -32600 and f"{size} bytes" in error["message"] and "1000000" in error["message"]
        child.send(call(1, "echo", text="still here"), call(2, "ask"))
        assert text(child.response(1)) == "still here"
        question = child.until("elicitation/create")
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": {**YES, "_meta": {"x": "x" * 1_000_000}}})
        # The handler does not wait for ever for an answer that was too big.
        assert "answer cannot be read" in json.dumps(child.response(2))


@pytest.mark.case("H08")
def test_fifty_megabytes_where_the_limit_is_raised(script: Callable[..., Path]) -> None:
    size = 50_000_000
    with Child(script(tools=LIMITED.replace("1_000_000", "60_000_000"))) as child:
        child.ready()
        child.send(call(1, "echo", text="x" * size))
        assert text(child.response(1)) == "x" * size
