"""The public names. A name that joins or leaves is a change to this list and an entry in the changelog."""

import subprocess
import sys

import pytest

import backchannel
from tests.gates.source import SRC

NAMES = {
    *("Server", "Context", "Client", "run", "http_app", "StdioServer", "RequestState", "MemoryStateStore", "Limits"),
    *("Principal", "BearerAuth", "Introspection", "DPoP"),
    "Pending",
    *("ClientCredentials", "EnterpriseManaged", "IdentityProvider", "PrivateKey", "WorkloadIdentity"),
    *("OAuth", "Loopback", "MemoryStore", "FileStore", "KeyringStore"),
    *("Fleet", "MemorySessions", "MemoryEvents", "MemoryBus"),
    *("Elicit", "ElicitUrl", "Sample", "Roots", "InputRequired"),
    *("Outcome", "Accepted", "Declined", "Cancelled"),
}
EXCEPTIONS = {
    "BackchannelError",
    *("ProtocolError", "LocalProtocolError", "RemoteProtocolError"),
    *("AskError", "MissingCapability", "NoBackChannel", "CannotAskHere", "CallFinished", "SessionClosed"),
    *("AskTimeout", "InvalidAnswer", "Refused", "ClientLied", "RootsUnknown"),
    *("ReplayError", "JournalMismatch", "StateRejected", "StateTooLarge", "TooManyRounds"),
    *("StepError", "ToolError", "ResourceNotFound", "UrlRequired"),
    *("ConnectionFailed", "ConnectionLost", "RequestTimeout", "OutcomeUnknown", "UnsupportedVersion"),
    *("AuthRequired", "LoginFailed"),
    "ConfigurationError",
}


def test_the_public_names_are_these() -> None:
    assert len(backchannel.__all__) == len(set(backchannel.__all__))
    assert set(backchannel.__all__) == NAMES | EXCEPTIONS
    assert set(dir(backchannel)) >= NAMES | EXCEPTIONS


def test_every_public_name_resolves() -> None:
    missing = [name for name in sorted(NAMES | EXCEPTIONS) if not hasattr(backchannel, name)]
    assert missing == []


def test_exceptions_are_in_one_tree() -> None:
    root = backchannel.BackchannelError
    assert [name for name in sorted(EXCEPTIONS) if not issubclass(getattr(backchannel, name), root)] == []


def test_names_are_loaded_when_first_used() -> None:
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import backchannel; print(*vars(backchannel))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) & NAMES == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = backchannel.no_such_name
