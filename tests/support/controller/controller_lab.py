"""Controllers on one znode tree in memory, with a manual clock and fake brokers that respond."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast
from uuid import UUID

from minikafka.kernel.cluster import Broker, Endpoint, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from minikafka.protocol.messages.update_metadata import UpdateMetadataResponse
from minikafka.server.controller.config import ControllerConfig
from minikafka.server.controller.kafka_controller import KafkaController
from minikafka.server.zookeeper.measured_requests import MeasuredRequests
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode
from minikafka.world.sim.entropy import SimEntropy
from tests.support.world.manual_clock import ManualClock
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper

SESSION_TIMEOUT_MS = 18_000

# --------------------------------------------------------------------------- clock and brokers


class Brokers:
    """Fake brokers and the requests sent to them. ``down`` refuse connections, ``mute`` never
    respond; ``errors`` are for replicas, in the responses to LeaderAndIsr and StopReplica."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.down: set[int] = set()
        self.mute: set[int] = set()
        self.errors: dict[PartitionAndReplica, ErrorCode] = {}
        self.connections: list[int] = []

    async def connect(self, broker: Broker) -> FakeChannel:
        await asyncio.sleep(0)
        self.connections.append(broker.id)
        if broker.id in self.down:
            raise ConnectionError("refused")
        return FakeChannel(self, broker.id)

    def take(self) -> list[tuple[int, Any]]:
        sent, self.sent = self.sent, []
        return sent


class FakeChannel:
    def __init__(self, brokers: Brokers, broker_id: int) -> None:
        self.brokers = brokers
        self.broker_id = broker_id

    def close(self) -> None:
        pass

    async def request(self, message: Any, version: int, timeout_ms: int) -> Any:
        await asyncio.sleep(0)
        if self.broker_id in self.brokers.down:
            raise ConnectionError("reset")
        self.brokers.sent.append((self.broker_id, message))
        if self.broker_id in self.brokers.mute:
            await asyncio.get_running_loop().create_future()
        if isinstance(message, LeaderAndIsrRequest):
            return LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrTopicError(
                        topic_id=t.topic_id,
                        partition_errors=[
                            LeaderAndIsrPartitionError(
                                partition_index=p.partition_index,
                                error_code=self.error(t.topic_name, p.partition_index),
                            )
                            for p in t.partition_states
                        ],
                    )
                    for t in message.topic_states
                ]
            )
        if isinstance(message, StopReplicaRequest):
            return StopReplicaResponse(
                partition_errors=[
                    StopReplicaPartitionError(
                        topic_name=t.topic_name,
                        partition_index=p.partition_index,
                        error_code=self.error(t.topic_name, p.partition_index),
                    )
                    for t in message.topic_states
                    for p in t.partition_states
                ]
            )
        return UpdateMetadataResponse()

    def error(self, topic: str, partition: int) -> ErrorCode:
        replica = PartitionAndReplica(TopicPartition(topic, partition), self.broker_id)
        return self.brokers.errors.get(replica, ErrorCode.NONE)


# ------------------------------------------------------------------------------------- cluster


@dataclass
class Node:
    """The controller of one broker and its ZooKeeper session."""

    id: int
    session: DirectSession
    store: ZkStore
    measured: MeasuredRequests = field(repr=False)
    _controller: KafkaController | None = field(default=None, repr=False)

    @property
    def controller(self) -> KafkaController:
        assert self._controller is not None, "the broker has no controller"
        return self._controller

    @controller.setter
    def controller(self, controller: KafkaController | None) -> None:
        self._controller = controller

    @property
    def has_controller(self) -> bool:
        return self._controller is not None

    @property
    def trace(self) -> list[tuple[str, str]]:
        return self.session.calls


