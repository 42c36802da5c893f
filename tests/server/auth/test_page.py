"""The page on authorization names tests and files of the server that are there."""

import ast
import re

from tests.gates.source import ROOT, SRC

PAGE = (ROOT / "docs" / "authorization.md").read_text(encoding="utf-8")
HERE = ROOT / "tests" / "server" / "auth"
ROWS = PAGE.partition("### What the specification wants of servers")[2].partition("\n## ")[0]


def test_every_test_that_it_names_is_there() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", ROWS)
    assert len(named) > 15
    missing = []
    for file, test in named:
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if test not in functions:
            missing.append(f"{file}::{test}")
    assert missing == []


def test_every_file_that_it_names_is_there() -> None:
    server = SRC / "backchannel" / "server"
    named = set(re.findall(r"`((?:http/)?\w+\.py)`", ROWS))
    assert len(named) > 8
    assert [
        name for name in sorted(named) if not (server / name).exists() and not (server / "auth" / name).exists()
    ] == []
