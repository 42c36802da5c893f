"""What the host's model has said, in the form that a version has for it."""

from __future__ import annotations

import msgspec

from ..errors import INTERNAL_ERROR, LocalProtocolError
from ..protocol.types.content import AudioContent, TextContent, ToolUseContent
from ..protocol.types.sampling import CreateMessageResult
from ..protocol.versions import FEATURES, Version


def fitted(result: CreateMessageResult, version: Version) -> CreateMessageResult:
    """The same message as `version` writes it: several blocks, and tools, came with 2025-11-25, sound with 2025-03-26.

    Raises: LocalProtocolError for what it cannot write.
    """
    features, blocks = FEATURES[version], result.blocks
    lacks = "sound" if not features.audio and any(isinstance(block, AudioContent) for block in blocks) else None
    if not features.sampling_tools:
        if any(isinstance(block, ToolUseContent) for block in blocks):
            lacks = "tools"
        elif len(blocks) != 1 and not all(isinstance(block, TextContent) for block in blocks):
            lacks = "messages of several blocks"
    if lacks is not None:
        text = f"protocol version {version} has no {lacks} in sampling, so the model's answer cannot be sent"
        raise LocalProtocolError(INTERNAL_ERROR, text)
    if features.sampling_tools or not isinstance(result.content, list):
        return result
    content = blocks[0] if len(blocks) == 1 else TextContent(result.text)
    return msgspec.structs.replace(result, content=content)
