"""The protocol versions, and every difference between them as a table.

Nothing outside this module compares versions: code asks `FEATURES[version]` or calls a function from here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from ..errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, UnsupportedVersion
from .types.base import Wire
from .types.content import AudioContent, ResourceLink, TextContent
from .types.mrtr import InputRequiredResult
from .types.prompts import PromptMessage
from .types.tools import CallToolResult, CompleteToolResult


class Era(enum.Enum):
    """Legacy versions have sessions that begin with `initialize`; modern ones carry all metadata in each request
    (basic/versioning, Terminology)."""

    LEGACY = "legacy"
    MODERN = "modern"


class Version(enum.StrEnum):
    """A protocol version. It equals its name on the wire: `ctx.version == "2026-07-28"`."""

    V2024_11_05 = "2024-11-05"
    V2025_03_26 = "2025-03-26"
    V2025_06_18 = "2025-06-18"
    V2025_11_25 = "2025-11-25"
    V2026_07_28 = "2026-07-28"

    @property
    def era(self) -> Era:
        """Whether this version is legacy or modern."""
        return FEATURES[self].era

    @cached_property
    def is_modern(self) -> bool:
        """True for the stateless protocol."""
        return FEATURES[self].era is Era.MODERN


@dataclass(frozen=True, slots=True)
class Features:
    """What a protocol version has. Fields that are off were introduced later, or removed.

    audio, resource_links: whether tool results may have such blocks.
    structured: what `structuredContent` may be: "none", an "object", or "any" JSON value.
    tool: the members of a tool in `tools/list`.  later: those that prompts and resources do not have yet.
    polling: whether a server may close the connection of an event stream before its end, and the client comes back for
    the rest; so a stream begins with an event that has an id and no data.
    """

    era: Era = Era.LEGACY
    batches: bool = False
    audio: bool = False
    resource_links: bool = False
    structured: Literal["none", "object", "any"] = "none"
    elicitation: frozenset[str] = frozenset()
    elicitation_submodes: bool = False
    sampling_tools: bool = False
    sampling_context_gate: bool = False
    form: Literal["none", "plain", "titled"] = "none"
    version_header: bool = False
    url_elicitation_id: bool = False
    tool: frozenset[str] = frozenset({"name", "description", "inputSchema"})
    later: frozenset[str] = frozenset({"title", "icons", "size", "_meta"})
    polling: bool = False
    not_found: int = RESOURCE_NOT_FOUND


_FORM, _BOTH = frozenset({"form"}), frozenset({"form", "url"})
_MAR25_TOOL = Features().tool | {"annotations"}
_ICONS = frozenset({"icons"})
_JUN25_TOOL = _MAR25_TOOL | {"title", "outputSchema", "_meta"}
_NOV25: dict[str, Any] = {
    "audio": True,
    "resource_links": True,
    "elicitation": _BOTH,
    "elicitation_submodes": True,
    "sampling_tools": True,
    "sampling_context_gate": True,
    "form": "titled",
    "version_header": True,
    "tool": _JUN25_TOOL | {"icons"},
    "later": frozenset(),
}

FEATURES: dict[Version, Features] = {
    Version.V2024_11_05: Features(),
    Version.V2025_03_26: Features(batches=True, audio=True, tool=_MAR25_TOOL, later=_ICONS | {"title", "_meta"}),
    Version.V2025_06_18: Features(
        audio=True,
        resource_links=True,
        structured="object",
        elicitation=_FORM,
        form="plain",
        version_header=True,
        tool=_JUN25_TOOL,
        later=_ICONS,
    ),
    Version.V2025_11_25: Features(structured="object", url_elicitation_id=True, polling=True, **_NOV25),
    Version.V2026_07_28: Features(era=Era.MODERN, structured="any", not_found=INVALID_PARAMS, **_NOV25),
}

SUPPORTED = tuple(reversed(Version))
"""Newest first."""
LEGACY = tuple(version for version in SUPPORTED if version.era is Era.LEGACY)
MODERN = tuple(version for version in SUPPORTED if version.era is Era.MODERN)
LATEST_LEGACY = LEGACY[0]
LATEST_MODERN = MODERN[0]
ASSUMED = Version.V2025_03_26
"""What an HTTP request that does not say its version speaks (2025-11-25 basic/transports, Protocol Version Header)."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"


_BY_NAME: dict[str, Version] = {version.value: version for version in Version}
_LEGACY_NAMES, _MODERN_NAMES = (frozenset(version.value for version in era) for era in (LEGACY, MODERN))


def parse(name: str) -> Version | None:
    """The version of this name, or None if it is not one of ours."""
    return _BY_NAME.get(name)


def is_legacy(name: str) -> bool:
    """True for the name of a legacy version that we speak."""
    return name in _LEGACY_NAMES


def is_modern(name: str) -> bool:
    """True for the name of a modern version that we speak."""
    return name in _MODERN_NAMES


