"""backchannel: MCP servers and clients in which a handler asks the client from the middle of ordinary code, and the
same code works on every wire."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.auth.client_credentials import ClientCredentials as ClientCredentials
    from .client.auth.enterprise import EnterpriseManaged as EnterpriseManaged
    from .client.auth.enterprise import IdentityProvider as IdentityProvider
    from .client.auth.file_store import FileStore as FileStore
    from .client.auth.keyring_store import KeyringStore as KeyringStore
    from .client.auth.loopback import Loopback as Loopback
    from .client.auth.oauth import OAuth as OAuth
    from .client.auth.private_key import PrivateKey as PrivateKey
    from .client.auth.stores import MemoryStore as MemoryStore
    from .client.auth.workload import WorkloadIdentity as WorkloadIdentity
    from .client.pending import Pending as Pending
    from .client.stdio import StdioServer as StdioServer
    from .errors import AskError as AskError
    from .errors import AskTimeout as AskTimeout
    from .errors import AuthRequired as AuthRequired
    from .errors import BackchannelError as BackchannelError
    from .errors import CallFinished as CallFinished
    from .errors import CannotAskHere as CannotAskHere
    from .errors import ClientLied as ClientLied
    from .errors import ConfigurationError as ConfigurationError
    from .errors import ConnectionFailed as ConnectionFailed
    from .errors import ConnectionLost as ConnectionLost
    from .errors import InvalidAnswer as InvalidAnswer
    from .errors import JournalMismatch as JournalMismatch
    from .errors import LocalProtocolError as LocalProtocolError
    from .errors import LoginFailed as LoginFailed
    from .errors import MissingCapability as MissingCapability
    from .errors import NoBackChannel as NoBackChannel
    from .errors import OutcomeUnknown as OutcomeUnknown
    from .errors import ProtocolError as ProtocolError
    from .errors import Refused as Refused
    from .errors import RemoteProtocolError as RemoteProtocolError
    from .errors import ReplayError as ReplayError
    from .errors import RequestTimeout as RequestTimeout
    from .errors import ResourceNotFound as ResourceNotFound
    from .errors import RootsUnknown as RootsUnknown
    from .errors import SessionClosed as SessionClosed
    from .errors import StateRejected as StateRejected
    from .errors import StateTooLarge as StateTooLarge
    from .errors import StepError as StepError
    from .errors import ToolError as ToolError
    from .errors import TooManyRounds as TooManyRounds
    from .errors import UnsupportedVersion as UnsupportedVersion
    from .errors import UrlRequired as UrlRequired
    from .running import http_app as http_app
    from .running import run as run
    from .server.asks import Elicit as Elicit
    from .server.asks import ElicitUrl as ElicitUrl
    from .server.asks import Roots as Roots
    from .server.asks import Sample as Sample
    from .server.auth.bearer import BearerAuth as BearerAuth
    from .server.auth.dpop import DPoP as DPoP
    from .server.auth.introspection import Introspection as Introspection
    from .server.context import Context as Context
    from .server.exchange import Principal as Principal
    from .server.explicit import InputRequired as InputRequired
    from .server.http.fleet import Fleet as Fleet
    from .server.http.in_memory import MemoryBus as MemoryBus
    from .server.http.in_memory import MemoryEvents as MemoryEvents
    from .server.http.in_memory import MemorySessions as MemorySessions
    from .server.limits import Limits as Limits
    from .server.outcomes import Accepted as Accepted
    from .server.outcomes import Cancelled as Cancelled
    from .server.outcomes import Declined as Declined
    from .server.outcomes import Outcome as Outcome
    from .server.server import Server as Server
    from .server.state import RequestState as RequestState
    from .server.state_store import MemoryStateStore as MemoryStateStore
    from .targets import Client as Client

_HOMES = {
    "client.auth.client_credentials": ("ClientCredentials",),
    "client.auth.enterprise": ("EnterpriseManaged", "IdentityProvider"),
    "client.auth.file_store": ("FileStore",),
    "client.auth.keyring_store": ("KeyringStore",),
    "client.auth.loopback": ("Loopback",),
    "client.auth.oauth": ("OAuth",),
    "client.auth.private_key": ("PrivateKey",),
    "client.auth.stores": ("MemoryStore",),
    "client.auth.workload": ("WorkloadIdentity",),
    "client.pending": ("Pending",),
    "client.stdio": ("StdioServer",),
    "errors": (
        "AskError",
        "AskTimeout",
        "AuthRequired",
        "BackchannelError",
        "CallFinished",
        "CannotAskHere",
        "ClientLied",
        "ConfigurationError",
        "ConnectionFailed",
        "ConnectionLost",
        "InvalidAnswer",
        "JournalMismatch",
        "LocalProtocolError",
        "LoginFailed",
        "MissingCapability",
        "NoBackChannel",
        "OutcomeUnknown",
        "ProtocolError",
        "Refused",
        "RemoteProtocolError",
        "ReplayError",
        "RequestTimeout",
        "ResourceNotFound",
        "RootsUnknown",
        "SessionClosed",
        "StateRejected",
        "StateTooLarge",
        "StepError",
        "ToolError",
        "TooManyRounds",
        "UnsupportedVersion",
        "UrlRequired",
    ),
    "running": ("http_app", "run"),
    "server.asks": ("Elicit", "ElicitUrl", "Roots", "Sample"),
    "server.auth.bearer": ("BearerAuth",),
    "server.auth.dpop": ("DPoP",),
    "server.auth.introspection": ("Introspection",),
    "server.context": ("Context",),
    "server.exchange": ("Principal",),
    "server.explicit": ("InputRequired",),
    "server.http.fleet": ("Fleet",),
    "server.http.in_memory": ("MemoryBus", "MemoryEvents", "MemorySessions"),
    "server.limits": ("Limits",),
    "server.outcomes": ("Accepted", "Cancelled", "Declined", "Outcome"),
    "server.server": ("Server",),
    "server.state": ("RequestState",),
    "server.state_store": ("MemoryStateStore",),
    "targets": ("Client",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__version__ = "0.1.0"
__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
