"""Controllers on one znode tree in memory, with a clock moved by hand and brokers that answer."""

from __future__ import annotations

import asyncio
import posixpath
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from minikafka.controller.config import ControllerConfig
from minikafka.controller.driver import KafkaController
from minikafka.kernel.cluster import Endpoint, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    CoordinationError,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SessionExpired,
    SessionState,
    WatchEvent,
    WatchKind,
    ZnodeStat,
)
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
from minikafka.zookeeper.store import ZkStore
from minikafka.zookeeper.znodes import BrokerZnode

SESSION_TIMEOUT_MS = 18_000

# ---------------------------------------------------------------------------------- ZooKeeper


@dataclass
class Znode:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    cversion: int = 0
    sequence: int = 0


class Tree:
    """Znodes, watches, sessions. ``census`` counts armed watches per session."""

    def __init__(self):
        self.nodes = {"/": Znode(b"", 0, 0)}
        self.zxid = 0
        self.sessions: dict[int, Session] = {}
        self.data_watches: dict[tuple[int, str], list] = {}
        self.child_watches: dict[tuple[int, str], list] = {}

    def open(self):
        session = Session(self, 0x100 + len(self.sessions))
        self.sessions[session.session_id] = session
        return session

    def expire(self, session_id):
        """The session is over for the servers and for its owner."""
        self.forget(session_id)
        self.sessions[session_id].state = SessionState.EXPIRED

    def forget(self, session_id):
        """The servers expire a session whose owner does not know yet."""
        for path in sorted(self.nodes):
            if self.nodes[path].owner == session_id:
                self.delete(path)
        for watches in (self.data_watches, self.child_watches):
            for key in [k for k in watches if k[0] == session_id]:
                del watches[key]

    def census(self, session_id):
        paths = [
            p for w in (self.data_watches, self.child_watches) for s, p in w if s == session_id
        ]
        return sorted(paths)

    def stat(self, path):
        n = self.nodes[path]
        children = sum(posixpath.dirname(p) == path and p != "/" for p in self.nodes)
        return ZnodeStat(n.czxid, n.mzxid, n.version, n.cversion, n.owner, 0, 0, children)

    def fire(self, path, kind):
        parent = posixpath.dirname(path)
        hits = [(self.data_watches, path, kind)]
        if kind is not WatchKind.CHANGED:
            hits.append((self.child_watches, parent, WatchKind.CHILDREN))
        loop = asyncio.get_running_loop()
        for watches, at, what in hits:
            for key in [k for k in watches if k[1] == at]:
                for watcher in watches.pop(key):
                    loop.call_soon(watcher, WatchEvent(what, at))

    def create(self, path, data, owner=0, sequential=False):
        parent = posixpath.dirname(path)
        if parent not in self.nodes:
            raise NoNode(path)
        if sequential:
            path = f"{path}{self.nodes[parent].sequence:010d}"
            self.nodes[parent].sequence += 1
        if path in self.nodes:
            raise NodeExists(path)
        self.zxid += 1
        self.nodes[path] = Znode(data, self.zxid, self.zxid, owner)
        self.nodes[parent].cversion += 1
        self.fire(path, WatchKind.CREATED)
        return path

    def check(self, path, version):
        if path not in self.nodes:
            raise NoNode(path)
        if version not in (-1, self.nodes[path].version):
            raise BadVersion(path)

    def set(self, path, data, version=-1):
        self.check(path, version)
        self.zxid += 1
        node = self.nodes[path]
        node.data, node.mzxid, node.version = data, self.zxid, node.version + 1
        self.fire(path, WatchKind.CHANGED)
        return self.stat(path)

    def delete(self, path, version=-1):
        self.check(path, version)
        if any(p.startswith(path + "/") for p in self.nodes):
            raise NotEmpty(path)
        self.zxid += 1
        del self.nodes[path]
        self.nodes[posixpath.dirname(path)].cversion += 1
        self.fire(path, WatchKind.DELETED)

    def delete_tree(self, root):
        for path in sorted(self.nodes, reverse=True):
            if path == root or path.startswith(root + "/"):
                self.delete(path)


