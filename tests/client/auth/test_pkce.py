"""Proof Key for Code Exchange."""

import base64
import hashlib
import re
from typing import Any

import pytest

from backchannel.client.auth import pkce
from backchannel.client.auth.discovery import Discovered
from backchannel.client.auth.documents import ServerMetadata
from backchannel.errors import LoginFailed
from tests.client.auth.world import World


def test_the_challenge_is_the_digest_of_the_verifier() -> None:
    made = World().run(pkce.new())
    digest = base64.urlsafe_b64encode(hashlib.sha256(made.verifier.encode()).digest()).rstrip(b"=").decode()
    assert made.challenge == digest
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", made.verifier)
    assert len({made.verifier, made.challenge, made.state}) == 3


def test_every_request_has_its_own() -> None:
    world = World()
    one, other = world.run(pkce.new()), world.run(pkce.new())
    assert not {one.verifier, one.state} & {other.verifier, other.state}


def test_secrets_are_not_shown() -> None:
    made = World().run(pkce.new())
    assert made.verifier not in repr(made) and made.state not in repr(made)


@pytest.mark.parametrize("methods", [None, (), ("plain",)])
def test_a_server_that_does_not_say_so_is_refused(methods: Any) -> None:
    metadata = ServerMetadata(issuer="https://as.test", token_endpoint="t", code_challenge_methods_supported=methods)
    with pytest.raises(LoginFailed, match="PKCE"):
        pkce.require(Discovered("r", None, metadata, "m"))
    pkce.require(Discovered("r", None, metadata, None, assumed=True))


def test_one_that_says_so_is_not() -> None:
    methods = ("plain", "S256")
    metadata = ServerMetadata(issuer="https://as.test", token_endpoint="t", code_challenge_methods_supported=methods)
    pkce.require(Discovered("r", None, metadata, "m"))
