"""The guards of APIs that a feature switches on."""

from __future__ import annotations

from typing import Any

from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import (
    Admitted,
    ApiGuard,
    Filter,
    Gate,
    Serve,
    around,
    before,
    knowing,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services


def before_if_finalized(feature: str, gate: Gate) -> ApiGuard:
    """Return the guard that applies ``gate`` once the feature is in force. Until then the handler
    refuses every request."""

    def make(broker: Services) -> ApiGuard:
        async def admit(
            authorization: Authorization, context: RequestContext, request: Any
        ) -> Admitted:
            if not broker.features.level(feature):
                return Admitted(request)
            return await gate(authorization, context, request)

        return before(admit)

    return knowing(make)


def around_if_finalized(feature: str, response_filter: Filter) -> ApiGuard:
    """Return the guard that applies ``response_filter`` once the feature is in force. Until then
    the handler refuses every request."""

    def make(broker: Services) -> ApiGuard:
        async def filtered(
            authorization: Authorization, context: RequestContext, request: Any, serve: Serve
        ) -> Any:
            if not broker.features.level(feature):
                return await serve(request)
            return await response_filter(authorization, context, request, serve)

        return around(filtered)

    return knowing(make)
