"""cli/terminal.py: text from the other side cannot steer the terminal."""

import pytest

from backchannel.cli.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("größe 5 €", "größe 5 €"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb\x07\x9b", "a\\rb\\x07\\x9b"),
        ("\u202eoverride", "\\u202eoverride"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_control_characters_show_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown
