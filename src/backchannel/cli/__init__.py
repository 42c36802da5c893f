"""The command line: `backchannel demo`, `run`, `list`, `call`, `read`, `prompt`, `complete`, `listen`, `login`,
`logout` and `whoami`.

The exit codes are in `EXIT_CODES`.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from ..errors import (
    AuthRequired,
    BackchannelError,
    ConfigurationError,
    ConnectionFailed,
    ConnectionLost,
    LoginFailed,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestTimeout,
)

OK, FAILED, USAGE, CONNECTION, PROTOCOL, INTERRUPTED = 0, 1, 2, 3, 4, 130
EXIT_CODES = (
    "Exit codes: 0 done, also where a question was declined or cancelled and the tool goes on; 1 the tool failed; "
    "2 wrong usage, or a Python file that cannot be imported; 3 no connection, no login, or no MCP server there; "
    "4 the server refused the request or broke the protocol; 130 Ctrl-C, which cancels the call."
)
CONNECTING = ("list", "call", "read", "prompt", "complete", "listen")
COMMANDS = ("demo", "run", *CONNECTING, "login", "logout", "whoami")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. arguments: default those of the process.  Returns the exit code."""
    try:
        from cyclopts import App, CycloptsError
    except ImportError as error:
        print(f"backchannel: the command line needs the extra 'cli', which brings {error.name}:", file=sys.stderr)
        print("  pip install 'backchannel[cli]'", file=sys.stderr)
        return FAILED
    from .. import __version__

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a result may hold what the terminal cannot show
    given = _command_last(list(sys.argv[1:] if arguments is None else arguments))
    about = "MCP servers and clients in which a handler asks the client from the middle of ordinary code."
    app = App(
        "backchannel", help=about, version=__version__, help_epilogue=EXIT_CODES, suppress_keyboard_interrupt=False
    )
    for name in given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS:  # imports what is needed only
        app.command(getattr(importlib.import_module(f"{__name__}.{name}"), name), name=name, version_flags=())
    try:
        code = app(given, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return USAGE
    except BackchannelError as error:
        from .printable import printable

        print(f"backchannel: {printable(describe(error))}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the results has enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return code if isinstance(code, int) else OK


def exit_code(error: BackchannelError) -> int:
    """The exit code that says what kind of failure this is."""
    if isinstance(error, ConfigurationError):
        return USAGE
    if isinstance(error, ConnectionFailed | ConnectionLost | RequestTimeout | AuthRequired):
        return CONNECTION
    if isinstance(error, RemoteProtocolError) and error.code == 0 and error.status >= 400:  # plain HTTP, not MCP
        return CONNECTION
    return PROTOCOL


def describe(error: BackchannelError) -> str:
    """The error in words that need no traceback."""
    if isinstance(error, OutcomeUnknown):
        name = error.pending.params.get("name", error.pending.method)
        return f"the connection ended, and nothing says whether {name!r} ran: {error.__cause__ or error}"
    text, hint = str(error) or type(error).__name__, ""
    if isinstance(error, LoginFailed):
        from .redirects import scopes_wanted

        text += scopes_wanted(error)
        hint = "; with a token of your own, give --header 'Authorization: Bearer TOKEN'" if not error.error else ""
    elif isinstance(error, AuthRequired):
        from ..client.refusal import LOG_IN

        if text.endswith(LOG_IN):  # nobody has logged in
            text = text.removesuffix(LOG_IN)
            hint = "; give another --header 'Authorization: Bearer TOKEN', or none, to log in"
    return f"{text}{hint}"


def _command_last(given: list[str]) -> list[str]:
    """`call TOOL … -- COMMAND …` as `call "COMMAND …" TOOL …`."""
    if "--" not in given or given[0] not in CONNECTING:
        return given
    import shlex

    split = given.index("--")
    return [given[0], shlex.join(given[split + 1 :]), *given[1:split]]
