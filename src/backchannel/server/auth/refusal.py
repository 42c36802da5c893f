"""Why a request is not let in, and the HTTP response that says so (RFC 6750, section 3; RFC 9728, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocol.jsonrpc import ErrorResponse

RawHeaders = list[tuple[bytes, bytes]]


class TokenRefused(Exception):
    """A token is no good. The text is for its client; `detail` says more to the log, and neither has the token.

    error: the code of RFC 6750, section 3.1, or RFC 9449, section 12.2.  nonce: to use in the next proof.
    """

    def __init__(self, text: str, error: str = "invalid_token", *, detail: str = "", nonce: str | None = None):
        super().__init__(text)
        self.error = error
        self.detail = detail
        self.nonce = nonce


class Unavailable(Exception):
    """Whether a token is good cannot be found out now. The text is for the log."""


@dataclass(frozen=True, slots=True)
class Denied:
    """Answer with this: a status, headers, and an error where there is something to tell."""

    status: int
    headers: RawHeaders = field(default_factory=list)
    error: ErrorResponse | None = None


def challenge(scheme: str, parameters: dict[str, str | None]) -> tuple[bytes, bytes]:
    """A WWW-Authenticate header. Parameters without a value are left out."""
    quoted = [f'{name}="{_escape(value)}"' for name, value in parameters.items() if value]
    return b"www-authenticate", " ".join([scheme, ", ".join(quoted)]).rstrip().encode("ascii", "replace")


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
