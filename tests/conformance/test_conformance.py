"""The official conformance suite finds what docs/conformance.md says, and nothing that is wrong."""

import os
import signal
import subprocess
import sys

from tests.gates.source import ROOT

LIMIT = 900  # seconds, with an installation


def test_the_suite_passes() -> None:
    page = ROOT / "docs" / "conformance.md"
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "conformance" / "run")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)  # it stops what it started
            process.wait(30)
    assert process.returncode == 0, output
    assert page.read_text(encoding="utf-8") == before, "docs/conformance.md was out of date; it was written anew"
