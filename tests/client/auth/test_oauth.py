"""The whole flow, without an event loop, against the embedded authorization server."""

import json
from typing import Any

import pytest

from backchannel.client.auth.auth import Demand, Why
from backchannel.client.auth.challenge import challenge_of
from backchannel.client.auth.oauth import OAuth
from backchannel.client.auth.private_key import PrivateKey
from backchannel.client.auth.signing import SigningKey
from backchannel.client.auth.steps import Token
from backchannel.errors import ConfigurationError, LoginFailed
from backchannel.testing.auth.metadata import metadata
from backchannel.testing.auth.misbehaviour import Misbehaviour
from backchannel.testing.auth.server import AuthServer
from tests.client.auth.world import METADATA, SERVER, World, fetched, refused, too_narrow

DOCUMENT = "https://app.test/client.json"
DOCUMENTS = {
    DOCUMENT: {
        "client_id": DOCUMENT,
        "client_name": "an app",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
}


def login(world: World, oauth: OAuth | None = None, header: str = "Bearer") -> Token:
    token: Token = world.run((oauth or OAuth()).obtain(refused(header)))
    return token


def test_a_login_from_nothing() -> None:
    world = World({"scopes_supported": ["read"]}, scopes=["read", "write"])
    token = login(world)
    assert world.urls == [
        METADATA,
        "https://auth.test/.well-known/oauth-authorization-server",
        "https://auth.test/register",
        "https://auth.test/token",
    ]
    assert (token.token_type, token.scope, token.expires_at) == ("Bearer", "read", world.now + 3600)
    assert world.run(OAuth().recall(SERVER)) == token


@pytest.mark.case("I03")
@pytest.mark.parametrize("resource", [SERVER, SERVER + "/", "https://mcp.test"])
def test_the_resource_is_the_published_one_wherever_it_is_sent(resource: str) -> None:
    world = World({"resource": resource})
    token = login(world)
    world.run(OAuth().obtain(refused(token=token)))
    assert world.asked["resource"] == resource
    assert [sent["resource"] for sent in world.posted] == [resource, resource]
    assert len(world.opened) == 1


def test_the_scope_of_the_challenge_is_asked_for() -> None:
    world = World({"scopes_supported": ["read", "write"]}, scopes=["read", "write", "admin"])
    login(world, header='Bearer scope="admin"')
    assert world.asked["scope"] == "admin"


def test_no_scope_is_asked_for_where_none_is_named() -> None:
    world = World(scopes=["read"])
    assert login(world).scope == "read"  # the server says what it has granted
    assert "scope" not in world.asked


# How the client is known


def test_a_client_that_was_registered_beforehand_goes_before_all_others() -> None:
    world = World(documents=DOCUMENTS)
    world.auth.add_client("mine", "secret")
    login(world, OAuth(DOCUMENT, client_id="mine", client_secret="secret"))
    assert world.asked["client_id"] == "mine"
    assert "https://auth.test/register" not in world.urls
    assert world.fetched[-1].headers["authorization"].startswith("Basic ")


def test_then_comes_the_url_of_its_metadata_where_the_server_knows_such() -> None:
    world = World(documents=DOCUMENTS)
    login(world, OAuth(DOCUMENT))
    assert world.asked["client_id"] == DOCUMENT
    assert "https://auth.test/register" not in world.urls


def test_then_it_registers() -> None:
    world = World(client_documents=False)
    login(world, OAuth(DOCUMENT, client_name="my app"))
    assert world.asked["client_id"] != DOCUMENT
    assert json.loads(world.fetched[2].body)["client_name"] == "my app"


def test_where_nothing_can_be_done_it_says_what_is_needed() -> None:
    with pytest.raises(LoginFailed, match=r"OAuth\(client_id="):
        login(World(registration=False, client_documents=False))


def test_a_private_key_in_place_of_a_secret() -> None:
    world = World()
    key = SigningKey.generate()
    world.auth.add_client("mine", jwks={"keys": [key.public]})
    login(world, OAuth(client_id="mine", private_key=PrivateKey(key.to_json())))
    assert "client_assertion" in world.posted[0]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_every_method_that_a_registration_can_end_with(method: str) -> None:
    world = World(misbehaviour=Misbehaviour(forced_method=method))
    token = login(world)
    assert world.run(OAuth().obtain(refused(token=token))).access_token != token.access_token


def test_a_registration_is_used_again() -> None:
    world = World()
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    world.run(OAuth().obtain(refused(token=token)))
    assert world.urls.count("https://auth.test/register") == 1
    assert len(world.opened) == 2


def test_but_not_for_another_redirect() -> None:
    world = World(misbehaviour=Misbehaviour(exact_ports=True))
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True, exact_ports=True)
    world.ports_taken = True
    world.run(OAuth().obtain(refused(token=token)))
    assert world.urls.count("https://auth.test/register") == 2


