"""The keys that tokens are signed with, and tokens that nobody should accept."""

import sys

import pytest

from backchannel import ConfigurationError
from backchannel.testing.auth.keys import FORGERIES, Keys, peek, read


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "RS256"])
def test_sign_and_read(algorithm: str) -> None:
    keys = Keys(algorithm)
    header, claims = read(keys.sign({"sub": "alice"}, "at+jwt"), keys.jwks())
    assert (header["alg"], header["typ"], claims) == (algorithm, "at+jwt", {"sub": "alice"})


def test_another_algorithm_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="HS256"):
        Keys("HS256")


def test_old_keys_stay_for_a_while() -> None:
    keys = Keys()
    old = keys.sign({"sub": "alice"})
    keys.rotate()
    assert read(old, keys.jwks())[1] == {"sub": "alice"}
    assert read(keys.sign({}), keys.jwks()) and len(keys.jwks()["keys"]) == 2
    with pytest.raises(ValueError, match="signature"):
        read(keys.sign({}), keys.jwks(stale=True))
    keys.rotate()
    keys.rotate()
    with pytest.raises(ValueError, match="signature"):
        read(old, keys.jwks())


def test_replaced_keys_are_gone() -> None:
    keys = Keys()
    old = keys.sign({})
    keys.replace()
    assert len(keys.jwks()["keys"]) == 1
    with pytest.raises(ValueError, match="signature"):
        read(old, keys.jwks())


@pytest.mark.parametrize("how", FORGERIES)
def test_a_forgery_is_a_token_that_reads_like_one_and_is_none(how: str) -> None:
    keys = Keys()
    token = keys.forge({"sub": "mallory"}, how)
    assert peek(token) == {"sub": "mallory"}
    with pytest.raises(ValueError, match="signature"):
        read(token, keys.jwks())


def test_there_is_no_other_forgery() -> None:
    with pytest.raises(ConfigurationError, match="other_key"):
        Keys().forge({}, "magic")


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "e30.W10.x", "e30.é.x"])
def test_what_is_no_jwt(token: str) -> None:
    with pytest.raises(ValueError):
        peek(token)
    with pytest.raises(ValueError):
        read(token, Keys().jwks())


def test_without_joserfc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigurationError, match=r"backchannel\[auth\]"):
        Keys()
