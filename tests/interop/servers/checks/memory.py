"""The cells of the reference server for a knowledge graph (@modelcontextprotocol/server-memory)."""

from __future__ import annotations

from tests.interop.servers.line import Line

ADA = {"name": "Ada", "entityType": "person", "observations": ["takes it black"]}


async def lists(line: Line) -> None:
    assert {"create_entities", "read_graph", "search_nodes"} <= await line.names()


async def calls(line: Line) -> None:
    await line.call("create_entities", entities=[ADA])
    assert "takes it black" in await line.text("search_nodes", query="Ada")


async def structured_output(line: Line) -> None:
    await line.call("create_entities", entities=[ADA])
    graph = (await line.call("read_graph")).structured_content
    assert graph == {"entities": [ADA], "relations": []}


async def errors(line: Line) -> None:
    added = [{"entityName": "Nobody", "contents": ["takes none"]}]
    assert "Nobody" in await line.failure("add_observations", observations=added)


CHECKS = {"list": lists, "call": calls, "structured output": structured_output, "error": errors}
