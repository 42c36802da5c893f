"""The determinism check: what is different between a run and its replay, and what ran again."""

import itertools
import random
import time
from pathlib import Path

import anyio.lowlevel
import pytest

from backchannel import ConfigurationError, Context, Server, ToolError
from backchannel.testing import ScriptError, accept, check
from tests.testing.shop import Order
from tests.testing.shop import server as shop

pytestmark = pytest.mark.anyio
server = Server("careless")
ledger: list[int] = []
flips = itertools.count()
M = accept({"size": "M"})
LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


def charge(amount: int) -> int:
    ledger.append(amount)
    return amount


def _save(number: int) -> None:
    ledger.append(number)


async def reserve() -> None:
    await anyio.lowlevel.checkpoint()


async def which(ctx: Context) -> str:
    charge(1)
    return (await ctx.elicit("Which size?", Order)).unwrap().size


@server.tool
async def careless(ctx: Context) -> str:
    charge(2)
    await reserve()
    ledger.append(3)
    random.random()
    [_save(number) for number in (1, 2)]
    size = await which(ctx)
    charge(4)
    return size


@server.tool
def careless_thread(ctx: Context) -> str:
    began = time.time()
    charge(2)
    size = ctx.elicit("Which size?", Order).wait().unwrap().size
    charge(4)
    return size if began else ""


@server.tool
async def careful(ctx: Context, name: str = "ada") -> str:
    words = [name.title()]
    words.append("wants")
    words += sorted(str(number) for number in range(2))
    print("harmless")
    order = Order("S")
    total = await ctx.step("charge", charge, 42)
    order.size = (await ctx.elicit("Which size?", Order)).unwrap().size
    return f"{' '.join(words)} {order.size} {total}"


@server.tool
async def flip(ctx: Context) -> str:
    await ctx.elicit(f"Heads, number {next(flips)}?", str)
    return "heads"


@server.tool
async def count(ctx: Context) -> int:
    charge(1)
    return len(ledger)


async def test_a_handler_whose_effects_are_steps() -> None:
    for tool, people in (("order", [M, True]), ("order_in_a_thread", [M])):
        report = await check(shop, tool, {"name": "Ada"} if tool == "order" else None, people=people)
        assert report.ok, report
    report = await check(server, "careful", people=[M])
    assert report.ok, report
    assert str(report) == "the same on every wire, and nothing ran again"
    assert report.results["live"] == {"content": [{"type": "text", "text": "Ada wants 0 1 M 42"}]}


@pytest.mark.case("A21")
async def test_what_runs_again_is_named_with_its_line() -> None:
    report = await check(server, "careless", people=[M])
    assert report.same and not report.ok
    again = sorted(str(one).rpartition(": ")[2] for one in report.again)
    assert again == [
        "Random.random() ran 2 times instead of 1",
        "_save() ran 4 times instead of 2",
        "charge() ran 2 times instead of 1",  # in the helper that asks
        "charge() ran 2 times instead of 1",
        "list.append() ran 2 times instead of 1",
        "reserve() ran 2 times instead of 1",
    ]
    assert {LINES[one.line - 1].strip() for one in report.again} == {
        "charge(1)",
        "charge(2)",
        "await reserve()",
        "ledger.append(3)",
        "random.random()",
        "[_save(number) for number in (1, 2)]",
    }


async def test_in_a_thread() -> None:
    report = await check(server, "careless_thread", people=[M])
    assert sorted(one.name for one in report.again) == ["charge", "time"]


async def test_what_may_run_again() -> None:
    report = await check(server, "careless_thread", people=[M], allow=["charge", "time"])
    assert report.ok, report


@pytest.mark.case("A22")
async def test_a_handler_that_goes_another_way() -> None:
    report = await check(server, "flip", people=[accept({"value": "yes"})])
    assert report.mismatch is not None
    assert [text.partition(",")[0] for text in report.mismatch] == ["elicit 'Heads"] * 2
    assert "the handler went another way" in repr(report)
    assert not report.same


async def test_results_that_differ_and_how_to_put_back_what_changes() -> None:
    ledger.clear()
    report = await check(server, "count")
    assert not report.same and "the result replicas: " in str(report)
    assert (await check(server, "count", before=ledger.clear)).ok

    async def clear() -> None:
        ledger.clear()

    assert (await check(server, "count", before=clear)).ok


async def test_what_cannot_be_checked() -> None:
    with pytest.raises(ConfigurationError, match="no tool 'none'"):
        await check(server, "none")
    with pytest.raises(ConfigurationError, match="to choose"):
        await check(server, "count", era="modern")


@server.tool
async def breaks() -> str:
    raise ToolError("no more beans")


async def test_a_script_that_does_not_fit_is_raised() -> None:
    with pytest.raises(ScriptError, match="the script has no answer to elicitation/create 'Which size"):
        await check(server, "careful", people=[])
    with pytest.raises(
        ScriptError, match=r"nobody asked for: accept.*; the tool 'careful' gave .*'isError': True"
    ) as it:
        await check(server, "careful", {"nmae": "Bob"}, people=[M])
    assert "nmae" in str(it.value)
    with pytest.raises(ScriptError, match="nobody asked for"):
        await check(server, "count", people=[M], before=ledger.clear)


async def test_a_handler_that_asks_more_when_it_is_replayed_is_at_fault_and_not_the_script() -> None:
    extra = Server("extra")
    runs = itertools.count()

    @extra.tool
    async def growing(ctx: Context) -> str:
        await ctx.elicit("First?", str)
        if next(runs):
            await ctx.elicit("Second?", str)
        return "done"

    report = await check(extra, "growing", people=[accept("a")])
    assert not report.ok and "ScriptError" in str(report)


async def test_runs_that_fail_are_not_ok_unless_that_is_what_is_tested() -> None:
    report = await check(server, "breaks")
    assert report.same and report.failed == ["live", "replayed", "replicas"] and not report.ok
    assert "every run failed: {" in str(report) and "no more beans" in str(report) and "fails=True" in str(report)
    assert (await check(server, "breaks", fails=True)).ok
    report = await check(server, "count", before=ledger.clear, fails=True)
    assert not report.ok and str(report) == "no run failed, and fails=True expects it"
