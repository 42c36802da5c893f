"""What the other side says, in a log."""

import pytest

from backchannel.one_line import one_line


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('it\'s "é"', 'it\'s "é"'),
        ("x\nLOG CRITICAL root", "x\\nLOG CRITICAL root"),
        ("a\r\x1b[2Jb\u2028c\u202ed", "a\\r\\x1b[2Jb\\u2028c\\u202ed"),
        ("\ud800", "\\ud800"),
        (ValueError("a\nb"), "a\\nb"),
        ("x" * 500, "x" * 500),
        ("x" * 10_000, "x" * 499 + "…"),
    ],
)
def test_one_line(said: object, shown: str) -> None:
    assert one_line(said) == shown
