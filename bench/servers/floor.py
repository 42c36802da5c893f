"""The floors: a bare ASGI app and a raw loop over a pipe that parse the message and answer it, and do nothing else.

They show what is left once a toolkit costs nothing. They check nothing, so nobody should serve with them.
"""

import asyncio
import itertools
import operator
import os
import secrets
import sys
from typing import Any

import msgspec
from serving import EXTRA_TOOLS, extra, main, serve_app

META = "io.modelcontextprotocol/"
INFO = {"name": "bench", "version": "1.0.0"}
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {"subscribe": True}}
NUMBER = {"type": "integer"}
SCHEMA = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
FORM = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
TOOLS = [{"name": "add", "description": "Add two numbers.", "inputSchema": SCHEMA}] + [
    {"name": f"fill_{number}", "description": extra(number).__doc__, "inputSchema": SCHEMA}
    for number in range(EXTRA_TOOLS)
]


class Arguments(msgspec.Struct):
    a: int = 0
    b: int = 0
    size: int = 0
    text: str = ""
    item: str = ""


class Meta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name=f"{META}protocolVersion")


class Params(msgspec.Struct):
    name: str = ""
    arguments: Arguments | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")
    state: str | None = msgspec.field(default=None, name="requestState")
    responses: dict[str, Any] | None = msgspec.field(default=None, name="inputResponses")


class Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: Params | None = None
    result: dict[str, Any] | None = None


META_OUT = msgspec.Raw(msgspec.json.encode({f"{META}serverInfo": INFO}))


class Result(msgspec.Struct):
    content: list[dict[str, Any]]
    structuredContent: Any = msgspec.UNSET
    isError: bool = False
    resultType: str = "complete"
    meta: msgspec.Raw = msgspec.field(default=META_OUT, name="_meta")


class Response(msgspec.Struct):
    id: int | str | None
    result: Any
    jsonrpc: str = "2.0"


decode = msgspec.json.Decoder(Message).decode
encode = msgspec.json.Encoder().encode
LIST = msgspec.Raw(encode({"tools": TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))
PLAIN = [(b"content-type", b"application/json")]
SSE = [(b"content-type", b"text/event-stream")]
SESSION = "bench-session"
waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
listeners: list[asyncio.Queue[bytes]] = []
asked = itertools.count()
_sealing: list[Any] = []


def seal(text: str) -> str:
    """The state, encrypted: one AES-GCM over a short text is what a sealed state costs at least."""
    if not _sealing:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        _sealing.append(AESGCM(secrets.token_bytes(32)))
    nonce = secrets.token_bytes(12)
    return (nonce + _sealing[0].encrypt(nonce, text.encode(), None)).hex()


def unseal(state: str) -> str:
    raw = bytes.fromhex(state)
    return str(_sealing[0].decrypt(raw[:12], raw[12:], None).decode())


def question(item: str) -> dict[str, Any]:
    params = {"mode": "form", "message": f"Which size for {item}?", "requestedSchema": FORM}
    return {"method": "elicitation/create", "params": params}


def answer(message: Message) -> Any:
    """The result of a request that needs nobody."""
    params = message.params or Params()
    if message.method == "tools/call":
        given = params.arguments or Arguments()
        if params.name == "order":
            if params.state is None:
                ask = {"size": question(given.item)}
                return {"resultType": "input_required", "inputRequests": ask, "requestState": seal(given.item)}
            assert params.responses is not None
            text = f"{unseal(params.state)} {params.responses['size']['content']['size']}"
            return Result([{"type": "text", "text": text}], {"result": text})
        value: Any = given.a + given.b
        if params.name == "blob":
            value = "x" * given.size
        elif params.name == "length":
            value = len(given.text)
        return Result([{"type": "text", "text": str(value)}], {"result": value})
    if message.method == "tools/list":
        return LIST
    if message.method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
    versions = ["2026-07-28", "2025-11-25"]
    return {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": CAPABILITIES,
        "serverInfo": INFO,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {f"{META}serverInfo": INFO},
    }


def event(body: bytes) -> bytes:
    return b"event: message\r\ndata: " + body + b"\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The bare ASGI app."""
    if scope["type"] != "http":
        return
    body = (got := await receive()).get("body", b"")
    while got.get("more_body"):
        body += (got := await receive()).get("body", b"")
    message = decode(body)
    if message.method is None or message.id is None:
        if message.result is not None:
            waiting.pop(str(message.id)).set_result(message.result)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        return await send({"type": "http.response.body", "body": b""})
    params = message.params
    modern = params is not None and params.meta is not None and params.meta.version is not None
    if message.method == "subscriptions/listen":
        return await listen(message, send)
    if not modern and message.method == "tools/call" and params is not None and params.name == "order":
        return await ask(message, params, send)
    if params is not None and params.name == "add_sync" and params.arguments is not None:
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(None, operator.add, params.arguments.a, params.arguments.b)
        result: Any = Result([{"type": "text", "text": str(value)}], {"result": value})
    elif params is not None and params.name == "touch":
        for queue in listeners:
            queue.put_nowait(event(b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{}}'))
        result = Result([])
    else:
        if params is not None and params.name == "add_later":
            await asyncio.sleep(0)
        result = answer(message)
    answered = encode(Response(message.id, result))
    if modern or message.method == "initialize":
        headers = [*PLAIN, (b"content-length", str(len(answered)).encode())]
        if message.method == "initialize":
            headers.append((b"mcp-session-id", SESSION.encode()))
    else:
        answered, headers = event(answered), SSE
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answered})


async def ask(message: Message, params: Params, send: Any) -> None:
    """A reverse call."""
    id = f"ask-{next(asked)}"
    future = waiting[id] = asyncio.get_running_loop().create_future()
    item = params.arguments.item if params.arguments is not None else ""
    await send({"type": "http.response.start", "status": 200, "headers": SSE})
    request = event(encode({"jsonrpc": "2.0", "id": id, **question(item)}))
    await send({"type": "http.response.body", "body": request, "more_body": True})
    text = f"{item} {(await future)['content']['size']}"
    answered = event(encode(Response(message.id, Result([{"type": "text", "text": text}]))))
    await send({"type": "http.response.body", "body": answered})


async def listen(message: Message, send: Any) -> None:
    """One that hears of changes."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    listeners.append(queue)
    await send({"type": "http.response.start", "status": 200, "headers": SSE})
    chunk = event(b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}')
    while True:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        chunk = await queue.get()


def loop() -> None:
    """The raw loop over the pipes: what has come is answered with one write."""
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        out = [encode(Response(message.id, answer(message))) for message in map(decode, lines) if message.method]
        if out:
            sys.stdout.buffer.write(b"\n".join([*out, b""]))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(loop, lambda port: serve_app(app, port), None)
