"""The package's own source as the gates see it: modules by name, parsed, with what they import."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Module:
    """One file under src/."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    def at(self, node: ast.AST) -> str:
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Import:
    """One imported module, or `module.name` where the name is no module of ours."""

    source: Module
    target: str
    where: str
    typing_only: bool
    local: bool

    def __str__(self) -> str:
        return f"{self.where} imports {self.target}"


def load() -> dict[str, Module]:
    """Every module under src/, by dotted name."""
    modules = {}
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, text, ast.parse(text))
    return modules


def inside(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of the packages or in one of them."""
    return any(name == package or name.startswith(package + ".") for package in packages)


def imports(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """What a module imports, with relative names resolved; `from a import b` is `a.b` if that is a module, else `a`."""

    def visit(node: ast.AST, typing_only: bool, local: bool) -> Iterator[Import]:
        for target in targets(node, module, modules):
            yield Import(module, target, module.at(node), typing_only, local)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.body:
                yield from visit(child, True, local)
            for child in node.orelse:
                yield from visit(child, typing_only, local)
            return
        local = local or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, typing_only, local)

    return visit(module.tree, False, False)


def targets(node: ast.AST, module: Module, modules: dict[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = module.name.split(".")
        if node.level:
            up = node.level - (module.path.name == "__init__.py")
            parts = parts[: len(parts) - up]
        base = ".".join(parts + [node.module] if node.module else parts) if node.level else node.module or ""
        for alias in node.names:
            full = f"{base}.{alias.name}"
            if full in modules:
                yield full
            elif base == "backchannel":
                yield full  # a public name
            else:
                yield base
