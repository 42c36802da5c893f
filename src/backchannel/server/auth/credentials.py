"""What the Authorization header carries (RFC 6750, section 2.1; RFC 9449, section 7.1). Tokens are taken from nowhere
else: "Access tokens MUST NOT be included in the URI query string" (basic/authorization, Token Requirements)."""

from __future__ import annotations

import re

from .refusal import TokenRefused

LONGEST = 16384
"""Characters of a token."""
_TOKEN = re.compile(r"[!-+\--~]+")  # what HTTP lets through, without the comma that joins two headers


def read_credentials(header: str | None, schemes: tuple[str, ...]) -> tuple[str, str] | None:
    """The scheme, as it stands in `schemes`, and the token; None where there is no token of these schemes.

    Raises: TokenRefused for what cannot be one token.
    """
    given, _, rest = (header or "").partition(" ")
    scheme = next((one for one in schemes if one.lower() == given.lower()), None)
    token = rest.strip()
    if scheme is None or not token:
        return None
    if "," in token:
        raise TokenRefused("There is more than one set of credentials", "invalid_request")
    if len(token) > LONGEST or not _TOKEN.fullmatch(token):
        raise TokenRefused("The token is malformed")
    return scheme, token
