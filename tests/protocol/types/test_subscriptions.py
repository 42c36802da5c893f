"""Wire types of subscriptions: what is written fits the schema of the one version that has them."""

from typing import Any

import msgspec
import pytest

from backchannel.protocol.types.base import Implementation
from backchannel.protocol.types.requests import RequestMeta
from backchannel.protocol.types.subscriptions import SUBSCRIPTION_ID, AcknowledgedParams, Filter, ListenParams
from backchannel.protocol.versions import Version, finish
from tests.wire_schemas import check, read

MODERN = Version.V2026_07_28
META = RequestMeta(version=MODERN, client_info=Implementation("c", "1"), client_capabilities={})
FILTERS = [
    (Filter(True, True, True, ["file:///a"]), {"toolsListChanged", "promptsListChanged", "resourcesListChanged"}),
    (Filter(tools_list_changed=False, resource_subscriptions=[]), {"toolsListChanged"}),
    (Filter(), set()),
]


@pytest.mark.parametrize(("wanted", "members"), FILTERS)
def test_filters(wanted: Filter, members: set[str]) -> None:
    params = ListenParams(notifications=wanted, meta=META)
    written = check(MODERN, "SubscriptionsListenRequestParams", params)
    assert set(written["notifications"]) - {"resourceSubscriptions"} == members
    assert read(ListenParams, written) == params
    acknowledged = AcknowledgedParams(wanted, {SUBSCRIPTION_ID: 4})
    assert check(MODERN, "SubscriptionsAcknowledgedNotificationParams", acknowledged)["_meta"] == {SUBSCRIPTION_ID: 4}


def test_the_result() -> None:
    result = finish(MODERN, "subscriptions/listen", {"_meta": {SUBSCRIPTION_ID: "a"}}, Implementation("s", "1"))
    check(MODERN, "SubscriptionsListenResult", result)


@pytest.mark.parametrize(
    "params", [{}, {"notifications": None}, {"notifications": {"resourceSubscriptions": "file:///a"}}]
)
def test_other_shapes_are_refused(params: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(ListenParams, params)
