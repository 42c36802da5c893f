"""What was asked on the way to a call, in order."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

STEPS = {
    "refused": r"POST /mcp 401",
    "resource metadata": r"GET /\.well-known/oauth-protected-resource\S* 200",
    "server metadata": r"GET \S*/\.well-known/(oauth-authorization-server|openid-configuration)\S* 200",
    "registration": r"POST \S*/register 201",
    "authorization": r"GET \S*/authorize 30[127]",
    "token": r"POST \S*/token 200",
    "keys": r"GET \S*/jwks(\.json)? 200",
    "call": r"POST /mcp 200",
}
WAY = ["refused", "resource metadata", "server metadata", "registration", "authorization", "token", "call"]
"""The whole way (basic/authorization, Authorization Flow Steps)."""
WAY_TO_OURS = [*WAY[:-1], "server metadata", "keys", "call"]
"""The same at a server of ours, which then asks the authorization server for the keys that tokens are signed with."""


class Trail:
    """Notes what the apps are asked that it is put in front of."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before(self, app: Any) -> Any:
        """The same app, noted."""

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            async def note(message: Any) -> None:
                if message["type"] == "http.response.start":
                    self.seen.append(f"{scope['method']} {scope['path']} {message['status']}")
                await send(message)

            await app(scope, receive, note if scope["type"] == "http" else send)

        return noted

    @property
    def way(self) -> list[str]:
        """The steps in their order, each once if it was taken several times in a row. What came to nothing, such as a
        look where no metadata are, is left out."""
        found = [name for one in self.seen for name, form in STEPS.items() if re.fullmatch(form, one)]
        return [name for name, _ in groupby(found)]

    def forget(self) -> None:
        """Begin anew."""
        self.seen.clear()
