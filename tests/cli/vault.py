"""A server that wants a login, with the authorization server that it belongs to, in a thread."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from backchannel import BearerAuth, Principal, Server, http_app
from backchannel.testing.auth import AuthServer
from backchannel.testing.serving import serving

BROWSER = """
import sys
from urllib.request import urlopen

with urlopen(sys.argv[1]) as page:  # it goes where it is sent
    page.read()
"""


def browser(folder: Path) -> str:
    """What $BROWSER has to be, for a person who consents to everything."""
    script = folder / "browser.py"
    script.write_text(BROWSER, encoding="utf-8")
    return f"{sys.executable} {script} %s"


class Vault:
    """`url`: where it is.  auth: who issues its tokens.  shown: the tokens that it has seen.  refused: those that it
    does not take any more."""

    def __init__(self, auth: AuthServer):
        self.auth = auth
        self.url = ""
        self.shown: set[str] = set()
        self.refused: set[str] = set()

    async def verify(self, token: str) -> Principal | None:
        self.shown.add(token)
        access = self.auth.tokens.access(token)
        if access is None or token in self.refused:
            return None
        return Principal(access.grant.subject, scopes=frozenset(access.grant.scopes))

    def logins(self) -> int:
        """How often somebody has logged in."""
        return self.auth.count("authorize")


@contextmanager
def running(auth: AuthServer) -> Iterator[Vault]:
    """The server, for the time of the block."""
    server, vault = Server("vault"), Vault(auth)

    @server.tool
    def open_it(word: str) -> str:
        return f"{word}: it opens"

    @server.tool(scopes=["write"])
    def seal_it() -> str:
        return "it is sealed"

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(auth.running()) as issuer:
        app = http_app(server, auth=BearerAuth(issuer=issuer, verify=vault.verify))
        with portal.wrap_async_context_manager(serving(app)) as origin:
            vault.url = f"{origin}/mcp"
            yield vault
