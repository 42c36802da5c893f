"""The cells of the reference server for files (@modelcontextprotocol/server-filesystem), which knows its directories
from the roots of the client alone."""

from __future__ import annotations

from pathlib import Path

from tests.interop.servers.line import Line


async def allowed(line: Line, folder: Path) -> None:
    """Wait until the server has these roots. It asks for them in its own time, so one looks until it has."""
    while str(folder) not in (await line.call("list_allowed_directories")).text.splitlines():
        pass


async def lists(line: Line) -> None:
    assert {"read_text_file", "write_file", "list_allowed_directories"} <= await line.names()


async def calls(line: Line) -> None:
    await allowed(line, line.host.folder)
    note = line.host.folder / "called.txt"
    await line.call("write_file", path=str(note), content="grüß dich")
    assert note.read_text(encoding="utf-8") == "grüß dich"


async def structured_output(line: Line) -> None:
    await allowed(line, line.host.folder)
    note = line.host.folder / "structured.txt"
    note.write_text("one\ntwo\n", encoding="utf-8")
    result = await line.call("read_text_file", path=str(note), head=1)
    assert (result.structured_content, result.text) == ({"content": "one"}, "one")


async def errors(line: Line) -> None:
    await allowed(line, line.host.folder)
    assert "Access denied" in await line.failure("read_text_file", path="/etc/hostname")


async def roots(line: Line) -> None:
    """Those of the beginning, and others later."""
    first, later = line.host.folder, line.host.folder.with_name("later")
    later.mkdir(exist_ok=True)
    await allowed(line, first)
    await line.client.set_roots([later])
    await allowed(line, later)
    assert "Access denied" in await line.failure("list_directory", path=str(first))
    await line.client.set_roots([first])
    await allowed(line, first)


CHECKS = {"list": lists, "call": calls, "structured output": structured_output, "error": errors, "roots": roots}
