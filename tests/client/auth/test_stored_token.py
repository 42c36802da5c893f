"""Tokens as they are stored."""

import pytest

from backchannel.client.auth import stored_token
from backchannel.client.auth.discovery import Discovered
from backchannel.client.auth.documents import ServerMetadata
from backchannel.client.auth.registration import Registration
from backchannel.client.auth.steps import Token
from tests.client.auth.world import SERVER, World

TOKEN = Token("access-hidden", "DPoP", "a b", 2.5, "refresh-hidden", 1.5)
FOUND = Discovered("r", None, ServerMetadata(issuer="i", token_endpoint="t"), "m")


def kept() -> World:
    world = World()
    world.run(stored_token.save(SERVER, TOKEN, FOUND, Registration(issuer="i", client_id="c"), ("a", "b", "c")))
    return world


def test_what_is_stored_comes_back() -> None:
    found = kept().run(stored_token.load(SERVER))
    assert found.token == TOKEN
    assert (found.issuer, found.client_id, found.resource, found.requested, found.metadata_url) == (
        "i",
        "c",
        "r",
        ("a", "b", "c"),
        "m",
    )


@pytest.mark.case("I03")
def test_a_slash_at_the_end_of_the_url_makes_no_difference() -> None:
    assert kept().run(stored_token.load(SERVER + "/#x")).token == TOKEN


def test_other_servers_have_others() -> None:
    world = kept()
    assert world.run(stored_token.load("https://mcp.test/other")) is None
    world.run(stored_token.forget(SERVER))
    assert world.run(stored_token.load(SERVER)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]", b'{"issuer": 1}', b"[" * 100_000])
def test_what_cannot_be_read_is_as_if_it_were_not_there(content: bytes) -> None:
    world = kept()
    (key,) = world.kept
    world.kept[key] = content
    assert world.run(stored_token.load(SERVER)) is None


@pytest.mark.parametrize("registered", [True, False])
def test_a_secret_of_the_user_is_not_stored(registered: bool) -> None:
    client = Registration(issuer="i", client_id="c", client_secret="hidden", registered=registered)
    world = World()
    world.run(stored_token.save(SERVER, TOKEN, FOUND, client, ()))
    assert (b"client_secret" in next(iter(world.kept.values()))) is registered


def test_no_token_is_shown() -> None:
    assert "hidden" not in repr(kept().run(stored_token.load(SERVER)))
