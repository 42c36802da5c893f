"""Wire types of completion: what is written fits the schemas."""

from typing import Any

import msgspec
import pytest

from backchannel.protocol.types.base import Implementation
from backchannel.protocol.types.completion import (
    MOST_VALUES,
    CompletedArgument,
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionContext,
    Reference,
)
from backchannel.protocol.types.requests import RequestMeta
from backchannel.protocol.versions import Version
from tests.wire_schemas import BOTH, check, check_result, read

MODERN = RequestMeta(version="2026-07-28", client_info=Implementation("c", "1"), client_capabilities={})


@BOTH
@pytest.mark.parametrize(
    "reference", [Reference("ref/prompt", name="p", title="P"), Reference("ref/resource", uri="file:///{a}")]
)
def test_requests(version: Version, reference: Reference) -> None:
    argument, context = CompletedArgument("a", ""), CompletionContext({"b": "c"})
    meta = MODERN if version.is_modern else RequestMeta()
    for params in (
        CompleteParams(ref=reference, argument=argument, meta=meta),
        CompleteParams(ref=reference, argument=argument, context=context, meta=meta),
        CompleteParams(ref=reference, argument=argument, context=CompletionContext(), meta=meta),
    ):
        assert read(CompleteParams, check(version, "CompleteRequestParams", params)) == params


@BOTH
@pytest.mark.parametrize(
    ("completion", "written"),
    [
        (Completion(["a", "b"], 200, True), {"values": ["a", "b"], "total": 200, "hasMore": True}),
        (Completion([], 0, False), {"values": [], "total": 0, "hasMore": False}),
        (Completion(["x"] * MOST_VALUES), {"values": ["x"] * 100}),
    ],
)
def test_results(version: Version, completion: Completion, written: Any) -> None:
    result = CompleteResult(completion, {"x": 1})
    assert check_result(version, "CompleteResult", "completion/complete", result)["completion"] == written


@pytest.mark.parametrize(
    "params",
    [
        {"ref": {"type": "ref/tool", "name": "a"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "a"}},
        {"ref": {"type": "ref/prompt", "name": "a"}},
        {"argument": {"name": "a", "value": ""}},
        {"ref": {"name": "a"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": ""}, "context": {"arguments": {"b": 1}}},
    ],
)
def test_other_shapes_are_refused(params: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(CompleteParams, params)
