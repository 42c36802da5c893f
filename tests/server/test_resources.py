"""Resources, and what is read of them."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backchannel import (
    Client,
    ConfigurationError,
    Context,
    Principal,
    RemoteProtocolError,
    ResourceNotFound,
    Server,
    ToolError,
)
from backchannel.types import (
    EmbeddedResource,
    File,
    Image,
    ImageContent,
    ReadResourceResult,
    ResourceContents,
    TextContent,
)
from tests.server.replay import LEGACY, MODERN, YES, Driver, asked, both_eras, driver, retry

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n"


async def read(wire: Driver, uri: str, **params: Any) -> dict[str, Any]:
    """The response to `resources/read`."""
    exchange = wire.exchange("resources/read", {"uri": uri, **params})
    await wire.serve(exchange)
    return await wire.until(lambda message: message.get("id") == exchange.request.id and "method" not in message)


async def contents(wire: Driver, uri: str) -> list[dict[str, Any]]:
    response = await read(wire, uri)
    found: list[dict[str, Any]] = response["result"]["contents"]
    return found


@pytest.fixture
def server() -> Server:
    server = Server("test", ttl=5)

    @server.resource("note://static", title="Static", mime_type="text/markdown", size=3)
    def static() -> str:
        """A note.

        Args: none
        """
        return "# a"

    @server.resource("note://{id}/data")
    async def template(id: str, ctx: Context) -> dict[str, str]:
        return {"id": id}

    @server.resource("count://{n}{?by}")
    def count(n: int, by: int = 1) -> str:
        return str(n + by)

    return server


@both_eras
async def test_lists(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        for method, member, expected in (
            (
                "resources/list",
                "resources",
                [
                    {
                        "uri": "note://static",
                        "name": "static",
                        "title": "Static",
                        "description": "A note.",
                        "mimeType": "text/markdown",
                        "size": 3,
                    }
                ],
            ),
            (
                "resources/templates/list",
                "resourceTemplates",
                [
                    {"uriTemplate": "note://{id}/data", "name": "template"},
                    {"uriTemplate": "count://{n}{?by}", "name": "count"},
                ],
            ),
        ):
            await wire.serve(wire.exchange(method, {}))
            assert (await wire.next())["result"][member] == expected


@both_eras
async def test_what_is_read(server: Server, version: str) -> None:
    async with driver(server, version) as wire:
        [static] = await contents(wire, "note://static")
        assert static == {"uri": "note://static", "text": "# a", "mimeType": "text/markdown"}
        [data] = await contents(wire, "note://123/data")
        assert data == {"uri": "note://123/data", "text": '{"id":"123"}', "mimeType": "application/json"}
        assert [one["text"] for one in await contents(wire, "count://4")] == ["5"]
        assert [one["text"] for one in await contents(wire, "count://4?by=-10")] == ["-6"]


VALUES: list[tuple[Any, list[dict[str, Any]]]] = [
    ("é", [{"uri": "x://y", "text": "é", "mimeType": "text/plain"}]),
    (b"\x00", [{"uri": "x://y", "blob": "AA==", "mimeType": "application/octet-stream"}]),
    (bytearray(b"\x00"), [{"uri": "x://y", "blob": "AA==", "mimeType": "application/octet-stream"}]),
    ([1, 2], [{"uri": "x://y", "text": "[1,2]", "mimeType": "application/json"}]),
    ([], [{"uri": "x://y", "text": "[]", "mimeType": "application/json"}]),
    (Image(data=PNG), [{"uri": "x://y", "blob": "iVBORw0KGgo=", "mimeType": "image/png"}]),
    (File(data="a", uri="x://a.csv"), [{"uri": "x://a.csv", "text": "a", "mimeType": "text/csv"}]),
    (EmbeddedResource(ResourceContents("x://z", text="z")), [{"uri": "x://z", "text": "z"}]),
    (
        [ResourceContents("x://1", text="one"), File(data="two", uri="x://2"), Image(data=PNG)],
        [
            {"uri": "x://1", "text": "one"},
            {"uri": "x://2", "text": "two", "mimeType": "text/plain"},
            {"uri": "x://y", "blob": "iVBORw0KGgo=", "mimeType": "image/png"},
        ],
    ),
    (ReadResourceResult([ResourceContents("x://1", text="")]), [{"uri": "x://1", "text": ""}]),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda value: type(value).__name__)
@both_eras
async def test_what_a_function_may_return(value: Any, expected: Any, version: str) -> None:
    server = Server("test")
    server.add_resource(lambda: value, "x://y", name="y")
    async with driver(server, version) as wire:
        assert await contents(wire, "x://y") == expected


@pytest.mark.parametrize("value", [None, ImageContent("", "image/png"), TextContent("x"), object(), float("nan")])
async def test_what_it_may_not_return(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_resource(lambda: value, "x://y", name="y")
    async with driver(server) as wire:
        assert (await read(wire, "x://y"))["error"]["code"] == -32603
    assert len(caplog.records) == 1


async def test_a_file_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    server = Server("test")
    server.add_resource(lambda: File(tmp_path / "a.json", uri="x://y"), "x://y", name="y", mime_type="text/x-mine")
    server.add_resource(lambda: File(tmp_path / "gone"), "x://gone", name="gone")
    async with driver(server) as wire:
        assert await contents(wire, "x://y") == [{"uri": "x://y", "text": "{}", "mimeType": "text/x-mine"}]
        error = (await read(wire, "x://gone"))["error"]
        assert error["code"] == -32603 and str(tmp_path) not in json.dumps(error)


@pytest.mark.parametrize(("version", "code"), [("2024-11-05", -32002), (LEGACY, -32002), (MODERN, -32602)])
@pytest.mark.parametrize(
    "uri", ["note://nothing", "", "note://a/b/data", "count://x", "count://1?by=x", "note://%2F/data", "x" * 9000]
)
async def test_what_is_not_there(server: Server, uri: str, version: str, code: int) -> None:
    async with driver(server, version) as wire:
        error = (await read(wire, uri))["error"]
        assert (error["code"], error["data"]) == (code, {"uri": uri})
        assert error["message"].startswith("Resource not found")


@both_eras
async def test_the_author_says_that_it_is_not_there(version: str) -> None:
    server = Server("test")

    @server.resource("note://{id}")
    def note(id: str) -> str:
        if id == "rude":
            raise ToolError("go away")
        raise ResourceNotFound(f"note://{id}", "it was deleted")

    async with driver(server, version) as wire:
        error = (await read(wire, "note://1"))["error"]
        assert error["message"] == "Resource not found: it was deleted"
        assert error["data"] == {"uri": "note://1"}
        error = (await read(wire, "note://rude"))["error"]
        assert (error["code"], error["message"]) == (-32603, "go away")


@both_eras
@pytest.mark.rule("R133")
async def test_a_failure_is_masked_and_the_session_goes_on(
    server: Server, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> str:
        raise ValueError("secret")

    server.add_resource(fails, "x://fails")
    async with driver(server, version) as wire:
        error = (await read(wire, "x://fails"))["error"]
        assert error["code"] == -32603 and "secret" not in error["message"]
        assert (await contents(wire, "note://static"))[0]["text"] == "# a"
    assert "secret" in caplog.text


@both_eras
async def test_a_resource_asks(version: str) -> None:
    server = Server("test")

    @server.resource("secret://{id}", ttl=60, public=True)
    async def secret(ctx: Context, id: str) -> str:
        return f"{id}: {(await ctx.elicit('May I?', bool)).unwrap()}"

    async with Client(server, version=version, elicit=lambda question: True) as client:
        result = json.loads(bytes(await client.request("resources/read", {"uri": "secret://1"})))
        assert result["contents"][0]["text"] == "1: True"


@pytest.mark.rule("R164")
async def test_questions_have_no_cache_hints_and_answers_are_not_kept() -> None:
    server = Server("test")

    @server.resource("secret://{id}", ttl=60, public=True)
    async def secret(ctx: Context, id: str) -> str:
        return repr((await ctx.elicit("May I?", bool)).unwrap()) if id == "1" else "free"

    async with driver(server) as wire:
        first = await read(wire, "secret://1")
        assert first["result"].keys() == {"resultType", "inputRequests", "requestState", "_meta"}
        [key] = asked(first)
        second = (await read(wire, "secret://1", **retry(first, **{key: YES})))["result"]
        assert (second["contents"][0]["text"], second["ttlMs"], second["cacheScope"]) == ("True", 0, "private")
        free = (await read(wire, "secret://2"))["result"]
        assert (free["resultType"], free["ttlMs"], free["cacheScope"]) == ("complete", 60_000, "public")


@pytest.mark.rule("R164")
async def test_legacy_versions_have_no_cache_hints(server: Server) -> None:
    async with driver(server, LEGACY) as wire:
        assert (await read(wire, "note://static"))["result"].keys() == {"contents"}


@both_eras
async def test_visibility(version: str) -> None:
    server = Server("test", public=True)
    mine: Callable[[Principal | None], bool] = lambda principal: principal is not None and principal.subject == "me"  # noqa: E731
    server.add_resource(lambda: "x", "x://mine", name="mine", visible=mine, public=True)
    server.add_resource(lambda id: id, "x://mine/{id}", name="template", visible=mine)
    server.add_resource(lambda id: f"all {id}", "x://{id}", name="all")
    for who, there in ((Principal("me"), True), (Principal("you"), False), (None, False)):
        async with driver(server, version, principal=who) as wire:
            await wire.serve(wire.exchange("resources/list", {}))
            await wire.serve(wire.exchange("resources/templates/list", {}))
            fixed, templates = (await wire.next())["result"], (await wire.next())["result"]
            assert [one["name"] for one in fixed["resources"]] == ["mine"] * there
            assert [one["name"] for one in templates["resourceTemplates"]] == ["template"] * there + ["all"]
            if version == MODERN:
                assert fixed["cacheScope"] == templates["cacheScope"] == "private"
                response = await read(wire, "x://mine")
                assert response["result"]["cacheScope"] == "private"
            assert [one["text"] for one in await contents(wire, "x://mine")] == ["x" if there else "all mine"]
            assert ("result" in await read(wire, "x://mine/1")) is there


async def test_adding_and_removing(server: Server) -> None:
    async with driver(server) as wire:
        server.add_resource(lambda: "new", "note://new", name="new")
        assert [one["text"] for one in await contents(wire, "note://new")] == ["new"]
        server.remove_resource("note://new")
        server.remove_resource("note://{id}/data")
        for uri in ("note://new", "note://1/data"):
            assert "error" in await read(wire, uri)
    with pytest.raises(KeyError):
        server.remove_resource("note://new")


@pytest.mark.parametrize(
    ("uri", "function", "why"),
    [
        ("x://{", lambda: "", "brace"),
        ("x://{a}", lambda: "", "no parameter for a"),
        ("x://{a}", lambda b: "", "no parameter for a; no variable for b"),
        ("x://", lambda a: "", "no variable for a"),
        ("note://static", lambda: "", "there is a resource 'note://static' already"),
        ("note://{id}/data", lambda id: "", "there is a resource 'note://{id}/data' already"),
    ],
)
def test_what_does_not_fit_is_refused(server: Server, uri: str, function: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        server.add_resource(function, uri, name="x")
    assert why in str(refused.value)


async def test_a_fixed_resource_goes_before_a_template_and_may_be_no_ascii() -> None:
    server = Server("test")
    server.add_resource(lambda id: f"template {id}", "x://{id}", name="t")
    server.add_resource(lambda: "fixed", "x://é", name="f")
    async with driver(server) as wire:
        assert (await contents(wire, "x://é"))[0]["text"] == "fixed"
        assert (await contents(wire, "x://a"))[0]["text"] == "template a"


async def test_half_a_surrogate_pair(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")
    server.add_resource(lambda: "\ud83d", "x://y", name="y")
    async with driver(server) as wire:
        assert "surrogate" in (await read(wire, "x://y"))["error"]["message"]
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_a_client_reads() -> None:
    server = Server("test")
    with pytest.raises(RemoteProtocolError) as refused:
        async with Client(server) as client:
            await client.request("resources/read", {"uri": "x://y"})
    assert (refused.value.code, refused.value.data) == (-32602, {"uri": "x://y"})