def test_more_scopes_make_no_other_client_where_the_authorization_server_says_which_it_has() -> None:
    """What belongs to the client, such as a session, would not belong to another."""
    world = World({"scopes_supported": ["read"]}, scopes=["read", "write"])
    token = login(world)
    world.run(OAuth().obtain(too_narrow("write", token)))
    assert world.urls.count("https://auth.test/register") == 1


def untold(world: World) -> World:
    """The same, where the authorization server does not say which scopes it has."""
    told = metadata(world.auth)
    del told["scopes_supported"]
    world.pages["https://auth.test/.well-known/oauth-authorization-server"] = told
    return world


def test_nor_for_scopes_that_it_does_not_have() -> None:
    world = untold(World({"scopes_supported": ["read"]}, scopes=["read", "write"]))
    token = login(world)
    world.run(OAuth().obtain(too_narrow("write", token)))
    assert json.loads(world.fetched[-2].body)["scope"] == "read write"


def test_servers_with_one_authorization_server_do_not_disturb_each_other() -> None:
    """Each token is refreshed by the client that it was issued to, whoever has registered meanwhile."""
    world = untold(World(scopes=["one", "two"]))
    other = "https://other.test/mcp"
    world.pages["https://other.test/.well-known/oauth-protected-resource/mcp"] = {
        "resource": other,
        "authorization_servers": ["https://auth.test"],
    }
    first = login(world, header='Bearer scope="one"')
    world.run(OAuth().obtain(Demand(other, challenge=challenge_of('Bearer scope="two"'))))
    assert world.urls.count("https://auth.test/register") == 2
    world.run(OAuth().obtain(refused(token=first)))
    assert len(world.opened) == 2 and world.posted[-1]["grant_type"] == "refresh_token"
    assert json.loads([step for step in world.fetched if step.url.endswith("/register")][-1].body)["scope"] == "two one"


def test_a_client_whose_secret_has_expired_registers_again() -> None:
    world = World()
    token = login(world)
    key = next(key for key in world.kept if key.startswith("token "))
    world.kept[key] = world.kept[key].replace(b'"registered":true', b'"registered":true,"expires_at":1000001')
    world.now += 2
    world.run(OAuth().obtain(refused(token=token)))
    assert world.posted[-1]["grant_type"] == "authorization_code"


def test_a_client_that_the_server_has_lost_registers_again() -> None:
    world = World()
    token = login(world)
    first = world.asked["client_id"]
    world.auth.clients.forget()
    assert world.run(OAuth().obtain(refused(token=token))).access_token != token.access_token
    assert world.urls.count("https://auth.test/register") == 2 and world.asked["client_id"] != first
    assert len(world.opened) == 2


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client"])
def test_also_if_the_answer_to_the_login_says_so(error: str) -> None:
    world = World()
    world.answers = [{"error": error, "iss": "https://auth.test"}]
    assert login(world)
    assert world.urls.count("https://auth.test/register") == 2 and len(world.opened) == 2


def test_but_only_once() -> None:
    world = World(misbehaviour=Misbehaviour(invalid_client=True))
    with pytest.raises(LoginFailed) as caught:
        login(world)
    assert caught.value.error == "invalid_client" and len(world.opened) == 2


def test_one_that_cannot_register_says_so() -> None:
    world = World()
    world.auth.add_client("mine", "secret")
    with pytest.raises(LoginFailed) as caught:
        login(world, OAuth(client_id="mine", client_secret="wrong"))
    assert caught.value.error == "invalid_client"
    assert len(world.opened) == 1


