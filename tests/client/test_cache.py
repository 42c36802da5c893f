"""Rule R164, the client's side: which results are kept, for how long, and what ends them."""

import json
from typing import Any

import msgspec
import pytest

from backchannel.client.cache import Cache
from backchannel.protocol.versions import CACHEABLE

pytestmark = pytest.mark.rule("R164")

TOOLS, PROMPTS, RESOURCES, READ = "tools/list", "prompts/list", "resources/list", "resources/read"
TEMPLATES, DISCOVER = "resources/templates/list", "server/discover"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    return Cache(clock=clock)


def result(ttl: Any = 5000, **members: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps({"resultType": "complete", "ttlMs": ttl, **members}).encode())


def kept(cache: Cache) -> set[str]:
    """The names of the resources, of those that `fill` puts there, and the methods, that are still there."""
    uris = {uri for uri in ("a://1", "a://1/2", "b://") if cache.get(READ, {"uri": uri}) is not None}
    return uris | {method for method in CACHEABLE - {READ} if cache.get(method, {}) is not None}


def fill(cache: Cache) -> set[str]:
    for method in CACHEABLE - {READ}:
        cache.put(method, {}, result())
    for uri in ("a://1", "a://1/2", "b://"):
        cache.put(READ, {"uri": uri}, result())
    return kept(cache)


# How long


def test_a_result_is_fresh_for_its_time(cache: Cache, clock: Clock) -> None:
    raw = result(1500)
    assert cache.get(TOOLS, {}) is None
    cache.put(TOOLS, {}, raw)
    assert cache.get(TOOLS, {}) is raw
    clock.now += 1.499
    assert cache.get(TOOLS, {}) is raw and len(cache) == 1
    clock.now = 1001.5
    assert cache.get(TOOLS, {}) is None and len(cache) == 0


def test_looking_does_not_prolong(cache: Cache, clock: Clock) -> None:
    cache.put(TOOLS, {}, result(2000))
    for _ in range(3):
        clock.now += 1
        cache.get(TOOLS, {})
    assert len(cache) == 0


@pytest.mark.parametrize("ttl", [0, -1, -(10**30), -0.5, None, "5000", True, [5000], {}])
def test_without_time_nothing_is_kept(cache: Cache, ttl: Any) -> None:
    cache.put(TOOLS, {}, result(ttl))
    assert len(cache) == 0


@pytest.mark.parametrize("raw", [b"{}", b'{"tools":[]}', b"[]", b"1", b"", b"{", b'{"ttlMs":1e400}', b"[" * 9999])
def test_what_does_not_say_is_not_kept(cache: Cache, raw: bytes) -> None:
    cache.put(TOOLS, {}, msgspec.Raw(raw))
    cache.put(TOOLS, {}, msgspec.Raw(b'{"ttlMs":1,"x":' + raw))
    assert len(cache) == 0


@pytest.mark.parametrize("ttl", [1e3, 10**18, 10**30, 1e300])
def test_any_positive_time(cache: Cache, clock: Clock, ttl: float) -> None:
    cache.put(TOOLS, {}, result(ttl))
    clock.now += 0.9
    assert cache.get(TOOLS, {}) is not None
    clock.now += 400 * 24 * 3600
    assert cache.get(TOOLS, {}) is None


def test_an_absent_result_type_is_complete(cache: Cache) -> None:
    cache.put(TOOLS, {}, msgspec.Raw(b'{"tools":[],"ttlMs":9}'))
    assert len(cache) == 1


def test_a_new_result_takes_the_place_of_the_old(cache: Cache, clock: Clock) -> None:
    cache.put(TOOLS, {}, result(1000))
    cache.put(TOOLS, {}, new := result(3000))
    clock.now += 2
    assert cache.get(TOOLS, {}) is new
    cache.put(TOOLS, {}, result(0))
    assert cache.get(TOOLS, {}) is None


# Which


@pytest.mark.parametrize("scope", ["private", "public", "other", None])
def test_the_scope_does_not_matter_to_one_client(cache: Cache, scope: Any) -> None:
    cache.put(TOOLS, {}, result(cacheScope=scope))
    assert len(cache) == 1


def test_two_clients_share_nothing(cache: Cache) -> None:
    cache.put(TOOLS, {}, result(cacheScope="public"))
    assert Cache().get(TOOLS, {}) is None


def test_the_methods_are_those_of_the_specification(cache: Cache) -> None:
    assert CACHEABLE == {"server/discover", TOOLS, PROMPTS, RESOURCES, "resources/templates/list", READ}
    for method in ("tools/call", "prompts/get", "completion/complete", "tasks/get", "acme/thing"):
        cache.put(method, {}, result())
    assert len(cache) == 0


def test_questions_are_not_kept(cache: Cache) -> None:
    cache.put(READ, {"uri": "a"}, result(resultType="input_required"))
    cache.put(READ, {"uri": "a"}, result(resultType=None))
    assert len(cache) == 0


@pytest.mark.parametrize("retry", [{"inputResponses": {}}, {"requestState": "x"}])
def test_results_of_retries_are_not_kept(cache: Cache, retry: dict[str, Any]) -> None:
    cache.put(READ, {"uri": "a", **retry}, result())
    assert len(cache) == 0
    cache.put(READ, {"uri": "a"}, result())
    assert cache.get(READ, {"uri": "a", **retry}) is None


