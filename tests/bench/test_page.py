"""The benchmark's own arithmetic: what is held against what, and how it is shown. What it measures is no test."""

import sys
from xml.etree import ElementTree

import pytest

if sys.platform != "linux":
    pytest.skip("the benchmark is for Linux", allow_module_level=True)

from bench.chart import Chart, short
from bench.page import figure, markdown, plain, rows
from bench.sample import Samples
from bench.targets import ROWS, Down, Like, Part, Row, Times, down, reached

CALLS = Row("calls", "call-16", "rate", "/s", Times(8), Times(11))


def samples(**values: list[float]) -> Samples:
    made = Samples()
    for contender, figures in values.items():
        for value in figures:
            made.add("call-16", contender, {"rate": value})
    return made


def test_a_figure_is_the_median_and_its_spread_a_part_of_it() -> None:
    made = samples(ours=[90.0, 100.0, 120.0], sdk=[7.0])
    assert made.median("call-16", "rate", "ours") == 100
    assert made.spread("call-16", "rate", "ours") == pytest.approx(0.3)
    assert made.spread("call-16", "rate", "sdk") is None
    assert made.median("call-16", "rate", "fast") is None


@pytest.mark.parametrize(("own", "must", "goal"), [(79.0, False, False), (80.0, True, False), (110.0, True, True)])
def test_a_ratio_is_held_against_the_same_run(own: float, must: bool, goal: bool) -> None:
    made = samples(ours=[own], sdk=[10.0])
    assert reached(CALLS.must, made, CALLS) is must
    assert reached(CALLS.goal, made, CALLS) is goal


def test_nothing_is_reached_or_missed_without_what_it_is_compared_with() -> None:
    assert reached(CALLS.must, samples(ours=[100.0]), CALLS) is None
    assert reached(Part(0.5), samples(ours=[100.0], sdk=[1.0]), CALLS) is None
    assert reached(None, samples(ours=[100.0], sdk=[1.0]), CALLS) is None


def test_other_targets() -> None:
    made = samples(ours=[100.0], floor=[180.0], sdk=[20.0])
    assert reached(Part(0.5), made, CALLS)
    assert reached(Like(0.9, "call-16"), made, CALLS)
    # Set where the SDK had 10; here it is twice that, and so is the limit.
    assert Down(60, then=10).limit(made, "call-16", "rate") == 120
    assert reached(Down(60, then=10), made, CALLS)
    assert not reached(Down(60), made, CALLS)


def test_the_table() -> None:
    made = samples(ours=[100.0, 110.0], sdk=[10.0], floor=[200.0])
    head, first, *_ = table = rows(made)
    assert dict(zip(head, first, strict=True)) == {
        "path": "HTTP 2026-07-28 tools/call, async tool",
        "": "/s",
        "backchannel": "105",
        "mcp 2.3.0": "10.0",
        "FastMCP 4.2.3": "–",
        "floor": "200",
        "× SDK": "10.5",
        "by CPU": "–",
        "of floor": "52%",
        "noise": "±5%",
        "must": "≥ 8 × SDK",
        "goal": "≥ 11 × SDK",
        "now": "must",
    }
    assert len(plain(table).splitlines()) == len(table)


def test_the_page_names_what_was_missed_and_shows_the_curves() -> None:
    chart = Chart("tools", "Calls", "tools", "µs", {"ours": [(1, 50.0), (1000, 60.0)]})
    page = markdown(samples(ours=[20.0], sdk=[10.0]), "One turn.", [chart])
    assert "- HTTP 2026-07-28 tools/call, async tool\n" in page
    assert "![Calls: µs by tools; ours from 50.0 at 1 to 60.0 at 1k](performance/tools.svg)" in page


def test_a_curve_is_a_picture() -> None:
    chart = Chart("n", "A < B", "x", "y", {"one": [(1, 0.5), (100, 50.0)], "two": [(1, 3.0)]})
    picture = ElementTree.fromstring(chart.svg())
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{space}circle")) == 3
    assert {"A < B", "one", "two", "0.1", "100"} <= {text.text for text in picture.findall(f"{space}text")}


def test_figures() -> None:
    assert [figure(value) for value in (None, 0.123, 12.34, 12345.6)] == ["–", "0.12", "12.3", "12,346"]
    assert [short(value) for value in (0.1, 100, 10_000, 1e6)] == ["0.1", "100", "10k", "1M"]


def test_every_row_has_a_limit_that_can_be_written() -> None:
    assert all(str(row.must)[0] in "≤≥" for row in ROWS)
    assert down("x", "p", "ms", "ms", 20_000, 1).must is not None
    assert str(Down(20_000)) == "≤ 20,000"
