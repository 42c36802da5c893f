"""The client that the official conformance suite runs: one process for each scenario, the server's URL last.

    MCP_CONFORMANCE_SCENARIO=tools_call python conformance/client.py http://127.0.0.1:3000/mcp

Written with the public API only. The exit status is 0 unless something was raised.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from backchannel import Client

Scenario = Callable[[Client], Awaitable[None]]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
TIMEOUT = 110.0  # seconds for everything


async def names(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


async def listing(client: Client) -> None:
    """initialize, json-schema-ref-no-deref: look at the tools and call none."""
    await names(client)


async def every_tool(client: Client) -> None:
    """http-invalid-tool-headers, auth/*: call what is listed; a client does not list what it must not call."""
    for name in await names(client):
        await client.call_tool(name)


async def tools_call(client: Client) -> None:
    await names(client)
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def elicitation_defaults(client: Client) -> None:
    await names(client)
    await client.call_tool("test_client_elicitation_defaults")


async def sse_retry(client: Client) -> None:
    await client.call_tool("test_reconnection")


async def mrtr(client: Client) -> None:
    for tool in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
        await client.call_tool(tool)


async def standard_headers(client: Client) -> None:
    await names(client)
    await client.call_tool("test_headers")
    await client.call_tool("my-hyphenated-tool")
    uris = [resource.uri async for resource in client.resources()]
    assert uris, "no resources"
    await client.read("file:///path/to/file%20name.txt")
    await client.read("https://example.com/resource?id=123")
    prompts = [prompt.name async for prompt in client.prompts()]
    assert prompts, "no prompts"
    await client.get_prompt("test_prompt")


async def custom_headers(client: Client) -> None:
    await names(client)
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def schema_preservation(client: Client) -> None:
    schemas = {tool.name: tool.input_schema async for tool in client.tools()}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


SCENARIOS: dict[str, Scenario] = {
    "initialize": listing,
    "tools_call": tools_call,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": sse_retry,
    "request-metadata": every_tool,
    "sep-2322-client-request-state": mrtr,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": every_tool,
    "json-schema-ref-no-deref": listing,
    "json-schema-2020-12-preservation": schema_preservation,
}


def elicit(question: Any) -> dict[str, Any]:
    """A person who confirms what there is to confirm, and leaves the rest as it is: defaults are filled in."""
    properties = (question.requested_schema or {}).get("properties", {})
    return {"confirmed": True} if "confirmed" in properties else {}


def sample(question: Any) -> str:
    return "Hello."


async def main(url: str) -> None:
    scenario = every_tool if SCENARIO.startswith("auth/") else SCENARIOS.get(SCENARIO)
    if scenario is None:
        sys.exit(f"there is no scenario {SCENARIO!r} in this client")
    async with asyncio.timeout(TIMEOUT):
        async with Client(
            url, elicit=elicit, sample=sample, roots=["file:///test/root"], timeout=TIMEOUT, probe_timeout=TIMEOUT
        ) as client:
            await scenario(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
