"""The composition root of a server: from a Server to something that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .errors import ConfigurationError
from .server.options import instance, known, number
from .server.server import Server
from .server.state_store import MemoryStateStore

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from .server.auth.bearer import BearerAuth
    from .server.auth.verifier import Verify
    from .server.http.app import HttpApp
    from .server.http.fleet import Fleet

P = ParamSpec("P")
T = TypeVar("T")
_OR_APP = " or an app of http_app()"


def _named(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which refuses what it has no option for with a ConfigurationError that lists its options."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        known(f"{function.__name__}()", options, function)
        return function(*args, **options)

    return call


def run(server: Server | HttpApp, *, http: str | None = None, workers: int = 1, **options: Any) -> None:
    """Run a server until it is stopped: on stdio, or over HTTP.

    server: a Server, or an app that `http_app` has made of one, which is served over HTTP as it is.
    http: "HOST:PORT" to listen on, or None for stdio.  workers: HTTP processes to serve in, where the platform can
    fork. They share a random key for the state of multi round-trip calls, unless there is one; legacy clients get no
    sessions without a `fleet`, for each of their requests may come to another process. What a process cannot inherit
    belongs into the server's lifespan, which each enters.  options: see http_app. On an address that others can reach,
    `allowed_hosts` is any by default; browsers still have to come from loopback or `allowed_origins`.

    Raises: ConfigurationError for what cannot work, such as no Server, options for an app that is made, an address that
    is in use or an extra that is not installed; SystemExit after a signal.
    """
    if http is None:
        if is_app(server):
            raise ConfigurationError("an app of http_app() is for HTTP: give http='HOST:PORT' too, or run its Server")
        _check(server, "run", _OR_APP)
        if options or workers != 1:
            raise ConfigurationError(f"{', '.join(options) or 'workers'} is for HTTP only: give http='HOST:PORT' too")
        from .server.stdio import run_stdio

        run_stdio(server)
        return
    from .server.http.listen import listen

    listen(app_at(server, http, workers, **options), http, workers=workers)


def app_at(server: Server | HttpApp, address: str, workers: int, **options: Any) -> HttpApp:
    """The app that `run` serves at an address. Raises: ConfigurationError for what so many processes cannot do."""
    from .server.http.listen import is_loopback, parse

    number("workers", workers, positive=True, whole=True)
    if is_app(server):
        if options:
            raise ConfigurationError(f"the app is made already: give {', '.join(options)} to http_app()")
        app = server
    else:
        _check(server, "run", _OR_APP)
        if workers > 1 and options.get("fleet") is None:
            options.setdefault("sessions", False)
        if not is_loopback(parse(address)[0]):
            options.setdefault("allowed_hosts", ["*"])
        app = http_app(server, **options)
    if workers > 1:
        _share(app)
    return app


def is_app(given: object) -> TypeIs[HttpApp]:
    """Whether it was made by `http_app`: then what makes them is imported."""
    module = sys.modules.get(f"{__package__}.server.http.app")
    return module is not None and isinstance(given, module.HttpApp)


def _share(app: HttpApp) -> None:
    """Raises: ConfigurationError for an app that several processes cannot serve."""
    if app.with_sessions and app.fleet is None:
        raise ConfigurationError(
            "sessions need workers=1, or a fleet= to live in, or sessions=False: else a session lives in one process"
        )
    if isinstance(app.server.state.store, MemoryStateStore):
        raise ConfigurationError("a MemoryStateStore is for one process: workers need a store that they share")
    if app.auth is not None and isinstance(app.auth.store, MemoryStateStore):
        raise ConfigurationError("a proof of DPoP is good once: workers need a DPoP(store=...) that they share")


@_named
def http_app(
    server: Server,
    *,
    path: str = "/mcp",
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    sessions: bool = True,
    fleet: Fleet | None = None,
    auth: BearerAuth | None = None,
    verify: Verify | None = None,
) -> HttpApp:
    """An ASGI app that serves both eras on one endpoint. It starts with its first request, wherever it is mounted;
    `async with app.running()` ties it to a lifespan of yours.

    path: of the endpoint.  allowed_hosts: names in the Host header that are served, such as "mcp.example.com" or
    "*.example.com", or ["*"]; default loopback only.  allowed_origins: origins that browsers may come from; default
    those on the allowed hosts.  sessions: give legacy clients a session, without which they cannot be asked anything.
    fleet: where sessions live that several replicas serve; by default each has its own.
    auth: by what tokens clients get in; verify: the same as BearerAuth(verify=verify), which finds out from a bearer
    token who calls, where None means nobody.

    Raises: ConfigurationError.
    """
    from .server.http.app import HttpApp

    _check(server, "http_app")
    auth = _auth(server, auth, verify)
    return HttpApp(
        server,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        sessions=sessions,
        fleet=fleet,
        auth=auth,
    )


def _auth(server: Server, auth: BearerAuth | None, verify: Verify | None) -> BearerAuth | None:
    """Raises: ConfigurationError, also where tools need scopes that nobody would check."""
    if auth is None and verify is None:
        scoped = [repr(name) for name, tool in server.tools.handlers.items() if tool.scopes]
        if scoped:
            raise ConfigurationError(
                f"tools need scopes that nobody would check: {', '.join(scoped)}; make an app with "
                "http_app(server, auth=BearerAuth(...)), and run it: run(app, http=...), or backchannel run FILE.py:app"
            )
        return None
    from .server.auth.bearer import BearerAuth

    if verify is not None:
        if auth is not None:
            raise ConfigurationError("give auth= or verify=: a BearerAuth takes a verify= too")
        return BearerAuth(verify=verify)
    instance("auth", auth, BearerAuth)
    return auth


def _check(server: object, function: str, other: str = "") -> None:
    """Raises: ConfigurationError for what is no Server, and names its type. other: what the function takes too."""
    if not isinstance(server, Server):
        hint = "; `backchannel run` takes its name" if isinstance(server, str) else ""
        raise ConfigurationError(f"{function}() takes a backchannel.Server{other}, not {type(server).__name__}{hint}")
