"""The house rules that a machine can hold: sizes, names, broad handlers, promises."""

import ast
import re
from collections.abc import Iterator

from tests.gates.source import ROOT, SRC, load

MODULES = load()
SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# module -> why it may catch everything: around a handler, around a user's callback, around a background task.
BROAD: dict[str, str] = {
    "backchannel.apart": "around what a coroutine waits for, whose failure it is given",
    "backchannel.cli.load": "around the import of the author's module",
    "backchannel.client.auth.supplied": "around the user's function for an identity",
    "backchannel.client.connection": "around the sending of a request, for its caller",
    "backchannel.client.reverse": "around the host's handler of a question",
    "backchannel.client.listener": "around the host's callbacks",
    "backchannel.client.rounds": "around the host's handlers of one round",
    "backchannel.memory": "around the task that serves in-process",
    "backchannel.nursery": "around a background task",
    "backchannel.server.state": "around the author's codec",
    "backchannel.server.question": "around the author's questions that were gathered",
    "backchannel.server.dispatch": "around the author's handler",
    "backchannel.server.handler": "around the author's function",
    "backchannel.server.auth.dpop": "around the operator's store of proofs",
    "backchannel.server.http.app": "around the author's lifespan",
    "backchannel.server.http.fleet": "around the operator's store and bus",
    "backchannel.server.http.lifespan": "around the author's lifespan",
    "backchannel.server.steps": "around the author's step",
    "backchannel.server.threads": "around the author's function, in its thread",
    "backchannel.testing.pipes": "around the task that serves behind pipes",
}


def is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(is_broad(one) for one in caught.elts)
    return caught is None or ast.unparse(caught) in ("Exception", "BaseException")


def broad(tree: ast.Module) -> Iterator[ast.AST]:
    """Every `except` and `suppress` that catches everything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type):
            yield node
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "suppress":
            if any(is_broad(argument) for argument in node.args):
                yield node


def test_no_file_is_long() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in [*SRC.rglob("*.py"), *SCRIPTS]}
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > 400} == {}


def test_no_function_is_long() -> None:
    long = [
        f"{module.at(node)} {node.name}"
        for module in MODULES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 80
    ]
    assert long == []


def test_no_folder_or_module_is_named_for_nothing() -> None:
    nothing = {"shared", "common", "utils", "helpers", "managers", "lowlevel"}
    folders = {folder for path in [*SRC.rglob("*.py"), *TESTS] for folder in path.relative_to(ROOT).parts[:-1]}
    files = {path.stem for path in SRC.rglob("*.py")}
    assert (folders | files) & nothing == set()


def test_everything_is_caught_only_where_there_is_a_reason() -> None:
    found = [module.at(node) for module in MODULES.values() if module.name not in BROAD for node in broad(module.tree)]
    assert found == []


def test_no_reason_is_left_over() -> None:
    catching = {module.name for module in MODULES.values() if any(broad(module.tree))}
    assert BROAD.keys() - catching == set()


def test_no_promises() -> None:
    promise = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*SRC.rglob("*.py"), *SCRIPTS, *TESTS]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if promise.search(line)
    ]
    assert lines == []
