"""What a Client can be pointed at."""

from pathlib import Path
from typing import Any

import pytest

from backchannel import Client, ConfigurationError, Server, StdioServer
from backchannel.client.http import HttpTransport
from backchannel.client.sse import Fallback, SseTransport
from backchannel.client.stdio import StdioTransport
from backchannel.memory import MemoryTransport
from backchannel.targets import resolve
from tests.client.scripted import Script

URL = "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize("url", [URL, "https://a.test/mcp", "HTTPS://a.test/mcp"])
def test_a_url(url: str) -> None:
    transport = resolve(url, {"x-key": "1"})
    assert isinstance(transport, Fallback) and isinstance(transport.first, HttpTransport)
    assert dict(transport.first.headers) == {"x-key": "1"}
    other = transport._second()
    assert isinstance(other, SseTransport) and other.headers == {"x-key": "1"}


def test_a_program_a_server_and_a_transport() -> None:
    program = StdioServer("python", "server.py")
    transport = resolve(program)
    assert isinstance(transport, StdioTransport) and transport.server is program
    assert isinstance(resolve(Server("s")), MemoryTransport)
    script = Script()
    assert resolve(script) is script


def test_an_entry_of_mcp_servers_with_a_command() -> None:
    entry = {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "1"}, "cwd": "/tmp", "type": "stdio"}
    transport = resolve(entry)
    assert isinstance(transport, StdioTransport)
    server = transport.server
    assert (server.command, server.args, server.env, server.cwd) == ("npx", ("-y", "server"), {"KEY": "1"}, "/tmp")
    for spare in ({"command": "npx"}, {"command": "npx", "args": None, "env": None, "cwd": None, "disabled": False}):
        transport = resolve(spare)
        assert isinstance(transport, StdioTransport) and transport.server.args == ()


@pytest.mark.parametrize("kind", [{}, {"type": "http"}, {"type": "streamable-http"}])
def test_an_entry_of_mcp_servers_with_a_url(kind: dict[str, str]) -> None:
    transport = resolve({"url": URL, "headers": {"a": "1", "b": "1"}, **kind}, {"b": "2"})
    assert isinstance(transport, Fallback) and isinstance(transport.first, HttpTransport)
    assert dict(transport.first.headers) == {"a": "1", "b": "2"}
    assert isinstance(resolve({"url": URL, "headers": None}), Fallback)


def test_an_entry_of_mcp_servers_for_the_transport_of_2024_11_05() -> None:
    transport = resolve({"url": URL, "headers": {"a": "1"}, "type": "sse"}, {"b": "2"})
    assert isinstance(transport, SseTransport)
    assert transport.headers == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("localhost:8000", "a URL that begins http"),
        ("python server.py", "StdioServer"),
        ("", "a URL"),
        (None, "NoneType"),
        (5, "int"),
        (Path("server.py"), "a Client cannot connect to"),
        (Server, "a Client cannot connect to"),
        (Script, "a Client cannot connect to"),
        (["python", "server.py"], "list"),
        ({}, 'either "url" or "command"'),
        ({"url": 5}, 'either "url" or "command"'),
        ({"url": URL, "command": "x"}, 'either "url" or "command"'),
        ({"command": "x", "args": "y z"}, '"args"'),
        ({"mcpServers": {"a": {"url": URL}}}, r'config\["mcpServers"\]'),
    ],
)
def test_anything_else_says_what_is_possible(target: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        resolve(target)


def test_a_message_does_not_show_secrets() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve("wss://example.test/mcp?token=SECRET")
    assert "SECRET" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        resolve({"urls": "https://x:SECRET@a.test"})
    assert "SECRET" not in str(caught.value)


@pytest.mark.anyio
async def test_the_client_resolves_when_it_is_opened() -> None:
    async with Client(Server("s", version="2")) as client:
        assert client.server.info is not None
        assert (client.server.info.name, client.server.info.version) == ("s", "2")
    with pytest.raises(ConfigurationError):
        await Client("nowhere").open()
