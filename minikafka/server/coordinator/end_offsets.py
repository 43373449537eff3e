"""``LeaderEndOffsets``: ListOffsets requests to leaders, for the lags of share groups
(KIP-1226)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, NO_LEADER, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.protocol.schema import Message
from minikafka.server.coordinator.ports import PartitionLeaders

LIST_OFFSETS_VERSION: Final = 6  # of all brokers since 2.8
LATEST_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class EndOffsetsItem:
    """A partition with the future of its end offset, or of the leader's error."""

    topic_partition: TopicPartition
    found: asyncio.Future[int | ErrorCode]

    def complete(self, outcome: int | ErrorCode) -> None:
        if not self.found.done():  # the client of the request has gone
            self.found.set_result(outcome)


class LeaderEndOffsets:
    """The ends of partitions from their leaders (Kafka's ``NetworkPartitionMetadataClient``).

    ``put`` queues an item for a broker; the response goes to ``complete_end_offsets``. Errors are
    not retried: the client may repeat its request."""

    def __init__(
        self, leaders: PartitionLeaders, put: Callable[[int, EndOffsetsItem], None]
    ) -> None:
        self._leaders = leaders
        self._put = put

    async def latest(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        """Return the end offset of each partition, or its error."""
        loop = asyncio.get_running_loop()
        items = [EndOffsetsItem(tp, loop.create_future()) for tp in dict.fromkeys(partitions)]
        for item in items:
            leader = self._leaders.partition_leader(item.topic_partition)
            if leader is None:
                item.complete(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader[0] == NO_LEADER:
                item.complete(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                self._put(leader[0], item)
        return {item.topic_partition: await item.found for item in items}


def end_offsets_key(item: EndOffsetsItem) -> TopicPartition:
    """Return the key that is unique within one request: its partition."""
    return item.topic_partition


def end_offsets_request(items: Sequence[EndOffsetsItem]) -> tuple[Message, int]:
    rows = (
        (topic, ListOffsetsPartition(partition, timestamp=LATEST_TIMESTAMP))
        for topic, partition in (item.topic_partition for item in items)
    )
    topics = [ListOffsetsTopic(*of_topic) for of_topic in grouped(rows).items()]
    return ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=topics), LIST_OFFSETS_VERSION


def complete_end_offsets(
    items: Sequence[EndOffsetsItem], response: ListOffsetsResponse | None
) -> None:
    """Complete items by their leader's response, or by None if there was none."""
    outcomes: dict[TopicPartition, int | ErrorCode] = {}
    for topic in () if response is None else response.topics:
        for row in topic.partitions:
            code = ErrorCode(row.error_code)
            outcomes[TopicPartition(topic.name, row.partition_index)] = code or row.offset
    for item in items:
        item.complete(outcomes.get(item.topic_partition, ErrorCode.REQUEST_TIMED_OUT))