def negotiate(offer: str) -> Version:
    """The server's answer to an `initialize` that offers `offer`: the same version if it is a legacy one that we
    speak, else our latest legacy one (2025-11-25 basic/lifecycle, Version Negotiation). Never a modern version."""
    version = parse(offer)
    return version if version is not None and version.era is Era.LEGACY else LATEST_LEGACY


def served(requested: str) -> list[str]:
    """The versions to name to a client whose request names `requested`, which is not served (basic/versioning, Protocol
    Version Negotiation): all that we speak, but for the name of a legacy version, which only `initialize` can choose,
    the modern ones, so that the client does not try it again."""
    return [version.value for version in (MODERN if is_legacy(requested) else SUPPORTED)]


def unsupported(requested: str) -> UnsupportedVersion:
    """The error for a request that names a version which is not served (basic/versioning)."""
    return UnsupportedVersion(requested[:200], served(requested), "Unsupported protocol version")


def choose(supported: list[str]) -> Version | None:
    """The client's choice from a server's list: the newest that both speak, or None."""
    return next((version for version in SUPPORTED if version.value in supported), None)


_LISTED = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)


def finish(version: Version, method: str, result: Wire | dict[str, Any], server_info: Any) -> Wire | dict[str, Any]:
    """Give a result the members that its version wants: on modern `resultType`, `serverInfo` in `_meta`
    (basic/index, Per-response protocol fields), and the cache hints of list and read results
    (server/utilities/caching). On legacy, leave out or degrade what that version does not know.

    result: as a type of the wire, or as a dict of its wire names, which is changed and returned.
    """
    features = FEATURES[version]
    if features.era is Era.MODERN and isinstance(result, (CallToolResult, InputRequiredResult)):
        return _finished(result, server_info)  # in a third of the time
    if isinstance(result, Wire):
        result = result.members()
    if features.era is Era.MODERN:
        result.setdefault("resultType", "complete")
        result["_meta"] = {META_SERVER_INFO: server_info, **(result.get("_meta") or {})}
        if method in CACHEABLE and result["resultType"] == "complete":
            result.setdefault("ttlMs", 0)
            result.setdefault("cacheScope", "private")
        return result
    for name in ("resultType", "ttlMs", "cacheScope"):
        result.pop(name, None)
    if (entries := _LISTED.get(method)) is not None and features.later:
        result[entries] = [_without(features.later, entry) for entry in result.get(entries, ())]
    elif method == "initialize" and features.later:
        result["serverInfo"] = _without(features.later | {"description", "websiteUrl"}, result["serverInfo"])
    elif method == "tools/list":
        result["tools"] = [_legacy_tool(features, tool) for tool in result.get("tools", ())]
    elif method == "tools/call":
        if "structuredContent" in result and not _carries(features, result["structuredContent"]):
            del result["structuredContent"]
        if not (features.audio and features.resource_links):
            result["content"] = [_legacy_block(version, block) for block in result.get("content", ())]
    elif method == "prompts/get" and not (features.audio and features.resource_links):
        result["messages"] = [
            PromptMessage(message.role, _legacy_block(version, message.content))
            if isinstance(message, PromptMessage)
            else message
            for message in result.get("messages", ())
        ]
    return result


def _finished(result: CallToolResult | InputRequiredResult, server_info: Any) -> Wire:
    about = {META_SERVER_INFO: server_info, **(result.meta or {})}
    if isinstance(result, CallToolResult):
        return CompleteToolResult(result.content, result.structured_content, result.is_error, "complete", about)
    return msgspec.structs.replace(result, meta=about)


def _without(members: frozenset[str], entry: Wire | dict[str, Any]) -> dict[str, Any]:
    """An entry without the members that its version lacks."""
    given = entry.members() if isinstance(entry, Wire) else entry
    return {name: value for name, value in given.items() if name not in members}


def _carries(features: Features, value: Any) -> bool:
    """Whether a legacy version may carry this structured content: an object, or nothing at all."""
    if features.structured == "none":
        return False
    if isinstance(value, msgspec.Raw):
        first = bytes(memoryview(value)[:1])  # it may be long, and is copied only where it begins with white space
        return (bytes(value).lstrip()[:1] if first.isspace() else first) == b"{"
    return isinstance(msgspec.to_builtins(value), dict)


def _legacy_tool(features: Features, tool: Wire | dict[str, Any]) -> dict[str, Any]:
    """A tool's entry without the members that its version lacks: before 2026-07-28 an output schema is an object's."""
    members = tool.members() if isinstance(tool, Wire) else tool
    shown = features.tool
    if (members.get("outputSchema") or {}).get("type") != "object":
        shown = shown - {"outputSchema"}
    return {name: value for name, value in members.items() if name in shown}


def _legacy_block(version: Version, block: Any) -> Any:
    """A content block, or the text that stands in its place where its type came later: strict clients refuse a whole
    result for one block that they do not know."""
    features = FEATURES[version]
    if isinstance(block, AudioContent) and not features.audio:
        return TextContent(f"[{block.mime_type}: protocol version {version} has no audio]")
    if isinstance(block, ResourceLink) and not features.resource_links:
        return TextContent(f"{block.title or block.name}: {block.uri}")
    return block
