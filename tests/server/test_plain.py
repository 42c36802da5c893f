"""Plain types: what is written for them without pydantic is what pydantic would write."""

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Dict, List, Literal, Optional, Union  # noqa: UP035

import pytest
from pydantic import Field

from backchannel.server import results, signature
from backchannel.server.plain import Parameter, plain_arguments, plain_type

NONE = inspect.Parameter.empty
TYPES: list[Any] = [
    *(int, str, bool, float, list[int], dict[str, float], int | None, Optional[str], Union[None, bool]),  # noqa: UP007, UP045
    *(Literal["a", "b"], Literal["a"], List[str], Dict[str, bool], list[dict[str, list[int | None]]]),  # noqa: UP006
]
DEFAULTS: list[Any] = [NONE, None, 0, 1, 10**30, -1.5, 1e300, True, "", "text", 'a\tb"c\\']
OTHERS: list[Any] = [
    *(Any, None, bytes, list, dict, object, type(None), tuple[int, ...], set[int], dict[int, str], int | str),
    *(List, Dict, Optional[List], Literal[()]),  # noqa: UP006, UP045
    *(int | str | None, Literal[1], Literal["a", 1], Literal["ä"], Annotated[int, Field(gt=0)], Callable, "int"),
]


class Number(int):
    """Not an int to pydantic."""


def without_pydantics_own(core: Any) -> Any:
    """A core schema, but for names, and notes for the generator of JSON Schema."""
    if isinstance(core, dict):
        own = ("metadata", "ref", "cls", "computed_fields")
        return {name: without_pydantics_own(part) for name, part in core.items() if name not in own}
    return [without_pydantics_own(part) for part in core] if isinstance(core, list) else core


def by_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "plain_arguments", lambda parameters: None)
    monkeypatch.setattr(results, "plain_type", lambda annotation: None)


def same(found: tuple[Any, Any] | None, expected: tuple[Any, Any]) -> bool:
    """Also the order of the members is the same."""
    assert found is not None
    cores = [without_pydantics_own(one[0].core_schema) for one in (found, expected)]
    return json.dumps(found[1]) == json.dumps(expected[1]) and cores[0] == cores[1]


@pytest.mark.parametrize("text", [None, "What it is."])
@pytest.mark.parametrize("default", DEFAULTS, ids=repr)
@pytest.mark.parametrize("annotation", TYPES, ids=repr)
def test_an_argument(annotation: Any, default: Any, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters: dict[str, Parameter] = {"one": (annotation, default, text), "zero": (int, NONE, None)}
    found = plain_arguments(parameters)
    by_pydantic(monkeypatch)
    assert same(found, signature._describe_arguments("f()", parameters, {}, False))


def test_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plain_arguments({})
    by_pydantic(monkeypatch)
    assert same(found, signature._describe_arguments("f()", {}, {}, False))


@pytest.mark.parametrize("annotation", TYPES, ids=repr)
def test_a_result(annotation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plain_type(annotation)
    by_pydantic(monkeypatch)
    assert same(found, results.describe(annotation, "f()", "serialization", {}, False))


@pytest.mark.parametrize("annotation", [*OTHERS, Number], ids=repr)
def test_what_is_not_plain(annotation: Any) -> None:
    assert plain_type(annotation) is None
    assert plain_arguments({"one": (int, NONE, None), "two": (annotation, NONE, None)}) is None


@pytest.mark.parametrize("default", [float("nan"), float("inf"), "ä", "\ud83d", [], (), Number(1), Field(default=1)])
def test_a_default_that_is_not_plain(default: Any) -> None:
    assert plain_arguments({"one": (int, default, None)}) is None
