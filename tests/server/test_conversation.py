"""What authors write down as a conversation with a model, and the rules that it has to keep."""

import base64
from typing import Any

import msgspec
import pytest

from backchannel import LocalProtocolError, Sample
from backchannel.protocol.types.content import (
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from backchannel.protocol.types.sampling import CreateMessageResult, SamplingMessage
from backchannel.server.conversation import conversation, single
from backchannel.types import File, Image

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
A, B = ToolUseContent("a", "weather", {"city": "Paris"}), ToolUseContent("b", "weather", {"city": "London"})
CALLS = CreateMessageResult("assistant", [TextContent("Let me see."), A, B], "m", "toolUse")


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def result(id: str, *content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseId": id, "content": list(content)}


WRITTEN: list[tuple[Any, list[tuple[str, Any]]]] = [
    ("Hi", [("user", text("Hi"))]),
    (["Hi"], [("user", text("Hi"))]),
    (("What is it?", Image(data=PNG)), [("user", [text("What is it?"), IMAGE])]),
    (Image(data=PNG), [("user", IMAGE)]),
    (TextContent("Hi"), [("user", text("Hi"))]),
    (SamplingMessage("assistant", TextContent("Ho")), [("assistant", text("Ho"))]),
    (
        ["Hi", CreateMessageResult("assistant", TextContent("Ho"), "m"), "Bye"],
        [("user", text("Hi")), ("assistant", text("Ho")), ("user", text("Bye"))],
    ),
    (
        ["Rain?", CALLS, B.result("no"), A.result("yes", Image(data=PNG)), "Where?", Image(data=PNG)],
        [
            ("user", text("Rain?")),
            ("assistant", [text("Let me see."), *msgspec.to_builtins([A, B])]),
            ("user", [result("b", text("no")), result("a", text("yes"), IMAGE)]),
            ("user", [text("Where?"), IMAGE]),
        ],
    ),
    (
        [SamplingMessage("user", TextContent("one")), "two", SamplingMessage("user", [TextContent("three")]), "four"],
        [("user", text("one")), ("user", text("two")), ("user", [text("three")]), ("user", text("four"))],
    ),
    ([SamplingMessage("user", [Image(data=PNG), "x"])], [("user", [IMAGE, text("x")])]),  # type: ignore[list-item]
    ([], []),
]


@pytest.mark.parametrize(("turns", "messages"), WRITTEN)
def test_what_becomes_messages(turns: Any, messages: list[tuple[str, Any]]) -> None:
    written = msgspec.to_builtins(conversation(turns))
    assert written == [{"role": role, "content": content} for role, content in messages]


def test_what_was_given_stays_as_it_was() -> None:
    given: list[Any] = [
        SamplingMessage("user", [TextContent("a")]),
        "b",
        TextContent("c"),
        A,
        A.result(Image(data=PNG)),
    ]
    before = repr(given[:3])
    with pytest.raises(LocalProtocolError):
        conversation(given)
    conversation(given[:3])
    assert repr(given[:3]) == before and isinstance(given[4].content[0], Image)


def test_a_conversation_goes_on_with_the_answer_and_the_results() -> None:
    turns: list[Any] = ["Rain?"]
    turns += [CALLS, *[use.result("no", is_error=use.id == "b") for use in CALLS.tool_uses]]
    last = conversation(turns)[-1]
    assert last == SamplingMessage(
        "user",
        [
            ToolResultContent("a", [TextContent("no")], is_error=False),
            ToolResultContent("b", [TextContent("no")], is_error=True),
        ],
    )


def test_the_parts_of_an_answer() -> None:
    assert (CALLS.text, CALLS.tool_uses, CALLS.stop_reason) == ("Let me see.", [A, B], "toolUse")
    one = CreateMessageResult("assistant", TextContent("Hi"), "m")
    assert (one.text, one.tool_uses, one.blocks, one.stop_reason) == ("Hi", [], [TextContent("Hi")], None)
    assert one.source == "client"


BROKEN: list[tuple[Any, str]] = [
    (["Rain?", CALLS, A.result("no")], "message 3 .* results of tool calls are missing: b$"),
    (["Rain?", CALLS, "And?"], "message 3 .* missing: a, b$"),
    (["Rain?", CALLS, "And?", A.result("no"), B.result("no")], "message 3 .* missing: a, b$"),
    (["Rain?", CALLS], "ends with tool calls without a result: a, b$"),
    (["Rain?", A.result("no")], "message 2 .* no tool call in the message before: a$"),
    ([A.result("no")], "message 1 .* no tool call"),
    (["Rain?", CALLS, A.result("no"), B.result("no"), B.result("no")], "message 3 .* no tool call .*: b$"),
    (
        [CALLS, SamplingMessage("user", [A.result("no"), B.result("no"), TextContent("So?")])],
        "message 2 .* beside other content",
    ),
    ([CALLS, SamplingMessage("assistant", [A.result("no"), B.result("no")])], "message 2 .* is not the user's"),
    (["Rain?", A], "message 1 .* is not the assistant's"),
    ([SamplingMessage("user", A), A.result("no")], "message 1 .* is not the assistant's"),
    ([CALLS, A.result("no"), B.result("no"), CALLS, A.result("no")], "message 4 .* missing: b$"),
]


@pytest.mark.parametrize(("turns", "problem"), BROKEN)
def test_tools_and_their_results_have_to_match(turns: Any, problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=problem):
        Sample(turns)


@pytest.mark.parametrize(
    "turn", [7, None, {"role": "user"}, ResourceLink("a:b", "b"), File(data="x", uri="a:b"), [["x"]]]
)
def test_what_is_no_part_of_a_conversation(turn: Any) -> None:
    with pytest.raises(TypeError, match="made of a text, an Image"):
        conversation([turn])


def test_a_version_with_one_block_a_message_has_more_messages() -> None:
    messages = conversation(
        ["What is it?", Image(data=PNG), CreateMessageResult("assistant", TextContent("A cat"), "m")]
    )
    assert [(one.role, type(one.content)) for one in single(messages)] == [
        ("user", TextContent),
        ("user", ImageContent),
        ("assistant", TextContent),
    ]
