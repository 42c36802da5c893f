"""Prompts, and what is made of them."""

import json
from typing import Any

import pytest

from backchannel import Client, ConfigurationError, Context, Principal, Server, ToolError
from backchannel.types import (
    Audio,
    File,
    GetPromptResult,
    Icon,
    Image,
    PromptMessage,
    ResourceLink,
    TextContent,
    UnknownContent,
    link,
)
from tests.server.replay import MODERN, YES, Driver, asked, both_eras, driver, retry

pytestmark = pytest.mark.anyio
PNG, WAV = b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WAVE"


async def get(wire: Driver, name: str, arguments: Any = None, **params: Any) -> dict[str, Any]:
    """The response to `prompts/get`."""
    given = {} if arguments is None else {"arguments": arguments}
    exchange = wire.exchange("prompts/get", {"name": name, **given, **params})
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id and "method" not in message)


async def texts(wire: Driver, name: str, **arguments: str) -> list[str]:
    response = await get(wire, name, arguments)
    return [message["content"]["text"] for message in response["result"]["messages"]]


@pytest.fixture
def server() -> Server:
    server = Server("test")

    @server.prompt
    def simple() -> str:
        """Says hello."""
        return "hello"

    @server.prompt(name="full", title="Full", icons=[Icon("data:,")], meta={"a": 1})
    async def convert(ctx: Context, text: str, n: int = 1, flags: list[bool] | None = None) -> str:
        """Converts.

        Args:
            text: what to say
            n: how often
        """
        return f"{text!r} {n} {flags}"

    return server


@both_eras
async def test_list(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        await wire.serve(wire.exchange("prompts/list", {}))
        assert (await wire.next())["result"]["prompts"] == [
            {"name": "simple", "description": "Says hello."},
            {
                "name": "full",
                "title": "Full",
                "description": "Converts.",
                "arguments": [
                    {"name": "text", "description": "what to say", "required": True},
                    {"name": "n", "description": "how often", "required": False},
                    {"name": "flags", "required": False},
                ],
                "icons": [{"src": "data:,"}],
                "_meta": {"a": 1},
            },
        ]


@both_eras
@pytest.mark.rule("R129")
async def test_arguments(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        response = await get(wire, "simple")
        assert response["result"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "hello"}}]
        assert response["result"]["description"] == "Says hello."
        for text in ("123", "null", '{"a":1}', "[1]", " 1", ""):
            assert await texts(wire, "full", text=text) == [f"{text!r} 1 None"]
        assert await texts(wire, "full", text="a", n="2", flags="[true]") == ["'a' 2 [True]"]


@both_eras
@pytest.mark.rule("R128")
@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("full", None, "text: missing"),
        ("full", {}, "text: missing"),
        ("full", {"text": "a", "more": "x"}, "more: unexpected"),
        ("full", {"text": "a", "n": "x"}, "n: expected integer"),
        ("full", {"text": 1}, "Expected `str`"),
        ("full", ["a"], "Expected `object"),
        ("simple", {"a": "b"}, "a: unexpected"),
        ("nothing", {}, "Unknown prompt: nothing"),
    ],
)
async def test_bad_arguments(server: Server, version: str, name: str, arguments: Any, why: str) -> None:
    if isinstance(arguments, list) or (arguments and 1 in arguments.values()):
        async with Client(server, version=version) as client:
            with pytest.raises(Exception, match="Invalid params") as refused:
                await client.request("prompts/get", {"name": name, "arguments": arguments})
        assert (getattr(refused.value, "code", 0), why in str(refused.value)) == (-32602, True)
        return
    async with driver(server, version) as wire:
        error = (await get(wire, name, arguments))["error"]
        assert error["code"] == -32602 and why in error["message"]
        assert await texts(wire, "simple") == ["hello"]


LINK = {"type": "resource_link", "uri": "x://y", "name": "y"}
VALUES: list[tuple[Any, list[tuple[str, dict[str, Any]]]]] = [
    ("a", [("user", {"type": "text", "text": "a"})]),
    (["a", "b"], [("user", {"type": "text", "text": "a"}), ("user", {"type": "text", "text": "b"})]),
    ([], []),
    (TextContent("a"), [("user", {"type": "text", "text": "a"})]),
    (Image(data=PNG), [("user", {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})]),
    (link("x://y"), [("user", LINK)]),
    (
        File(data="a", uri="x://a.txt"),
        [("user", {"type": "resource", "resource": {"uri": "x://a.txt", "text": "a", "mimeType": "text/plain"}})],
    ),
    (UnknownContent(b'{"type":"new"}'), [("user", {"type": "new"})]),
    (PromptMessage("assistant", TextContent("a")), [("assistant", {"type": "text", "text": "a"})]),
    (PromptMessage("assistant", "a"), [("assistant", {"type": "text", "text": "a"})]),  # type: ignore[arg-type]
    (GetPromptResult([PromptMessage("user", TextContent("a"))]), [("user", {"type": "text", "text": "a"})]),
    (GetPromptResult(["a"]), [("user", {"type": "text", "text": "a"})]),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda value: type(value).__name__)
