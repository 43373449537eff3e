"""Envelope (key 58), which a ZooKeeper-mode broker refuses: nothing is forwarded."""

from __future__ import annotations

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.envelope import EnvelopeRequest
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import Reply, RequestContext, UnreadableRequest
from minikafka.server.broker.quotas import Quota


def refuse_envelope(context: RequestContext, request: EnvelopeRequest, reply: Reply) -> None:
    """Close the connection (an ``ImmediateHandler``). Brokers of a ZooKeeper cluster list Envelope
    in ApiVersions, but do not forward requests: Kafka closes the connection, too."""
    raise UnreadableRequest("forwarding has not been enabled")


ENVELOPE = Api(
    key=ApiKey.ENVELOPE,
    handler=lambda broker: refuse_envelope,
    task=False,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)
