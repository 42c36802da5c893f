"""The rules that a conversation with a model has to keep (client/sampling, Message Content Constraints). Whoever sends
one checks it, and whoever gets one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .types.content import ToolResultContent, ToolUseContent
from .types.sampling import SamplingMessage


def problem(messages: Sequence[SamplingMessage]) -> str | None:
    """What is wrong with the first message that breaks a rule; None if none does."""
    wanted: Counter[str] = Counter()
    for number, message in enumerate(messages, 1):
        uses = Counter(block.id for block in message.blocks if isinstance(block, ToolUseContent))
        results = Counter(block.tool_use_id for block in message.blocks if isinstance(block, ToolResultContent))
        for what in _problems(message, uses, results, wanted):
            return f"message {number} of the conversation {what}"
        wanted = uses
    return f"the conversation ends with tool calls without a result: {_named(wanted)}" if wanted else None


def _problems(
    message: SamplingMessage, uses: Counter[str], results: Counter[str], wanted: Counter[str]
) -> Iterator[str]:
    """wanted: the tool calls of the message before."""
    if uses and message.role != "assistant":
        yield "has a tool call and is not the assistant's"
    if results and message.role != "user":
        yield "has a tool's result and is not the user's"
    # "When a user message contains tool results (type: "tool_result"), it MUST contain ONLY tool results."
    if results and results.total() < len(message.blocks):
        yield "has a tool's result beside other content, which belongs into a message of its own"
    # "each tool use (e.g. with `id: $id`) matched by a corresponding tool result (with `toolUseId: $id`), before any
    # other message"
    if missing := wanted - results:
        yield f"comes where the results of tool calls are missing: {_named(missing)}"
    if unasked := results - wanted:
        yield f"has results of no tool call in the message before: {_named(unasked)}"


def _named(ids: Counter[str]) -> str:
    return ", ".join(sorted(ids))
