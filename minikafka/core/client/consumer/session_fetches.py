"""The Fetch requests of a consumer in fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.client.calls import raise_for
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.consumer.fetch_request import (
    FetchLimits,
    FetchPosition,
    fetch_request,
    fetched_partitions,
)
from minikafka.core.client.fetch_session import FetchSessionHandler
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class SessionFetches:
    """The Fetch requests of one consumer, with a fetch session for each broker.

    Only one request to a broker may be in flight: call ``build``, then ``handle_response`` with
    the response, or ``handle_error`` if there is none.
    """

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._sessions: dict[int, FetchSessionHandler[FetchPosition]] = {}  # one for each broker

    def build(
        self, broker_id: int, offsets: Mapping[TopicPartition, int], cluster: ClusterView
    ) -> FetchRequest:
        """Build the next Fetch request to a broker, for all partitions in ``offsets``.

        The request of an established session leaves out partitions whose position has not
        changed.
        """
        wanted: dict[PartitionKey, FetchPosition] = {}
        for tp, offset in offsets.items():
            known = cluster.partition(tp)
            epoch = NO_EPOCH if known is None else known.leader_epoch
            wanted[tp] = FetchPosition(epoch, offset)
        fetch = self._sessions.setdefault(broker_id, FetchSessionHandler()).build(wanted, False)
        request = fetch_request(
            self._limits,
            ((TopicPartition(str(name), n), at) for (name, n), at in fetch.named.items()),
        )
        request.session_id, request.session_epoch = fetch.session_id, fetch.session_epoch
        forgotten = grouped((str(name), n) for name, n in fetch.forgotten)
        request.forgotten_topics_data = [
            ForgottenTopic(name, partitions=numbers) for name, numbers in forgotten.items()
        ]
        return request

    def handle_response(
        self, broker_id: int, response: FetchResponse
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """Return the rows of a response with their partitions.

        They are empty if the broker has lost the session: the next request begins another one.
        Raises KafkaError for other errors of the whole request.
        """
        code = ErrorCode(response.error_code)
        rows = fetched_partitions(response)
        keys = [tp for tp, _ in rows]
        if self._sessions[broker_id].handle_response(code, response.session_id, keys):
            return rows
        if code not in _SESSION_ERRORS:
            raise_for(code, f"fetch from broker {broker_id}")
        return []

    def handle_error(self, broker_id: int) -> None:
        """Note that no response came, so that the next request to the broker begins a session."""
        self._sessions[broker_id].handle_error()
