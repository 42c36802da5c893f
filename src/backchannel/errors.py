"""Every exception that leaves this package, in one tree.

    BackchannelError
    ├── ConfigurationError          a server or client was set up in a way that cannot work; raised at registration
    ├── ProtocolError               code, message, data of a JSON-RPC error
    │   ├── LocalProtocolError      this side would have broken the protocol
    │   └── RemoteProtocolError     the peer answered with an error, or broke the protocol
    ├── AskError                    a question could not be asked, or has no usable answer
    │   ├── MissingCapability       the client did not declare what the question needs
    │   ├── NoBackChannel           there is no way to reach the client
    │   ├── CannotAskHere           this kind of handler cannot ask on any wire
    │   ├── CallFinished            the call that this context belongs to has ended
    │   ├── SessionClosed           the session ended while the question was open
    │   ├── AskTimeout              nobody answered in time
    │   ├── InvalidAnswer           the answer breaks the schema that was asked for
    │   ├── Refused                 the person declined or cancelled, and the handler wanted a value
    │   ├── ClientLied              the client declared a capability and then did not know the method
    │   └── RootsUnknown            no roots were fetched yet
    ├── ReplayError                 a multi round-trip call cannot be continued
    │   ├── JournalMismatch         the handler asked something else than it did before
    │   ├── StateRejected           the requestState does not verify
    │   ├── StateTooLarge           the journal does not fit into a requestState
    │   └── TooManyRounds           the call went through too many rounds
    ├── StepError                   a recorded step failed: type name and message of the failure
    ├── ToolError                   for authors to raise: its text is shown to the model
    ├── ResourceNotFound            for authors to raise: there is no resource at this URI
    ├── UrlRequired                 for authors to raise: the person has to visit a page first
    ├── ConnectionFailed            no connection could be made
    ├── ConnectionLost              the connection ended with calls in flight
    ├── RequestTimeout              no response in time
    ├── OutcomeUnknown              the connection ended, and whether the call ran is not known
    ├── UnsupportedVersion          no protocol version in common
    └── AuthRequired                the server wants credentials
        └── LoginFailed             no token could be obtained

`code` is the JSON-RPC error code that a class takes when it goes over the wire, `status` the HTTP status of a modern
response. `pending`, of ConnectionFailed, ConnectionLost, OutcomeUnknown and RequestTimeout, is the call that was cut
off, with the answers that were given: `client.resume(error.pending)` goes on with it, and it can be saved. It is None
where there is no call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .client.pending import Pending

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""2025-11-25 and earlier, server/resources; reserved since."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
"""2025-11-25 only, client/elicitation; reserved since."""


class BackchannelError(Exception):
    """The root of the tree."""

    code = INTERNAL_ERROR
    status = 200

    @property
    def data(self) -> Any:
        """The `data` member of the JSON-RPC error, or None."""
        return None


class ConfigurationError(BackchannelError):
    """A server or client was set up in a way that cannot work."""


class ProtocolError(BackchannelError):
    """A JSON-RPC error: `code`, `message`, `data` (basic/index, Error Responses)."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 200):
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self._data = data

    @property
    def data(self) -> Any:
        return self._data


class LocalProtocolError(ProtocolError):
    """This side would have broken the protocol; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer answered with an error, or sent what the protocol does not allow."""


class AskError(BackchannelError):
    """A question could not be asked, or has no usable answer."""


class MissingCapability(AskError):
    """The client did not declare `capability`, such as "elicitation.url", for this call; nothing was sent. Catch it to
    go on without the answer."""

    code = MISSING_CLIENT_CAPABILITY
    status = 400

    def __init__(self, capability: str, why: str = ""):
        super().__init__(f"the client did not declare the capability {capability!r}{': ' + why if why else ''}")
        self.capability = capability

    @property
    def data(self) -> Any:
        required: dict[str, Any] = {}
        level = required
        for name in self.capability.split("."):
            level = level.setdefault(name, {})
        return {"requiredCapabilities": required}


class NoBackChannel(AskError):
    """There is no way to reach the client from here."""


class CannotAskHere(AskError):
    """This kind of handler cannot ask; tools, prompts and resources can (basic/patterns/mrtr, Supported Requests)."""


class CallFinished(AskError):
    """The call that this context belongs to has ended."""


class SessionClosed(AskError):
    """The session ended while a question was open."""


class AskTimeout(AskError):
    """Nobody answered in time."""


class InvalidAnswer(AskError):
    """The answer breaks the schema that was asked for. `errors` lists what is wrong, one sentence a field."""

    def __init__(self, message: str, errors: tuple[str, ...] = ()):
        super().__init__(message)
        self.errors = errors


