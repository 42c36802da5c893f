"""scripts/soak.py: a short soak leaves nothing, and what is left fails it."""

import re
import subprocess
import sys
from pathlib import Path

from scripts.soak import left

ROOT = Path(__file__).parents[1]


def test_a_short_soak_leaves_nothing() -> None:
    command = [sys.executable, "scripts/soak.py", "--seconds", "3", "--clients", "20", "--seed", "11"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--seed 11" in done.stdout and "nothing is left" in done.stdout
    assert re.search(r"[1-9]\d* right", done.stdout), "some calls went through"


def test_what_is_left_is_named() -> None:
    before = {"sessions": 0, "files": 7, "errors": ["old"]}
    assert left(before, {"sessions": 0, "files": 6, "errors": ["old"]}) == []
    after = {"sessions": 2, "files": 8, "errors": ["old", "new"]}
    assert left(before, after) == ["sessions: 2 more", "files: 1 more", "logged as an error: new"]
