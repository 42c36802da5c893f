"""A whole session of FastMCP's client."""

from __future__ import annotations

from typing import Any

import anyio
import mcp.types as t
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from session import NAMED, Application
from telling import OPTIONS, SAMPLED


class Fast:
    def __init__(self, application: Application) -> None:
        self.application = application
        self.client: Client[Any] = Client(
            OPTIONS["url"],
            mode="legacy",
            elicitation_handler=self._elicit,
            sampling_handler=self._sample,
            roots=lambda context: application.roots,
            message_handler=application.hear,
        )

    def connection(self) -> Client[Any]:
        return self.client

    async def set_level(self, level: Any) -> None:
        await self.client.set_logging_level(level)

    async def change_roots(self) -> None:
        await self.client.send_roots_list_changed()

    async def call(self, tool: str, progress: Any = None) -> str:
        result = await self.client.call_tool(tool, NAMED, progress_handler=progress)
        return result.content[0].text  # type: ignore[union-attr]

    async def _elicit(self, message: str, kind: Any, params: Any, context: Any) -> Any:
        if isinstance(params, t.ElicitRequestURLParams):
            await self.application.page(self, params)
            return ElicitResult(action="accept")  # type: ignore[arg-type]
        return kind(**self.application.form(message, params.requested_schema))

    async def _sample(self, messages: Any, params: Any, context: Any) -> Any:
        self.application.sample(messages[0].content.text, params.max_tokens)
        return t.CreateMessageResult.model_validate(SAMPLED)


application = Application()
anyio.run(application.run, Fast(application))
