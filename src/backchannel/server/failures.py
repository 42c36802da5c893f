"""What goes on the wire when something goes wrong, as one function: an exception in, an error or a result out."""

from __future__ import annotations

import logging

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AskError,
    BackchannelError,
    MissingCapability,
    ProtocolError,
    ReplayError,
    StepError,
    ToolError,
)
from ..protocol.jsonrpc import ErrorObject
from ..protocol.types.tools import CallToolResult
from .exchange import Exchange
from .results import error_result

logger = logging.getLogger("backchannel.server")
MASKED = "the handler failed; the server's log says why"


def describe(error: Exception, exchange: Exchange, debug: bool) -> ErrorObject | CallToolResult:
    """How an exception that came out of serving `exchange` is answered.

    A tool's failure is a result with `isError`, for the model to read (server/tools, Error Handling); everything else
    is a JSON-RPC error. The text of an unexpected exception is for the log, unless `debug`.
    """
    if isinstance(error, ProtocolError | ReplayError):
        return ErrorObject(error.code, str(error), error.data)
    if isinstance(error, MissingCapability) and exchange.version.is_modern:
        return ErrorObject(error.code, str(error), error.data)
    text = _text(error, exchange, debug)
    if exchange.name == "tools/call":
        return error_result(text)
    return ErrorObject(INVALID_PARAMS if isinstance(error, MissingCapability) else INTERNAL_ERROR, text)


def _text(error: Exception, exchange: Exchange, debug: bool) -> str:
    if isinstance(error, ToolError | AskError | StepError):
        logger.debug("%s %r ended with %s", exchange.name, exchange.target, type(error).__name__)
        return str(error)
    logger.error("%s %r failed", exchange.name, exchange.target, exc_info=error)
    if debug or isinstance(error, BackchannelError):
        return f"{type(error).__name__}: {error}"
    return MASKED
