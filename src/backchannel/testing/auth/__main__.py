"""`python -m backchannel.testing.auth`: an authorization server on this machine, to try a server or a client with."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from .asgi import WARNING
from .server import AuthServer


def main() -> None:
    """Serve until SIGINT."""
    parser = argparse.ArgumentParser("python -m backchannel.testing.auth", description=f"Runs {WARNING}.")
    parser.add_argument("--port", type=int, default=9000, help="to listen on; 0 for one that is free (default: 9000)")
    parser.add_argument("--path", default="", help="of the issuer, such as /tenant")
    parser.add_argument("--scope", action="append", default=[], help="that exists; may be repeated (default: any)")
    parser.add_argument("--subject", default="alice", help="who lets clients in (default: alice)")
    parser.add_argument("--no-consent", action="store_true", help="let clients in without a page that asks")
    options = parser.parse_args()
    auth = AuthServer(
        "https://auth.test" + options.path,
        subject=options.subject,
        scopes=options.scope,
        consent=not options.no_consent,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(auth, options.port))


async def _serve(auth: AuthServer, port: int) -> None:
    async with auth.running(port=port) as issuer:
        print(f"{issuer} is {WARNING}.", file=sys.stderr)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
