"""Tokens for a program itself, against the embedded authorization server."""

import pytest

from backchannel.client.auth.auth import Demand, Why
from backchannel.client.auth.client_credentials import ClientCredentials
from backchannel.client.auth.private_key import PrivateKey
from backchannel.client.auth.signing import SigningKey
from backchannel.errors import ConfigurationError, LoginFailed
from tests.client.auth.world import METADATA, SERVER, World, refused, too_narrow

KEY = SigningKey.generate()


@pytest.fixture
def world() -> World:
    world = World({"scopes_supported": ["read"]}, scopes=["read", "write", "offline_access"])
    world.auth.add_client("robot", "s3cret")
    return world


def test_a_secret_gets_a_token_and_nobody_is_asked(world: World) -> None:
    token = world.run(ClientCredentials("robot", "s3cret").obtain(refused()))
    assert world.urls == [
        METADATA,
        "https://auth.test/.well-known/oauth-authorization-server",
        "https://auth.test/token",
    ]
    (sent,) = world.posted
    assert (sent["grant_type"], sent["resource"], sent["scope"]) == ("client_credentials", SERVER, "read")
    assert "client_secret" not in sent
    assert (token.scope, token.refresh_token, world.opened, world.kept) == ("read", None, [], {})


def test_a_secret_goes_into_the_body_where_the_server_wants_it_there() -> None:
    world = World(methods=["client_secret_post"])
    world.auth.add_client("robot", "s3cret", method="client_secret_post")
    assert world.run(ClientCredentials("robot", "s3cret").obtain(refused())).access_token
    assert world.posted[0]["client_secret"] == "s3cret"


def test_a_key_shows_who_it_is_to_this_server_only(world: World) -> None:
    world.auth.add_client("signer", jwks={"keys": [KEY.public]})
    credentials = ClientCredentials("signer", private_key=PrivateKey(KEY.to_json()))
    for _ in range(2):  # each request has an assertion of its own: one that was used before is refused
        assert world.run(credentials.obtain(refused())).access_token
    assert "client_secret" not in world.posted[0]


def test_scopes_that_are_given_take_the_place_of_those_that_are_named(world: World) -> None:
    world.run(ClientCredentials("robot", "s3cret", scopes=["write"]).obtain(refused()))
    assert world.posted[0]["scope"] == "write"


def test_more_scopes_are_asked_for_with_those_before(world: World) -> None:
    credentials = ClientCredentials("robot", "s3cret")
    token = world.run(credentials.obtain(refused()))
    token = world.run(credentials.obtain(too_narrow("write", token)))
    assert token.scope == "read write"


def test_a_server_that_says_once_where_its_metadata_are_need_not_repeat_it(world: World) -> None:
    world.pages["https://mcp.test/elsewhere"] = world.pages.pop(METADATA)
    credentials = ClientCredentials("robot", "s3cret")
    token = world.run(credentials.obtain(refused('Bearer resource_metadata="https://mcp.test/elsewhere"')))
    world.run(credentials.obtain(Demand(SERVER, Why.EXPIRES, token=token)))
    assert len(world.posted) == 2


def test_it_is_bound_to_a_key_where_that_is_wanted(world: World) -> None:
    credentials = ClientCredentials("robot", "s3cret", dpop=True)
    token = world.run(credentials.obtain(refused()))
    assert token.token_type == "DPoP"
    headers = world.run(credentials.sign("POST", SERVER, token))
    assert headers["authorization"] == f"DPoP {token.access_token}"


def test_a_key_for_the_client_and_one_for_the_token_and_nonces_besides() -> None:
    world = World(dpop_nonces=True)
    world.auth.add_client("signer", jwks={"keys": [KEY.public]})
    credentials = ClientCredentials("signer", private_key=PrivateKey(KEY.to_json()), dpop=True)
    assert world.run(credentials.obtain(refused())).token_type == "DPoP"


def test_the_secret_goes_to_no_other_server(world: World) -> None:
    credentials = ClientCredentials("robot", "s3cret", issuer="https://mine.test")
    with pytest.raises(LoginFailed, match=r"https://auth\.test, but this client is known to https://mine\.test"):
        world.run(credentials.obtain(refused()))
    assert world.posted == []


def test_a_wrong_secret_is_refused_and_not_shown(world: World) -> None:
    with pytest.raises(LoginFailed, match="invalid_client") as refusal:
        world.run(ClientCredentials("robot", "wr0ng").obtain(refused()))
    assert refusal.value.error == "invalid_client"
    assert "wr0ng" not in f"{refusal.value}{ClientCredentials('robot', 'wr0ng')!r}"
    assert len(world.posted) == 1


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="a client_id, and a client_secret or a private_key"):
        ClientCredentials("robot")
    with pytest.raises(ConfigurationError, match="not both"):
        ClientCredentials("robot", "s3cret", private_key=PrivateKey(KEY.to_json()))
    with pytest.raises(ConfigurationError, match=r"write \['a', 'b'\]"):
        ClientCredentials("robot", "s3cret", scopes="a b")
