"""Images, sounds and files as authors have them: a path or bytes. They become content blocks, or the contents of a
resource (server/tools, Tool Result; server/resources, Resource Contents)."""

from __future__ import annotations

import base64
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from .protocol.types.base import Annotations
from .protocol.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
)

if TYPE_CHECKING:
    import mimetypes

_OURS = {
    # What Python's table lacks, or has in an older form.
    **{".wav": "audio/wav", ".flac": "audio/flac", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg"},
    **{".m4a": "audio/mp4", ".weba": "audio/webm", ".aac": "audio/aac"},
    **{".webp": "image/webp", ".avif": "image/avif", ".heic": "image/heic", ".ico": "image/vnd.microsoft.icon"},
    **{".md": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml"},
    **{".js": "text/javascript", ".rst": "text/x-rst", ".log": "text/plain", ".jsonl": "application/jsonl"},
}
_BEGINNINGS = {
    **{b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"BM": "image/bmp"},
    **{b"ID3": "audio/mpeg", b"\xff\xfb": "audio/mpeg", b"fLaC": "audio/flac", b"OggS": "audio/ogg"},
}
_TEXTS = {
    *("application/json", "application/jsonl", "application/xml", "application/yaml", "application/toml"),
    *("application/javascript", "application/sql", "application/x-sh"),
}
Source = str | os.PathLike[str]


class Media:
    """The base of Image, Audio and File. Make one of those.

    path: of a file, which is read now.  data: the bytes instead.  mime_type: found out where it is not given.
    annotations: for whom it is, and how much it matters.  meta: the block's `_meta`.
    """

    def __init__(
        self,
        path: Source | None = None,
        *,
        data: bytes | str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ):
        what = type(self).__name__
        if (path is None) == (data is None):
            raise ValueError(f"{what} takes either a path or data=")
        if isinstance(data, str) and not isinstance(self, File):
            raise ValueError(f"{what}: data= is bytes, and no Base64: those can be decoded with base64.b64decode")
        self.name = Path(path).name if path is not None else ""
        self.data = Path(path).read_bytes() if path is not None else data
        self.mime_type = mime_type or _type_of(self.name) or _sniffed(self.data)
        self.annotations = annotations
        self.meta = meta

    def block(self) -> ContentBlock:
        """The content block."""
        raise NotImplementedError

    def contents(self, uri: str) -> ResourceContents:
        """The contents of the resource `uri`."""
        return ResourceContents(uri, blob=self._encoded(), mime_type=self.mime_type, meta=self.meta)

    def _encoded(self) -> str:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return base64.b64encode(data or b"").decode()

    def _of_kind(self, kind: str) -> str:
        """The MIME type, which is of this kind. Raises: ValueError."""
        name, found = repr(self.name) if self.name else "this data", self.mime_type
        if found is None:
            raise ValueError(f"the type of {name} is not known: give mime_type=, such as {kind}")
        if not found.startswith(kind.partition("/")[0] + "/"):
            raise ValueError(
                f"{name} is of the type {found}, which is no {type(self).__name__}: a File can be anything"
            )
        return found


class Image(Media):
    """An image: `Image("plot.png")`, `Image(data=png, mime_type="image/png")`.

    Raises: OSError if the file cannot be read; ValueError if it is not known as an image.
    """

    def __init__(self, path: Source | None = None, **options: Any):
        super().__init__(path, **options)
        self._of_kind("image/png")

    def block(self) -> ImageContent:
        """The content block."""
        return ImageContent(self._encoded(), str(self.mime_type), self.annotations, self.meta)


class Audio(Media):
    """A sound: `Audio("bell.wav")`, `Audio(data=wav, mime_type="audio/wav")`.

    Raises: OSError if the file cannot be read; ValueError if it is not known as a sound.
    """

    def __init__(self, path: Source | None = None, **options: Any):
        super().__init__(path, **options)
        self._of_kind("audio/wav")

    def block(self) -> AudioContent:
        """The content block."""
        return AudioContent(self._encoded(), str(self.mime_type), self.annotations, self.meta)


class File(Media):
    """A file that travels inside a result: `File("report.pdf")`, `File(data="a,b", uri="data://table.csv")`. It is text
    where its type is, and it can be read as UTF-8.

    uri: what the client knows it by. Of a path it is `file:///` and the file's name, so that the client does not learn
    where files lie.

    Raises: OSError if the file cannot be read; ValueError without a uri for data.
    """

    def __init__(self, path: Source | None = None, *, uri: str | None = None, **options: Any):
        super().__init__(path, **options)
        if uri is None and not self.name:
            raise ValueError("File: data= needs a uri=")
        self.uri = uri or f"file:///{quote(self.name)}"
        if self.mime_type is None:
            self.mime_type = _type_of(urlsplit(self.uri).path or self.uri)
        if self.mime_type is None:
            self.mime_type = "text/plain" if isinstance(self.data, str) else "application/octet-stream"

    def block(self) -> EmbeddedResource:
        """The content block."""
        contents = self.contents(self.uri)
        contents.meta = None
        return EmbeddedResource(contents, self.annotations, self.meta)

    def contents(self, uri: str) -> ResourceContents:
        """The contents of the resource `uri`."""
        text = self._text()
        if text is None:
            return super().contents(uri)
        return ResourceContents(uri, text=text, mime_type=self.mime_type, meta=self.meta)

    def _text(self) -> str | None:
        if isinstance(self.data, str):
            return self.data
        kind = (self.mime_type or "").partition(";")[0].strip().lower()
        if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
            return None
        try:
            return (self.data or b"").decode()
        except UnicodeDecodeError:
            return None


def link(
    uri: str,
    name: str | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | None = None,
) -> ResourceLink:
    """A link to a resource, for the client to read or to show (server/tools, Resource Links).

    name: default the last part of the uri.  mime_type: default what the name tells.  size: in bytes.
    """
    last = urlsplit(uri).path.rstrip("/").rpartition("/")[2] or urlsplit(uri).netloc or uri
    return ResourceLink(
        uri, name or last, title, description, mime_type or _type_of(last), size, annotations=annotations
    )


@functools.cache
def _table() -> mimetypes.MimeTypes:
    """The same on every machine."""
    import mimetypes

    return mimetypes.MimeTypes(filenames=())


def _type_of(name: str) -> str | None:
    suffix = os.path.splitext(name)[1].lower()
    return _OURS.get(suffix) or _table().guess_type("x" + suffix, strict=False)[0]


def _sniffed(data: bytes | str | None) -> str | None:
    if not isinstance(data, bytes):
        return None
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), None)
