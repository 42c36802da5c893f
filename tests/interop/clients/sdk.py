"""The official Python SDK's client."""

from __future__ import annotations

from typing import Any

import anyio
import mcp.types as t
from mcp.client import Client, ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from telling import MODES, OPTIONS, ROOT, SAMPLED, Called, answer, tell_all


class Sdk:
    def __init__(self) -> None:
        target: Any = OPTIONS["url"]
        if OPTIONS["transport"] == "stdio":
            command, *arguments = OPTIONS["command"]
            target = stdio_client(StdioServerParameters(command=command, args=arguments))
        self.asked: list[Any] = []
        self.client = Client(
            target,
            mode=MODES[OPTIONS["era"]],
            elicitation_callback=self._elicit,
            sampling_callback=self._sample,
            list_roots_callback=self._roots,
        )

    def connection(self) -> Client:
        return self.client

    async def tools(self) -> list[Any]:
        return list((await self.client.list_tools()).tools)

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any = None) -> Called:
        result = await self.client.call_tool(tool, arguments, progress_callback=progress)
        return Called(result.content[0].text, bool(result.is_error), result.structured_content)  # type: ignore[union-attr]

    async def _elicit(self, context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        assert isinstance(params, t.ElicitRequestFormParams)
        self.asked.append([params.message, sorted(params.requested_schema["properties"])])
        action, content = answer(params.message)
        return t.ElicitResult.model_validate({"action": action, "content": content})

    async def _sample(
        self, context: ClientRequestContext, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult:
        self.asked.append([params.messages[0].content.text, params.max_tokens])  # type: ignore[union-attr]
        return t.CreateMessageResult.model_validate(SAMPLED)

    async def _roots(self, context: ClientRequestContext) -> t.ListRootsResult:
        return t.ListRootsResult.model_validate({"roots": [{"uri": ROOT}]})


anyio.run(tell_all, Sdk())
