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


def elicitation_modes(capabilities: Capabilities, version: Version) -> frozenset[str]:
    """The modes a client takes: "form", "url". An empty `elicitation` object means form alone."""
    features = FEATURES[version]
    declared = capabilities.get("elicitation")
    if declared is None:
        return frozenset()
    modes = {"form", "url"} & set(declared) if features.elicitation_submodes else set()
    return frozenset(modes or {"form"}) & features.elicitation


def require_elicitation(capabilities: Capabilities, version: Version, mode: str) -> None:
    """Raises: MissingCapability unless the client takes elicitation in this mode."""
    if mode in elicitation_modes(capabilities, version):
        return
    if not FEATURES[version].elicitation:
        raise MissingCapability("elicitation", f"protocol version {version} has none")
    if "elicitation" in capabilities or mode == "url":
        raise MissingCapability(f"elicitation.{mode}")
    raise MissingCapability("elicitation")


def require_sampling(capabilities: Capabilities, version: Version, *, tools: bool, context: bool) -> None:
    """Raises: MissingCapability unless the client takes sampling, with tools or with context where these are wanted."""
    features, declared = FEATURES[version], capabilities.get("sampling")
    if declared is None:
        raise MissingCapability("sampling")
    if tools and not (features.sampling_tools and "tools" in declared):
        why = "" if features.sampling_tools else f"protocol version {version} has no tools in sampling"
        raise MissingCapability("sampling.tools", why)
    if context and features.sampling_context_gate and "context" not in declared:
        raise MissingCapability("sampling.context")


def require_roots(capabilities: Capabilities) -> None:
    """Raises: MissingCapability unless the client has roots."""
    if capabilities.get("roots") is None:
        raise MissingCapability("roots")
