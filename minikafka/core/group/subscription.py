"""Which topics the members of a consumer group subscribe to, as far as the coordinator can tell."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
)

_VERSION_BYTES = 2


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, metadata: Iterable[bytes]
) -> frozenset[str] | None:
    """Over the members' ``metadata`` under the chosen ``protocol``; none without members. None: it
    is not a consumer group, or a member's bytes cannot be read."""
    subscriptions = list(metadata)
    if protocol_type != PROTOCOL_TYPE or (subscriptions and protocol is None):
        return None
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            # Version 0 is the beginning of every version.
            read = decode(ConsumerProtocolSubscription, 0, subscription, _VERSION_BYTES)
        except DecodeError:
            return None
        topics.update(read.topics)
    return frozenset(topics)
