"""What a Client may be given as `auth`, and what that is for."""

from typing import Any

import pytest

from backchannel import Client, ConfigurationError, OAuth, Server, StdioServer
from backchannel.client.auth.auth import Reply
from backchannel.client.auth.challenge import Challenge
from backchannel.client.auth.fetcher import Fetcher
from backchannel.client.auth.steps import Fetch, Fetched, Token
from tests.client.auth.issuing import Issuing
from tests.client.auth.world import SERVER, World


@pytest.mark.parametrize("target", [SERVER, {"url": SERVER}, {"url": SERVER, "type": "sse"}])
def test_servers_that_have_a_url_can_have_it(target: Any) -> None:
    Client(target, auth=OAuth())


@pytest.mark.parametrize("target", [StdioServer("python", "server.py"), {"command": "python"}, Server("s")])
def test_others_cannot(target: Any) -> None:
    """ "Implementations using an STDIO transport SHOULD NOT follow this specification, and instead retrieve credentials
    from the environment" """
    with pytest.raises(ConfigurationError, match="reached by a URL"):
        Client(target, auth=OAuth())


def test_by_default_nothing_is_stored_nor_renewed_by_asking() -> None:
    auth = Issuing()
    world = World()
    assert world.run(super(Issuing, auth).recall(SERVER)) is None
    assert super(Issuing, auth).renews(Token("t"))


def test_a_token_is_shown_in_the_header_alone() -> None:
    assert World().run(Issuing().sign("GET", SERVER, Token("t"))) == {"authorization": "Bearer t"}


def test_a_token_that_is_bound_is_shown_with_a_proof() -> None:
    shown = World().run(Issuing(dpop=True).sign("GET", SERVER, Token("t", "DPoP")))
    assert shown["authorization"] == "DPoP t" and shown["dpop"]


def test_a_nonce_is_noted_where_proofs_are_made() -> None:
    wants = Reply(SERVER, 401, {"dpop-nonce": "n"}, Challenge("dpop", error="use_dpop_nonce"))
    auth = Issuing(dpop=True)
    assert not super(Issuing, auth).noted(wants)
    World().run(auth.sign("GET", SERVER, Token("t", "DPoP")))
    assert super(Issuing, auth).noted(wants)
    assert not super(Issuing, auth).noted(Reply(SERVER, 401, {"dpop-nonce": "n"}, Challenge("dpop")))


def test_requests_go_over_http_unless_something_else_is_given() -> None:
    async def fetch(request: Fetch) -> Fetched:
        raise AssertionError

    assert isinstance(OAuth().world(SERVER).fetch, Fetcher)
    assert OAuth(fetch=fetch).world(SERVER).fetch is fetch


def test_the_key_of_this_client_is_made_once() -> None:
    world, auth = World(), Issuing(dpop=True)
    world.run(auth.sign("GET", SERVER, Token("t", "DPoP")))
    kept = dict(world.kept)
    world.run(auth.sign("GET", SERVER, Token("t", "DPoP")))
    world.run(Issuing(dpop=True).sign("GET", SERVER, Token("t", "DPoP")))
    assert world.kept == kept and len(kept) == 1
