"""The questions a server can ask, as values: Elicit, ElicitUrl, Sample, Roots. They know the wire's form of a question
and of its answer; how the question gets to the client is not their business."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from ..errors import InvalidAnswer, MissingCapability
from ..protocol.capabilities import Capabilities, require_elicitation, require_roots, require_sampling
from ..protocol.types.base import Wire
from ..protocol.types.content import AudioContent, ToolResultContent, ToolUseContent
from ..protocol.types.elicitation import ElicitParams, ElicitResult
from ..protocol.types.roots import ListRootsResult
from ..protocol.types.sampling import (
    CreateMessageParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    ToolChoice,
)
from ..protocol.types.tools import Tool
from ..protocol.versions import FEATURES, Version
from .conversation import Turn, conversation, single
from .forms import Form
from .options import listed
from .outcomes import Accepted, Cancelled, Declined, Outcome
from .roots import RootList

T = TypeVar("T")
_NONE: Capabilities = {}


class Ask(Generic[T]):
    """One question. `text` and `digest` say on replay whether it is the same question as before.

    named: its params may hold its id.
    template, by: what stands in a parameter's annotation: a text with other parameters in braces, or a function that
    says what to ask.
    """

    method: ClassVar[str]
    named: ClassVar[bool] = False
    text: str = ""
    digest: str = ""
    until: Callable[[], Any] | None = None
    template: str = ""
    by: Callable[..., Any] | None = None

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        """Raises: MissingCapability if the client did not declare what this question needs."""
        raise NotImplementedError

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> Wire | None:
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

    def worded(self, arguments: Mapping[str, Any]) -> Ask[T]:
        """The same question, with the arguments of the call in the braces of its text."""
        return self

    def wanting(self, kind: Any) -> Ask[Any]:
        """The same question for a parameter of this type, where the question itself does not say what it asks for."""
        return self

    def gives(self) -> tuple[Any, ...]:
        """The types of its values, as far as they are known."""
        return ()

    async def settled(self, answer: T) -> bool:
        """Whether the answer is final, where there is an `until`. If not, the question is asked again later."""
        return True


class Elicit(Ask[Outcome[T]]):
    """A form for the person at the client (client/elicitation, Form Mode).

    message: the question.  kind: what is wanted: a pydantic model, dataclass or TypedDict of primitive fields, bool,
    int, float, str, a date, a Literal, an enum, a list of one of these two; strings, (string, title) pairs or a dict of
    them to choose from; or None for a plain consent.

    In a parameter's annotation, `Annotated[Size, Elicit("Which size for {item}?")]`, the parameter's type is what is
    wanted, and other parameters can be mentioned in braces. A function in place of the message is called with the
    parameters that it names; it returns the question to ask, or the answer itself.

    Raises: ConfigurationError that names the field, if a form cannot express `kind`.
    """

    method = "elicitation/create"

    def __init__(self, message: str | Callable[..., Any], kind: type[T] | Any = None, *, reason: str = ""):
        if not isinstance(message, str) and (not callable(message) or isinstance(message, type)):
            raise TypeError(f"the text of a question comes first, and then what is wanted: not {message!r}")
        if isinstance(message, str):
            self.text = self.template = message
        else:
            self.by = message
        self.form = Form.of(kind)
        self.digest = f"form:{self.form.digest}"
        self._kind = kind
        self._reason = reason

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_elicitation(capabilities, version, "form")
        self.form.schema(version)

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> ElicitParams:
        message = f"{self.text}\n\n{self._reason}" if self._reason else self.text
        mode: Literal["form"] | None = "form" if FEATURES[version].elicitation_submodes else None
        return ElicitParams(message, mode, self.form.schema(version, "fileInputs" in capabilities))

    def read(self, raw: Any) -> Outcome[T]:
        result = msgspec.json.decode(raw, type=ElicitResult)
        if result.action == "accept":
            return Accepted(self.form.read(result.content))
        return Declined(self.text) if result.action == "decline" else Cancelled(self.text)

    def worded(self, arguments: Mapping[str, Any]) -> Elicit[T]:
        return Elicit(self.text.format_map(arguments), self._kind)

    def wanting(self, kind: Any) -> Elicit[Any]:
        return self if self._kind is not None else Elicit(self.text, kind)

    def gives(self) -> tuple[Any, ...]:
        if isinstance(self._kind, list | tuple | Mapping):
            return (str,)
        if get_origin(self._kind) is Literal:
            return tuple(type(choice) for choice in get_args(self._kind))
        return () if isinstance(self._kind, Form) else (self._kind,)

    def again(self, error: InvalidAnswer) -> Elicit[T]:
        return type(self)(self.text, self._kind, reason="The last answer would not do: " + "; ".join(error.errors))


class Confirm(Ask[bool]):
    """A yes or no. Declining and cancelling are no."""

    method = "elicitation/create"

    def __init__(self, message: str):
        if not isinstance(message, str):
            raise TypeError(f"the text of a question is a str, not {message!r}")
        self._elicit: Elicit[bool] = Elicit(message, bool)
        self.text, self.digest = message, self._elicit.digest

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        self._elicit.gate(capabilities, version)

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> ElicitParams:
        return self._elicit.params(version, id, capabilities)

    def read(self, raw: Any) -> bool:
        match self._elicit.read(raw):
            case Accepted(value):
                return value
        return False


class ElicitUrl(Ask[Outcome[None]]):
    """A page for the person to open, for anything secret (client/elicitation, URL Mode).

    until: called without arguments; the answer is final once it gives true. Without it, Accepted means that the
    person agreed to open the page, and no more.

    Raises: TypeError for what are no texts; ValueError for what is no http or https URL with a host.
    """

    method = "elicitation/create"
    named = True
    digest = "url"

    def __init__(self, message: str, url: str, until: Callable[[], Any] | None = None):
        _check_page(message, url)
        self.text, self.url, self.until = message, url, until

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_elicitation(capabilities, version, "url")

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> ElicitParams:
        elicitation_id = id if FEATURES[version].url_elicitation_id else None
        return ElicitParams(self.text, "url", url=self.url, elicitation_id=elicitation_id)

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

    def gives(self) -> tuple[Any, ...]:
        return (type(None),)


def _check_page(message: Any, url: Any) -> None:
    if not isinstance(message, str) or not isinstance(url, str):
        raise TypeError(f"a page has a text and a URL, not {message!r} and {url!r}")
    scheme = ""
    try:
        parts = urlsplit(url)
        scheme = parts.scheme
        fits = scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as https://[
        fits = False
    if not fits or " " in url or not url.isprintable():
        given = f"the scheme {scheme!r}" if scheme not in ("", "http", "https") else "no such form"
        swapped = "; the text comes first" if message.lower().startswith(("http:", "https:")) else ""
        raise ValueError(f"a page has an absolute http or https URL with a host, and this one has {given}{swapped}")


class SampleOptions(TypedDict, total=False):
    """What else can be said of a completion.

    system: what the model is told beforehand.  tools: what it may call, and tool_choice: whether it may, must or must
    not.  model_preferences: parts of the names of models, best first, or ModelPreferences.  temperature: in the
    provider's range.  stop_sequences: texts that end the answer.  include_context: deprecated.  metadata: for the
    provider.
    """

    system: str | None
    tools: Sequence[Tool] | None
    tool_choice: ToolChoice | Literal["auto", "required", "none"] | None
    model_preferences: ModelPreferences | str | Sequence[str] | None
    temperature: float | None
    stop_sequences: Sequence[str] | None
    include_context: Literal["none", "thisServer", "allServers"] | None
    metadata: dict[str, Any] | None


class Sample(Ask[CreateMessageResult]):
    """A completion by the client's model (client/sampling). Deprecated since 2026-07-28: call a provider's API.

    messages: a text, or a conversation: texts, Images, Audios and content blocks of the user, SamplingMessages of
    either side, earlier answers, and the results of the tools that these wanted called.  max_tokens: the most that the
    model may produce.  options: see SampleOptions.

    In a parameter's annotation a text can mention other parameters in braces, or a function stand in its place (see
    Elicit).

    Raises: TypeError, and LocalProtocolError where the conversation breaks a rule (client/sampling, Message Content
    Constraints).
    """

    method = "sampling/createMessage"

    def __init__(
        self,
        messages: Turn | Sequence[Turn] | Callable[..., Any],
        *,
        max_tokens: int = 1024,
        **options: Unpack[SampleOptions],
    ):
        if unknown := options.keys() - SampleOptions.__annotations__:
            raise TypeError(f"sampling has no {', '.join(sorted(unknown))}")
        if callable(messages):
            self.by, messages = messages, ""
        self.template = messages if isinstance(messages, str) else ""
        self._again = partial(Sample, max_tokens=max_tokens, **options)
        given = conversation(messages)
        tools, stops = options.get("tools"), options.get("stop_sequences")
        choice, system = options.get("tool_choice"), options.get("system")
        self.request = CreateMessageParams(
            given,
            max_tokens,
            _preferences(options.get("model_preferences")),
            system,
            options.get("include_context"),
            options.get("temperature"),
            listed("stop_sequences", stops) if stops is not None else None,
            options.get("metadata"),
            listed("tools", tools, Tool) if tools is not None else None,
            ToolChoice(choice) if isinstance(choice, str) else choice,
        )
        text = messages if isinstance(messages, str) else msgspec.json.encode(given).decode()
        self.text = f"{system}\n\n{text}" if system else text
        others = msgspec.structs.replace(self.request, messages=[], system_prompt=None)
        self.digest = hashlib.sha256(msgspec.json.encode(others)).hexdigest()[:16]

    def worded(self, arguments: Mapping[str, Any]) -> Sample:
        return self._again(self.template.format_map(arguments))

    def gives(self) -> tuple[Any, ...]:
        return (CreateMessageResult, str)

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        context = self.request.include_context not in (None, "none")
        blocks = [block for message in self.request.messages for block in message.blocks]
        tools = self.request.tools is not None or self.request.tool_choice is not None
        tools = tools or any(isinstance(block, ToolUseContent | ToolResultContent) for block in blocks)
        require_sampling(capabilities, version, tools=tools, context=context)
        if any(isinstance(block, AudioContent) for block in blocks) and not FEATURES[version].audio:
            raise MissingCapability("sampling", f"protocol version {version} has no audio")

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> CreateMessageParams:
        if FEATURES[version].sampling_tools:  # lists of blocks came with them
            return self.request
        return msgspec.structs.replace(self.request, messages=single(self.request.messages))

    def read(self, raw: Any) -> CreateMessageResult:
        return msgspec.json.decode(raw, type=CreateMessageResult)


def _preferences(given: ModelPreferences | str | Sequence[str] | None) -> ModelPreferences | None:
    if given is None:
        return None
    if not isinstance(given, ModelPreferences):
        return ModelPreferences([ModelHint(name) for name in ([given] if isinstance(given, str) else given)])
    for priority in (given.cost_priority, given.speed_priority, given.intelligence_priority):
        if priority is not None and not 0 <= priority <= 1:
            raise ValueError(f"a priority among models is between 0 and 1, and not {priority}")
    return given


class Roots(Ask[RootList]):
    """The client's root directories (client/roots). Deprecated since 2026-07-28: pass paths as arguments."""

    method = "roots/list"

    def gate(self, capabilities: Capabilities, version: Version) -> None:
        require_roots(capabilities)

    def params(self, version: Version, id: str, capabilities: Capabilities = _NONE) -> None:
        return None

    def read(self, raw: Any) -> RootList:
        return RootList.answered(msgspec.json.decode(raw, type=ListRootsResult).roots)

    def gives(self) -> tuple[Any, ...]:
        return (RootList,)