def test_where_nobody_comes_back_the_registration_is_not_used_again() -> None:
    """Who sees "unknown client" in the browser could never log in again."""
    world = World()
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    world.answers = [TimeoutError()]
    with pytest.raises(LoginFailed, match="nobody has logged in"):
        world.run(OAuth().obtain(refused(token=token)))
    world.answers = []
    world.run(OAuth().obtain(refused(token=token)))
    assert world.urls.count("https://auth.test/register") == 2


# Refreshing


@pytest.mark.case("I01")
def test_after_a_restart_the_stored_refresh_token_is_used() -> None:
    world = World()
    login(world)
    world.now += 10_000
    before = len(world.fetched)
    again = OAuth()  # another process: nothing is left but what is stored
    token = world.run(again.recall(SERVER))
    renewed = world.run(again.obtain(Demand(SERVER, Why.EXPIRES, token=token)))
    assert renewed.expires_at == world.now + 3600
    assert world.urls[before:] == [
        METADATA,
        "https://auth.test/.well-known/oauth-authorization-server",
        "https://auth.test/token",
    ]
    assert len(world.opened) == 1


@pytest.mark.case("I01")
def test_a_refresh_token_that_has_ended_leads_to_a_login() -> None:
    world = World()
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    world.run(OAuth().obtain(refused(token=token)))
    assert len(world.opened) == 2


def test_but_nobody_is_asked_before_the_server_wants_it() -> None:
    world = World()
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    with pytest.raises(LoginFailed):
        world.run(OAuth().obtain(Demand(SERVER, Why.EXPIRES, token=token)))
    assert len(world.opened) == 1


def test_a_refresh_token_that_is_not_replaced_stays_good() -> None:
    world = World(misbehaviour=Misbehaviour(keep_refresh_token=True))
    token = login(world)
    for _ in range(3):
        renewed = world.run(OAuth().obtain(refused(token=token)))
        assert renewed.refresh_token == token.refresh_token and renewed.access_token != token.access_token
        token = renewed
    assert len(world.opened) == 1


def test_one_that_is_replaced_is_used_only_once() -> None:
    world = World()
    token = login(world)
    for _ in range(3):
        token = world.run(OAuth().obtain(refused(token=token)))
    used = [sent["refresh_token"] for sent in world.posted if "refresh_token" in sent]
    assert len(set(used)) == 3 and len(world.opened) == 1


def test_a_token_without_one_leads_to_a_login() -> None:
    world = World(misbehaviour=Misbehaviour(no_refresh_token=True))
    token = login(world)
    assert token.refresh_token is None and not OAuth().renews(token)
    world.run(OAuth().obtain(refused(token=token)))
    assert len(world.opened) == 2 and all(sent["grant_type"] == "authorization_code" for sent in world.posted)


def test_a_token_that_was_just_refreshed_is_not_refreshed_again() -> None:
    world = World()
    token = login(world)
    world.run(OAuth().obtain(refused(token=token, again=True)))
    assert len(world.opened) == 2


def test_an_authorization_server_that_fails_is_no_reason_for_a_login() -> None:
    world = World()
    token = login(world)
    world.auth.misbehaviour = Misbehaviour(token_garbage=True)
    with pytest.raises(LoginFailed, match="HTTP 500"):
        world.run(OAuth().obtain(refused(token=token)))
    world.auth.misbehaviour = Misbehaviour()
    world.run(OAuth().obtain(refused(token=token)))
    assert len(world.opened) == 1


def test_what_somebody_else_has_stored_meanwhile_will_do() -> None:
    world = World()
    old = login(world)
    new = world.run(OAuth().obtain(refused(token=old)))
    before = len(world.fetched)
    assert world.run(OAuth().obtain(refused(token=old))) == new
    assert world.run(OAuth().obtain(Demand(SERVER, Why.EXPIRES, token=old))) == new
    assert world.run(OAuth().obtain(refused())) == new
    assert len(world.fetched) == before


def test_but_not_if_it_has_expired() -> None:
    world = World()
    old = login(world)
    world.run(OAuth().obtain(refused(token=old)))
    world.now += 10_000
    assert world.run(OAuth().obtain(refused(token=old))).expires_at == world.now + 3600


# Step-up


def test_a_step_up_asks_for_what_there_was_and_what_is_wanted() -> None:
    world = World({"scopes_supported": ["read"]}, scopes=["read", "write", "admin"])
    token = login(world)
    token = world.run(OAuth().obtain(too_narrow("write", token)))
    assert world.asked["scope"] == "read write"
    token = world.run(OAuth().obtain(too_narrow("admin", token)))
    assert world.asked["scope"] == "read write admin"
    assert set((token.scope or "").split()) == {"read", "write", "admin"}


