"""What the specification has deprecated is introduced as such, with what to use instead."""

import importlib
import re

import pytest

from backchannel import Client, Context
from tests.gates.source import ROOT

SINCE = "2026-07-28"


def spaced(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.rule("R169")
@pytest.mark.parametrize(
    ("what", "text", "instead"),
    [
        ("Context.sample", Context.sample.__doc__, "provider's API"),
        ("Context.roots", Context.roots.__doc__, "paths as arguments"),
        ("Context.log", Context.log.__doc__, "OpenTelemetry"),
        ("Client.set_log_level", Client.set_log_level.__doc__, "OpenTelemetry"),
        ("Client", Client.__doc__, "sample, roots and log_level"),
        ("backchannel.client.sse", importlib.import_module("backchannel.client.sse").__doc__, "streamable HTTP"),
    ],
)
def test_a_docstring_says_it(what: str, text: str | None, instead: str) -> None:
    assert "deprecated" in spaced(text).lower(), what
    assert instead in spaced(text), what
    assert SINCE in spaced(text) or what == "backchannel.client.sse"


@pytest.mark.rule("R169")
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/design.md"])
def test_a_page_that_introduces_them_says_it(page: str) -> None:
    text = spaced((ROOT / page).read_text(encoding="utf-8"))
    [said] = re.findall(r"[^.]*\b[Dd]eprecated (?:since (?:protocol version )?|in )2026-07-28\..*?OpenTelemetry", text)
    assert all(word in said.lower() for word in ("sampling", "roots", "logging"))
    assert all(instead in said for instead in ("provider's API", "paths as arguments", "stderr"))


@pytest.mark.rule("R169")
def test_the_guide_says_it_of_the_old_transport_too() -> None:
    text = spaced((ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    assert re.search(r"HTTP\+SSE[^.]*deprecated[^.]*streamable HTTP", text)
