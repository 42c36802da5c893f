"""The names of the test kit. A name that joins or leaves is a change to this list and an entry in the changelog."""

import pytest

from backchannel import testing

NAMES = {
    *("connect", "check", "replaying", "Report", "Transcript", "FakeClock"),
    *("People", "ScriptError", "Answer", "accept", "decline", "cancel", "say", "never", "garbage", "error"),
    *("AuthServer", "Misbehaviour"),
}


def test_the_names_are_these() -> None:
    assert set(testing.__all__) == NAMES <= set(dir(testing))
    assert [name for name in sorted(NAMES) if not hasattr(testing, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = testing.no_such_name
