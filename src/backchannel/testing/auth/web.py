"""A request and its answer, without I/O, and the errors that OAuth knows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

MANY = frozenset({"resource", "audience"})
"""The parameters that may occur more than once (RFC 8707, RFC 8693)."""

_Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. headers: names in lower case."""

    method: str
    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def asked(self) -> Params:
        """The parameters in the query. Raises: OAuthError."""
        return Params(parse_qsl(self.query, keep_blank_values=True))

    @property
    def form(self) -> Params:
        """The parameters in the body. Raises: OAuthError."""
        if self.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            raise OAuthError("invalid_request", "the body has to be application/x-www-form-urlencoded")
        return Params(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    @property
    def parameters(self) -> dict[str, str]:
        """All parameters, wherever they are: in the query, in a form or at the top of a JSON object."""
        found = dict(parse_qsl(self.query))
        if self.headers.get("content-type", "").startswith("application/json"):
            with contextlib.suppress(ValueError, AttributeError):
                found |= {
                    name: value if isinstance(value, str) else json.dumps(value) for name, value in self._object()
                }
        else:
            found |= parse_qsl(self.body.decode("utf-8", "replace"))
        return found

    def _object(self) -> Any:
        """Raises: ValueError, AttributeError for what is no JSON object."""
        return json.loads(self.body).items()


class Params:
    """Parameters by name; an empty one counts as left out. Raises: OAuthError for one that is there twice."""

    def __init__(self, pairs: _Pairs):
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                self._values.setdefault(name, []).append(value)
        for name, values in self._values.items():
            if len(values) > 1 and name not in MANY:
                raise OAuthError("invalid_request", f"the parameter {name} is there more than once")

    def get(self, name: str) -> str:
        """The value, "" without one."""
        return self._values.get(name, [""])[0]

    def need(self, name: str) -> str:
        """The value. Raises: OAuthError without one."""
        if not (value := self.get(name)):
            raise OAuthError("invalid_request", f"the parameter {name} is missing")
        return value

    def all(self, name: str) -> tuple[str, ...]:
        """All values, in their order."""
        return tuple(self._values.get(name, ()))


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered. headers: names in lower case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class OAuthError(Exception):
    """An error that OAuth has a code for.

    error: the code.  headers: more headers of the answer.
    """

    def __init__(self, error: str, description: str, status: int = 400, headers: Mapping[str, str] | None = None):
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})

    @property
    def response(self) -> Response:
        """What the client gets."""
        body = {"error": self.error, "error_description": self.description}
        return as_json(body, self.status, self.headers)


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer that nobody may cache."""
    fixed = {"content-type": "application/json", "cache-control": "no-store"}
    return Response(status, {**fixed, **(headers or {})}, json.dumps(body).encode())


def as_page(html: str, status: int = 200) -> Response:
    """A page for a browser."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    headers = {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
    }
    return Response(status, {**headers, "content-security-policy": policy}, html.encode())


def as_redirect(url: str, parameters: Mapping[str, str], status: int = 302) -> Response:
    """A redirect to a URL with more parameters in its query. Those that are "" are left out."""
    parts = urlsplit(url)
    more = urlencode({name: value for name, value in parameters.items() if value})
    query = "&".join(filter(None, (parts.query, more)))
    return Response(status, {"location": urlunsplit(parts._replace(query=query)), "cache-control": "no-store"})