@both_eras
async def test_what_a_function_may_return(value: Any, expected: Any, version: str) -> None:
    server = Server("test")
    server.add_prompt(lambda: value, name="p")
    async with driver(server, version) as wire:
        messages = (await get(wire, "p"))["result"]["messages"]
        assert [(message["role"], message["content"]) for message in messages] == expected


@pytest.mark.parametrize("value", [None, 5, {"role": "user"}, [None], b"x"])
async def test_what_it_may_not_return(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_prompt(lambda: value, name="p")
    async with driver(server) as wire:
        assert (await get(wire, "p"))["error"]["code"] == -32603
    assert "a prompt returns text" in caplog.text


@pytest.mark.parametrize(
    ("version", "audio", "linked"),
    [
        ("2024-11-05", "text", "text"),
        ("2025-03-26", "audio", "text"),
        ("2025-06-18", "audio", "resource_link"),
        (MODERN, "audio", "resource_link"),
    ],
)
async def test_old_versions_get_text_in_place_of_content_that_they_lack(version: str, audio: str, linked: str) -> None:
    server = Server("test")
    server.add_prompt(lambda: [Audio(data=WAV), ResourceLink("x://y", "y"), "a"], name="p")
    async with driver(server, version) as wire:
        messages = (await get(wire, "p"))["result"]["messages"]
        assert [message["content"]["type"] for message in messages] == [audio, linked, "text"]


@both_eras
async def test_a_prompt_asks(version: str) -> None:
    server = Server("test")

    @server.prompt
    async def secret(ctx: Context, name: str) -> str:
        return f"{name}: {(await ctx.elicit('May I?', bool)).unwrap()}"

    async with Client(server, version=version, elicit=lambda question: True) as client:
        result = json.loads(
            bytes(await client.request("prompts/get", {"name": "secret", "arguments": {"name": "Ada"}}))
        )
        assert result["messages"][0]["content"]["text"] == "Ada: True"
    if version == MODERN:
        async with driver(server) as wire:
            first = await get(wire, "secret", {"name": "Ada"})
            assert first["result"].keys() == {"resultType", "inputRequests", "requestState", "_meta"}
            [key] = asked(first)
            second = await get(wire, "secret", {"name": "Ada"}, **retry(first, **{key: YES}))
            assert second["result"]["messages"][0]["content"]["text"] == "Ada: True"
            assert second["result"].keys() == {"messages", "resultType", "_meta"}


@both_eras
async def test_failures(version: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.prompt
    def rude() -> str:
        raise ToolError("go away")

    @server.prompt
    def broken() -> str:
        raise ValueError("secret")

    async with driver(server, version) as wire:
        assert (await get(wire, "rude"))["error"] == {"code": -32603, "message": "go away"}
        error = (await get(wire, "broken"))["error"]
        assert error["code"] == -32603 and "secret" not in error["message"]
    assert "secret" in caplog.text


@both_eras
async def test_visibility(server: Server, version: str) -> None:
    server.add_prompt(lambda: "x", name="mine", visible=lambda who: who is not None and who.subject == "me")
    for who, there in ((Principal("me"), True), (Principal("you"), False), (None, False)):
        async with driver(server, version, principal=who) as wire:
            await wire.serve(wire.exchange("prompts/list", {}))
            names = [one["name"] for one in (await wire.next())["result"]["prompts"]]
            assert names == ["simple", "full", *["mine"] * there]
            response = await get(wire, "mine")
            assert ("result" in response) is there
            if not there:
                assert response["error"] == {"code": -32602, "message": "Unknown prompt: mine"}


async def test_adding_and_removing(server: Server) -> None:
    async with driver(server) as wire:
        server.add_prompt(lambda: "new", name="new")
        assert await texts(wire, "new") == ["new"]
        server.remove_prompt("new")
        assert "error" in await get(wire, "new")
    with pytest.raises(KeyError):
        server.remove_prompt("new")
    with pytest.raises(ConfigurationError, match="there is a prompt 'simple' already"):
        server.add_prompt(lambda: "x", name="simple")
    with pytest.raises(ConfigurationError, match="needs a name="):
        server.add_prompt(lambda: "x")
