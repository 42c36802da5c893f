"""What a client's capabilities allow to ask (client/elicitation, client/sampling, client/roots: Capabilities).

Capabilities are the client's own open map, for this request on modern and for the session on legacy. They are never
assumed, probed or remembered from another request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import MissingCapability
from .versions import FEATURES, Version

Capabilities = Mapping[str, Any]
_FORM, _MODES = frozenset({"form"}), frozenset({"form", "url"})


def _declared(capabilities: Capabilities, name: str) -> Mapping[str, Any] | None:
    """What is declared of a capability; None if it is not. A capability is an object, so nothing else declares one."""
    found = capabilities.get(name)
    return found if type(found) is dict or isinstance(found, Mapping) else None


def elicitation_modes(capabilities: Capabilities, version: Version) -> frozenset[str]:
    """The modes a client takes: "form", "url". An `elicitation` object that names neither means form alone ("an empty
    capabilities object is equivalent to declaring support for form mode only", client/elicitation, Capabilities)."""
    features = FEATURES[version]
    declared = _declared(capabilities, "elicitation")
    if declared is None:
        return frozenset()
    if not features.elicitation_submodes or _MODES.isdisjoint(declared):
        return _FORM & features.elicitation
    return frozenset(mode for mode in _MODES if _declared(declared, mode) is not None) & features.elicitation


def require_elicitation(capabilities: Capabilities, version: Version, mode: str) -> None:
    """Raises: MissingCapability unless the client takes elicitation in this mode."""
    if mode in elicitation_modes(capabilities, version):
        return
    existing = FEATURES[version].elicitation
    if not existing:
        raise MissingCapability("elicitation", f"protocol version {version} has none")
    if mode not in existing:
        raise MissingCapability(f"elicitation.{mode}", f"protocol version {version} has no {mode} mode")
    if mode == "url" or _declared(capabilities, "elicitation") is not None:
        raise MissingCapability(f"elicitation.{mode}")
    raise MissingCapability("elicitation")


def require_sampling(capabilities: Capabilities, version: Version, *, tools: bool, context: bool) -> None:
    """Raises: MissingCapability unless the client takes sampling, with tools or with context where these are wanted."""
    features, declared = FEATURES[version], _declared(capabilities, "sampling")
    if declared is None:
        raise MissingCapability("sampling")
    if tools and not features.sampling_tools:
        raise MissingCapability("sampling.tools", f"protocol version {version} has no tools in sampling")
    if tools and _declared(declared, "tools") is None:
        raise MissingCapability("sampling.tools")
    if context and features.sampling_context_gate and _declared(declared, "context") is None:
        raise MissingCapability("sampling.context")


def require_roots(capabilities: Capabilities) -> None:
    """Raises: MissingCapability unless the client has roots."""
    if _declared(capabilities, "roots") is None:
        raise MissingCapability("roots")
