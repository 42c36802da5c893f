"""What a client's capabilities allow to ask, as tables over versions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backchannel.errors import MISSING_CLIENT_CAPABILITY, MissingCapability
from backchannel.protocol.capabilities import (
    elicitation_modes,
    require_elicitation,
    require_roots,
    require_sampling,
)
from backchannel.protocol.versions import FEATURES, SUPPORTED, Version

V24, V_MAR, V_JUN, V_NOV, MODERN = Version
JUNK: list[Any] = [None, True, False, 0, 1, "form", ["form", "url"], []]


def missing(call: Any) -> str | None:
    """The capability that is named, or None if nothing is missing."""
    try:
        call()
    except MissingCapability as error:
        assert error.code == MISSING_CLIENT_CAPABILITY
        return error.capability
    return None


@pytest.mark.case("B06")
@pytest.mark.rule("R16", "R17")
@pytest.mark.parametrize("version", [V_NOV, MODERN])
@pytest.mark.parametrize(
    ("capabilities", "form", "url"),
    [
        ({}, False, False),
        ({"elicitation": {}}, True, False),
        ({"elicitation": {"form": {}}}, True, False),
        ({"elicitation": {"url": {}}}, False, True),
        ({"elicitation": {"form": {}, "url": {}}}, True, True),
        ({"elicitation": {"applyDefaults": True}}, True, False),
        ({"elicitation": {"form": {"applyDefaults": True}}}, True, False),
        ({"elicitation": {"url": None}}, False, False),
        ({"sampling": {}, "roots": {}}, False, False),
    ],
)
def test_the_modes_are_told_apart(version: Version, capabilities: dict[str, Any], form: bool, url: bool) -> None:
    modes = elicitation_modes(capabilities, version)
    assert ("form" in modes, "url" in modes) == (form, url)
    assert (missing(lambda: require_elicitation(capabilities, version, "form")) is None) == form
    assert (missing(lambda: require_elicitation(capabilities, version, "url")) is None) == url


@pytest.mark.rule("R16")
@pytest.mark.parametrize("declared", [{}, {"form": {}}, {"url": {}}, {"form": {}, "url": {}}])
def test_an_older_version_has_forms_or_nothing_whatever_is_declared(declared: dict[str, Any]) -> None:
    capabilities = {"elicitation": declared}
    assert elicitation_modes(capabilities, V_JUN) == {"form"}
    assert elicitation_modes(capabilities, V_MAR) == elicitation_modes(capabilities, V24) == set()


@pytest.mark.parametrize(
    ("version", "capabilities", "mode", "named", "says"),
    [
        (MODERN, {}, "form", "elicitation", "did not declare"),
        (MODERN, {}, "url", "elicitation.url", "did not declare"),
        (MODERN, {"elicitation": {"url": {}}}, "form", "elicitation.form", "did not declare"),
        (MODERN, {"elicitation": {}}, "url", "elicitation.url", "did not declare"),
        (V_JUN, {"elicitation": {}}, "url", "elicitation.url", "protocol version 2025-06-18 has no url mode"),
        (V_MAR, {"elicitation": {}}, "form", "elicitation", "protocol version 2025-03-26 has none"),
        (V24, {"elicitation": {"url": {}}}, "url", "elicitation", "protocol version 2024-11-05 has none"),
    ],
)
def test_what_is_missing_is_named(
    version: Version, capabilities: dict[str, Any], mode: str, named: str, says: str
) -> None:
    with pytest.raises(MissingCapability, match=says) as caught:
        require_elicitation(capabilities, version, mode)
    assert caught.value.capability == named


def test_the_error_says_what_is_required_as_an_object() -> None:
    with pytest.raises(MissingCapability) as caught:
        require_elicitation({}, MODERN, "url")
    assert caught.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


TOOLS: dict[str, Any] = {"tools": {}}
CONTEXT: dict[str, Any] = {"context": {}}
ALL = TOOLS | CONTEXT
FROM_NOV, BELOW = [V_NOV, MODERN], [V24, V_MAR, V_JUN]


@pytest.mark.rule("R15")
@pytest.mark.parametrize(
    ("versions", "declared", "tools", "context", "named"),
    [
        (SUPPORTED, None, False, False, "sampling"),
        (SUPPORTED, None, True, True, "sampling"),
        (SUPPORTED, {}, False, False, None),
        (FROM_NOV, {}, True, False, "sampling.tools"),
        (FROM_NOV, {}, False, True, "sampling.context"),
        (FROM_NOV, TOOLS, True, False, None),
        (FROM_NOV, TOOLS, True, True, "sampling.context"),
        (FROM_NOV, CONTEXT, False, True, None),
        (FROM_NOV, CONTEXT, True, True, "sampling.tools"),
        (FROM_NOV, ALL, True, True, None),
        (FROM_NOV, {"tools": None, "context": True}, True, False, "sampling.tools"),
        (FROM_NOV, {"tools": None, "context": True}, False, True, "sampling.context"),
        (BELOW, {}, False, True, None),
        (BELOW, {}, True, False, "sampling.tools"),
        (BELOW, ALL, True, False, "sampling.tools"),
    ],
)
def test_sampling(
    versions: list[Version], declared: dict[str, Any] | None, tools: bool, context: bool, named: str | None
) -> None:
    capabilities = {"sampling": declared} if declared is not None else {}
    for version in versions:
        assert missing(lambda v=version: require_sampling(capabilities, v, tools=tools, context=context)) == named


def test_tools_in_sampling_are_refused_with_the_version_where_there_are_none() -> None:
    with pytest.raises(MissingCapability, match="2025-06-18 has no tools"):
        require_sampling({"sampling": {"tools": {}}}, V_JUN, tools=True, context=False)


def test_roots() -> None:
    assert missing(lambda: require_roots({})) == "roots"
    assert missing(lambda: require_roots({"roots": {}})) is None
    assert missing(lambda: require_roots({"roots": {"listChanged": True}})) is None


@pytest.mark.rule("R19")
@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_object_declares_nothing(junk: Any) -> None:
    for version in SUPPORTED:
        assert elicitation_modes({"elicitation": junk}, version) == set()
        assert missing(lambda v=version: require_sampling({"sampling": junk}, v, tools=False, context=False))
    assert missing(lambda: require_roots({"roots": junk})) == "roots"


VALUES = st.recursive(
    st.sampled_from(JUNK), lambda inner: st.dictionaries(st.sampled_from(["form", "url", "tools", "x"]), inner)
)
OPEN_MAPS = st.dictionaries(st.sampled_from(["elicitation", "sampling", "roots", "tasks"]), VALUES)


@pytest.mark.rule("R19")
@given(OPEN_MAPS, st.sampled_from(SUPPORTED), st.sampled_from(["form", "url"]))
def test_any_map_of_capabilities_has_an_answer(capabilities: dict[str, Any], version: Version, mode: str) -> None:
    modes = elicitation_modes(capabilities, version)
    assert modes <= FEATURES[version].elicitation
    assert not modes or "elicitation" in capabilities
    assert (mode in modes) == (missing(lambda: require_elicitation(capabilities, version, mode)) is None)
    missing(lambda: require_sampling(capabilities, version, tools=True, context=True))
    missing(lambda: require_roots(capabilities))
