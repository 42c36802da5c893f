"""The arrows between the modules: who may import whom (docs/design.md). Annotations count where it says so."""

import graphlib
import re
import sys

from tests.gates.source import Import, imports, inside, load

MODULES = load()
IMPORTS = [found for module in MODULES.values() for found in imports(module, MODULES)]
RUNTIME = [found for found in IMPORTS if not found.typing_only]

NOT_SANS_IO = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "select", "selectors", "signal", "socket", "ssl"),
    *("subprocess", "threading", "os", "logging", "random", "secrets", "time", "uuid"),
}
COMPOSERS = [f"backchannel.{name}" for name in ("memory", "targets", "testing", "run", "cli")]

# A module imports only from its own row or one above it. A module of the side that is in no row counts as a feature
# where it imports, and is free to be imported. The package itself, which may gather names from all rows, is below the
# last.
SERVER = [
    ["exchange"],
    ["inputs"],
    ["context"],
    ["tools", "resources", "prompts", "completion", "subscriptions"],
    ["server"],
    ["dispatch"],
    ["channel", "stdio", "http"],
]
CLIENT = [["transport"], ["rounds", "answers"], ["client"], ["channel", "stdio", "http"]]
RANKS = {
    f"backchannel.{side}.{name}": rank
    for side, rows in (("server", SERVER), ("client", CLIENT))
    for rank, row in enumerate(rows)
    for name in row
} | {"backchannel.server": 99, "backchannel.client": 99}


def rank(name: str, otherwise: int) -> int:
    return RANKS.get(".".join(name.split(".")[:3]), otherwise)


def sides(name: str) -> set[str]:
    return {side for side in ("server", "client") if inside(name, f"backchannel.{side}")}


def report(found: list[Import]) -> list[str]:
    return sorted({str(one) for one in found})


def test_protocol_is_sans_io() -> None:
    def pure(target: str) -> bool:
        if target.split(".")[0] in sys.stdlib_module_names:
            return target.split(".")[0] not in NOT_SANS_IO
        return inside(target, "msgspec", "backchannel.errors", "backchannel.protocol")

    found = [one for one in IMPORTS if inside(one.source.name, "backchannel.protocol") and not pure(one.target)]
    assert report(found) == []


def test_errors_and_wire_types_are_at_the_bottom() -> None:
    allowed = {
        "backchannel.errors": ("backchannel.errors",),
        "backchannel.protocol.types": ("backchannel.errors", "backchannel.protocol.types"),
    }
    found = [
        one
        for one in RUNTIME
        for bottom, below in allowed.items()
        if inside(one.source.name, bottom) and inside(one.target, "backchannel") and not inside(one.target, *below)
    ]
    assert report(found) == []


def test_the_sides_do_not_see_each_other() -> None:
    """Annotations count. Nor do they see a module that sees both."""
    found = [
        one
        for one in IMPORTS
        if sides(one.source.name) and (sides(one.target) - sides(one.source.name) or inside(one.target, *COMPOSERS))
    ]
    assert report(found) == []


def test_only_the_composers_see_both_sides() -> None:
    seen: dict[str, set[str]] = {}
    for one in IMPORTS:
        seen.setdefault(one.source.name, set()).update(sides(one.target))
    both = [name for name, which in seen.items() if len(which) > 1 and not inside(name, *COMPOSERS)]
    assert [name for name in both if name != "backchannel"] == []


def test_nobody_but_the_root_the_cli_and_the_test_kit_imports_run_and_targets() -> None:
    found = [
        one
        for one in IMPORTS
        if inside(one.target, "backchannel.running", "backchannel.targets")
        and one.source.name != "backchannel"
        and not inside(one.source.name, "backchannel.cli", "backchannel.testing")
    ]
    assert report(found) == []


def test_nobody_but_the_cli_imports_the_public_names() -> None:
    """`from backchannel import Server` would hide where the arrow goes."""
    found = [
        one
        for one in IMPORTS
        if re.fullmatch(r"backchannel(\.(?!__)\w+)?", one.target)
        and (one.target == "backchannel" or one.target not in MODULES)
        and not inside(one.source.name, "backchannel.cli")
    ]
    assert report(found) == []


def test_features_do_not_know_the_server_nor_the_server_its_drivers() -> None:
    found = []
    for one in RUNTIME:
        for side, feature in (("backchannel.server", "tools"), ("backchannel.client", "rounds")):
            if one.source.name.startswith(side + ".") and inside(one.target, side):
                if rank(one.target, -1) > rank(one.source.name, RANKS[f"{side}.{feature}"]):
                    found.append(one)
    assert report(found) == []


def test_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for one in RUNTIME:
        if not one.local and one.target in MODULES and one.target != one.source.name:
            graph[one.source.name].add(one.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None
