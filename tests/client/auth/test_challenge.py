"""WWW-Authenticate headers."""

import pytest

from backchannel.client.auth.challenge import NONE, challenge_of


@pytest.mark.parametrize(
    ("header", "scheme", "metadata", "scope", "error"),
    [
        ("Bearer", "bearer", None, None, ""),
        ("bearer", "bearer", None, None, ""),
        ('Bearer resource_metadata="https://s/m"', "bearer", "https://s/m", None, ""),
        ('Bearer scope="a b", resource_metadata="https://s/m"', "bearer", "https://s/m", ("a", "b"), ""),
        ('Bearer error="insufficient_scope",scope=w', "bearer", None, ("w",), "insufficient_scope"),
        ('Bearer SCOPE="a"', "bearer", None, ("a",), ""),
        ('Bearer scope=""', "bearer", None, None, ""),
        ("Bearer resource_metadata=https://s/m?a=b", "bearer", "https://s/m?a=b", None, ""),
        (r'Bearer scope="a\"b"', "bearer", None, ('a"b',), ""),
        ('Bearer realm="a, Bearer scope=x", scope="s"', "bearer", None, ("s",), ""),
        (
            'Bearer error="invalid_token" error_description="no comma", scope="s"',
            "bearer",
            None,
            ("s",),
            "invalid_token",
        ),
        ('Basic realm="x", Bearer scope="s"', "bearer", None, ("s",), ""),
        ('Basic scope="x"', "", None, None, ""),
        ('Negotiate abc==, Bearer scope="s"', "bearer", None, ("s",), ""),
        ('Bearer, DPoP error="use_dpop_nonce"', "dpop", None, None, "use_dpop_nonce"),
        ('DPoP algs="ES256", Bearer scope="s"', "dpop", None, ("s",), ""),
        (
            'Bearer resource_metadata="https://s/m", scope="a", DPoP error="use_dpop_nonce", scope="b"',
            *("dpop", "https://s/m", ("b",), "use_dpop_nonce"),
        ),
        ("", "", None, None, ""),
        ('"', "", None, None, ""),
        ('Bearer scope="never ends', "bearer", None, None, ""),
    ],
)
def test_the_challenge_is_read(
    header: str, scheme: str, metadata: str | None, scope: tuple[str, ...] | None, error: str
) -> None:
    challenge = challenge_of(header)
    assert (challenge.scheme, challenge.resource_metadata, challenge.scope, challenge.error) == (
        scheme,
        metadata,
        scope,
        error,
    )


def test_the_first_of_two_values_counts() -> None:
    assert challenge_of('Bearer scope="a", scope="b"').scope == ("a",)


@pytest.mark.parametrize("piece", [",", " ", "a ", 'a="', "\\", 'a="\\', "=", '"'])
def test_a_long_header_is_read_in_one_go(piece: str) -> None:
    """Steps grow with the length alone: a regular expression that goes back would not end."""
    assert challenge_of(piece * 30_000 + '"') == NONE


def test_what_it_says_is_not_shown() -> None:
    assert "secret" not in repr(challenge_of('Bearer realm="secret"'))