def test_a_step_up_is_no_refresh() -> None:
    world = World(scopes=["read", "write"])
    token = login(world, header='Bearer scope="read"')
    world.run(OAuth().obtain(too_narrow("write", token)))
    assert [sent["grant_type"] for sent in world.posted] == ["authorization_code"] * 2


def test_a_stored_token_with_those_scopes_will_do() -> None:
    world = World(scopes=["read", "write"])
    old = login(world, header='Bearer scope="read"')
    new = world.run(OAuth().obtain(too_narrow("write", old)))
    assert world.run(OAuth().obtain(too_narrow("write", old))) == new
    world.run(OAuth().obtain(too_narrow("read write other", old).__class__(SERVER, Why.SCOPE, token=new)))
    assert len(world.opened) == 3


def test_a_login_after_it_asks_for_all_of_them_again() -> None:
    world = World(scopes=["read", "write"])
    token = login(world, header='Bearer scope="read"')
    token = world.run(OAuth().obtain(too_narrow("write", token)))
    world.auth.misbehaviour = Misbehaviour(refuse_refresh=True)
    world.run(OAuth().obtain(refused('Bearer scope="read"', token)))
    assert world.asked["scope"] == "read write"


# Another authorization server


def moved(world: World) -> AuthServer:
    """The MCP server names another authorization server from now on."""
    other = AuthServer("https://other.test", clock=lambda: world.now)
    world.pages[METADATA] = {"resource": SERVER, "authorization_servers": [other.issuer]}
    world.auth = other
    return other


def moved_world() -> World:
    world = World()
    moved(world)
    return world


def test_where_the_authorization_server_changes_nothing_of_the_old_one_is_used() -> None:
    world = World()
    token = login(world)
    old_client = world.asked["client_id"]
    before = len(world.fetched)
    other = moved(world)
    world.run(OAuth().obtain(refused(token=token)))
    assert world.urls[before:] == [
        METADATA,
        "https://other.test/.well-known/oauth-authorization-server",
        "https://other.test/register",
        "https://other.test/token",
    ]
    assert world.asked["client_id"] != old_client
    assert all(token.refresh_token.encode() not in step.body for step in world.fetched[before:])  # type: ignore[union-attr]
    assert other.count("token", grant_type="refresh_token") == 0


def test_each_keeps_its_registration() -> None:
    world = World()
    token = login(world)
    first = world.auth
    moved(world)
    world.run(OAuth().obtain(refused(token=token)))
    assert {key for key in world.kept if key.startswith("client ")} == {
        "client https://auth.test",
        "client https://other.test",
    }
    assert first.count("register") == 1


def test_a_client_that_was_registered_beforehand_goes_to_no_other() -> None:
    world = World()
    world.auth.add_client("mine", "secret")
    oauth = OAuth(client_id="mine", client_secret="secret")
    token = login(world, oauth)
    moved(world)
    with pytest.raises(LoginFailed) as caught:
        world.run(oauth.obtain(refused(token=token)))
    assert "https://other.test" in str(caught.value) and "https://auth.test" in str(caught.value)
    with pytest.raises(LoginFailed, match="is registered with https://auth.test"):
        login(moved_world(), OAuth(client_id="mine", client_secret="secret", issuer="https://auth.test"))


def test_a_token_of_another_client_is_not_used() -> None:
    world = World()
    world.auth.add_client("mine", "secret")
    login(world)
    assert world.run(OAuth(client_id="mine", client_secret="secret").recall(SERVER)) is None


def test_a_token_for_another_resource_is_not_refreshed() -> None:
    world = World()
    token = login(world)
    world.pages[METADATA] = {"resource": "https://mcp.test", "authorization_servers": ["https://auth.test"]}
    world.run(OAuth().obtain(refused(token=token)))
    assert world.posted[-1]["grant_type"] == "authorization_code"