@dataclass
class ClusterOfControllers:
    tasks: asyncio.TaskGroup
    zookeeper: DirectZookeeper = field(default_factory=DirectZookeeper)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    brokers: Brokers = field(default_factory=Brokers)
    nodes: dict[int, Node] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    async def prepare(self) -> None:
        await ZkStore(self.zookeeper.new_session()).create_persistent_paths()

    def broker_node(self, broker_id: int, port: int = 0, rack: str | None = None) -> BrokerZnode:
        features = self.config.get("supported_features", {})
        endpoint = Endpoint(f"host{broker_id}", port or 9092)
        return BrokerZnode(broker_id, (endpoint,), 1, rack, features=features)

    async def register(self, broker_id: int, former: Collection[int] = ()) -> Node:
        """Open a session and register the broker, without a controller."""
        session = self.zookeeper.new_session()
        measured = MeasuredRequests(self.clock.monotonic_ns, self.clock.wall_ms)
        store = ZkStore(session, former, measured)
        node = self.nodes.get(broker_id) or Node(broker_id, session, store, measured)
        node.session, node.store = session, store
        self.nodes[broker_id] = node
        await node.store.register_broker(self.broker_node(broker_id))
        return node

    async def start(self, *broker_ids: int) -> list[KafkaController]:
        for broker_id in broker_ids:
            node = await self.register(broker_id)
            self.make_controller(node)
            node.controller.start(self.tasks)
            await self.settle()
        return [self.nodes[b].controller for b in broker_ids]

    def make_controller(self, node: Node) -> KafkaController:
        config = ControllerConfig(
            node.id, zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS, **self.config
        )
        node.controller = KafkaController(
            config,
            cast(Any, node),
            cast(Any, self.brokers.connect),
            self.clock,
            SimEntropy(node.id),
            Metrics(),
        )
        return node.controller

    async def settle(self) -> None:
        """Wait until no task has anything to do."""
        quiet = 0
        for _ in range(20_000):
            await asyncio.sleep(0)
            controllers = [n.controller for n in self.nodes.values() if n.has_controller]
            busy = any(len(c.queue) or c.state for c in controllers) or any(
                peer.queue
                for c in controllers
                for b, peer in c._channels._peers.items()
                if b not in self.brokers.down | self.brokers.mute
            )
            quiet = 0 if busy else quiet + 1
            if quiet > 8:
                return
        raise AssertionError("the controllers never come to rest")

    async def kill(self, broker_id: int) -> None:
        """Kill a broker as SIGKILL does: its session ends and its tasks are cancelled."""
        node = self.nodes.pop(broker_id)
        if node.has_controller and node.controller._task:
            node.controller._running = False
            node.controller._task.cancel()
            await asyncio.wait([node.controller._task])
            await node.controller._channels.shutdown()
            await node.controller._rebalance_timer.end_term()
        self.zookeeper.expire(node.session)
        self.brokers.down.add(broker_id)
        await self.settle()

    async def lose_session(self, broker_id: int) -> None:
        """Expire the session of a running broker, and do what the session keeper does then."""
        node = self.nodes[broker_id]
        former = node.session.session_id
        self.zookeeper.expire(node.session)
        await node.controller.on_session_lost()
        await self.register(broker_id, (former,))
        await node.controller.on_new_session(node.store)
        await self.settle()

    async def stop(self) -> None:
        for node in list(self.nodes.values()):
            if node.has_controller:
                await node.controller.stop()

    async def create_topic(
        self, name: str, *replicas: tuple[int, ...], config: dict[str, Any] | None = None
    ) -> list[TopicPartition]:
        store = ZkStore(self.zookeeper.new_session())
        topic_id = UUID(int=0xABC000 + self.zookeeper.zxid)
        await store.create_topic(name, topic_id, dict(enumerate(replicas)), config or {})
        await self.settle()
        return [TopicPartition(name, i) for i in range(len(replicas))]

    async def state(self, tp: TopicPartition) -> tuple[int, tuple[int, ...], int]:
        """Return (leader, isr, leader epoch) in the partition's state znode. Raises KeyError
        without one."""
        found = await ZkStore(self.zookeeper.new_session()).leader_isr_states([tp])
        s = found[tp].leader_and_isr
        return s.leader, s.isr, s.leader_epoch

    async def has_state(self, tp: TopicPartition) -> bool:
        """Whether the partition has a state znode."""
        return tp in await ZkStore(self.zookeeper.new_session()).leader_isr_states([tp])

    @property
    def active(self) -> KafkaController:
        """Return the active controller."""
        controllers = [n.controller for n in self.nodes.values() if n.has_controller]
        (one,) = [controller for controller in controllers if controller.is_active]
        return one


class NewCluster(Protocol):
    """The type of ``new_cluster``: ``async with new_cluster() as cluster``. Its arguments are
    fields of ``ControllerConfig``."""

    def __call__(self, **config: Any) -> AbstractAsyncContextManager[ClusterOfControllers]: ...


# A request as (kind, broker, {partition: gist}).
Gist: TypeAlias = tuple[str, int, dict[str, Any]]
InShort: TypeAlias = Callable[[Iterable[tuple[int, Any]]], list[Gist]]
