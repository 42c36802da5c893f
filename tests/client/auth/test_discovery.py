"""Who issues the tokens of an MCP server."""

from typing import Any

import pytest

from backchannel.client.auth.challenge import NONE, Challenge
from backchannel.client.auth.discovery import Discovered, discover
from backchannel.errors import ConnectionFailed, LoginFailed
from backchannel.testing.auth.misbehaviour import Misbehaviour
from tests.client.auth.world import METADATA, SERVER, World, fetched

ROOT = "https://mcp.test/.well-known/oauth-protected-resource"
OAUTH, OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


def find(world: World, challenge: Challenge = NONE, server: str = SERVER, **options: Any) -> Discovered:
    found: Discovered = world.run(discover(server, challenge, **options))
    return found


def advertised(url: str) -> Challenge:
    return Challenge("bearer", url)


def test_metadata_that_are_advertised_are_read_and_no_others() -> None:
    world = World(None)
    world.pages["https://mcp.test/custom.json"] = {"resource": SERVER, "authorization_servers": ["https://auth.test"]}
    found = find(world, advertised("https://mcp.test/custom.json"))
    assert world.urls == ["https://mcp.test/custom.json", "https://auth.test" + OAUTH]
    assert (found.resource, found.issuer.issuer, found.metadata_url) == (SERVER, "https://auth.test", world.urls[0])


def test_else_they_are_looked_for_below_the_path_and_then_at_the_root() -> None:
    world = World()
    assert find(world).metadata_url == METADATA
    assert world.urls[0] == METADATA
    world = World(None)
    world.pages[ROOT] = {"resource": "https://mcp.test", "authorization_servers": ["https://auth.test"]}
    found = find(world)
    assert world.urls[:2] == [METADATA, ROOT]
    assert (found.resource, found.metadata_url) == ("https://mcp.test", ROOT)


def test_where_the_advertised_place_is_empty_the_others_are_tried() -> None:
    world = World()
    assert find(world, advertised("https://mcp.test/gone")).metadata_url == METADATA


def test_where_they_were_before_is_tried_first() -> None:
    world = World()
    world.pages["https://mcp.test/custom.json"] = world.pages[METADATA]
    assert find(world, hint="https://mcp.test/custom.json").metadata_url == "https://mcp.test/custom.json"
    assert find(world, advertised(METADATA), hint="https://mcp.test/custom.json").metadata_url == METADATA


@pytest.mark.case("I03")
@pytest.mark.parametrize("resource", ["https://mcp.test/mcp/", "https://mcp.test/", "https://mcp.test"])
def test_the_resource_is_taken_as_it_is_published(resource: str) -> None:
    assert find(World({"resource": resource})).resource == resource


@pytest.mark.case("I03")
@pytest.mark.parametrize("resource", ["https://evil.test/mcp", "https://mcp.test/other", "http://mcp.test/mcp"])
def test_metadata_of_another_resource_are_refused(resource: str) -> None:
    world = World({"resource": resource})
    with pytest.raises(LoginFailed) as caught:
        find(world)
    assert resource in str(caught.value) and SERVER in str(caught.value)
    assert world.urls == [METADATA]


def test_a_secret_in_the_url_is_not_shown() -> None:
    world = World({"resource": "https://evil.test"})
    world.pages[METADATA + "?key=hidden"] = world.pages[METADATA]
    with pytest.raises(LoginFailed) as caught:
        find(world, server=SERVER + "?key=hidden")
    assert "'https://mcp.test/mcp'" in str(caught.value)


@pytest.mark.parametrize(
    ("issuer", "tried"),
    [
        ("https://auth.test", [OAUTH, OPENID]),
        ("https://auth.test/t1", [OAUTH + "/t1", OPENID + "/t1", "/t1" + OPENID]),
    ],
)
def test_every_place_of_the_authorization_server_is_tried_in_order(issuer: str, tried: list[str]) -> None:
    for number, place in enumerate(tried):
        world = World({"authorization_servers": [issuer]}, misbehaviour=Misbehaviour(metadata_at=frozenset()))
        world.pages["https://auth.test" + place] = {"issuer": issuer, "token_endpoint": "https://auth.test/token"}
        assert find(world).issuer.issuer == issuer
        assert world.urls[1:] == ["https://auth.test" + one for one in tried[: number + 1]]


def test_an_authorization_server_without_metadata_is_refused() -> None:
    """The fallback is for MCP servers of 2025-03-26, which have no metadata of their own."""
    with pytest.raises(LoginFailed, match="publishes no metadata"):
        find(World(misbehaviour=Misbehaviour(metadata_at=frozenset())))


@pytest.mark.case("I03")
def test_a_slash_at_the_end_of_the_issuer_makes_no_difference() -> None:
    for listed, published in [("https://auth.test", "{issuer}/"), ("https://auth.test/", "{issuer}")]:
        world = World({"authorization_servers": [listed]}, misbehaviour=Misbehaviour(metadata_issuer=published))
        assert find(world).issuer.issuer == published.replace("{issuer}", "https://auth.test")


