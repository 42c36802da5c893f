"""Tokens for a person whom the enterprise's identity provider knows."""

from urllib.parse import parse_qsl

import pytest

from backchannel.client.auth.enterprise import EnterpriseManaged, IdentityProvider
from backchannel.client.auth.private_key import PrivateKey
from backchannel.client.auth.signing import SigningKey
from backchannel.client.auth.workload import JWT_BEARER
from backchannel.errors import ConfigurationError, LoginFailed
from backchannel.testing.auth.misbehaviour import Misbehaviour
from backchannel.testing.auth.server import AuthServer
from tests.client.auth.world import SERVER, Fetch, Fetched, World, refused

PROVIDER = "https://idp.test"
TYPE = "urn:ietf:params:oauth:token-type:"


class Enterprise(World):
    """A world with an identity provider that the authorization server trusts."""

    def __init__(self) -> None:
        super().__init__({"scopes_supported": ["read"]}, scopes=["read", "write"])
        self.idp = AuthServer(PROVIDER, subject="bob", clock=lambda: self.now)
        self.idp.add_client("desk", "idp-secret", known_as={self.auth.issuer: "chat"})
        self.auth.add_client("chat", "as-secret")
        self.auth.trust(self.idp)
        self.exchanges: list[dict[str, str]] = []

    @property
    def identity(self) -> str:
        return self.idp.id_token(client="desk")

    def _fetch(self, step: Fetch) -> Fetched:
        if not step.url.startswith(PROVIDER):
            return super()._fetch(step)
        if step.method == "POST":
            self.exchanges.append(dict(parse_qsl(step.body.decode())))
        response = self.idp.fetch(step.method, step.url, step.headers, step.body)
        return Fetched(response.status, dict(response.headers), response.body, step.url)


@pytest.fixture
def world() -> Enterprise:
    return Enterprise()


def managed(world: Enterprise) -> EnterpriseManaged:
    provider = IdentityProvider(PROVIDER, "desk", "idp-secret")
    return EnterpriseManaged(provider, lambda: world.identity, "chat", "as-secret")


def test_an_identity_becomes_an_assertion_and_that_a_token(world: Enterprise) -> None:
    token = world.run(managed(world).obtain(refused()))
    (exchange,) = world.exchanges
    assert exchange["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert exchange["requested_token_type"] == TYPE + "id-jag"
    assert exchange["subject_token_type"] == TYPE + "id_token"
    assert (exchange["audience"], exchange["resource"], exchange["scope"]) == (world.auth.issuer, SERVER, "read")
    (asked,) = world.posted[-1:]
    assert (asked["grant_type"], asked["resource"]) == (JWT_BEARER, SERVER)
    assert token.scope == "read"
    assert world.auth.tokens.access(token.access_token).grant.subject == "bob"
    assert (world.opened, world.kept) == ([], {})


def test_each_token_has_an_assertion_of_its_own(world: Enterprise) -> None:
    """The authorization server takes none twice."""
    auth = managed(world)
    first = world.run(auth.obtain(refused()))
    assert world.run(auth.obtain(refused(token=first))).access_token != first.access_token
    assert len(world.exchanges) == 2


def test_the_provider_is_asked_where_its_token_endpoint_is(world: Enterprise) -> None:
    world.run(managed(world).obtain(refused()))
    assert f"{PROVIDER}/.well-known/oauth-authorization-server" in world.urls
    given = IdentityProvider(PROVIDER, "desk", "idp-secret", token_endpoint=f"{PROVIDER}/token")
    world.fetched.clear()
    world.run(EnterpriseManaged(given, world.identity, "chat", "as-secret").obtain(refused()))
    assert f"{PROVIDER}/.well-known/oauth-authorization-server" not in world.urls


def test_a_key_shows_the_provider_who_it_is(world: Enterprise) -> None:
    key = SigningKey.generate()
    world.idp.add_client("signer", jwks={"keys": [key.public]}, known_as={world.auth.issuer: "chat"})
    provider = IdentityProvider(PROVIDER, "signer", private_key=PrivateKey(key.to_json()))
    identity = world.idp.id_token(client="signer")
    assert world.run(EnterpriseManaged(provider, identity, "chat", "as-secret").obtain(refused())).access_token


def test_a_provider_that_refuses_is_named(world: Enterprise) -> None:
    auth = EnterpriseManaged(IdentityProvider(PROVIDER, "desk", "idp-secret"), "no.id.token", "chat", "as-secret")
    with pytest.raises(LoginFailed, match=r"https://idp\.test issued no token: invalid_grant") as refusal:
        world.run(auth.obtain(refused()))
    assert refusal.value.error == "invalid_grant"
    assert "no.id.token" not in str(refusal.value)
    assert len(world.posted) == 1  # which went to the provider


def test_another_kind_of_token_is_no_assertion(world: Enterprise) -> None:
    world.idp.misbehaviour = Misbehaviour(exchange_type=TYPE + "access_token")
    with pytest.raises(LoginFailed, match="another kind of token"):
        world.run(managed(world).obtain(refused()))


def test_a_provider_without_metadata_needs_its_token_endpoint_given(world: Enterprise) -> None:
    world.idp.misbehaviour = Misbehaviour(metadata_at=frozenset())
    with pytest.raises(LoginFailed, match="give its token_endpoint"):
        world.run(managed(world).obtain(refused()))


def test_an_answer_that_is_no_json_is_an_error(world: Enterprise) -> None:
    world.idp.misbehaviour = Misbehaviour(token_garbage=True)
    with pytest.raises(LoginFailed, match="HTTP 500"):
        world.run(managed(world).obtain(refused()))


def test_nothing_goes_to_a_provider_without_tls(world: Enterprise) -> None:
    provider = IdentityProvider(PROVIDER, "desk", "idp-secret", token_endpoint="http://idp.test/token")
    with pytest.raises(LoginFailed, match="no https URL"):
        world.run(EnterpriseManaged(provider, world.identity, "chat", "as-secret").obtain(refused()))
    assert world.exchanges == []


def test_nothing_of_it_shows_a_secret(world: Enterprise) -> None:
    provider = IdentityProvider(PROVIDER, "desk", "idp-secret")
    shown = f"{provider!r} {EnterpriseManaged(provider, 'id-token', 'chat', 'as-secret')!r}"
    assert not {"idp-secret", "as-secret", "id-token"} & set(shown.replace("'", " ").split())


def test_what_cannot_work_is_refused_at_once() -> None:
    provider = IdentityProvider(PROVIDER, "desk")
    with pytest.raises(ConfigurationError, match="by a client_id"):
        EnterpriseManaged(provider, "token", "")
    with pytest.raises(ConfigurationError, match="identity is a text, or a function"):
        EnterpriseManaged(provider, "", "chat")
