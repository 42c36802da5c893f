"""FastMCP's client."""

from __future__ import annotations

from typing import Any

import anyio
import mcp.types as t
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from telling import MODES, OPTIONS, ROOT, SAMPLED, Called, answer, tell_all


class Fast:
    def __init__(self) -> None:
        target: Any = OPTIONS["url"]
        if OPTIONS["transport"] == "stdio":
            command, *arguments = OPTIONS["command"]
            target = StdioTransport(command, arguments, keep_alive=False)
        self.asked: list[Any] = []
        self.client: Client[Any] = Client(
            target,
            mode=MODES[OPTIONS["era"]],
            elicitation_handler=self._elicit,
            sampling_handler=self._sample,
            roots=[ROOT],
        )

    def connection(self) -> Client[Any]:
        return self.client

    async def tools(self) -> list[Any]:
        return await self.client.list_tools()

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any = None) -> Called:
        result = await self.client.call_tool(tool, arguments, progress_handler=progress, raise_on_error=False)
        return Called(result.content[0].text, result.is_error, result.structured_content)  # type: ignore[union-attr]

    async def _elicit(self, message: str, kind: Any, params: Any, context: Any) -> Any:
        self.asked.append([message, sorted(params.requested_schema["properties"])])
        action, content = answer(message)
        return kind(**content) if content else ElicitResult(action=action)  # type: ignore[arg-type]

    async def _sample(self, messages: Any, params: Any, context: Any) -> Any:
        self.asked.append([messages[0].content.text, params.max_tokens])
        return t.CreateMessageResult.model_validate(SAMPLED)


anyio.run(tell_all, Fast())
