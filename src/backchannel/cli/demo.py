"""`backchannel demo`: the same handler over every wire, with what went over each drawn as a sequence diagram."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from .. import Client
from ..errors import BackchannelError, ConfigurationError
from ..testing.transcript import Recorded
from .diagram import draw, glyphs_for
from .keyboard import Keyboard
from .person import ROOTS, ScriptedPerson
from .printable import printable
from .terminal import Terminal
from .wires import WIRES, Wire

STYLES = {"message": "", "notification": "dim", "detail": "cyan", "error": "red", "head": "dim"}
WIDEST = 100


@dataclass
class Played:
    """What came of one wire. `charges` is how often the step ran, `failure` why there is no result."""

    wire: Wire
    log: list[Recorded] = field(default_factory=list)
    version: str = "?"
    result: Any = None
    charges: int = 0
    failure: str | None = None


def demo(
    *,
    interactive: Annotated[bool, Parameter(negative="")] = False,
    wire: Annotated[Sequence[str] | None, Parameter(negative="", consume_multiple=False)] = None,
) -> int:
    """Book a room over every wire, and show who asked whom.

    Exits with 1 if a wire gives another result than the others, or the step ran other than once.

    Parameters
    ----------
    interactive
        Answer the questions yourself. Then wires may differ.
    wire
        Only this wire; may be given more than once: legacy-stdio, modern-stdio, legacy-http, modern-http, in-process.
    """
    wires = _chosen(wire or ())
    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # the servers end with the demo
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    person = Keyboard(Terminal()) if interactive else ScriptedPerson()
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="backchannel-demo-") as folder:
        played = anyio.run(_play_all, wires, person, Path(folder), console)
    differences = list(_differences(played, strict=not interactive))
    for difference in differences:
        console.print(Text(f"DIFFERENT: {difference}", "bold red"))
    if not differences and not interactive:
        wires_played = f"{len(played)} wire{'s' * (len(played) > 1)}"
        console.print(Text(f"{wires_played}: the same result, and the step 'charge' ran once on each.", "bold"))
    return 1 if differences else 0


def _chosen(given: Sequence[str]) -> list[Wire]:
    """The wires of these names, or all. Raises: ConfigurationError."""
    names = [one.name for one in WIRES]
    if unknown := set(given) - set(names):
        raise ConfigurationError(f"no such wire: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [one for one in WIRES if not given or one.name in given]


async def _play_all(
    wires: Sequence[Wire], person: Keyboard | ScriptedPerson, folder: Path, console: Console
) -> list[Played]:
    played = []
    for wire in wires:
        ledger = folder / wire.name
        console.print(Text(f"{wire.name}: {wire.about}", "bold"))
        played.append(await _play(wire, person, ledger))
        played[-1].charges = _lines(ledger)
        _show(played[-1], console)
    return played


async def _play(wire: Wire, person: Keyboard | ScriptedPerson, ledger: Path) -> Played:
    """Call the tool once over one wire."""
    played = Played(wire)
    try:
        async with wire.connect(played.log, ledger) as transport:
            client = Client(transport, elicit=person.elicit, sample=person.sample, roots=ROOTS, version=wire.version)
            async with client:
                played.version = client.version
                result = await client.call_tool("book", {"city": "Oslo"}, progress=lambda _: None)
                played.result = result.structured_content
                played.failure = result.text if result.is_error else None
    except BackchannelError as error:
        played.failure = f"{type(error).__name__}: {error}"
    return played


def _lines(ledger: Path) -> int:
    return len(ledger.read_text(encoding="utf-8").splitlines()) if ledger.exists() else 0


def _show(played: Played, console: Console) -> None:
    width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for row in draw(played.log, width, glyphs_for(sys.stdout.encoding)):
        console.print(Text(row.text, STYLES[row.style]))
    console.print(Text(f"  version  {played.version}"))
    if played.failure is not None:
        console.print(Text(f"  failed   {printable(played.failure)}", "red"))
    else:
        console.print(Text(f"  result   {printable(msgspec.json.encode(played.result).decode())}"))
    console.print(Text(f"  charged  {played.charges} time(s)\n"))


def _differences(played: Sequence[Played], strict: bool) -> Iterator[str]:
    """What should not be. strict: the answers were the same on every wire, so everything else must be."""
    first = next((one for one in played if one.failure is None), None)
    for one in played:
        if one.failure is not None and strict:
            yield f"{one.wire.name} failed"
        elif strict and first is not None and one.result != first.result:
            yield f"{one.wire.name} gave another result than {first.wire.name}"
        if one.charges > 1 or (strict and one.charges != 1):
            yield f"{one.wire.name} ran the step {one.charges} times"
