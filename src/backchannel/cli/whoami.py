"""`backchannel whoami`: the logins, without their tokens."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import anyio

from ..client.auth.stored_token import StoredToken
from .blocks import as_json
from .logins import Logins
from .options import AsJson, Target
from .targets import url_of
from .terminal import Terminal


def whoami(server: Target | None = None, /, *, json: AsJson = False) -> int:
    """Show the login at a server, or all of them: who issued it, for what, and until when. Never a token.

    The exit code is 1 where there is no login.
    """
    url = url_of(server) if server is not None else None
    found = anyio.run(_found, url)
    terminal = Terminal()
    if not found:
        terminal.say(f"Not logged in{f' to {url}' if url else ''}.")
        return 1
    if json:
        terminal.show(as_json([_facts(url, token) for url, token in found.items()]))
    else:
        terminal.show("\n\n".join(_text(url, token) for url, token in found.items()))
    return 0


async def _found(url: str | None) -> dict[str, StoredToken]:
    logins = Logins()
    urls = [url] if url is not None else await logins.servers()
    tokens = {one: await logins.token(one) for one in urls}
    return {one: token for one, token in tokens.items() if token is not None}


def _facts(url: str, token: StoredToken) -> dict[str, Any]:
    return {
        "server": url,
        "issuer": token.issuer,
        "clientId": token.client_id,
        "scopes": (token.scope or "").split(),
        "expiresAt": token.expires_at,
        "renewable": token.refresh_token is not None,
    }


def _text(url: str, token: StoredToken) -> str:
    lines = [
        url,
        f"  issuer   {token.issuer}",
        f"  client   {token.client_id}",
        f"  scopes   {token.scope or 'not known'}",
        f"  expires  {_expiry(token)}",
    ]
    return "\n".join(lines)


def _expiry(token: StoredToken) -> str:
    after = ", and is renewed then" if token.refresh_token is not None else ""
    if token.expires_at is None:
        return "when the server says so"
    if token.expires_at <= time.time():
        return "it has, and is renewed when it is used" if after else "it has"
    return datetime.fromtimestamp(token.expires_at).astimezone().isoformat(" ", "seconds") + after
