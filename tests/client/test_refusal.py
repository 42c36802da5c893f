"""client/refusal.py: what an HTTP response that is no success says."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backchannel import AuthRequired, Client, RemoteProtocolError

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@contextmanager
def answering(status: int, body: bytes, challenge: str | None = None) -> Iterator[int]:
    """A web server that answers everything so. Gives its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if challenge is not None:
                self.send_header("www-authenticate", challenge)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            yield web.server_port
        finally:
            web.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "path", "text"),
    [
        (404, b"", "/", "answered with HTTP 404: is the endpoint /mcp?"),
        (404, b"Not Found", "/mpc?key=SECRET", "answered with HTTP 404: is the endpoint /mcp? Not Found"),
        (404, b"", "/mcp", "answered with HTTP 404"),
        (404, b"Not Found", "/mcp", "answered with HTTP 404: Not Found"),
        (403, b"no", "/", "answered with HTTP 403: no"),
    ],
)
@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_a_wrong_path_is_guessed_at(
    anyio_backend: str, status: int, body: bytes, path: str, text: str, version: str
) -> None:
    with answering(status, body) as port:
        with pytest.raises(RemoteProtocolError) as caught:
            await Client(f"http://127.0.0.1:{port}{path}", version=version).open()
    assert str(caught.value) == f"127.0.0.1:{port} {text}"
    assert (caught.value.code, caught.value.status) == (0, status)


async def test_a_server_that_wants_credentials_says_what_to_give(anyio_backend: str) -> None:
    with answering(401, b"") as port:
        with pytest.raises(AuthRequired) as caught:
            await Client(f"http://127.0.0.1:{port}/mcp").open()
    assert str(caught.value) == f"127.0.0.1:{port} wants credentials (HTTP 401); give Client(..., auth=OAuth())"


@pytest.mark.parametrize(
    ("status", "challenge", "text"),
    [
        (401, 'Bearer realm="x"', "wants credentials (HTTP 401)"),
        (
            401,
            'Bearer error="invalid_token", error_description="The token token-SECRET is expired"',
            "wants other credentials (HTTP 401): invalid_token: The token … is expired",
        ),
        (
            403,
            'Bearer error="insufficient_scope", scope="read write"',
            "wants a token with more scopes (HTTP 403): insufficient_scope: it needs the scopes read write",
        ),
    ],
)
@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_why_credentials_were_refused(
    anyio_backend: str, status: int, challenge: str, text: str, version: str
) -> None:
    with answering(status, b"", challenge) as port:
        with pytest.raises(AuthRequired) as caught:
            headers = {"Authorization": "Bearer token-SECRET"}
            await Client(f"http://127.0.0.1:{port}/mcp", version=version, headers=headers).open()
    assert str(caught.value) == f"127.0.0.1:{port} {text}; give Client(..., auth=OAuth())"
    assert caught.value.challenge == challenge


async def test_why_a_bad_request_is_one(anyio_backend: str) -> None:
    with answering(400, b"", 'Bearer error="invalid_request", error_description="two tokens"') as port:
        with pytest.raises(RemoteProtocolError) as caught:
            await Client(f"http://127.0.0.1:{port}/mcp", version="legacy").open()
    assert str(caught.value) == f"127.0.0.1:{port} answered with HTTP 400: invalid_request: two tokens"
