"""What the host's model said, as each version writes it."""

from typing import Any

import pytest

from backchannel.client.sampled import fitted
from backchannel.errors import LocalProtocolError
from backchannel.protocol.types.content import AudioContent, ImageContent, TextContent, ToolUseContent
from backchannel.protocol.types.sampling import CreateMessageResult
from backchannel.protocol.versions import FEATURES, SUPPORTED, Version

TEXT, IMAGE, SOUND = TextContent("hi"), ImageContent("aGk=", "image/png"), AudioContent("aGk=", "audio/wav")
USE = ToolUseContent("1", "weather", {})
SINGLE = [version for version in SUPPORTED if not FEATURES[version].sampling_tools]


def said(content: Any) -> CreateMessageResult:
    return CreateMessageResult("assistant", content, "m", "endTurn")


@pytest.mark.parametrize("version", SUPPORTED)
def test_one_block_is_the_same_everywhere(version: Version) -> None:
    for block in (TEXT, IMAGE):
        assert fitted(said(block), version) == said(block)


@pytest.mark.parametrize("version", SINGLE)
def test_before_2025_11_25_a_message_has_one_block(version: Version) -> None:
    assert fitted(said([IMAGE]), version) == said(IMAGE)
    assert fitted(said([TEXT, TextContent("there")]), version) == said(TextContent("hi\nthere"))
    assert fitted(said([]), version) == said(TextContent(""))
    with pytest.raises(LocalProtocolError, match=f"{version} has no messages of several blocks"):
        fitted(said([TEXT, IMAGE]), version)
    for content in (USE, [USE], [TEXT, USE]):
        with pytest.raises(LocalProtocolError, match="no tools"):
            fitted(said(content), version)


@pytest.mark.parametrize("version", [Version.V2025_11_25, Version.V2026_07_28])
def test_since_then_it_has_several(version: Version) -> None:
    for content in ([TEXT, IMAGE], [USE, USE], [TEXT], []):
        assert fitted(said(content), version) == said(content)


def test_sound_came_with_2025_03_26() -> None:
    assert fitted(said(SOUND), Version.V2025_03_26) == said(SOUND)
    for content in (SOUND, [SOUND]):
        with pytest.raises(LocalProtocolError, match="no sound"):
            fitted(said(content), Version.V2024_11_05)
