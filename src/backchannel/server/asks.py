"""The questions a server can ask, as values: Elicit, ElicitUrl, Sample, Roots. They know the wire's form of a question
and of its answer; how the question gets to the client is not their business."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from ..errors import InvalidAnswer
from ..protocol.capabilities import Capabilities, require_elicitation, require_roots, require_sampling
from ..protocol.types.base import Wire
from ..protocol.types.content import TextContent
from ..protocol.types.elicitation import ElicitParams, ElicitResult
from ..protocol.types.roots import ListRootsResult
from ..protocol.types.sampling import (
    CreateMessageParams,
    CreateMessageResult,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from ..protocol.types.tools import Tool
from ..protocol.versions import FEATURES, Version
from .forms import Form
from .outcomes import Accepted, Cancelled, Declined, Outcome
from .roots import RootList

T = TypeVar("T")


class Ask(Generic[T]):
    """One question. `text` and `digest` say on replay whether it is the same question as before."""

    method: ClassVar[str]
    text: str = ""
    digest: str = ""
    until: Callable[[], Any] | None = None

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        """Raises: MissingCapability if the client did not declare what this question needs."""
        raise NotImplementedError

    def params(self, version: Version, id: str) -> Wire | None:
        """The params of the request. `id` names the question within the server.

        Raises: MissingCapability if this version cannot carry the question.
        """
        raise NotImplementedError

    def read(self, raw: Any) -> T:
        """The answer.

        Raises: msgspec.DecodeError if it has not the shape of an answer to this kind of question.
        InvalidAnswer if it has, and its content breaks the schema that was asked for.
        """
        raise NotImplementedError

    def again(self, error: InvalidAnswer) -> Ask[T]:
        """The same question, with the reason why the last answer would not do."""
        return self

    async def settled(self, answer: T) -> bool:
        """Whether the answer is final, where there is an `until`. If not, the question is asked again later."""
        return True


class Elicit(Ask[Outcome[T]]):
    """A form for the person at the client (client/elicitation, Form Mode).

    message: the question.  kind: what is wanted: a pydantic model, dataclass or TypedDict of primitive fields, bool,
    int, float, str, a Literal, an enum, a list of a Literal, a date, a list of choices, or None for a plain consent.

    Raises: ConfigurationError that names the field, if a form cannot express `kind`.
    """

    method = "elicitation/create"

    def __init__(self, message: str, kind: type[T] | Any = None, *, reason: str = ""):
        self.text = message
        self.form = Form.of(kind)
        self.digest = f"form:{self.form.digest}"
        self._kind = kind
        self._reason = reason

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_elicitation(capabilities, version, "form")

    def params(self, version: Version, id: str) -> ElicitParams:
        message = f"{self.text}\n\n{self._reason}" if self._reason else self.text
        mode: Literal["form"] | None = "form" if FEATURES[version].elicitation_submodes else None
        return ElicitParams(message, mode, self.form.schema(version))

    def read(self, raw: Any) -> Outcome[T]:
        result = msgspec.json.decode(raw, type=ElicitResult)
        if result.action == "accept":
            return Accepted(self.form.read(result.content))
        return Declined(self.text) if result.action == "decline" else Cancelled(self.text)

    def again(self, error: InvalidAnswer) -> Elicit[T]:
        return type(self)(self.text, self._kind, reason="The last answer would not do: " + "; ".join(error.errors))


class Confirm(Ask[bool]):
    """A yes or no. Declining and cancelling are no."""

    method = "elicitation/create"

    def __init__(self, message: str):
        self._elicit: Elicit[bool] = Elicit(message, bool)
        self.text, self.digest = message, self._elicit.digest

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        self._elicit.gate(capabilities, version)

    def params(self, version: Version, id: str) -> ElicitParams:
        return self._elicit.params(version, id)

    def read(self, raw: Any) -> bool:
        match self._elicit.read(raw):
            case Accepted(value):
                return value
        return False


class ElicitUrl(Ask[Outcome[None]]):
    """A page for the person to open, for anything secret (client/elicitation, URL Mode).

    until: called without arguments; the answer is final once it gives true. Without it, Accepted means that the
    person agreed to open the page, and no more.
    """

    method = "elicitation/create"
    digest = "url"

    def __init__(self, message: str, url: str, until: Callable[[], Any] | None = None):
        self.text, self._url, self.until = message, url, until

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_elicitation(capabilities, version, "url")

    def params(self, version: Version, id: str) -> ElicitParams:
        elicitation_id = id if FEATURES[version].url_elicitation_id else None
        return ElicitParams(self.text, "url", url=self._url, elicitation_id=elicitation_id)

    def read(self, raw: Any) -> Outcome[None]:
        result = msgspec.json.decode(raw, type=ElicitResult)
        if result.action == "accept":
            return Accepted(None)
        return Declined(self.text) if result.action == "decline" else Cancelled(self.text)

    async def settled(self, answer: Outcome[None]) -> bool:
        if self.until is None or not isinstance(answer, Accepted):
            return True
        done = self.until()
        return bool(await done if inspect.isawaitable(done) else done)


class Sample(Ask[CreateMessageResult]):
    """A completion by the client's model (client/sampling). Deprecated since 2026-07-28: call a provider's API.

    messages: a text, or the messages of a conversation.  max_tokens: the most that the model may produce.
    """

    method = "sampling/createMessage"

    def __init__(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        model_preferences: ModelPreferences | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        metadata: dict[str, Any] | None = None,
    ):
        given = [SamplingMessage("user", TextContent(messages))] if isinstance(messages, str) else list(messages)
        self._params = CreateMessageParams(
            given,
            max_tokens,
            model_preferences,
            system,
            include_context,
            temperature,
            list(stop_sequences) if stop_sequences is not None else None,
            metadata,
            list(tools) if tools is not None else None,
            tool_choice,
        )
        text = messages if isinstance(messages, str) else msgspec.json.encode(given).decode()
        self.text = f"{system}\n\n{text}" if system else text
        options = msgspec.structs.replace(self._params, messages=[], system_prompt=None)
        self.digest = hashlib.sha256(msgspec.json.encode(options)).hexdigest()[:16]

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        context = self._params.include_context not in (None, "none")
        tools = self._params.tools is not None or self._params.tool_choice is not None
        require_sampling(capabilities, version, tools=tools, context=context)

    def params(self, version: Version, id: str) -> CreateMessageParams:
        return self._params

    def read(self, raw: Any) -> CreateMessageResult:
        return msgspec.json.decode(raw, type=CreateMessageResult)


class Roots(Ask[RootList]):
    """The client's root directories (client/roots). Deprecated since 2026-07-28: pass paths as arguments."""

    method = "roots/list"

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_roots(capabilities)

    def params(self, version: Version, id: str) -> None:
        return None

    def read(self, raw: Any) -> RootList:
        return RootList(msgspec.json.decode(raw, type=ListRootsResult).roots)
