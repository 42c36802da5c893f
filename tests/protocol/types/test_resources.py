"""Wire types of resources: what is written fits the schemas, what is read is not picky."""

import msgspec
import pytest

from backchannel.protocol.types.base import Annotations, Icon
from backchannel.protocol.types.content import ResourceContents
from backchannel.protocol.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceUpdatedParams,
    SubscribeParams,
)
from backchannel.protocol.versions import Version
from tests.wire_schemas import BOTH, check, check_result, read

ICONS = [Icon("https://example.com/i.png", "image/png", ["48x48"], "dark")]
ANNOTATIONS = Annotations(["user"], 0.8, "2025-01-12T15:00:58Z")


@BOTH
def test_lists(version: Version) -> None:
    whole = Resource("file:///a", "a", "A", "One", "text/plain", 7, ICONS, ANNOTATIONS, {"x": 1})
    listed = ListResourcesResult([whole, Resource("file:///b", "b")], "next", 5, "public", {"y": 2})
    written = check_result(version, "ListResourcesResult", "resources/list", listed)
    assert written["resources"][1] == {"uri": "file:///b", "name": "b"}
    assert written["resources"][0]["mimeType"] == "text/plain" and written["nextCursor"] == "next"
    assert written.get("ttlMs") == (5 if version.is_modern else None)
    check_result(version, "ListResourcesResult", "resources/list", ListResourcesResult([]))


@BOTH
def test_lists_of_templates(version: Version) -> None:
    whole = ResourceTemplate("file:///{a}", "a", "A", "One", "text/plain", ICONS, ANNOTATIONS, {"x": 1})
    listed = ListResourceTemplatesResult([whole, ResourceTemplate("b{c}", "b")], "next", 5, "public", {"y": 2})
    written = check_result(version, "ListResourceTemplatesResult", "resources/templates/list", listed)
    assert written["resourceTemplates"][1] == {"uriTemplate": "b{c}", "name": "b"}
    empty = ListResourceTemplatesResult([])
    check_result(version, "ListResourceTemplatesResult", "resources/templates/list", empty)


@BOTH
def test_contents(version: Version) -> None:
    contents = [
        ResourceContents("file:///a", text="", mime_type="text/plain", meta={"x": 1}),
        ResourceContents("file:///b", blob="AAAA"),
    ]
    written = check_result(version, "ReadResourceResult", "resources/read", ReadResourceResult(contents, 5, "private"))
    assert written["contents"][1] == {"uri": "file:///b", "blob": "AAAA"}


@BOTH
def test_no_contents_are_written_too(version: Version) -> None:
    assert check_result(version, "ReadResourceResult", "resources/read", ReadResourceResult([]))["contents"] == []
    assert msgspec.json.encode(ReadResourceResult([])) == b'{"contents":[]}'


@BOTH
def test_updates(version: Version) -> None:
    check(version, "ResourceUpdatedNotificationParams", ResourceUpdatedParams("file:///a"))
    marked = ResourceUpdatedParams("file:///a", {"io.modelcontextprotocol/subscriptionId": 4})
    check(version, "ResourceUpdatedNotificationParams", marked)


def test_subscribing() -> None:
    assert check(Version.V2025_11_25, "SubscribeRequestParams", SubscribeParams(uri="a")) == {"uri": "a"}
    with pytest.raises(msgspec.ValidationError, match="uri"):
        read(SubscribeParams, {})


def test_what_is_read() -> None:
    result = read(
        ListResourcesResult,
        {
            "resultType": "complete",
            "resources": [{"uri": "a", "name": "b", "extra": 1}],
            "ttlMs": -1,
            "cacheScope": "?",
        },
    )
    assert result == ListResourcesResult([Resource("a", "b")], None, -1, "?")
    with pytest.raises(msgspec.ValidationError, match="contents"):
        read(ReadResourceResult, {})
