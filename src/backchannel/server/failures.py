"""What goes on the wire when something goes wrong, as one function: an exception in, an error or a result out."""

from __future__ import annotations

import logging

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AskError,
    BackchannelError,
    JournalMismatch,
    MissingCapability,
    ProtocolError,
    RemoteProtocolError,
    ReplayError,
    ResourceNotFound,
    StepError,
    ToolError,
)
from ..nursery import being_cancelled
from ..one_line import one_line
from ..protocol.jsonrpc import ErrorObject, ErrorResponse
from ..protocol.types.tools import CallToolResult
from ..protocol.versions import FEATURES
from .exchange import Exchange
from .results import error_result

logger = logging.getLogger("backchannel.server")
MASKED = "the handler failed; the server's log says why"


def describe(error: BaseException, exchange: Exchange, debug: bool) -> ErrorObject | CallToolResult:
    """How an exception that came out of serving `exchange` is answered.

    A tool's failure is a result with `isError`, for the model to read (server/tools, Error Handling); everything else
    is a JSON-RPC error. What a peer answered to the handler is the handler's failure. The text of an unexpected
    exception is for the log, unless `debug`.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # what a task group makes of the failure of one task
    if isinstance(error, ResourceNotFound) and exchange.name != "tools/call":
        return ErrorObject(FEATURES[exchange.version].not_found, str(error), error.data)
    if isinstance(error, BackchannelError) and _is_protocol(error, exchange):
        if isinstance(error, JournalMismatch) or error.code == INTERNAL_ERROR:  # the author's to know of
            logger.warning("%s %.200r: %s", exchange.name, exchange.target, one_line(error))
        return ErrorObject(error.code, str(error), error.data)
    text = _text(_meant(error, exchange), exchange, debug)
    if exchange.name == "tools/call":
        return error_result(text)
    return ErrorObject(INVALID_PARAMS if isinstance(error, MissingCapability) else INTERNAL_ERROR, text)


def _meant(error: BaseException, exchange: Exchange) -> BaseException:
    """What the author raised for the client to read, where cleaning up after it failed too. Python keeps the first one
    as the context of the second, and the log has both."""
    first: BaseException | None = error
    while first is not None and not isinstance(first, ToolError | AskError):
        first = first.__context__ if first.__cause__ is None and not first.__suppress_context__ else None
    if first is None or first is error:
        return error
    logger.error("%s %.200r failed while it cleaned up", exchange.name, exchange.target, exc_info=error)
    return first


def _is_protocol(error: BackchannelError, exchange: Exchange) -> bool:
    if isinstance(error, MissingCapability):
        return exchange.version.is_modern
    return isinstance(error, ProtocolError | ReplayError) and not isinstance(error, RemoteProtocolError)


def _text(error: BaseException, exchange: Exchange, debug: bool) -> str:
    """What the client may read. Of a failed step, only what the author raised for it to read."""
    meant = isinstance(error, ToolError | AskError) or (isinstance(error, StepError) and error.kind == "ToolError")
    if meant:
        logger.debug("%s %.200r ended with %s", exchange.name, exchange.target, type(error).__name__)
        return error.text if isinstance(error, StepError) else str(error)
    if isinstance(error, RemoteProtocolError):  # nothing of the author's failed, and the text is the peer's
        text = "%s %.200r failed, as a question or call of its own was answered with error %d: %s"
        logger.warning(text, exchange.name, exchange.target, error.code, one_line(error.message))
    else:
        logger.error("%s %.200r failed", exchange.name, exchange.target, exc_info=error)
    if debug or (isinstance(error, BackchannelError) and not isinstance(error, StepError)):
        return f"{type(error).__name__}: {error}"
    return MASKED


def answer_cancelled(exchange: Exchange) -> ErrorResponse:
    """In an `except` of a cancellation that came out of a dispatcher: the response, where the handler has cancelled its
    own task.

    Raises: the cancellation, where it is one of somebody outside, which has a scope.
    """
    if being_cancelled():
        raise  # what the caller has caught
    return ErrorResponse(exchange.request.id, ErrorObject(INTERNAL_ERROR, "the handler's task was cancelled"))
