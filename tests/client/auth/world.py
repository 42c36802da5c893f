"""The world of a flow, without an event loop: pages, an authorization server, a browser, a store and a clock."""

import itertools
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from backchannel.client.auth.auth import Demand, Why
from backchannel.client.auth.challenge import challenge_of
from backchannel.client.auth.steps import (
    Fetch,
    Fetched,
    Flow,
    ListenForRedirect,
    Load,
    Now,
    OpenBrowser,
    Random,
    Save,
    Supply,
    Token,
    WaitForRedirect,
)
from backchannel.errors import BackchannelError
from backchannel.testing.auth.server import AuthServer
from backchannel.testing.auth.web import OAuthError

SERVER = "https://mcp.test/mcp"
METADATA = "https://mcp.test/.well-known/oauth-protected-resource/mcp"
REDIRECT = "http://127.0.0.1:{}/callback"
Page = Any | Callable[[Fetch], Any]


def fetched(status: int, body: Any = b"", **headers: str) -> Fetched:
    """A response; a body that is not bytes becomes JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Fetched(status, {name.replace("_", "-"): value for name, value in headers.items()}, content, "")


class World:
    """`pages`: URL -> what is there, JSON or a Fetched or a function; all else is a 404, but for the authorization
    server. `answers`: what the browser brings back, in place of what the authorization server does.

    metadata: more of what the MCP server publishes; None for a server that publishes nothing.  options: of the
    authorization server.
    """

    def __init__(self, metadata: dict[str, Any] | None = {}, **options: Any):  # noqa: B006
        self.now = 1_000_000.0
        self.auth = AuthServer(clock=lambda: self.now, **options)
        self.pages: dict[str, Page] = {}
        if metadata is not None:
            issuers = [self.auth.issuer]
            self.pages[METADATA] = {"resource": SERVER, "authorization_servers": issuers, **metadata}
        self.kept: dict[str, bytes] = {}
        self.fetched: list[Fetch] = []
        self.opened: list[str] = []
        self.answers: list[dict[str, str] | Exception] = []
        self.port = 5000
        self.ports_taken = False
        self._random = itertools.count()

    @property
    def urls(self) -> list[str]:
        """What was fetched, in order, without queries."""
        return [step.url.partition("?")[0] for step in self.fetched]

    @property
    def asked(self) -> dict[str, str]:
        """The parameters of the last page that was opened."""
        return dict(parse_qsl(urlsplit(self.opened[-1]).query))

    @property
    def posted(self) -> list[dict[str, str]]:
        """The parameters of the token requests."""
        found = [step for step in self.fetched if step.method == "POST" and step.url.endswith("/token")]
        return [dict(parse_qsl(step.body.decode())) for step in found]

    def run(self, flow: Flow[Any]) -> Any:
        """What the flow returns. Raises: what it raises."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._take(step)
                except (BackchannelError, TimeoutError) as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            return end.value

    def _take(self, step: Any) -> Any:
        match step:
            case Fetch():
                self.fetched.append(step)
                return self._fetch(step)
            case Now():
                return self.now
            case Random(n):
                return next(self._random).to_bytes(n, "big")
            case Supply(function):
                return function()
            case Load(key):
                return self.kept.get(key)
            case Save(key, None):
                return self.kept.pop(key, None)
            case Save(key, value):
                self.kept[key] = value
            case ListenForRedirect(wanted):
                if wanted is not None and not self.ports_taken:
                    return wanted
                self.port += 1
                return REDIRECT.format(self.port)
            case OpenBrowser(url):
                self.opened.append(url)
                self._visit(url)
            case WaitForRedirect():
                if not self.answers:
                    raise TimeoutError
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            case _:
                raise AssertionError(step)

    def _fetch(self, step: Fetch) -> Fetched:
        page = self.pages.get(step.url)
        if page is None and step.url.startswith(self.auth.issuer):
            response = self.auth.fetch(step.method, step.url, step.headers, step.body)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Fetched(response.status, headers, response.body, step.url)
        if callable(page):
            page = page(step)
        if page is None:
            return fetched(404)
        return page if isinstance(page, Fetched) else fetched(200, page)

    def _visit(self, url: str) -> None:
        """As the browser does: the answer is there at once, unless one is given."""
        state = self.asked.get("state", "")
        if self.answers:
            self.answers = [one if isinstance(one, Exception) else {"state": state, **one} for one in self.answers]
            return
        try:
            location = self.auth.visit(url)
        except OAuthError:
            return  # a page that says so; nobody comes back
        self.answers = [dict(parse_qsl(urlsplit(location).query, keep_blank_values=True))]


def refused(header: str = "Bearer", token: Token | None = None, **options: Any) -> Demand:
    """The server has answered 401."""
    return Demand(SERVER, Why.REFUSED, challenge_of(header), token, **options)


def too_narrow(scope: str, token: Token | None = None) -> Demand:
    """The server has answered 403."""
    header = f'Bearer error="insufficient_scope", scope="{scope}"'
    return Demand(SERVER, Why.SCOPE, challenge_of(header), token)
