"""Images, sounds and files as content."""

import base64
from pathlib import Path
from typing import Any

import pytest

from backchannel import Client, Server
from backchannel.types import (
    Annotations,
    Audio,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    File,
    Image,
    ImageContent,
    Media,
    link,
)

PNG = b"\x89PNG\r\n\x1a\n..."
WAV = b"RIFF\0\0\0\0WAVE"


@pytest.mark.parametrize(
    ("kind", "name", "mime_type"),
    [
        (Image, "a.png", "image/png"),
        (Image, "a.JPG", "image/jpeg"),
        (Image, "a.webp", "image/webp"),
        (Image, "a.svg", "image/svg+xml"),
        (Audio, "a.wav", "audio/wav"),
        (Audio, "a.mp3", "audio/mpeg"),
        (Audio, "a.flac", "audio/flac"),
    ],
)
def test_a_path_tells_the_type(kind: type[Media], name: str, mime_type: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x00\xff")
    for given in (path, str(path)):
        block: Any = kind(given).block()
        assert isinstance(block, ImageContent if kind is Image else AudioContent)
        assert (base64.b64decode(block.data), block.mime_type) == (b"\x00\xff", mime_type)


@pytest.mark.parametrize(
    ("kind", "data", "mime_type"),
    [
        (Image, PNG, "image/png"),
        (Image, b"\xff\xd8\xff..", "image/jpeg"),
        (Image, b"GIF89a", "image/gif"),
        (Image, b"RIFF\0\0\0\0WEBP", "image/webp"),
        (Audio, WAV, "audio/wav"),
        (Audio, b"ID3..", "audio/mpeg"),
    ],
)
def test_data_tells_the_type(kind: type[Media], data: bytes, mime_type: str) -> None:
    assert kind(data=data).mime_type == mime_type


def test_what_is_given_counts(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_bytes(b"x")
    image = Image(tmp_path / "a.dat", mime_type="image/x-mine", annotations=Annotations(priority=1), meta={"a": 1})
    assert image.block() == ImageContent("eA==", "image/x-mine", Annotations(priority=1), {"a": 1})


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        (Image, {}, "either a path or data="),
        (Image, {"path": "a.png", "data": b""}, "either a path or data="),
        (Image, {"data": "iVBORw0KGgo="}, "no Base64"),
        (Image, {"data": b"?"}, "the type of this data is not known: give mime_type=, such as image/png"),
        (Audio, {"data": PNG}, "this data is of the type image/png, which is no Audio: a File can be anything"),
        (Audio, {"data": b"?"}, "such as audio/wav"),
        (Image, {"path": __file__}, "'test_media.py' is of the type text/x-python, which is no Image"),
        (File, {"data": b"?"}, "needs a uri="),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_made(kind: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError) as refused:
        kind(**options)
    assert why in str(refused.value)


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_a_missing_file(kind: type[Media], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing.png"):
        kind(tmp_path / "nothing.png")
    with pytest.raises(OSError):
        kind(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "text", "mime_type"),
    [
        ("a.txt", "é".encode(), "é", "text/plain"),
        ("a.json", b"{}", "{}", "application/json"),
        ("a.svg", b"<svg/>", "<svg/>", "image/svg+xml"),
        ("a.md", b"# a", "# a", "text/markdown"),
        ("a.txt", b"\xff", None, "text/plain"),
        ("a.pdf", b"%PDF", None, "application/pdf"),
        ("a.unknown", b"x", None, "application/octet-stream"),
        ("a", b"x", None, "application/octet-stream"),
        ("a.bin", PNG, None, "application/octet-stream"),
    ],
)
def test_a_file_is_text_or_blob_by_its_type(
    name: str, data: bytes, text: str | None, mime_type: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    block = File(tmp_path / name).block()
    assert isinstance(block, EmbeddedResource)
    contents = block.resource
    assert (contents.uri, contents.text, contents.mime_type) == (f"file:///{name}", text, mime_type)
    assert contents.blob == (base64.b64encode(data).decode() if text is None else None)


def test_a_file_from_data() -> None:
    file = File(data="a,b", uri="data://table.csv", meta={"m": 1})
    assert file.block().resource.text == "a,b"
    assert file.block().meta == {"m": 1} and file.block().resource.meta is None
    assert file.mime_type == "text/csv"
    assert File(data="x", uri="note://1").mime_type == "text/plain"
    assert File(data="x", uri="note://1", mime_type="application/pdf").contents("note://2").text == "x"


def test_names_of_files_are_quoted_and_their_folder_stays_here(tmp_path: Path) -> None:
    (tmp_path / "a b#c.txt").write_text("x")
    assert File(tmp_path / "a b#c.txt").uri == "file:///a%20b%23c.txt"
    assert File(tmp_path / "a b#c.txt", uri="note://1").uri == "note://1"


@pytest.mark.parametrize(
    ("uri", "name", "mime_type"),
    [
        ("note://shelf/a.md", "a.md", "text/markdown"),
        ("note://1", "1", None),
        ("https://example.com/", "example.com", None),
        ("urn:x", "x", None),
    ],
)
def test_links(uri: str, name: str, mime_type: str | None) -> None:
    made = link(uri)
    assert (made.uri, made.name, made.mime_type) == (uri, name, mime_type)
    assert link(uri, "n", title="T", size=3).members().keys() >= {"name", "title", "size"}


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_tools_return_them(version: str) -> None:
    server = Server("test")

    @server.tool
    def one() -> Image:
        return Image(data=PNG)

    @server.tool
    async def many() -> list[str | Media]:
        return ["a", Image(data=PNG), Audio(data=WAV), File(data="x", uri="x://y")]

    @server.tool
    def mine() -> CallToolResult:
        return CallToolResult([Image(data=PNG)], is_error=True)  # type: ignore[list-item]

    assert all(handler.tool.output_schema is None for handler in server.tools.handlers.values())
    async with Client(server, version=version) as client:
        assert (await client.call_tool("one")).content == [ImageContent("iVBORw0KGgouLi4=", "image/png")]
        kinds = [type(block).__name__ for block in (await client.call_tool("many")).content]
        assert kinds == ["TextContent", "ImageContent", "AudioContent", "EmbeddedResource"]
        result = await client.call_tool("mine")
        assert result.is_error and isinstance(result.content[0], ImageContent)