def test_each_method_and_each_params_have_their_own(cache: Cache) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        (TOOLS, {}),
        (PROMPTS, {}),
        (TOOLS, {"cursor": ""}),
        (TOOLS, {"cursor": "2"}),
        (READ, {"uri": "2"}),
        (READ, {"uri": "3"}),
        (READ, {"uri": "3", "acme": {"b": None}}),
        (READ, {"uri": "3", "acme": {}}),
        (READ, {"uri": "3", "acme": [1, 2]}),
        (READ, {"uri": "3", "acme": [2, 1]}),
    ]
    raws = [result(number=number) for number in range(len(requests))]
    for (method, params), raw in zip(requests, raws, strict=True):
        assert cache.get(method, params) is None
        cache.put(method, params, raw)
    assert [cache.get(method, params) for method, params in requests] == raws


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"_meta": {"progressToken": 1}}),
        ({"_meta": {"progressToken": 1}}, {"_meta": {"progressToken": 2}}),
        ({}, {"cursor": None}),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}),
    ],
)
def test_what_does_not_change_a_request(cache: Cache, one: Any, other: Any) -> None:
    cache.put(TOOLS, one, raw := result())
    assert cache.get(TOOLS, other) is raw
    cache.put(TOOLS, other, new := result())
    assert cache.get(TOOLS, one) is new and len(cache) == 1


# What ends them


@pytest.mark.parametrize(
    ("notification", "gone"),
    [
        ("notifications/tools/list_changed", {TOOLS}),
        ("notifications/prompts/list_changed", {PROMPTS}),
        ("notifications/resources/list_changed", {RESOURCES, TEMPLATES}),
        ("notifications/resources/updated", {"a://1", "a://1/2", "b://"}),
        ("notifications/message", set()),
        ("notifications/other", set()),
        ("", set()),
    ],
)
def test_a_change_ends_what_it_may_concern(cache: Cache, notification: str, gone: set[str]) -> None:
    before = fill(cache)
    assert len(before) == 8
    cache.changed(notification)
    assert before - kept(cache) == gone


@pytest.mark.parametrize(
    ("uri", "gone"),
    [("a://1", {"a://1"}), ("a://1/2", {"a://1", "a://1/2"}), ("a://1/3", {"a://1"}), ("c://", set()), ("a://", set())],
)
def test_an_update_ends_the_resource_and_what_it_is_a_part_of(cache: Cache, uri: str, gone: set[str]) -> None:
    """ "This might be a sub-resource of the one that the client actually subscribed to." """
    before = fill(cache)
    cache.changed("notifications/resources/updated", uri)
    assert before - kept(cache) == gone


def test_a_change_ends_every_page(cache: Cache) -> None:
    for cursor in ({}, {"cursor": "1"}, {"cursor": "2"}):
        cache.put(TOOLS, cursor, result())
    cache.changed("notifications/tools/list_changed")
    assert len(cache) == 0


def test_an_update_ends_a_read_with_other_params(cache: Cache) -> None:
    cache.put(READ, {"uri": "a", "acme": 1, "_meta": {}}, result())
    cache.changed("notifications/resources/updated", "a")
    assert len(cache) == 0


def test_a_change_ends_what_is_under_way(cache: Cache) -> None:
    """A result that was made before the change may come after its notification, on another stream."""
    asked = cache.changes
    cache.changed("notifications/tools/list_changed")
    cache.put(TOOLS, {}, result(), changes=asked)
    assert len(cache) == 0
    cache.put(TOOLS, {}, result(), changes=cache.changes)
    assert len(cache) == 1
    asked = cache.changes
    cache.changed("notifications/message")
    cache.put(PROMPTS, {}, result(), changes=asked)
    assert len(cache) == 2


def test_forgetting(cache: Cache) -> None:
    before = fill(cache)
    asked = cache.changes
    cache.forget(READ)
    assert kept(cache) == before - {"a://1", "a://1/2", "b://"}
    cache.forget()
    cache.put(READ, {"uri": "a"}, result(), changes=asked)
    assert len(cache) == 0


# How much


def test_what_was_not_used_for_longest_goes_first(clock: Clock) -> None:
    cache = Cache(3, clock)
    for uri in ("1", "2", "3"):
        cache.put(READ, {"uri": uri}, result())
    cache.get(READ, {"uri": "1"})
    cache.put(READ, {"uri": "2"}, result())
    cache.put(READ, {"uri": "4"}, result())
    assert [uri for uri in "1234" if cache.get(READ, {"uri": uri})] == ["1", "2", "4"]


def test_results_together_have_a_largest_size(clock: Clock) -> None:
    size = len(result(text="x" * 100))
    cache = Cache(clock=clock, most_bytes=3 * size)
    for uri in ("1", "2", "3", "3", "3", "4"):
        cache.put(READ, {"uri": uri}, result(text="x" * 100))
    assert [uri for uri in "1234" if cache.get(READ, {"uri": uri})] == ["2", "3", "4"]
    cache.put(READ, {"uri": "5"}, result(text="x" * 4 * size))
    assert len(cache) == 3
    cache.changed("notifications/resources/updated", "2")
    cache.put(READ, {"uri": "6"}, result(text="x" * 100))
    assert len(cache) == 3
    clock.now += 5
    for uri in "346":
        cache.get(READ, {"uri": uri})
    cache.put(READ, {"uri": "7"}, result(text="x" * 2 * size))
    assert len(cache) == 1


def test_a_cache_of_nothing() -> None:
    cache = Cache(0)
    cache.put(TOOLS, {}, result())
    assert len(cache) == 0
