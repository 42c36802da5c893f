"""What an authorization server says of itself, and where."""

from typing import Any

import pytest

from backchannel.testing import AuthServer, Misbehaviour

OAUTH, OIDC = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


def places(auth: AuthServer) -> dict[str, int]:
    """The status at each place that a client looks for metadata."""
    paths = [OAUTH, OIDC, f"{OAUTH}/tenant", f"{OIDC}/tenant", f"/tenant{OIDC}"]
    return {path: auth.fetch("GET", f"https://auth.test{path}").status for path in paths}


def document(auth: AuthServer) -> dict[str, Any]:
    found: dict[str, Any] = auth.fetch("GET", f"https://auth.test{OAUTH}").json
    return found


@pytest.mark.parametrize("issuer", ["https://auth.test", "https://auth.test/"])
def test_without_a_path_it_is_at_the_root(issuer: str) -> None:
    found = places(AuthServer(issuer))
    assert {path for path, status in found.items() if status == 200} == {OAUTH, OIDC}


def test_with_a_path_it_is_at_three_places_and_not_at_the_root() -> None:
    found = places(AuthServer("https://auth.test/tenant"))
    assert {path for path, status in found.items() if status == 200} == {
        f"{OAUTH}/tenant",
        f"{OIDC}/tenant",
        f"/tenant{OIDC}",
    }


@pytest.mark.parametrize(
    ("place", "path"), [("oauth", f"{OAUTH}/tenant"), ("oidc", f"{OIDC}/tenant"), ("appended", f"/tenant{OIDC}")]
)
def test_it_can_be_at_one_place_only(place: str, path: str) -> None:
    wrong = Misbehaviour(metadata_at=frozenset({place}))
    found = places(AuthServer("https://auth.test/tenant", misbehaviour=wrong))
    assert {path for path, status in found.items() if status == 200} == {path}


@pytest.mark.parametrize("place", ["oidc", "appended"])
def test_without_a_path_both_openid_places_are_one(place: str) -> None:
    found = places(AuthServer(misbehaviour=Misbehaviour(metadata_at=frozenset({place}))))
    assert {path for path, status in found.items() if status == 200} == {OIDC}


def test_it_can_be_nowhere() -> None:
    assert set(places(AuthServer(misbehaviour=Misbehaviour(metadata_at=frozenset()))).values()) == {404}


def test_the_endpoints_lie_below_the_issuer() -> None:
    found = AuthServer("https://auth.test/tenant").fetch("GET", f"https://auth.test{OAUTH}/tenant").json
    assert found["issuer"] == "https://auth.test/tenant"
    names = ["authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri"]
    ends = ["authorize", "token", "register", "jwks"]
    assert [found[name] for name in names] == [f"https://auth.test/tenant/{end}" for end in ends]


def test_it_says_what_the_server_can() -> None:
    found = document(AuthServer(scopes=["read"], methods=["client_secret_post"], algorithm="RS256"))
    assert found["scopes_supported"] == ["read"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["token_endpoint_auth_methods_supported"] == ["client_secret_post"]
    assert found["id_token_signing_alg_values_supported"] == ["RS256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert found["response_types_supported"] == ["code"]


def test_what_it_cannot_is_left_out() -> None:
    found = document(AuthServer(registration=False, client_documents=False))
    assert not {"registration_endpoint", "client_id_metadata_document_supported", "scopes_supported"} & found.keys()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (Misbehaviour(metadata_issuer="https://evil.test"), {"issuer": "https://evil.test"}),
        (Misbehaviour(metadata_issuer="{issuer}/"), {"issuer": "https://auth.test/"}),
        (Misbehaviour(metadata_issuer=""), {"issuer": None}),
        (Misbehaviour(challenge_methods=("plain",)), {"code_challenge_methods_supported": ["plain"]}),
        (Misbehaviour(challenge_methods=()), {"code_challenge_methods_supported": None}),
        (Misbehaviour(announce_iss=False), {"authorization_response_iss_parameter_supported": None}),
        (Misbehaviour(authorization_endpoint="file:///etc/passwd"), {"authorization_endpoint": "file:///etc/passwd"}),
        (Misbehaviour(token_endpoint="http://evil.test/token"), {"token_endpoint": "http://evil.test/token"}),
    ],
)
def test_it_can_lie(wrong: Misbehaviour, expected: dict[str, Any]) -> None:
    found = document(AuthServer(misbehaviour=wrong))
    assert {name: found.get(name) for name in expected} == expected


def test_it_can_be_too_long() -> None:
    auth = AuthServer(misbehaviour=Misbehaviour(metadata_padding=100_000))
    assert len(auth.fetch("GET", f"https://auth.test{OAUTH}").body) > 100_000


def test_it_can_redirect() -> None:
    auth = AuthServer(misbehaviour=Misbehaviour(metadata_redirect="http://evil.test/metadata"))
    reply = auth.fetch("GET", f"https://auth.test{OAUTH}")
    assert (reply.status, reply.headers["location"]) == (302, "http://evil.test/metadata")