class Refused(AskError):
    """The person declined or cancelled (`action`), and the handler wanted a value."""

    def __init__(self, action: str, question: str):
        super().__init__(f"the question {question!r} was answered with {action!r}")
        self.action = action


class ClientLied(AskError):
    """The client declared a capability and then answered "method not found"."""


class RootsUnknown(AskError):
    """No roots were fetched yet. `await ctx.roots()` works on every wire."""


class ReplayError(BackchannelError):
    """A multi round-trip call cannot be continued."""

    code = INVALID_PARAMS


class JournalMismatch(ReplayError):
    """On replay the handler asked something else than it did before. `recorded` and `asked` say what."""

    def __init__(self, message: str, recorded: str, asked: str):
        super().__init__(message)
        self.recorded = recorded
        self.asked = asked

    @property
    def data(self) -> Any:
        return {"recorded": self.recorded, "asked": self.asked}


class StateRejected(ReplayError):
    """The requestState does not verify. One text for every cause, so that nothing can be probed."""

    TEXT = "Invalid or expired requestState"

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class StateTooLarge(ReplayError):
    """The journal of this call does not fit into a requestState."""

    code = INTERNAL_ERROR


class TooManyRounds(ReplayError):
    """The call went through more rounds than allowed."""

    code = INTERNAL_ERROR


class StepError(BackchannelError):
    """A recorded step failed with an exception of type name `kind`, whose text was `text`."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class ToolError(BackchannelError):
    """For authors to raise in a handler: its text is shown to the model in a result with `isError`."""


class ResourceNotFound(BackchannelError):
    """For authors to raise: there is no resource at `uri` (server/resources, Error Handling)."""

    code = INVALID_PARAMS

    def __init__(self, uri: str, why: str = ""):
        super().__init__(f"Resource not found: {why}" if why else "Resource not found")
        self.uri = uri

    @property
    def data(self) -> Any:
        return {"uri": self.uri}


class Page(Protocol):
    """A page to visit: an ElicitUrl."""

    text: str
    url: str


class UrlRequired(BackchannelError):
    """For authors to raise in a tool, prompt or resource: the person has to visit these pages before the call can go
    on, and the handler runs again then (client/elicitation, URL Mode).

    With a session the client gets an error with the pages, and calls again; where a page has an `until`, it is told
    once that is true. On the stateless protocol the pages are questions, and who refuses one ends the call. A client
    that takes no URLs is a MissingCapability.
    """

    code = URL_ELICITATION_REQUIRED

    def __init__(self, *pages: Page):
        if not pages or not all(hasattr(page, "url") for page in pages):
            raise TypeError('UrlRequired takes pages: raise UrlRequired(ElicitUrl("Sign in", "https://..."))')
        super().__init__(f"a page has to be visited first: {'; '.join(page.text for page in pages)}")
        self.pages = pages


class ConnectionFailed(BackchannelError):
    """No connection could be made, so nothing was sent. The message names host or command and the cause."""

    pending: Pending[Any] | None = None


class ConnectionLost(BackchannelError):
    """The connection ended with calls in flight."""

    pending: Pending[Any] | None = None


class RequestTimeout(BackchannelError):
    """No response in time. `clock` is "idle" or "total"."""

    pending: Pending[Any] | None = None

    def __init__(self, message: str, clock: str):
        super().__init__(message)
        self.clock = clock


class OutcomeUnknown(ConnectionLost):
    """The connection ended, and whether the call ran is not known. It was not sent again, because nothing says that it
    may run twice; `client.resume(error.pending)` does so."""

    pending: Pending[Any]  # never None here


class UnsupportedVersion(BackchannelError):
    """No protocol version in common. `requested` and `supported` say what each side speaks."""

    code = UNSUPPORTED_VERSION
    status = 400

    def __init__(self, requested: str, supported: list[str], message: str | None = None):
        speaks = ", ".join(supported)[:500] or "none of that kind"
        super().__init__(
            message or f"Unsupported protocol version: {requested[:100]} was wanted, and the server speaks {speaks}"
        )
        self.requested = requested
        self.supported = supported

    @property
    def data(self) -> Any:
        return {"supported": self.supported, "requested": self.requested}


class AuthRequired(BackchannelError):
    """The server wants credentials. `challenge` is its WWW-Authenticate header."""

    def __init__(self, message: str, challenge: str = ""):
        super().__init__(message)
        self.challenge = challenge


class LoginFailed(AuthRequired):
    """No token could be obtained. `error` is the code of the authorization server, such as "access_denied", or "" where
    the failure is not its answer."""

    def __init__(self, message: str, challenge: str = "", *, error: str = ""):
        super().__init__(message, challenge)
        self.error = error
