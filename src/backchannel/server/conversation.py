"""A conversation with a model, as authors write it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import INTERNAL_ERROR, LocalProtocolError
from ..media import Media
from ..protocol.conversation import problem
from ..protocol.types.content import SamplingContent, TextContent, ToolResultContent
from ..protocol.types.sampling import CreateMessageResult, SamplingMessage

Turn = str | Media | SamplingContent | SamplingMessage | CreateMessageResult
"""What somebody says: a text, image, sound or tool's result of the user, a message of either side, or an answer of the
model that came back earlier."""
_TURN = "a text, an Image, an Audio, a content block, a SamplingMessage, or an earlier answer"


def conversation(turns: Turn | Sequence[Turn]) -> list[SamplingMessage]:
    """The messages of a conversation. What follows one another of the same kind becomes one message.

    Raises: TypeError for what a message cannot hold; LocalProtocolError where tools and their results do not match.
    """
    messages: list[SamplingMessage] = []
    loose = False  # whether the last message was made of blocks, and may take one more
    for turn in [turns] if isinstance(turns, Turn) else turns:
        if isinstance(turn, SamplingMessage | CreateMessageResult):
            messages.append(_message(turn))
            loose = False
            continue
        block = _block(turn)
        if loose and _is_result(messages[-1].blocks[0]) is _is_result(block):
            messages[-1].content = [*messages[-1].blocks, block]
        else:
            messages.append(SamplingMessage("user", block))
        loose = True
    if (wrong := problem(messages)) is not None:
        raise LocalProtocolError(INTERNAL_ERROR, wrong)
    return messages


def single(messages: Sequence[SamplingMessage]) -> list[SamplingMessage]:
    """The same conversation, for a version whose messages have one block each."""
    return [SamplingMessage(message.role, block, message.meta) for message in messages for block in message.blocks]


def _message(turn: SamplingMessage | CreateMessageResult) -> SamplingMessage:
    content: Any = turn.content
    given = [_block(item) for item in content] if isinstance(content, list) else _block(content)
    return SamplingMessage(turn.role, given, turn.meta if isinstance(turn, SamplingMessage) else None)


def _block(item: Any) -> SamplingContent:
    block = TextContent(item) if isinstance(item, str) else item.block() if isinstance(item, Media) else item
    if not isinstance(block, SamplingContent):
        raise TypeError(f"a conversation with a model is made of {_TURN}, not of {type(item).__name__}")
    if not isinstance(block, ToolResultContent):
        return block
    inner: list[Any] = [part.block() if isinstance(part, Media) else part for part in block.content]
    return msgspec.structs.replace(block, content=inner)


def _is_result(block: SamplingContent) -> bool:
    return isinstance(block, ToolResultContent)