class Session:
    """``calls`` is the trace of what was asked; ``fail`` maps a path to an error, once."""

    def __init__(self, tree, session_id):
        self.tree = tree
        self.session_id = session_id
        self.state = SessionState.CONNECTED
        self.calls: list[tuple[str, str]] = []
        self.fail: dict[tuple[str, str], Exception] = {}

    def add_state_listener(self, listener):
        pass

    async def _turn(self, call, path):
        await asyncio.sleep(0)
        if self.state is SessionState.EXPIRED:
            raise SessionExpired(path)
        self.calls.append((call, path))
        if (call, path) in self.fail:
            raise self.fail.pop((call, path))

    def _watch(self, watches, path, watcher):
        if watcher is not None:
            armed = watches.setdefault((self.session_id, path), [])
            if watcher not in armed:
                armed.append(watcher)

    async def get(self, path, watcher=None):
        await self._turn("get", path)
        if path not in self.tree.nodes:
            raise NoNode(path)
        self._watch(self.tree.data_watches, path, watcher)
        return self.tree.nodes[path].data, self.tree.stat(path)

    async def exists(self, path, watcher=None):
        await self._turn("exists", path)
        self._watch(self.tree.data_watches, path, watcher)
        return self.tree.stat(path) if path in self.tree.nodes else None

    async def children(self, path, watcher=None):
        await self._turn("children", path)
        if path not in self.tree.nodes:
            raise NoNode(path)
        self._watch(self.tree.child_watches, path, watcher)
        return sorted(
            posixpath.basename(p)
            for p in self.tree.nodes
            if p != "/" and posixpath.dirname(p) == path
        )

    async def create(self, path, data=b"", *, ephemeral=False, sequential=False):
        await self._turn("create", path)
        made = self.tree.create(path, data, self.session_id if ephemeral else 0, sequential)
        return made, self.tree.stat(made)

    async def set(self, path, data, version=-1):
        await self._turn("set", path)
        return self.tree.set(path, data, version)

    async def delete(self, path, version=-1):
        await self._turn("delete", path)
        self.tree.delete(path, version)

    async def multi(self, ops):
        for op in ops:
            await self._turn("multi", op.path)
        saved = {p: Znode(**vars(n)) for p, n in self.tree.nodes.items()}
        fired, self.tree.fire, real = [], lambda *a: fired.append(a), self.tree.fire
        results = []
        try:
            for op in ops:
                results.append(self._do(op))
        except CoordinationError as error:
            self.tree.nodes = saved
            place = len(results)
            return [error if i == place else RolledBack(o.path) for i, o in enumerate(ops)]
        finally:
            self.tree.fire = real
        for event in fired:
            real(*event)
        return results

    def _do(self, op):
        if isinstance(op, CreateOp):
            owner = self.session_id if op.ephemeral else 0
            return self.tree.create(op.path, op.data, owner, op.sequential)
        if isinstance(op, DeleteOp):
            return self.tree.delete(op.path, op.version)
        if isinstance(op, CheckOp):
            return self.tree.check(op.path, op.version)
        return self.tree.set(op.path, op.data, op.version)

    async def close(self):
        self.tree.expire(self.session_id)


# --------------------------------------------------------------------------- clock and brokers


class ManualClock:
    def __init__(self):
        self.now = 1_000_000
        self.timers = []

    def monotonic_ms(self):
        return self.now

    def wall_ms(self):
        return 1_700_000_000_000 + self.now

    def call_later(self, delay_ms, callback):
        timer = Timer(self.now + delay_ms, callback)
        self.timers.append(timer)
        return timer

    async def sleep(self, delay_ms):
        done = asyncio.get_running_loop().create_future()
        self.call_later(delay_ms, lambda: done.done() or done.set_result(None))
        await done

    def advance(self, ms):
        self.now += ms
        due = [t for t in self.timers if t.at <= self.now]
        self.timers = [t for t in self.timers if t.at > self.now]
        for timer in due:
            if not timer.cancelled:
                timer.callback()


@dataclass(eq=False)
class Timer:
    at: int
    callback: object
    cancelled: bool = False

    def cancel(self):
        self.cancelled = True


class Entropy:
    def __init__(self):
        self.count = 0

    def random_bytes(self, count):
        self.count += 1
        return self.count.to_bytes(count, "big")


class Brokers:
    """What brokers were told. ``down`` refuse connections, ``mute`` never answer; ``errors`` are
    for replicas, in the answers to LeaderAndIsr and StopReplica."""

    def __init__(self):
        self.sent: list[tuple[int, object]] = []
        self.down: set[int] = set()
        self.mute: set[int] = set()
        self.errors: dict[PartitionAndReplica, ErrorCode] = {}
        self.connections: list[int] = []

    async def connect(self, broker):
        await asyncio.sleep(0)
        self.connections.append(broker.id)
        if broker.id in self.down:
            raise ConnectionError("refused")
        return FakeChannel(self, broker.id)

    def take(self):
        sent, self.sent = self.sent, []
        return sent


class FakeChannel:
    def __init__(self, brokers, broker_id):
        self.brokers = brokers
        self.broker_id = broker_id

    def close(self):
        pass

    async def request(self, message, version, timeout_ms):
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

    def error(self, topic, partition):
        replica = PartitionAndReplica(TopicPartition(topic, partition), self.broker_id)
        return self.brokers.errors.get(replica, ErrorCode.NONE)


