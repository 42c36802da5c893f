"""Era differences live in tables: nobody but protocol/versions.py compares versions or eras."""

import ast
import re
from collections.abc import Iterator

from tests.gates.source import load

NAMES = {"version", "era", "protocol_version"}
ENUMS = {"Version", "Era"}
LITERAL = re.compile(r"20\d\d-\d\d-\d\d")


def speaks_of_versions(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(speaks_of_versions(element) for element in node.elts)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and LITERAL.fullmatch(node.value) is not None
    if isinstance(node, ast.Name):
        return node.id in NAMES
    if isinstance(node, ast.Attribute):
        return node.attr in NAMES or ast.unparse(node.value).split(".")[-1] in ENUMS
    return False


def compares(node: ast.AST) -> bool:
    """Whether a node compares or matches a version. `x is None` and `x in TABLE` do not."""
    if isinstance(node, ast.Match):
        return speaks_of_versions(node.subject)
    if not isinstance(node, ast.Compare):
        return False
    operands = [node.left, *node.comparators]
    if any(isinstance(operand, ast.Constant) and operand.value is None for operand in operands):
        return False
    if all(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        members = [node.left] if isinstance(node.left, ast.Constant) else []
        members += [operand for operand in node.comparators if not isinstance(operand, ast.Name | ast.Attribute)]
        return any(speaks_of_versions(member) for member in members)
    return any(speaks_of_versions(operand) for operand in operands)


def found() -> Iterator[str]:
    for module in load().values():
        if module.name != "backchannel.protocol.versions":
            for node in ast.walk(module.tree):
                if compares(node):
                    what = node.subject if isinstance(node, ast.Match) else node
                    yield f"{module.at(node)}: {ast.unparse(what)}"


def test_no_version_is_compared_outside_versions() -> None:
    assert list(found()) == []
