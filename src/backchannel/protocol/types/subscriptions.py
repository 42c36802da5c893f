"""Subscriptions: a request whose response is a stream of change notifications (basic/patterns/subscriptions)."""

from __future__ import annotations

from .base import Meta, Wire, meta
from .requests import RequestParams

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


class Filter(Wire):
    """Which changes are wanted, or in the acknowledgment, which will come."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(RequestParams, kw_only=True):
    """Params of `subscriptions/listen`."""

    notifications: Filter


class AcknowledgedParams(Wire):
    """Params of `notifications/subscriptions/acknowledged`."""

    notifications: Filter
    meta: Meta | None = meta()
