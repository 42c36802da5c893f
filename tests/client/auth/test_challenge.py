"""WWW-Authenticate headers."""

import pytest

from backchannel.client.auth.challenge import NONE, challenge_of, reason


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


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("Bearer", ""),
        ('Bearer resource_metadata="https://s/m", scope="a"', ""),
        ('Bearer error="invalid_token"', "invalid_token"),
        (
            'Bearer error="invalid_token", error_description="The token is expired"',
            "invalid_token: The token is expired",
        ),
        ('Bearer error_description="expired"', "expired"),
        ('Bearer error="insufficient_scope", scope="a b"', "insufficient_scope: it needs the scopes a b"),
        (
            'Bearer error="insufficient_scope", error_description="no", scope="a b"',
            "insufficient_scope: no; it needs the scopes a b",
        ),
        (
            'Bearer error="insufficient_scope", error_description="It needs: a, b.", scope="a b"',
            "insufficient_scope: It needs: a, b.",
        ),
        ('Bearer error="x", error_description="two\r\nlines \x1b[31mred"', r"x: two\r\nlines \x1b[31mred"),
        ('Bearer error="invalid_token", scope="a"', "invalid_token"),
    ],
)
def test_why_a_token_was_refused(header: str, why: str) -> None:
    assert reason(challenge_of(header), "Bearer t") == why


def test_a_reason_is_short() -> None:
    assert len(reason(challenge_of(f'Bearer error="x", error_description="{"y " * 5000}"'))) == 500


@pytest.mark.parametrize(
    "said",
    [
        "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
        "eyJhbGciOi.eyJzdWIiOi...",
        "<eyJzdWIiOi>",
        "token=eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl",
    ],
)
@pytest.mark.parametrize("scheme", ["", "Bearer "])
def test_a_reason_has_nothing_of_the_token(said: str, scheme: str) -> None:
    header = f'Bearer error="invalid_token", error_description="the token {said} is expired"'
    shown = reason(challenge_of(header), f"{scheme}eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl")
    assert shown.startswith("invalid_token: the token ") and shown.endswith(" is expired")
    assert "eyJ" not in shown and "…" in shown


@pytest.mark.parametrize("piece", [",", " ", "a ", 'a="', "\\", 'a="\\', "=", '"'])
def test_a_long_header_is_read_in_one_go(piece: str) -> None:
    """Steps grow with the length alone: a regular expression that goes back would not end."""
    assert challenge_of(piece * 30_000 + '"') == NONE


def test_what_it_says_is_not_shown() -> None:
    assert "secret" not in repr(challenge_of('Bearer realm="secret"'))
