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

from backchannel import AuthRequired, Client

Scenario = Callable[[Client], Awaitable[None]]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
TIMEOUT = 110.0  # seconds for everything
GIVEN_UP = {
    *("auth/resource-mismatch", "auth/metadata-issuer-mismatch", "auth/scope-retry-limit"),
    *("auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized"),
}
"""In which nobody can log in, so that a client which does not say so has failed."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client ID metadata document that the suite knows."""


async def names(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


async def listing(client: Client) -> None:
    """initialize, json-schema-ref-no-deref: look at the tools and call none."""
    await names(client)


async def every_tool(client: Client) -> None:
    """http-invalid-tool-headers: call what is listed; a client does not list what it must not call."""
    for name in await names(client):
        await client.call_tool(name)


async def signed_in(client: Client) -> None:
    """auth/*: each kind of request, and one more when all is settled."""
    await every_tool(client)
    await client.ping()


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


async def browse(url: str) -> None:
    """A browser, with a person in it who consents to everything: it goes where it is sent."""
    import aiohttp

    async with aiohttp.ClientSession() as browser, browser.get(url):
        pass


def credentials() -> Any:
    """How this client obtains tokens: as the scenario's context has it, or with a login."""
    if not SCENARIO.startswith("auth/"):
        return None
    from backchannel import (
        ClientCredentials,
        EnterpriseManaged,
        IdentityProvider,
        Loopback,
        OAuth,
        PrivateKey,
        WorkloadIdentity,
    )

    if SCENARIO == "auth/client-credentials-jwt":
        key = PrivateKey(CONTEXT["private_key_pem"], CONTEXT["signing_algorithm"])
        return ClientCredentials(CONTEXT["client_id"], private_key=key)
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentials(CONTEXT["client_id"], CONTEXT["client_secret"])
    if SCENARIO == "auth/enterprise-managed-authorization":
        provider = IdentityProvider(
            CONTEXT["idp_issuer"], CONTEXT["idp_client_id"], token_endpoint=CONTEXT["idp_token_endpoint"]
        )
        client = CONTEXT["client_id"], CONTEXT["client_secret"]
        return EnterpriseManaged(provider, CONTEXT["idp_id_token"], *client)
    if SCENARIO == "auth/wif-jwt-bearer":
        return WorkloadIdentity(CONTEXT["valid_jwt"], client_id=CONTEXT["client_id"])
    return OAuth(
        DOCUMENT if SCENARIO == "auth/basic-cimd" else None,
        client_id=CONTEXT.get("client_id"),
        client_secret=CONTEXT.get("client_secret"),
        issuer=CONTEXT.get("issuer"),
        redirect=Loopback(show=browse),
        dpop=SCENARIO.startswith("auth/dpop"),
    )


async def main(url: str) -> None:
    scenario = signed_in if SCENARIO.startswith("auth/") else SCENARIOS.get(SCENARIO)
    if scenario is None:
        sys.exit(f"there is no scenario {SCENARIO!r} in this client")
    client = Client(
        url,
        elicit=elicit,
        sample=sample,
        roots=["file:///test/root"],
        auth=credentials(),
        timeout=TIMEOUT,
        probe_timeout=TIMEOUT,
    )
    async with asyncio.timeout(TIMEOUT):
        try:
            async with client:
                await scenario(client)
        except AuthRequired:
            if SCENARIO not in GIVEN_UP:
                raise
        else:
            assert SCENARIO not in GIVEN_UP, "this client was let in"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
