"""What a flow asks of the world: a flow is a sync generator that yields steps, and is sent what came of each. So the
whole flow is tested without a network, a browser or a clock; `driver.drive` runs it for real.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

_T = TypeVar("_T")
_MARGIN = 30.0  # seconds


@dataclass(frozen=True)
class Fetch:
    """Send an HTTP request; a Fetched comes back, also for a redirect or an error status.

    The driver raises ConnectionFailed into the flow where no response came.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a secret, as the body may
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Fetched:
    """The response to a Fetch. headers: names in lower case.  url: where it came from."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    url: str


@dataclass(frozen=True)
class OpenBrowser:
    """Show this page to the person. Nothing comes back."""

    url: str = field(repr=False)  # holds the state


@dataclass(frozen=True)
class ListenForRedirect:
    """Begin to listen for a redirect; the redirect URI comes back. wanted: the URI to use again if it can be."""

    wanted: str | None = None


@dataclass(frozen=True)
class WaitForRedirect:
    """Wait until the browser is sent to `redirect_uri`; the query parameters come back, a dict[str, str].

    The driver raises TimeoutError into the flow where nobody came.
    """

    redirect_uri: str


@dataclass(frozen=True)
class Load:
    """Read what is stored for `key`: bytes, or None."""

    key: str


@dataclass(frozen=True)
class Save:
    """Store `value` for `key`, or forget the key where it is None. Nothing comes back."""

    key: str
    value: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Supply:
    """Call a function of the user's, which may be a coroutine function; the text that it returns comes back.

    The driver raises LoginFailed into the flow where it fails.
    """

    function: Callable[[], Any]


@dataclass(frozen=True)
class Now:
    """The time: seconds since the epoch, a float."""


@dataclass(frozen=True)
class Random:
    """`n` random bytes, fit for secrets."""

    n: int


Step: TypeAlias = Fetch | OpenBrowser | ListenForRedirect | WaitForRedirect | Load | Save | Supply | Now | Random
Flow: TypeAlias = Generator[Step, Any, _T]
"""A generator of steps that returns a _T."""


@dataclass(frozen=True)
class Token:
    """What an authorization server issued. expires_at, issued_at: seconds since the epoch, or None where it did not
    say, or that is not known.  scope: what was granted, or where the server did not say, what was asked for."""

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    scope: str | None = None
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    issued_at: float | None = None

    def is_fresh(self, now: float) -> bool:
        """Whether it will do for some more time: a tenth of its life, and at most 30 seconds."""
        if self.expires_at is None:
            return True
        life = self.expires_at - self.issued_at if self.issued_at is not None else _MARGIN
        return now < self.expires_at - min(_MARGIN, life / 10)

    def over(self, earlier: Token) -> Token:
        """With what the answer leaves out as it was before: a refresh token that is not replaced stays good, and scopes
        that are not named are those that were (RFC 6749, 5.1 and 6)."""
        refresh_token = self.refresh_token or earlier.refresh_token
        return replace(self, refresh_token=refresh_token, scope=self.scope if self.scope is not None else earlier.scope)
