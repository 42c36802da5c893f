"""Challenges, as they are written."""

from backchannel.server.auth.refusal import challenge


def test_what_is_in_quotes_stays_in_them() -> None:
    assert challenge("Bearer", {"a": 'say "x", \\\\ y', "b": None, "c": "", "d": "1"}) == (
        b"www-authenticate",
        b'Bearer a="say \\"x\\", \\\\\\\\ y", d="1"',
    )
    assert challenge("Bearer", {}) == (b"www-authenticate", b"Bearer")
    assert challenge("Bearer", {"a": "\u00e4"}) == (b"www-authenticate", b'Bearer a="?"')
