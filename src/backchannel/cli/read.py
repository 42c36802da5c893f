"""`backchannel read`: the contents of a resource."""

from __future__ import annotations

import base64

from .. import Client
from ..client.features import decoded
from ..errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, RemoteProtocolError
from ..protocol.types.content import ResourceContents
from ..protocol.types.resources import ReadResourceResult
from .blocks import as_json
from .options import DEFAULTS, AsJson, Options, Target
from .terminal import Terminal
from .visit import visit

_NOT_FOUND = (RESOURCE_NOT_FOUND, INVALID_PARAMS)


def read(server: Target, uri: str, /, *, json: AsJson = False, options: Options = DEFAULTS) -> int:
    """Read a resource. Text is printed; binary contents go to stdout as they are, unless that is a terminal.

    Parameters
    ----------
    uri
        The resource's URI.
    """

    async def work(client: Client, terminal: Terminal) -> int:
        try:
            raw = await client.request("resources/read", {"uri": uri}, progress=terminal.bar.update)
        except RemoteProtocolError as error:
            if error.code in _NOT_FOUND and uri not in error.message:
                raise RemoteProtocolError(error.code, f"{uri}: {error.message}", error.data) from error
            raise
        if json:
            terminal.show(as_json(raw))
            return 0
        for contents in decoded(raw, ReadResourceResult, uri).contents:
            _show(contents, terminal)
        return 0

    return visit(server, options, work)


def _show(contents: ResourceContents, terminal: Terminal) -> None:
    if contents.blob is None:
        terminal.show(contents.text or "")
    else:
        terminal.write(base64.b64decode(contents.blob), f"{contents.uri}: {contents.mime_type or 'binary'}")
