"""One question of the server, and what becomes of the host's answer: the result that is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..errors import INTERNAL_ERROR, INVALID_PARAMS, ConfigurationError, LocalProtocolError, RemoteProtocolError
from ..protocol.forms import check_content, with_defaults
from ..protocol.jsonrpc import encode
from ..protocol.types.elicitation import ElicitParams, ElicitResult
from ..protocol.types.roots import ListRootsResult, Root
from ..protocol.types.sampling import CreateMessageParams, CreateMessageResult, answer
from .page_url import problem

_DONE = "done"
_REJECTED = -1  # "User rejected sampling request" (client/sampling, Error Handling)


class Visited(ElicitResult):
    """The person agreed to visit a page, and is done there. On the wire it looks the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. `params`: an ElicitParams, a CreateMessageParams, or a dict.  `raw`: the same as it came."""

    method: str
    params: Any
    raw: msgspec.Raw | bytes = field(default=b"{}", repr=False, compare=False)

    @classmethod
    def read(cls, method: str, raw: Any) -> Asked:
        """A question as it comes, its params as JSON. Raises: RemoteProtocolError for params that cannot be read."""
        kind = _KINDS.get(method, _OTHER)[0]
        try:
            params = msgspec.json.decode(raw or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RemoteProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
        if isinstance(params, ElicitParams) and params.mode == "url" and params.url is None:
            raise RemoteProtocolError(INVALID_PARAMS, "Invalid params: an elicitation in url mode has a url")
        if isinstance(params, ElicitParams) and params.url is not None and (wrong := problem(params.url)) is not None:
            text = f"Invalid params: the server wants {params.url[:200]!r} opened, which this client refuses: {wrong}"
            raise RemoteProtocolError(INVALID_PARAMS, text)
        return cls(method, params, raw or b"{}")

    @property
    def message(self) -> str:
        """The text for the person, of an elicitation; else ""."""
        return self.params.message if isinstance(self.params, ElicitParams) else ""

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the form, if this is one."""
        return self.params.requested_schema if isinstance(self.params, ElicitParams) else None

    def result(self, value: Any) -> Any:
        """The result to send for what the host gives, by the method of the question:

        - elicitation: the content as a dict (accepted), True (accepted: yes, where the only required field is a
          boolean, and the form's defaults), None or "cancel", False or "decline", or an ElicitResult; for a page also
          "done";
        - sampling: the model's text, a CreateMessageResult, or None or False: the person refuses;
        - roots: paths, `file:` URIs or Roots;
        - any other: the result as a dict.

        Raises: LocalProtocolError for what is no answer to it, ConfigurationError for what is no root.
        """
        return _KINDS.get(self.method, _OTHER)[1](self.params, value)


def _elicited(question: ElicitParams, value: Any) -> ElicitResult:
    schema = question.requested_schema or {}
    if question.mode == "url" and value == _DONE:
        return Visited("accept")
    result = ElicitResult("accept", _yes(schema)) if value is True else _elicit_result(value)
    if question.mode == "url":
        # "For URL mode: The `content` field is omitted" (client/elicitation, Response Actions)
        return ElicitResult(result.action, None, result.meta)
    if result.action != "accept":
        return result
    content = with_defaults(schema, _as_json(result.content or {}))
    problems = check_content(schema, content)
    if problems:
        text = f"the answer to {question.message[:200]!r} breaks the schema: {'; '.join(problems)}"
        raise LocalProtocolError(INVALID_PARAMS, text)
    return ElicitResult("accept", content, result.meta)


def _sampled(question: CreateMessageParams, value: Any) -> CreateMessageResult:
    if isinstance(value, str):
        return answer(value)
    if isinstance(value, CreateMessageResult):
        return value
    if value is None or value is False:
        raise LocalProtocolError(_REJECTED, "User rejected sampling request")
    raise _unusable(value, "sampling", "a text, a CreateMessageResult, or None or False to refuse")


def _rooted(question: Any, value: Any) -> ListRootsResult:
    return ListRootsResult(as_roots(value))


def _other(question: Any, value: Any) -> Any:
    if isinstance(value, dict | msgspec.Struct):
        return value
    raise _unusable(value, "a request", "the result as a dict")


_KINDS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "elicitation/create": (ElicitParams, _elicited),
    "sampling/createMessage": (CreateMessageParams, _sampled),
    "roots/list": (dict[str, Any], _rooted),
}
_OTHER: tuple[Any, Callable[[Any, Any], Any]] = (dict[str, Any], _other)


def _unusable(value: Any, asked: str, what: str) -> LocalProtocolError:
    return LocalProtocolError(INTERNAL_ERROR, f"the answer to {asked} is {what}, not {type(value).__name__}")


def _elicit_result(value: Any) -> ElicitResult:
    if isinstance(value, ElicitResult):
        return value
    if isinstance(value, Mapping):
        return ElicitResult("accept", dict(value))
    if value is None:
        return ElicitResult("cancel")
    if isinstance(value, bool):
        return ElicitResult("accept" if value else "decline")
    if value in ("accept", "decline", "cancel"):
        return ElicitResult(value)
    raise _unusable(value, "an elicitation", "a dict, True, False, None, an action or an ElicitResult")


def _yes(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a plain yes: True where one field is required, which is a boolean. Defaults fill in the rest."""
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, Mapping) and isinstance(required, list) and len(required) == 1:
        field = properties.get(required[0]) if isinstance(required[0], str) else None
        if isinstance(field, Mapping) and field.get("type") == "boolean":
            return {required[0]: True}
    return {}


def _as_json(content: dict[str, Any]) -> dict[str, Any]:
    """The content as the server will see it: dates as text, tuples as lists. Raises: LocalProtocolError."""
    try:
        return msgspec.json.decode(encode(content), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(INTERNAL_ERROR, f"the answer has no form in JSON: {error}") from error


def as_roots(places: Any) -> list[Root]:
    """Paths, URIs and Roots as Roots. Raises: ConfigurationError: "`uri` MUST be a `file://` URI" (client/roots)."""
    if isinstance(places, str | bytes | os.PathLike | Root):
        raise ConfigurationError(f"roots is a list of paths or file:// URIs; write [{places!r}]")
    return [place if isinstance(place, Root) else Root(_uri(os.fsdecode(place))) for place in places]


def _uri(text: str) -> str:
    """A path as a URI, without its `..`; a URI as it is."""
    if "://" not in text:
        return Path(os.path.abspath(text)).as_uri()
    if text.startswith("file://"):
        return text
    raise ConfigurationError(f"{text!r} is no root: give a path, or a URI that begins file://")