@pytest.mark.case("I03")
@pytest.mark.parametrize(
    "issuer", ["https://attacker.test", "https://auth.test/other", "http://auth.test", "{issuer}//"]
)
def test_metadata_of_another_issuer_are_refused(issuer: str) -> None:
    world = World(misbehaviour=Misbehaviour(metadata_issuer=issuer))
    with pytest.raises(LoginFailed) as caught:
        find(world)
    assert issuer.replace("{issuer}", "https://auth.test") in str(caught.value)
    assert "https://auth.test" in str(caught.value)
    assert len(world.urls) == 2


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
@pytest.mark.parametrize("url", ["http://auth.test/x", "javascript:alert(1)", "file:///x"])
def test_endpoints_without_https_are_refused(name: str, url: str) -> None:
    with pytest.raises(LoginFailed, match=f"the {name} of https://auth.test is no https URL"):
        find(World(misbehaviour=Misbehaviour(**{name: url})))


@pytest.mark.parametrize("server", ["http://mcp.test/mcp", "ftp://mcp.test"])
def test_a_server_without_https_gets_no_token(server: str) -> None:
    world = World()
    with pytest.raises(LoginFailed, match="the URL of the MCP server is no https URL"):
        find(world, server=server)
    assert world.urls == []


def test_metadata_are_not_fetched_without_https() -> None:
    world = World()
    with pytest.raises(LoginFailed, match="no https URL"):
        find(world, advertised("http://169.254.169.254/latest"))
    with pytest.raises(LoginFailed, match="no https URL"):
        find(world, advertised("https://["))
    with pytest.raises(LoginFailed, match="no https URL"):
        find(World({"authorization_servers": ["http://auth.test"]}))
    assert world.urls == []


def test_metadata_without_an_authorization_server_are_refused() -> None:
    with pytest.raises(LoginFailed, match="name no authorization server"):
        find(World({"authorization_servers": []}))


def test_of_several_authorization_servers_the_known_one_is_chosen_or_the_first() -> None:
    issuers = ["https://auth.test", "https://two.test"]
    world = World({"authorization_servers": issuers})
    world.pages["https://two.test" + OAUTH] = {"issuer": "https://two.test", "token_endpoint": "https://two.test/token"}
    assert find(world).issuer.issuer == "https://auth.test"
    assert find(world, wanted=["https://two.test/"]).issuer.issuer == "https://two.test"
    assert find(world, wanted=["https://three.test"]).issuer.issuer == "https://auth.test"


def test_a_server_that_fails_is_not_one_without_metadata() -> None:
    world = World()
    world.pages[METADATA] = fetched(503)
    with pytest.raises(LoginFailed, match="HTTP 503"):
        find(world)

    def fails(step: object) -> None:
        raise ConnectionFailed("no network")

    world.pages[METADATA] = fails
    with pytest.raises(ConnectionFailed):
        find(world)


def test_an_advertised_place_may_be_relative() -> None:
    world = World()
    world.pages["https://mcp.test/custom.json"] = world.pages[METADATA]
    assert find(world, advertised("/custom.json")).metadata_url == "https://mcp.test/custom.json"


def test_a_page_that_is_there_for_every_url_is_none_of_metadata() -> None:
    world = World(None)
    world.pages[METADATA] = fetched(200, b"<!doctype html>")
    world.pages[ROOT] = {"resource": "https://mcp.test", "authorization_servers": ["https://auth.test/t1"]}
    world.pages["https://auth.test" + OAUTH + "/t1"] = fetched(200, b"<!doctype html>")
    world.pages["https://auth.test" + OPENID + "/t1"] = fetched(200, b"")
    last = {"issuer": "https://auth.test/t1", "token_endpoint": "https://auth.test/t1/token"}
    world.pages["https://auth.test/t1" + OPENID] = last
    assert find(world).issuer.issuer == "https://auth.test/t1"


@pytest.mark.parametrize("body", [b"{", b"{}}", {}, {"resource": 1}])
def test_metadata_that_cannot_be_read_are_refused(body: Any) -> None:
    world = World()
    world.pages[METADATA] = fetched(200, body)
    with pytest.raises(LoginFailed, match="cannot be read"):
        find(world)


def test_a_server_of_2025_03_26_has_its_authorization_server_at_its_root() -> None:
    world = World(None, issuer="https://mcp.test")
    found = find(world)
    assert world.urls == [METADATA, ROOT, "https://mcp.test" + OAUTH]
    assert [step.headers.get("mcp-protocol-version") for step in world.fetched] == [None, None, "2025-03-26"]
    assert (found.issuer.issuer, found.resource, found.metadata_url, found.assumed) == (
        "https://mcp.test",
        SERVER,
        None,
        False,
    )


def test_or_its_endpoints_are_where_they_usually_are() -> None:
    world = World(None)
    found = find(world, server="https://mcp.test/mcp#here")
    assert world.urls == [METADATA, ROOT, "https://mcp.test" + OAUTH, "https://mcp.test" + OPENID]
    assert found.issuer.authorization_endpoint == "https://mcp.test/authorize"
    assert found.issuer.token_endpoint == "https://mcp.test/token"
    assert found.issuer.registration_endpoint == "https://mcp.test/register"
    assert (found.resource, found.assumed) == (SERVER, True)
