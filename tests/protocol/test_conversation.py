"""The rules of a conversation with a model."""

from typing import Any

import pytest

from backchannel.protocol.conversation import problem
from backchannel.protocol.types.content import TextContent, ToolResultContent, ToolUseContent
from backchannel.protocol.types.sampling import SamplingMessage

TEXT = TextContent("hi")


def use(id: str) -> ToolUseContent:
    return ToolUseContent(id, "weather", {})


def result(id: str) -> ToolResultContent:
    return ToolResultContent(id, [TEXT])


def user(*blocks: Any) -> SamplingMessage:
    return SamplingMessage("user", list(blocks))


def model(*blocks: Any) -> SamplingMessage:
    return SamplingMessage("assistant", list(blocks))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user(TEXT)],
        [user(TEXT, TEXT), model(TEXT), user()],
        [user(TEXT), model(TEXT, use("a"), use("b")), user(result("b"), result("a")), model(TEXT)],
        [model(use("a")), user(result("a")), model(use("a")), user(result("a"))],
    ],
)
def test_what_is_right(messages: list[SamplingMessage]) -> None:
    assert problem(messages) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([user(use("a"))], "message 1 of the conversation has a tool call and is not the assistant's"),
        ([model(use("a")), model(result("a"))], "message 2 .* is not the user's"),
        ([model(use("a")), user(result("a"), TEXT)], "message 2 .* beside other content"),
        ([model(use("a"), use("b")), user(result("a"))], "results of tool calls are missing: b"),
        ([model(use("a")), user(TEXT)], "results of tool calls are missing: a"),
        ([user(result("a"))], "results of no tool call in the message before: a"),
        ([user(TEXT), model(use("b"), use("a"))], "ends with tool calls without a result: a, b"),
    ],
)
def test_what_is_wrong(messages: list[SamplingMessage], words: str) -> None:
    wrong = problem(messages)
    assert wrong is not None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(wrong)