# What a login can fail with


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Misbehaviour(challenge_methods=()), "PKCE"),
        (Misbehaviour(challenge_methods=("plain",)), "PKCE"),
        (Misbehaviour(redirect_iss=""), "does not say that it is of"),
        (Misbehaviour(redirect_iss="https://evil.test"), "is not of"),
        (Misbehaviour(redirect_iss="https://evil.test", announce_iss=False), "is not of"),
        (Misbehaviour(redirect_iss="{issuer}/"), "is not of"),
        (Misbehaviour(metadata_issuer="https://evil.test"), "are those of 'https://evil.test'"),
        (Misbehaviour(refuse="access_denied"), "access_denied"),
        (Misbehaviour(redirect_state="other"), "nobody has logged in"),
        (Misbehaviour(refuse_registration="invalid_client_metadata"), "invalid_client_metadata"),
        (Misbehaviour(token_error="invalid_target"), "invalid_target"),
        (Misbehaviour(token_error="invalid_target", errors_with_200=True), "invalid_target"),
        (Misbehaviour(token_redirect="https://evil.test/"), "HTTP 30"),
        (Misbehaviour(token_type="mac"), "cannot be used"),
        (Misbehaviour(token_endpoint="http://evil.test/token"), "no https URL"),
    ],
)
def test_a_server_that_does_something_wrong_gets_nowhere(wrong: Misbehaviour, says: str) -> None:
    world = World(misbehaviour=wrong)
    with pytest.raises(LoginFailed, match=says):
        login(world)
    assert not [key for key in world.kept if key.startswith("token ")]
    assert not [url for url in world.urls if "evil" in url]
    refused_early = "iss" in str(wrong.redirect_iss) and wrong.redirect_iss != "{issuer}"
    assert not (refused_early and world.posted)


def test_without_iss_and_without_its_announcement_it_goes_on() -> None:
    assert login(World(misbehaviour=Misbehaviour(redirect_iss="", announce_iss=False)))


def test_what_web_servers_want_of_redirects_is_met() -> None:
    """A loopback redirect belongs to a native application."""
    assert login(World(misbehaviour=Misbehaviour(web_by_default=True)))


def test_a_server_of_2025_03_26() -> None:
    world = World(None, issuer="https://mcp.test", misbehaviour=Misbehaviour(metadata_at=frozenset()))
    token = login(world)
    assert world.urls[-2:] == ["https://mcp.test/register", "https://mcp.test/token"]
    assert world.asked["code_challenge_method"] == "S256" and world.asked["resource"] == SERVER
    assert world.run(OAuth().obtain(refused(token=token))).access_token != token.access_token


def test_tokens_that_are_bound_to_a_key() -> None:
    world = World(dpop_required=True, dpop_nonces=True)
    oauth = OAuth(dpop=True)
    token = login(world, oauth)
    assert token.token_type == "DPoP"
    shown = world.run(oauth.sign("POST", SERVER, token))
    assert shown["authorization"] == f"DPoP {token.access_token}" and shown["dpop"].count(".") == 2


def test_a_stored_token_that_is_not_bound_is_none_where_tokens_have_to_be() -> None:
    world = World()
    token = login(world)
    oauth = OAuth(dpop=True)
    assert world.run(oauth.recall(SERVER)) is None
    assert world.run(oauth.obtain(refused(token=token))).token_type == "DPoP"
    assert world.run(OAuth(dpop=True).recall(SERVER)).token_type == "DPoP"


def test_others_are_shown_as_they_are() -> None:
    assert World().run(OAuth().sign("POST", SERVER, Token("t"))) == {"authorization": "Bearer t"}


# Settings


@pytest.mark.parametrize(
    "given",
    [
        {"scopes": "a b"},
        {"client_secret": "s"},
        {"client_metadata_url": "http://app.test/client.json"},
        {"client_metadata_url": "https://app.test"},
        {"client_metadata_url": "https://app.test/"},
    ],
)
def test_settings_that_cannot_work_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OAuth(**given)
    assert "'s'" not in str(caught.value)


def test_scopes_of_the_user_take_the_place_of_those_that_are_supported() -> None:
    world = World({"scopes_supported": ["read"]}, scopes=["read", "write"])
    login(world, OAuth(scopes=["write"]))
    assert world.asked["scope"] == "write"


def test_an_answer_that_is_no_metadata_is_refused() -> None:
    world = World()
    world.pages[METADATA] = fetched(200, b"{")
    with pytest.raises(LoginFailed, match="it is no JSON"):
        login(world)
