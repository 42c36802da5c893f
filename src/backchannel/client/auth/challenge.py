"""WWW-Authenticate: what a server says when it wants credentials (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...one_line import one_line

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PART = re.compile(
    rf"""\s*(?:,\s*)*
    (?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))(?=[\s,]|$)
    |(?P<scheme>{_TOKEN})(?:\s+(?P<blob>[A-Za-z0-9\-._~+/]+=*)(?=\s*(?:,|$)))?(?=\s|,|$))""",
    re.VERBOSE,
)
_KNOWN = ("bearer", "dpop")
_WORD = re.compile(r"[\w.\-~+/=]{8,}")  # which may be a token, or a part of one


@dataclass(frozen=True)
class Challenge:
    """One challenge. scheme: in lower case, "" where the server sent none.  scope: None where it names none."""

    scheme: str = ""
    resource_metadata: str | None = None
    scope: tuple[str, ...] | None = None
    error: str = ""
    parameters: dict[str, str] = field(default_factory=dict, repr=False)


NONE = Challenge()


def challenge_of(header: str) -> Challenge:
    """The challenge for an access token in the header's value, NONE if it has none. Of several, the one that names an
    error counts; what it does not say, another may."""
    found = [one for one in _challenges(header) if one[0] in _KNOWN]
    if not found:
        return NONE
    scheme, given = next((one for one in found if "error" in one[1]), found[0])
    every = {name: value for _, parameters in reversed(found) for name, value in parameters.items()} | given
    scope = tuple(every.get("scope", "").split())
    return Challenge(scheme, every.get("resource_metadata"), scope or None, given.get("error", ""), given)


def reason(challenge: Challenge, shown: str = "") -> str:
    """Why the server did not take a token, in one line: error, error_description and the scopes that it wants, or ""
    where it says nothing (RFC 6750, 3). For the developer who reads an error message; it is what another has written.

    shown: the credentials that were refused. Where the server repeats them, they are left out.
    """

    def hidden(word: re.Match[str]) -> str:
        bare = word[0].strip(".")
        return "…" if bare in shown or any(one in bare for one in secrets) else word[0]

    secrets = [one for one in shown.split() if len(one) >= 8]
    scopes = challenge.scope if challenge.error == "insufficient_scope" else None
    said = challenge.parameters.get("error_description", "")
    if scopes and not set(scopes) <= set(re.split(r"[\s,.'\"]+", said)):
        said = "; ".join(part for part in (said, f"it needs the scopes {' '.join(scopes)}") if part)
    return one_line(_WORD.sub(hidden, ": ".join(part for part in (challenge.error, said) if part)))


def _challenges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each scheme, with its parameters; the names of both in lower case. What cannot be read ends it."""
    scheme, given, at = "", dict[str, str](), 0
    while part := _PART.match(header, at):
        at = part.end()
        if part["scheme"] is not None:
            if scheme:
                yield scheme, given
            scheme, given = part["scheme"].lower(), {}
        elif part["quoted"] is not None:
            given.setdefault(part["name"].lower(), re.sub(r"\\(.)", r"\1", part["quoted"]))
        else:
            given.setdefault(part["name"].lower(), part["plain"])
    if scheme:
        yield scheme, given
