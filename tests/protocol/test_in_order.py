"""The short way of reading a request that is in order gives the verdict that the ladder gives."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backchannel.protocol import http
from backchannel.protocol.http import Call, Legacy, Refusal, read_request
from tests.protocol.posts import META, body, headers

REF = {"type": "ref/prompt", "name": "greet"}
METHODS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "echo", "arguments": {"a": [1, "ä"]}, "requestState": "s"},
    "tools/list": {"cursor": "c"},
    "resources/read": {"uri": "file:///a"},
    "prompts/get": {"name": "echo", "arguments": {"a": "b"}},
    "completion/complete": {"ref": REF, "argument": {"name": "a", "value": ""}},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "server/discover": {},
}
VALUES = [
    *(b"null", b"true", b"5", b"-0", b"1.0", b"1.5", b"1e400", b"123456789012345678901234567890", b"NaN", b"[]", b"{}"),
    *(b'""', b'"echo"', b'"2.0"', b'"2026-07-28"', b'"2025-11-25"', b'"tools/call"', b'"tools/list"', "'ä'".encode()),
    *(b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"', b'"\n"', b'{"a":"\\ud800"}'),
    *(b'{"code":1,"message":"m"}', b'{"code":"1"}', b'{"_meta":{}}', b"[" * 2000 + b"]" * 2000, b'{"a":1,"a":2}'),
]
NAMES = [b'"jsonrpc"', b'"id"', b'"method"', b'"params"', b'"result"', b'"error"', b'"_meta"', b'"name"', b'"x"']
Members = list[tuple[bytes, bytes]]


def written(members: Members) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"


@st.composite
def objects(draw: st.DrawFn, members: dict[str, bytes]) -> bytes:
    """The object, in order nearly always; else a member is missing, given twice, or not what it should be."""
    found = [(json.dumps(name).encode(), value) for name, value in members.items()]
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        place, change = draw(st.integers(0, len(found))), draw(st.sampled_from(["add", "replace", "drop", "spell"]))
        name = found[place][0] if place < len(found) else draw(st.sampled_from(NAMES))
        if change == "add" or place == len(found):
            found.insert(draw(st.integers(0, len(found))), (name, draw(st.sampled_from(VALUES))))
        elif change == "replace":
            found[place] = name, draw(st.sampled_from(VALUES))
        elif change == "spell":
            found[place] = b'"\\u00%02x' % name[1] + name[2:], found[place][1]
        else:
            del found[place]
    return written(found)


@st.composite
def posts(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """Changes of the headers, and a body."""
    method, params = draw(st.sampled_from(list(METHODS.items())))
    envelope = draw(objects({name: json.dumps(value).encode() for name, value in META.items()}))
    own = {name: json.dumps(value, ensure_ascii=False).encode() for name, value in params.items()}
    inner = draw(objects({**own, "_meta": envelope}))
    id = draw(st.sampled_from([b"7", b'"seven"', b"18446744073709551616"]))
    body = draw(objects({"jsonrpc": b'"2.0"', "id": id, "method": json.dumps(method).encode(), "params": inner}))
    if draw(st.sampled_from([False, False, True])):
        start = draw(st.integers(0, len(body)))
        body = body[:start] + draw(st.binary(max_size=3)) + body[start + draw(st.integers(0, 3)) :]
    changes = {"mcp_method": method, "mcp_name": params.get("uri", "echo")}
    if draw(st.sampled_from([False, False, True])):
        changes[draw(st.sampled_from(["mcp_method", "mcp_name", "mcp_protocol_version", "accept"]))] = draw(
            st.sampled_from(["", "echo", "tools/list", "2026-07-28", "2025-11-25", "initialize", "text/event-stream"])
        )
    return changes, body


def seen(verdict: Call | Legacy | Refusal) -> Any:
    """All that counts of a verdict: nobody reads the raw params of a call that has them typed."""
    if not isinstance(verdict, Call):
        return verdict
    return verdict.request.id, verdict.request.method, verdict.version, verdict.method, verdict.params, verdict.accept


@given(posts())
@example(({}, json.dumps({**body(), "error": 5}).encode()))
def test_both_ways_agree(post: tuple[dict[str, Any], bytes]) -> None:
    changes, body = post
    short = read_request(headers(**changes), body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_in_order", lambda *_: None)
        assert seen(short) == seen(read_request(headers(**changes), body))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_in_order_goes_the_short_way(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = METHODS[method]
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": META}}).encode()
    monkeypatch.setattr(http, "decode", lambda body: pytest.fail("the ladder"))
    if method != "server/discover":  # its params have no type of their own
        verdict = read_request(headers(mcp_method=method, mcp_name=params.get("uri", "echo")), body)
        assert isinstance(verdict, Call) and verdict.request.method == method
