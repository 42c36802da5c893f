"""Big messages over HTTP cost a server no more than a few times their size."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.programs import served
from tests.server.http.wire import Wire, call, text

pytestmark = pytest.mark.anyio
SERVER = """
from pathlib import Path
from backchannel import Server

server = Server("big")

@server.tool
async def length(value: str) -> str:
    return str(len(value))

@server.tool
async def repeat(size: int) -> str:
    return "x" * size

@server.tool
async def peak() -> str:
    status = Path("/proc/self/status").read_text()
    return status.partition("VmHWM:")[2].split()[0]
"""


@pytest.mark.case("H08")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("way", ["argument", "result"])
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_a_big_message_takes_less_than_four_times_its_size(tmp_path: Path, way: str, modern: bool) -> None:
    (tmp_path / "big.py").write_text(SERVER, encoding="utf-8")
    size = 5_000_000
    with served("big.py", cwd=tmp_path) as url:
        there = Wire(urlsplit(url).port or 0)
        post = there.modern if modern else (await there.session()).post

        async def result(tool: str, **arguments: object) -> str:
            return text(await (await post(call(tool, **arguments))).json())

        for small in (1, 100_000):
            assert await result("length", value="x" * small) == str(small)
            assert len(await result("repeat", size=small)) == small
        before = int(await result("peak")) * 1024
        if way == "argument":
            assert await result("length", value="x" * size) == str(size)
        else:
            assert len(await result("repeat", size=size)) == size
        assert int(await result("peak")) * 1024 - before < 4 * size
        await there.close()
