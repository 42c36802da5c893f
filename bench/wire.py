"""The requests that all contenders get, as bytes, and a plain HTTP connection to send single ones with."""

import json
import socket
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "bench", "version": "1"}
_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}}
_ACCEPT = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
Headers = dict[str, str]
Post = tuple[Headers, bytes]
"""The headers and the body of one POST."""


def message(method: str, params: dict[str, Any], id: int | None = 1) -> bytes:
    """A request, or a notification without an id."""
    whole = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    if id is None:
        del whole["id"]
    return json.dumps(whole, separators=(",", ":")).encode()


def modern_message(method: str, params: dict[str, Any], id: int = 1) -> bytes:
    """A request of the stateless protocol, for any transport."""
    meta = {
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": _CLIENT,
        f"{_META}clientCapabilities": _CAPABILITIES,
    }
    return message(method, {**params, "_meta": meta}, id)


def modern(method: str, params: dict[str, Any]) -> Post:
    """A POST of the stateless protocol."""
    headers = {**_ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return headers, modern_message(method, params)


def call(tool: str, arguments: dict[str, Any], **more: Any) -> Post:
    """A `tools/call` of the stateless protocol."""
    return modern("tools/call", {"name": tool, "arguments": arguments, **more})


def legacy(session: str, method: str, params: dict[str, Any], id: int | None = 1) -> Post:
    """A POST in a session."""
    headers = {**_ACCEPT, "mcp-protocol-version": LEGACY, "mcp-session-id": session}
    return headers, message(method, params, id)


def initialize() -> Post:
    """What begins a session."""
    params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": _CLIENT}
    return dict(_ACCEPT), message("initialize", params)


def raw(post: Post, port: int) -> bytes:
    """A POST as it goes over the wire."""
    headers, body = post
    lines = [f"{name}: {value}" for name, value in headers.items()]
    lines = ["POST /mcp HTTP/1.1", f"host: 127.0.0.1:{port}", f"content-length: {len(body)}", *lines]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    """A blocking connection that is kept. It reads what comes, without more understanding than it needs."""

    def __init__(self, port: int, timeout: float = 60.0):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def close(self) -> None:
        """Close it."""
        self.socket.close()

    def send(self, post: Post) -> None:
        """Send a POST."""
        self.socket.sendall(raw(post, self.port))

    def until(self, mark: bytes) -> bytes:
        """Read up to the next `mark`, and with it."""
        while mark not in self.rest:
            got = self.socket.recv(1 << 18)
            if not got:
                raise ConnectionError(f"the server closed the connection after {self.rest[:500]!r}")
            self.rest += got
        found, _, self.rest = self.rest.partition(mark)
        return found + mark

    def response(self) -> tuple[int, Headers, bytes]:
        """One whole response: its status, headers and body."""
        head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        status = int(head[0].split()[1])
        if headers.get("transfer-encoding") != "chunked":
            size = int(headers.get("content-length", "0"))
            parts = [self.rest]
            while (have := sum(map(len, parts))) < size:
                parts.append(self.socket.recv(min(size - have, 1 << 20)))
            whole = b"".join(parts)
            self.rest = whole[size:]
            return status, headers, whole[:size]
        chunks = []
        while size := int(self.until(b"\r\n"), 16):
            while len(self.rest) < size + 2:
                self.rest += self.socket.recv(1 << 18)
            chunks.append(self.rest[:size])
            self.rest = self.rest[size + 2 :]
        self.until(b"\r\n")
        return status, headers, b"".join(chunks)

    def ask(self, post: Post) -> tuple[int, Headers, bytes]:
        """Send a POST, and read its response."""
        self.send(post)
        return self.response()


def payload(body: bytes) -> Any:
    """The last message of a response, which is JSON or an event stream."""
    lines = [line.removeprefix(b"data:").strip() for line in body.splitlines() if line.startswith((b"{", b"data:"))]
    return json.loads(next(line for line in reversed(lines) if line))


def session(port: int) -> str:
    """A session that is ready for calls. Returns its id."""
    connection = Connection(port)
    _, headers, _ = connection.ask(initialize())
    id = headers["mcp-session-id"]
    connection.ask(legacy(id, "notifications/initialized", {}, None))
    connection.close()
    return id
