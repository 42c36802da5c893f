"""A whole session of the official Python SDK's client."""

from __future__ import annotations

from typing import Any

import anyio
import mcp.types as t
from mcp.client import Client, ClientRequestContext
from session import NAMED, Application
from telling import OPTIONS, SAMPLED


class Sdk:
    def __init__(self, application: Application) -> None:
        self.application = application
        self.client = Client(
            OPTIONS["url"],
            mode="legacy",
            elicitation_callback=self._elicit,
            sampling_callback=self._sample,
            list_roots_callback=self._roots,
            message_handler=application.hear,
        )

    def connection(self) -> Client:
        return self.client

    async def set_level(self, level: Any) -> None:
        await self.client.set_logging_level(level)

    async def change_roots(self) -> None:
        await self.client.send_roots_list_changed()

    async def call(self, tool: str, progress: Any = None) -> str:
        result = await self.client.call_tool(tool, NAMED, progress_callback=progress)
        return result.content[0].text  # type: ignore[union-attr]

    async def _elicit(self, context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        if isinstance(params, t.ElicitRequestURLParams):
            await self.application.page(self, params)
            return t.ElicitResult(action="accept")
        content: Any = self.application.form(params.message, params.requested_schema)
        return t.ElicitResult(action="accept", content=content)

    async def _sample(
        self, context: ClientRequestContext, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult:
        self.application.sample(params.messages[0].content.text, params.max_tokens)  # type: ignore[union-attr]
        return t.CreateMessageResult.model_validate(SAMPLED)

    async def _roots(self, context: ClientRequestContext) -> t.ListRootsResult:
        return t.ListRootsResult.model_validate({"roots": [{"uri": uri} for uri in self.application.roots]})


application = Application()
anyio.run(application.run, Sdk(application))
