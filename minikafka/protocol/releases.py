"""The Kafka releases that a broker can act as, with the API versions that it serves and sends."""

from __future__ import annotations

import re
from enum import Enum

from minikafka.protocol.api_keys import ApiKey


class Release(Enum):
    """Selected by ``inter.broker.protocol.version``: 2.0 selects Kafka 2.0, any other value 3.9.

    In Kafka that key only limits what brokers send each other and write. Here a broker of release
    2.0 also serves clients as Kafka 2.0 did. All brokers of a cluster need the same release.
    """

    KAFKA_3_9 = "3.9"
    KAFKA_2_0 = "2.0"

    @classmethod
    def of(cls, inter_broker_protocol_version: str) -> Release:
        """Return the release for a valid ``inter.broker.protocol.version``, such as ``2.0-IV1``."""
        of_2_0 = re.match(r"2\.0(\.|-|$)", inter_broker_protocol_version)
        return cls.KAFKA_2_0 if of_2_0 else cls.KAFKA_3_9

    def newest(self, api_key: ApiKey) -> int | None:
        """Return the highest version of an API; None if the release does not have the API."""
        return api_key.max_version_2_0 if self is Release.KAFKA_2_0 else api_key.max_version

    def at_most(self, api_key: ApiKey, version: int) -> int:
        """Return the version in which to send a request: ``version``, or the release's highest
        version if that is lower."""
        newest = self.newest(api_key)
        assert newest is not None, f"{api_key.api_name} is not in Kafka {self.value}"
        return min(version, newest)
