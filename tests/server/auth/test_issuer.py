"""Where an authorization server says what it is."""

import logging
from typing import Any

import pytest

from backchannel.server.auth.issuer import Issuer, well_known
from backchannel.server.auth.refusal import Unavailable
from tests.server.auth.issuing import ISSUER, JWKS, METADATA, AuthorizationServer

pytestmark = pytest.mark.anyio


def test_the_places_in_their_order() -> None:
    assert well_known("https://as.test") == [
        "https://as.test/.well-known/oauth-authorization-server",
        "https://as.test/.well-known/openid-configuration",
    ]
    assert well_known("https://as.test/") == well_known("https://as.test")
    assert well_known("https://as.test:8443/a/b") == [
        "https://as.test:8443/.well-known/oauth-authorization-server/a/b",
        "https://as.test:8443/.well-known/openid-configuration/a/b",
        "https://as.test:8443/a/b/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_each_place_is_tried(place: int) -> None:
    there = AuthorizationServer()
    tenant = f"{ISSUER}/tenant"
    there.documents = {well_known(tenant)[place]: {"issuer": tenant, "jwks_uri": JWKS}}
    assert await Issuer(tenant, there.fetch, there.clock).endpoint("jwks_uri") == JWKS
    assert there.asked == [f"GET {url}" for url in well_known(tenant)[: place + 1]]


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.test", "jwks_uri": JWKS},
        {"jwks_uri": JWKS},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": 7},
        {"issuer": ISSUER, "jwks_uri": "http://as.test/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        [],
    ],
)
async def test_metadata_that_is_not_used(document: Any) -> None:
    there = AuthorizationServer()
    there.documents = {METADATA: document, JWKS: {"keys": []}}
    with pytest.raises(Unavailable):
        await Issuer(ISSUER, there.fetch, there.clock).endpoint("jwks_uri")


@pytest.mark.case("I03")
@pytest.mark.parametrize(("given", "named"), [(ISSUER, f"{ISSUER}/"), (f"{ISSUER}/", ISSUER)])
async def test_a_slash_at_the_end_makes_no_other_issuer(
    given: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = AuthorizationServer()
    there.documents[METADATA] = {"issuer": named, "jwks_uri": JWKS}
    with caplog.at_level(logging.WARNING):
        assert await Issuer(given, there.fetch, there.clock).endpoint("jwks_uri") == JWKS
    assert repr(given) in caplog.text and repr(named) in caplog.text
