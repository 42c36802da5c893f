"""JSON documents of authorization."""

import pytest

from backchannel.client.auth.documents import (
    ErrorDocument,
    RegistrationResponse,
    ServerMetadata,
    TokenResponse,
    error_in,
    read,
)
from backchannel.errors import LoginFailed
from tests.client.auth.world import fetched


def test_what_is_not_known_is_ignored_and_null_is_as_if_left_out() -> None:
    found = read(
        fetched(200, {"issuer": "i", "token_endpoint": "t", "registration_endpoint": None, "jwks_uri": 1,
                      "scopes_supported": None, "authorization_response_iss_parameter_supported": None}),
        ServerMetadata,
        "metadata",
    )  # fmt: skip
    assert (found.issuer, found.registration_endpoint, found.scopes_supported) == ("i", None, None)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"issuer": 1, "token_endpoint": "t"}', b"[" * 100_000]
)
def test_what_cannot_be_read_is_said(body: bytes) -> None:
    with pytest.raises(LoginFailed, match="^metadata cannot be read: "):
        read(fetched(200, body), ServerMetadata, "metadata")


def test_a_secret_is_not_shown() -> None:
    with pytest.raises(LoginFailed) as caught:
        read(fetched(200, {"access_token": ["hidden"], "token_type": "Bearer"}), TokenResponse, "it")
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(TokenResponse("hidden", refresh_token="hidden"))
    assert "hidden" not in repr(RegistrationResponse("desk", "hidden"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": "e", "error_description": "d"}, ErrorDocument("e", "d")),
        ({"error": "e"}, ErrorDocument("e")),
        ({"error": {"message": "m"}}, ErrorDocument()),
        ([], ErrorDocument()),
        (b"<html>", ErrorDocument()),
        (b"[" * 100_000, ErrorDocument()),
    ],
)
def test_the_error_is_read(body: object, expected: ErrorDocument) -> None:
    assert error_in(fetched(400, body)) == expected
