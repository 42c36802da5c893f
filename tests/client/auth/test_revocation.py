"""Logging out at the authorization server, against the embedded one."""

import pytest

from backchannel.client.auth.oauth import OAuth
from backchannel.client.auth.revocation import revoke
from backchannel.errors import LoginFailed
from tests.client.auth.world import SERVER, World, refused


def test_all_that_came_of_a_login_ends() -> None:
    world = World()
    token = world.run(OAuth().obtain(refused()))
    assert world.run(revoke(SERVER))
    assert world.auth.tokens.access(token.access_token) is None
    world.run(OAuth().obtain(refused(token=token)))
    assert len(world.opened) == 2  # the refresh token has ended, too


def test_a_client_that_was_registered_beforehand_shows_who_it_is() -> None:
    world = World()
    world.auth.add_client("desk", "s3cret")
    token = world.run(OAuth(client_id="desk", client_secret="s3cret").obtain(refused()))
    assert not world.run(revoke(SERVER, "wr0ng"))
    assert world.auth.tokens.access(token.access_token) is not None
    assert world.run(revoke(SERVER, "s3cret"))
    assert world.auth.tokens.access(token.access_token) is None


def test_nothing_is_asked_without_a_login() -> None:
    world = World()
    assert not world.run(revoke(SERVER))
    assert world.fetched == []


def test_a_server_that_cannot_is_not_asked() -> None:
    world = World()
    world.run(OAuth().obtain(refused()))
    place = "https://auth.test/.well-known/oauth-authorization-server"
    world.pages[place] = {"issuer": world.auth.issuer, "token_endpoint": "https://auth.test/token"}
    world.fetched.clear()
    assert not world.run(revoke(SERVER))
    assert world.urls == [place]


def test_a_token_goes_nowhere_without_tls() -> None:
    world = World()
    world.run(OAuth().obtain(refused()))
    place = "https://auth.test/.well-known/oauth-authorization-server"
    world.pages[place] = {
        "issuer": world.auth.issuer,
        "token_endpoint": "https://auth.test/token",
        "revocation_endpoint": "http://auth.test/revoke",
    }
    with pytest.raises(LoginFailed, match="no https URL"):
        world.run(revoke(SERVER))
