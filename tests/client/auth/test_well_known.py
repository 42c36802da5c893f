"""URLs of authorization."""

import pytest

from backchannel.client.auth import well_known
from backchannel.errors import LoginFailed


@pytest.mark.parametrize(
    "url",
    [
        "https://a.test",
        "https://a.test:8443/x?y",
        "http://127.0.0.1:9",
        "http://localhost/x",
        "http://[::1]:80/",
        "HTTPS://A.test",
    ],
)
def test_https_and_this_machine_may_be_used(url: str) -> None:
    assert well_known.secure(url, "it") == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.test", "http://127.0.0.1.a.test/", "ftp://a.test", "file:///etc/passwd", "javascript:alert(1)"),
        *("", "a.test", "https://", "https:///path", "https://user:secret@a.test", "https://a.test/ x", "https://[::1"),
        *("https://a.test\r\n", "https://a.test:99999", "http://10.0.0.1/", "https://ä.test/"),
        *('https://a.test/"', "https://a.test/<", "https://a.test\\@evil.test/", "https://a.test/`x`"),
    ],
)
def test_other_urls_may_not(url: str) -> None:
    with pytest.raises(LoginFailed, match="it is no https URL"):
        well_known.secure(url, "it")


@pytest.mark.case("I03")
@pytest.mark.parametrize(
    ("resource", "server"),
    [
        ("https://s.test/mcp", "https://s.test/mcp"),
        ("https://s.test/mcp/", "https://s.test/mcp"),
        ("https://s.test/mcp", "https://s.test/mcp/"),
        ("https://s.test", "https://s.test/mcp"),
        ("https://s.test/", "https://s.test/mcp"),
        ("HTTPS://S.test:443/mcp", "https://s.test/mcp"),
        ("https://s.test/a", "https://s.test/a/mcp"),
        ("https://s.test/mcp", "https://s.test/mcp?tenant=1"),
        ("https://s.test/mcp?tenant=1", "https://s.test/mcp?tenant=1"),
    ],
)
def test_the_resource_covers_the_server(resource: str, server: str) -> None:
    assert well_known.covers(resource, server)


@pytest.mark.case("I03")
@pytest.mark.parametrize(
    ("resource", "server"),
    [
        ("https://evil.test/mcp", "https://s.test/mcp"),
        ("https://s.test/other", "https://s.test/mcp"),
        ("https://s.test/mc", "https://s.test/mcp"),
        ("https://s.test/mcp/more", "https://s.test/mcp"),
        ("http://s.test/mcp", "https://s.test/mcp"),
        ("https://s.test:8443/mcp", "https://s.test/mcp"),
        ("https://s.test/mcp#x", "https://s.test/mcp"),
        ("https://s.test/mcp?tenant=2", "https://s.test/mcp?tenant=1"),
        ("https://s.test/..", "https://s.test/../mcp"),
        ("https://[", "https://s.test/mcp"),
        ("", "https://s.test/mcp"),
    ],
)
def test_another_resource_does_not(resource: str, server: str) -> None:
    assert not well_known.covers(resource, server)


@pytest.mark.parametrize(
    ("server", "places"),
    [
        (
            "https://s.test/a/mcp",
            ["/.well-known/oauth-protected-resource/a/mcp", "/.well-known/oauth-protected-resource"],
        ),
        ("https://s.test/mcp/", ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]),
        ("https://s.test", ["/.well-known/oauth-protected-resource"]),
        ("https://s.test/", ["/.well-known/oauth-protected-resource"]),
        (
            "https://s.test/m?t=1",
            ["/.well-known/oauth-protected-resource/m?t=1", "/.well-known/oauth-protected-resource"],
        ),
    ],
)
def test_where_metadata_of_a_resource_lie(server: str, places: list[str]) -> None:
    assert well_known.resource_metadata(server) == ["https://s.test" + place for place in places]


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        ("https://as.test", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        ("https://as.test/", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        (
            "https://as.test/t/1",
            [
                "/.well-known/oauth-authorization-server/t/1",
                "/.well-known/openid-configuration/t/1",
                "/t/1/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_where_metadata_of_an_authorization_server_lie(issuer: str, places: list[str]) -> None:
    assert well_known.server_metadata(issuer) == ["https://as.test" + place for place in places]


@pytest.mark.case("I03")
def test_issuers_are_the_same_but_for_a_slash_at_the_end() -> None:
    assert well_known.same_issuer("https://as.test/", "https://as.test")
    assert well_known.same_issuer("https://as.test/t", "https://as.test/t/")
    assert not well_known.same_issuer("https://as.test/t", "https://as.test")
    assert not well_known.same_issuer("https://AS.test", "https://as.test")
    assert not well_known.same_issuer("https://as.test//", "https://as.test")
