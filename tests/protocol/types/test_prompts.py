"""Wire types of prompts: what is written fits the schemas, and content of unknown kinds survives reading."""

import json

import msgspec
import pytest

from backchannel.protocol.types.base import Icon
from backchannel.protocol.types.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from backchannel.protocol.types.prompts import (
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    decode_get_prompt_result,
)
from backchannel.protocol.versions import Version
from tests.wire_schemas import BOTH, check_result


@BOTH
def test_lists(version: Version) -> None:
    arguments = [PromptArgument("a", "A", "One", True), PromptArgument("b", required=False), PromptArgument("c")]
    whole = Prompt("p", "P", "One", arguments, [Icon("data:,")], {"x": 1})
    listed = ListPromptsResult([whole, Prompt("q")], "next", 5, "public", {"y": 2})
    written = check_result(version, "ListPromptsResult", "prompts/list", listed)
    assert written["prompts"][0]["arguments"][1:] == [{"name": "b", "required": False}, {"name": "c"}]
    assert written["prompts"][1] == {"name": "q"}
    check_result(version, "ListPromptsResult", "prompts/list", ListPromptsResult([]))


MESSAGES = [
    PromptMessage("user", TextContent("hi", meta={"x": 1})),
    PromptMessage("assistant", ImageContent("AAAA", "image/png")),
    PromptMessage("user", AudioContent("AAAA", "audio/wav")),
    PromptMessage("user", ResourceLink("file:///a", "a")),
    PromptMessage("user", EmbeddedResource(ResourceContents("file:///a", text="b"))),
]


@BOTH
def test_messages(version: Version) -> None:
    result = GetPromptResult(MESSAGES, "One", {"x": 1})
    written = check_result(version, "GetPromptResult", "prompts/get", result)
    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user", "user", "user"]
    assert decode_get_prompt_result(json.dumps(written).encode()).messages == MESSAGES
    check_result(version, "GetPromptResult", "prompts/get", GetPromptResult([]))


def test_unknown_content_is_kept_as_it_came() -> None:
    raw = b'{"messages":[{"role":"user","content":{"type":"hologram","x":[1, 2]}}],"description":"d","_meta":{"x":1}}'
    result = decode_get_prompt_result(raw)
    [message] = result.messages
    assert isinstance(message.content, UnknownContent) and message.content.raw == b'{"type":"hologram","x":[1, 2]}'
    assert (result.description, result.meta) == ("d", {"x": 1})


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"messages":{}}',
        b'{"messages":[{"role":"system","content":{"type":"text","text":"a"}}]}',
        b'{"messages":[{"role":"user","content":{"type":"text"}}]}',
        b'{"messages":[{"role":"user","content":[]}]}',
        b'{"messages":[{"role":"user"}]}',
    ],
)
def test_other_shapes_are_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_get_prompt_result(raw)
