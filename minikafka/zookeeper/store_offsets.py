"""Offsets kept in ZooKeeper by consumers as they were before Kafka 0.9."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import NoNode, SetOp
from minikafka.zookeeper import paths
from minikafka.zookeeper.errors import MalformedZnode
from minikafka.zookeeper.requests import Requests, raise_error


class OffsetStore:
    """Group ids go into paths: callers let through only what a topic may be called."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def consumer_offset(self, group_id: str, topic_partition: TopicPartition) -> int | None:
        """Raises MalformedZnode."""
        path = paths.consumer_offset(group_id, topic_partition)
        node = await self._requests.get(path)
        if node is None:
            return None
        try:
            return int(node[0])
        except ValueError:
            raise MalformedZnode(path, node[0], "not a number") from None

    async def set_consumer_offset(
        self, group_id: str, topic_partition: TopicPartition, offset: int
    ) -> None:
        """The last writer wins."""
        path = paths.consumer_offset(group_id, topic_partition)
        while True:
            outcome = await self._requests.multi([SetOp(path, str(offset).encode())])
            if not isinstance(outcome.error, NoNode):
                raise_error(outcome.results)
                return
            await self._requests.create_if_missing(path)
