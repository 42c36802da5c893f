"""The examples check themselves."""

import subprocess
import sys

import pytest

from tests.cli.programs import PATIENCE, environment
from tests.gates.source import ROOT


@pytest.mark.rule("R168")
def test_each_request_is_an_invocation_of_its_own() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "serverless" / "function.py")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["invocation 3: complete", "2 nights in Oslo"]
