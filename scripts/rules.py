"""Print which tests show which rule and case, and fail where one that is due (tests/due.txt) has none.

How it works: the markers `@pytest.mark.rule("R41", ...)` and `@pytest.mark.case("A03", ...)` are read from the source
by AST, on functions, classes, parameters (`pytest.param(..., marks=...)`) and in `pytestmark`; no test is imported or
run. A marker counts only where there is a test that is not skipped or expected to fail.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORMS = {"rule": re.compile(r"[RP]\d+"), "case": re.compile(r"[A-Z]\d\d")}

Shown = dict[str, list[str]]
Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def due(text: str) -> list[str]:
    """The ids of a due list: ids and ranges such as `R1-R8`, separated by commas or blanks, with `#` comments."""
    ids: list[str] = []
    for item in re.findall(r"[^,\s]+", re.sub(r"#.*", "", text)):
        parts = re.fullmatch(r"([A-Z])(\d+)(?:-([A-Z])(\d+))?", item)
        if parts is None or parts[3] not in (None, parts[1]):
            raise ValueError(f"not an id or a range of ids: {item!r}")
        letter, first, _, last = parts.groups(default=parts[2])
        ids += [f"{letter}{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return ids


def mark_name(node: ast.AST) -> str | None:
    """`skip` for the expressions `pytest.mark.skip` and `pytest.mark.skip(...)`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark" else None


def marked(node: ast.AST, where: str) -> Iterator[str]:
    """The ids in the markers anywhere inside an expression."""
    for call in ast.walk(node):
        name = mark_name(call)
        if not isinstance(call, ast.Call) or name not in FORMS:
            continue
        for argument in call.args:
            value = argument.value if isinstance(argument, ast.Constant) else None
            if not isinstance(value, str) or not FORMS[name].fullmatch(value):
                raise ValueError(f"{where}:{call.lineno}: not the id of a {name}: {ast.unparse(argument)}")
            yield value


def tests_in(scope: Scope) -> list[Scope]:
    """The test functions and test classes right inside a module or class."""
    found: list[Scope] = []
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found.append(node)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found.append(node)
    return found


def marks_of(scope: Scope) -> list[ast.expr]:
    """The decorators of a function or class, and the value of `pytestmark` in a class or module."""
    marks = [] if isinstance(scope, ast.Module) else list(scope.decorator_list)
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        for node in scope.body:
            if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets):
                marks += node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
    return marks


def collect(scope: Scope, where: str, shown: Shown) -> bool:
    """Add what a module, class or function shows to `shown`; returns whether there is a test in it that runs."""
    marks = marks_of(scope)
    if any(mark_name(mark) in ("skip", "xfail") for mark in marks):
        return False
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        runs = True
    else:
        runs = any([collect(test, f"{where}::{test.name}", shown) for test in tests_in(scope) if hasattr(test, "name")])
    if runs:
        for mark in marks:
            for name in marked(mark, where):
                if where not in shown.setdefault(name, []):
                    shown[name].append(where)
    return runs


def main(root: Path = ROOT) -> int:
    """Print id -> tests, then what is missing; returns the exit status."""
    shown: Shown = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        collect(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(root).as_posix(), shown)
    for name in sorted(shown, key=lambda name: (name[0], int(name[1:]))):
        print(name, *shown[name], sep="\n    " if len(shown[name]) > 1 else "  ")
    wanted = due((root / "tests" / "due.txt").read_text(encoding="utf-8"))
    missing = [name for name in wanted if name not in shown]
    print(f"{len(shown)} rules and cases have a test; {len(wanted)} are due, {len(missing)} of them without one")
    if missing:
        print("no test shows:", *missing, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
