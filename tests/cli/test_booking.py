"""cli/booking.py: the example, in-process in both eras, whatever the person answers."""

from pathlib import Path
from typing import Any

import pytest

from backchannel import Client
from backchannel.cli.booking import LEDGER, server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["legacy", "modern"])
def version(request: pytest.FixtureRequest) -> str:
    era: str = request.param
    return era


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LEDGER, str(tmp_path / "ledger"))
    return tmp_path / "ledger"


def charges(ledger: Path) -> list[str]:
    return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []


async def book(version: str, answers: list[Any], **options: Any) -> dict[str, Any]:
    """Book a room, answering the forms in order."""
    async with Client(
        server, elicit=lambda _: answers.pop(0), sample=lambda _: "Go", version=version, **options
    ) as client:
        result = await client.call_tool("book", {"city": "Oslo"})
    assert not result.is_error, result.text
    content: dict[str, Any] = result.structured_content
    return content


async def test_booked(version: str, ledger: Path) -> None:
    day = {"date": "2026-12-24", "nights": 3, "room": "single"}
    booking = await book(version, [day, {"value": True}], roots=["file:///trips"])
    assert booking == {
        "city": "Oslo",
        "booked": True,
        "day": day,
        "slogan": "Go",
        "receipt": {"total": 240, "currency": "EUR"},
        "folder": "file:///trips",
    }
    (line,) = charges(ledger)
    assert line.endswith(" 240") and len(line.split()[0]) == 32


async def test_without_roots(version: str, ledger: Path) -> None:
    booking = await book(version, [{"date": "2026-12-24"}, {"value": True}])
    assert booking["booked"] and booking["folder"] is None
    assert len(charges(ledger)) == 1


@pytest.mark.parametrize("answers", [["decline"], ["cancel"], [{"date": "2026-12-24"}, {"value": False}]])
async def test_not_booked_is_not_charged(version: str, ledger: Path, answers: list[Any]) -> None:
    assert not (await book(version, list(answers)))["booked"]
    assert charges(ledger) == []
