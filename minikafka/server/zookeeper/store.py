"""Typed reads and writes of Kafka's znodes on one ZooKeeper session."""

from __future__ import annotations

from collections.abc import Collection

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import CoordinationSession, NoNode, SetOp
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.measured_requests import MeasuredRequests
from minikafka.server.zookeeper.requests import (
    ControllerMoved,
    MalformedZnode,
    Requests,
    raise_error,
)
from minikafka.server.zookeeper.store_acls import ZkAclStore
from minikafka.server.zookeeper.store_cluster import RegisteredBroker, ZkClusterStore
from minikafka.server.zookeeper.store_configs import ZkConfigStore
from minikafka.server.zookeeper.store_controller import ControllerNode, ZkControllerStore
from minikafka.server.zookeeper.store_tokens import ZkTokenStore
from minikafka.server.zookeeper.store_topics import StateWrites, TopicAssignment, ZkTopicStore
from minikafka.server.zookeeper.znodes.json_form import decimal

__all__ = [
    "ControllerMoved",
    "ControllerNode",
    "MalformedZnode",
    "RegisteredBroker",
    "StateWrites",
    "TopicAssignment",
    "ZkStore",
]


class ZkStore(
    ZkClusterStore, ZkControllerStore, ZkTopicStore, ZkConfigStore, ZkAclStore, ZkTokenStore
):
    """All reads and writes of Kafka's znodes (KafkaZkClient).

    A request whose connection is lost is repeated when the connection is back, as in Kafka's
    client. When the session has expired, every method raises ``SessionExpired``;
    ``ZkSession.store`` is then a new store. A watcher is called once and gets no data: read the
    znode again, which also arms the watch again.

    ``former_sessions`` are the ids of this process's earlier sessions. Ephemeral znodes that they
    left behind may be deleted.
    """

    def __init__(
        self,
        session: CoordinationSession,
        former_sessions: Collection[int] = (),
        measured: MeasuredRequests | None = None,
    ) -> None:
        requests = Requests(session, measured)
        ZkClusterStore.__init__(self, requests, former_sessions)
        ZkControllerStore.__init__(self, requests)
        ZkTopicStore.__init__(self, requests)
        ZkConfigStore.__init__(self, requests)
        ZkAclStore.__init__(self, requests)
        ZkTokenStore.__init__(self, requests)

    @property
    def session(self) -> CoordinationSession:
        return self._requests.session

    # ------------------------------------------------------------- offsets in ZooKeeper (Kafka 0.8)

    async def consumer_offset(self, group_id: str, topic_partition: TopicPartition) -> int | None:
        """Return an offset that a consumer of before Kafka 0.9 has stored. Group ids become part of
        the path, so callers must have checked them. Raises ``MalformedZnode``."""
        path = paths.consumer_offset(group_id, topic_partition)
        node = await self._requests.get(path)
        if node is None:
            return None
        offset = decimal(node[0].decode("ascii", "replace"))
        if offset is None:
            raise MalformedZnode(path, node[0], "not a number")
        return offset

    async def set_consumer_offset(
        self, group_id: str, topic_partition: TopicPartition, offset: int
    ) -> None:
        """Store an offset for a consumer of before Kafka 0.9. The last writer wins."""
        path = paths.consumer_offset(group_id, topic_partition)
        while True:
            outcome = await self._requests.multi([SetOp(path, str(offset).encode())])
            if not isinstance(outcome.error, NoNode):
                raise_error(outcome.results)
                return
            await self._requests.create_if_missing(path)
