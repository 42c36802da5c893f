"""What an import costs: `import backchannel` is lazy, a server loads no client code, and a client no server code."""

import subprocess
import sys

import pytest

from tests.gates.source import SRC, inside

HEAVY = ("pydantic", "anyio", "cryptography", "aiohttp")
ONLY_WHEN_USED = ("aiohttp", "cryptography", "uvicorn", "starlette", "jsonschema_rs")


def loaded_by(statement: str) -> list[str]:
    """The modules in memory after a statement in a fresh interpreter."""
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import backchannel", (*HEAVY, "backchannel.server", "backchannel.client")),
        ("from backchannel import Client", ("backchannel.server",)),
        ("from backchannel import Server", ("backchannel.client", *ONLY_WHEN_USED)),
    ],
)
def test_an_import_loads_only_what_it_needs(statement: str, unwanted: tuple[str, ...]) -> None:
    loaded = loaded_by(statement)
    assert "backchannel" in loaded
    assert [name for name in loaded if inside(name, *unwanted)] == []