# ------------------------------------------------------------------------------------- cluster


@dataclass
class Node:
    """One broker's share: session, controller."""

    id: int
    session: Session
    store: ZkStore
    controller: KafkaController = field(default=None, repr=False)

    @property
    def trace(self):
        return self.session.calls


@dataclass
class ClusterOfControllers:
    tasks: asyncio.TaskGroup
    tree: Tree = field(default_factory=Tree)
    clock: ManualClock = field(default_factory=ManualClock)
    brokers: Brokers = field(default_factory=Brokers)
    nodes: dict[int, Node] = field(default_factory=dict)
    config: dict = field(default_factory=dict)

    async def prepare(self):
        await ZkStore(self.tree.open()).create_persistent_paths()

    def broker_node(self, broker_id, port=0, rack=None):
        return BrokerZnode(broker_id, (Endpoint(f"host{broker_id}", port or 9092),), 1, rack)

    async def register(self, broker_id, former=()):
        """A session with the broker's registration, and no controller yet."""
        session = self.tree.open()
        node = self.nodes.get(broker_id) or Node(broker_id, session, None)
        node.session, node.store = session, ZkStore(session, former)
        self.nodes[broker_id] = node
        await node.store.register_broker(self.broker_node(broker_id))
        return node

    async def start(self, *broker_ids):
        for broker_id in broker_ids:
            node = await self.register(broker_id)
            self.make_controller(node)
            node.controller.start(self.tasks)
            await self.settle()
        return [self.nodes[b].controller for b in broker_ids]

    def make_controller(self, node):
        config = ControllerConfig(
            node.id, zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS, **self.config
        )
        node.controller = KafkaController(
            config, node, self.brokers.connect, self.clock, Entropy(), Metrics()
        )
        return node.controller

    async def settle(self):
        """Until nobody has anything to do."""
        quiet = 0
        for _ in range(20_000):
            await asyncio.sleep(0)
            controllers = [n.controller for n in self.nodes.values() if n.controller]
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

    async def kill(self, broker_id):
        """kill -9: its session ends, its tasks do not run any more."""
        node = self.nodes.pop(broker_id)
        if node.controller and node.controller._task:
            node.controller._running = False
            node.controller._task.cancel()
            await asyncio.wait([node.controller._task])
            await node.controller._channels.shutdown()
        self.tree.expire(node.session.session_id)
        self.brokers.down.add(broker_id)
        await self.settle()

    async def lose_session(self, broker_id):
        """The session expires under a running broker: what the session keeper does then."""
        node = self.nodes[broker_id]
        former = node.session.session_id
        self.tree.expire(former)
        await node.controller.on_session_lost()
        await self.register(broker_id, (former,))
        await node.controller.on_new_session(node.store)
        await self.settle()

    async def stop(self):
        for node in list(self.nodes.values()):
            if node.controller:
                await node.controller.stop()

    async def create_topic(self, name, *replicas, config=None):
        store = ZkStore(self.tree.open())
        topic_id = UUID(int=0xABC000 + len(name) + self.tree.zxid)
        await store.create_topic(name, topic_id, dict(enumerate(replicas)), config or {})
        await self.settle()
        return [TopicPartition(name, i) for i in range(len(replicas))]

    async def state(self, tp):
        """The partition's state znode: (leader, isr, leader epoch)."""
        found = await ZkStore(self.tree.open()).leader_isr_states([tp])
        if tp not in found:
            return None
        s = found[tp].leader_and_isr
        return s.leader, s.isr, s.leader_epoch

    @property
    def active(self):
        """The controller in office."""
        (one,) = [n.controller for n in self.nodes.values() if n.controller.is_active]
        return one


@pytest.fixture
def new_cluster():
    """``async with new_cluster() as cluster``: an empty cluster, stopped at the end."""

    @asynccontextmanager
    async def make(**config):
        async with asyncio.TaskGroup() as tasks:
            cluster = ClusterOfControllers(tasks, config=config)
            await cluster.prepare()
            try:
                yield cluster
            finally:
                await cluster.stop()

    return make


@pytest.fixture
def manual_clock():
    return ManualClock()


@pytest.fixture
def in_short():
    """Requests as (kind, broker, {partition: gist})."""

    def gist(broker_id, message):
        kind = type(message).__name__.removesuffix("Request")
        partitions = {}
        for topic in message.topic_states:
            for p in topic.partition_states:
                name = f"{topic.topic_name}-{p.partition_index}"
                if kind == "StopReplica":
                    partitions[name] = "delete" if p.delete_partition else "stop"
                else:
                    partitions[name] = (p.leader, tuple(p.isr))
        return kind, broker_id, partitions

    return lambda sent: [gist(*one) for one in sent]
