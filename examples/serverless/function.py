"""An MCP server as a function of a serverless platform: an invocation answers one request, nothing runs in between.

The stateless protocol (2026-07-28) needs no more. A question ends an invocation, and its answer begins another one,
with the call sealed into the state that the client sends again; so the instances of the function share the key in
BACKCHANNEL_STATE_KEY. `handler` has the shape of AWS Lambda's function URLs; other platforms differ in the names alone.

Run this file to see a call with a question go through three invocations.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from backchannel import Context, Server, http_app

server = Server("bookings")
app = http_app(server, allowed_hosts=["*"], sessions=False)


@server.tool
async def book(ctx: Context, city: str) -> str:
    """Book a room."""
    nights = (await ctx.elicit(f"How many nights in {city}?", int)).unwrap()
    if not await ctx.confirm(f"{nights} nights in {city}?"):
        return "Nothing booked."
    return f"{nights} nights in {city}"


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """One invocation. The event loop ends with it."""
    return asyncio.run(_answer(event))


async def _answer(event: dict[str, Any]) -> dict[str, Any]:
    body = event.get("body") or ""
    data = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
    scope = {
        "type": "http",
        "method": event["requestContext"]["http"]["method"],
        "path": event["rawPath"],
        "headers": [(name.lower().encode(), value.encode()) for name, value in event["headers"].items()],
    }
    sent: list[dict[str, Any]] = []
    whole, gone = {"type": "http.request", "body": data}, asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal whole
        if not whole:
            await gone.wait()  # the platform does not say when a client has left
        message, whole = whole, {}
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    async with app.running():
        await app(scope, receive, send)
    answer = b"".join(message.get("body", b"") for message in sent)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return {"statusCode": sent[0]["status"], "headers": headers, "body": answer.decode()}


def _event(id: int, **more: Any) -> dict[str, Any]:
    """What the platform makes of a client's request."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    params = {"name": "book", "arguments": {"city": "Oslo"}, "_meta": meta, **more}
    return {
        "requestContext": {"http": {"method": "POST"}},
        "rawPath": "/mcp",
        "headers": {
            "Host": "function.example.com",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "book",
        },
        "body": json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}),
    }


def main() -> None:
    """A client by hand: it asks, answers, and asks again, each time in an invocation of its own."""
    answers: dict[str, Any] = {"How many nights in Oslo?": 2, "2 nights in Oslo?": True}
    more: dict[str, Any] = {}
    for id in range(1, 4):
        reply = handler(_event(id, **more), None)
        assert reply["statusCode"] == 200, reply
        result = json.loads(reply["body"])["result"]
        print(f"invocation {id}: {result['resultType']}")
        if result["resultType"] == "complete":
            break
        more = {"requestState": result["requestState"], "inputResponses": {}}
        for key, question in result["inputRequests"].items():
            value = answers[question["params"]["message"]]
            more["inputResponses"][key] = {"action": "accept", "content": {"value": value}}
    assert result["content"][0]["text"] == "2 nights in Oslo"
    print(result["content"][0]["text"])


if __name__ == "__main__":
    main()
