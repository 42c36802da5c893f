"""What an import costs: `import backchannel` is lazy, a server loads no client code, and a client no server code. What
takes long to load is loaded by what needs it."""

import subprocess
import sys

import pytest

from tests.gates.source import SRC, inside

HEAVY = ("pydantic", "anyio", "cryptography", "aiohttp")
ONLY_WHEN_USED = ("aiohttp", "cryptography", "uvicorn", "starlette", "jsonschema_rs", "joserfc", "redis")
TYPES = ("pydantic", "annotated_types", "importlib.metadata", "email")
"""What comes with the types that a handler's signature may have. Pydantic looks for its plugins in all that is
installed."""
SERVE = """
import sys
from backchannel import Server, run
server = Server("small")

@server.tool
async def add(a: int, b: int = 1, note: str | None = None) -> int:
    return a + b

run(server)
"""


def loaded_by(statement: str) -> list[str]:
    """The modules in memory after a statement in a fresh interpreter."""
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); exec({statement!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, input="")
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import backchannel", (*HEAVY, "backchannel.server", "backchannel.client")),
        ("from backchannel import Client", ("backchannel.server", *ONLY_WHEN_USED, *TYPES)),
        ("from backchannel import Server", ("backchannel.client", *ONLY_WHEN_USED, *TYPES)),
        (SERVE, ("backchannel.client", *ONLY_WHEN_USED, *TYPES)),
    ],
)
def test_an_import_loads_only_what_it_needs(statement: str, unwanted: tuple[str, ...]) -> None:
    loaded = loaded_by(statement)
    assert "backchannel" in loaded
    assert [name for name in loaded if inside(name, *unwanted)] == []
