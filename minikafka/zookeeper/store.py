"""All that brokers and controllers read and write in ZooKeeper, typed, on one session."""

from __future__ import annotations

from collections.abc import Collection

from minikafka.kernel.ports import CoordinationSession
from minikafka.zookeeper.errors import ControllerMoved, MalformedZnode
from minikafka.zookeeper.requests import Requests
from minikafka.zookeeper.store_cluster import ClusterStore
from minikafka.zookeeper.store_configs import ConfigStore
from minikafka.zookeeper.store_controller import ControllerNode, ControllerStore
from minikafka.zookeeper.store_offsets import OffsetStore
from minikafka.zookeeper.store_topics import StateWrites, TopicAssignment, TopicStore

__all__ = [
    "ControllerMoved",
    "ControllerNode",
    "MalformedZnode",
    "StateWrites",
    "TopicAssignment",
    "ZkStore",
]


class ZkStore(ClusterStore, ControllerStore, TopicStore, ConfigStore, OffsetStore):
    """Lost connections are waited out and requests repeated, as Kafka's client does; when the
    session is over, every method raises ``SessionExpired`` for good (``ZkSession`` has the next
    store). Watchers fire once and are hints: read again, and re-arm by reading.

    ``former_sessions`` are ids of this process's earlier sessions; what they left behind may be
    cleared away.
    """

    def __init__(self, session: CoordinationSession, former_sessions: Collection[int] = ()) -> None:
        requests = Requests(session)
        ClusterStore.__init__(self, requests, former_sessions)
        ControllerStore.__init__(self, requests)
        TopicStore.__init__(self, requests)
        ConfigStore.__init__(self, requests)
        OffsetStore.__init__(self, requests)

    @property
    def session(self) -> CoordinationSession:
        return self._requests.session
