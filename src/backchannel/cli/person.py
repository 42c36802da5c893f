"""The scripted person, who answers the booking's questions by rules, in whatever order they come."""

from __future__ import annotations

from typing import Any

from ..protocol.types.elicitation import ElicitParams
from ..protocol.types.sampling import CreateMessageParams

ANSWERS: dict[str, Any] = {"date": "2026-12-24", "nights": 2, "value": True}
"""Field -> what the person enters. What is not here is left out, so that the form's default counts."""
SLOGAN = "Come for a day, stay for the light"
ROOTS = ["file:///home/guest/trips"]


class ScriptedPerson:
    """Fills in forms from `ANSWERS`, and plays the model too."""

    roots = ROOTS

    def elicit(self, question: ElicitParams) -> dict[str, Any]:
        """Fill in what there is a rule for."""
        fields = (question.requested_schema or {}).get("properties", {})
        return {name: ANSWERS[name] for name in fields if name in ANSWERS}

    def sample(self, question: CreateMessageParams) -> str:
        """Complete the conversation."""
        return SLOGAN
