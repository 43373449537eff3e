"""Znodes of the whole cluster: registrations of brokers, cluster id, broker and producer ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from minikafka.kernel.cluster import Broker
from minikafka.kernel.features import Levels
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    OpResult,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode, Requests, in_chunks, raise_error
from minikafka.server.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    FeatureZnode,
    ProducerIdBlockZnode,
)

PRODUCER_ID_BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


class RegisteredBroker(NamedTuple):
    """A broker as it is registered. Its epoch is the czxid of the znode, ``session`` the id of the
    session that owns it; 0 for a znode that was created by hand. ``zk_version`` changes with the
    broker's endpoints."""

    broker: Broker
    session: int
    zk_version: int


class ZkClusterStore:
    """Reads and writes by brokers; the writes are not fenced by a controller epoch."""

    def __init__(self, requests: Requests, former_sessions: Collection[int]) -> None:
        self._requests = requests
        self._former_sessions = former_sessions

    async def create_persistent_paths(self) -> None:
        """Create the missing ones among Kafka's top-level paths."""
        make = self._requests.create_if_missing
        await in_chunks([partial(make, path) for path in paths.PERSISTENT_PATHS])

    async def cluster_id(self) -> str | None:
        """Return the cluster's id; None if there is none. Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.CLUSTER_ID)
        return ClusterIdZnode.decode(found[0]).cluster_id if found else None

    async def get_or_create_cluster_id(self, proposed: str) -> str:
        """Return the cluster's id; create it as ``proposed`` if there is none. Raises
        ``MalformedZnode``."""
        while True:
            found = await self.cluster_id()
            if found is not None:
                return found
            await self._requests.create_if_missing("/cluster")
            node = ClusterIdZnode(proposed)
            await self._requests.create(CreateOp(node.path, node.encode()))

    # --------------------------------------------------------------------------------- brokers

    async def register_broker(self, node: BrokerZnode) -> int:
        """Create the broker's ephemeral znode; return the broker epoch (the znode's czxid).

        A node that a former session of this broker left behind is deleted first: a ZooKeeper server
        may be late to do so (KAFKA-7165). Raises ``NodeExists`` if another session holds the id.
        """
        path = node.path
        create = CreateOp(path, node.encode(), ephemeral=True)
        while True:
            await self._requests.create(create)
            stat = await self._requests.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner == self._requests.session.session_id:
                return stat.czxid
            if stat.ephemeral_owner not in self._former_sessions:
                raise NodeExists(path)
            await self._delete(path)

    async def _delete(self, path: str, version: int = -1) -> None:
        """Delete a znode if it exists."""
        error = (await self._requests.multi([DeleteOp(path, version)])).error
        if error is not None and not isinstance(error, NoNode):
            raise error

    async def update_broker(self, node: BrokerZnode) -> None:
        """Replace the data of a broker's znode, which keeps the broker epoch. Raises ``NoNode``."""
        await self._requests.multi_or_raise([SetOp(node.path, node.encode())])

    async def unregister_broker(self, broker_id: int) -> None:
        await self._delete(paths.broker_id(broker_id))

    async def broker_ids(self, watcher: Watcher | None = None) -> list[int]:
        """Return the ids of live brokers, sorted."""
        names = await self._requests.children(paths.BROKER_IDS, watcher)
        ids = map(paths.number_of, names)
        return sorted(broker_id for broker_id in ids if broker_id is not None)

    async def brokers(
        self, watcher: Watcher | None = None, node_watcher: Watcher | None = None
    ) -> dict[int, Broker]:
        """Return the live brokers with their epochs, sorted by id.

        ``watcher`` is called when a broker starts or ends, ``node_watcher`` when the data of
        a broker's znode change. Raises ``MalformedZnode``.
        """
        ids = await self.broker_ids(watcher)
        found = await self._requests.get_all([paths.broker_id(i) for i in ids], node_watcher)
        return {
            broker_id: BrokerZnode.decode(broker_id, node[0]).broker(node[1].czxid)
            for broker_id, node in zip(ids, found, strict=True)
            if node is not None
        }

    async def broker(self, broker_id: int, watcher: Watcher | None = None) -> Broker | None:
        """Return a live broker; None if it is not registered. Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.broker_id(broker_id), watcher)
        return BrokerZnode.decode(broker_id, found[0]).broker(found[1].czxid) if found else None

    async def registration(self, broker_id: int) -> RegisteredBroker | None:
        """Return the registration of a broker, if there is one. Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.broker_id(broker_id))
        if found is None:
            return None
        data, stat = found
        broker = BrokerZnode.decode(broker_id, data).broker(stat.czxid)
        return RegisteredBroker(broker, stat.ephemeral_owner, stat.version)

    async def broker_features(self) -> list[Mapping[str, Levels]]:
        """Return the features that each registered broker supports; none if its znode is
        malformed."""
        ids = await self.broker_ids()
        found = await self._requests.get_all([paths.broker_id(i) for i in ids])
        return [
            _supported_features(broker_id, node[0])
            for broker_id, node in zip(ids, found, strict=True)
            if node is not None
        ]

    async def broker_stat(self, broker_id: int, watcher: Watcher | None = None) -> ZnodeStat | None:
        """Return the stat of a broker's znode. The watch also fires when the znode is created."""
        return await self._requests.exists(paths.broker_id(broker_id), watcher)

    # ------------------------------------------------------------------------------ number gen

    async def generate_broker_id(self, reserved_max: int = 1000) -> int:
        """Return a broker id above ``reserved.broker.max.id`` that was never returned before."""
        await self._requests.create_if_missing(paths.BROKER_SEQUENCE)
        results = await self._requests.multi_or_raise([SetOp(paths.BROKER_SEQUENCE, b"")])
        return reserved_max + _stat(results[0]).version

    async def allocate_producer_ids(self, broker_id: int) -> range:
        """Allocate the next block of producer ids to this broker and return it. Raises
        ``OverflowError`` if no ids are left, ``MalformedZnode``."""
        path = paths.PRODUCER_ID_BLOCK
        while True:
            found = await self._requests.get(path)
            if found is None:
                await self._requests.create_if_missing(path)
                continue
            data, stat = found
            first = ProducerIdBlockZnode.decode(data).last_id + 1 if data else 0
            last = first + PRODUCER_ID_BLOCK_SIZE - 1
            if last > MAX_PRODUCER_ID:
                raise OverflowError("no producer ids are left: all 2^63 have been allocated")
            node = ProducerIdBlockZnode(broker_id, first, last)
            outcome = await self._requests.multi([SetOp(path, node.encode(), stat.version)])
            if not isinstance(outcome.error, BadVersion):
                raise_error(outcome.results)
                return range(first, last + 1)

    async def has_feature_znode(self) -> bool:
        return await self._requests.exists(paths.FEATURE) is not None

    async def set_feature_znode(
        self, protocol: InterBrokerProtocol, first: Mapping[str, int]
    ) -> None:
        """Create ``/feature`` with the ``first`` finalized features, or adapt it to the
        inter-broker protocol (Kafka's ``maybeSetupFeatureVersioning``). Features are enabled from
        2.7 on; before, the znode is disabled and empty. Finalized features of an enabled znode are
        kept. A malformed or disabled znode is replaced by one without finalized features. If
        another controller changes the znode at this moment, its state stays."""
        enabled, version = protocol.has_features, protocol.feature_znode_version
        node = FeatureZnode(enabled, dict(first) if enabled else {}, version)
        if await self._requests.create(CreateOp(node.path, node.encode())):
            return
        found = await self._requests.get(node.path)
        if found is None:
            return
        known = _feature_znode(found[0])
        kept = known.features if known is not None and known.enabled and enabled else {}
        node = FeatureZnode(enabled, kept, version)
        if node != known:
            update = SetOp(node.path, node.encode(), found[1].version)
            outcome = await self._requests.multi([update])
            if not isinstance(outcome.error, BadVersion):
                raise_error(outcome.results)

    async def finalized_features(
        self, watcher: Watcher | None = None
    ) -> tuple[dict[str, int], int] | None:
        """Return the finalized features and the version of ``/feature``; None if there is no such
        znode, or if it is disabled. The watch fires at the next creation, change or deletion.
        Raises ``MalformedZnode``."""
        if watcher is not None:
            await self._requests.exists(paths.FEATURE, watcher)
        found = await self._requests.get(paths.FEATURE)
        if found is None:
            return None
        node = FeatureZnode.decode(found[0])
        return (node.features, found[1].version) if node.enabled else None

    async def set_finalized_features(
        self,
        features: Mapping[str, int],
        protocol: InterBrokerProtocol,
        expected_version: int,
        epoch_zk_version: int,
    ) -> bool:
        """Write the finalized features; return whether ``/feature`` was at the expected version.
        Raises ``ControllerMoved``."""
        node = FeatureZnode(True, dict(features), protocol.feature_znode_version)
        groups: list[list[CoordinationOp]] = [[SetOp(node.path, node.encode(), expected_version)]]
        results = (await self._requests.fenced(groups, epoch_zk_version))[0]
        if isinstance(results[0], BadVersion | NoNode):
            return False
        raise_error(results)
        return True


def _feature_znode(data: bytes) -> FeatureZnode | None:
    try:
        return FeatureZnode.decode(data)
    except MalformedZnode:
        return None


def _supported_features(broker_id: int, data: bytes) -> Mapping[str, Levels]:
    try:
        return BrokerZnode.decode(broker_id, data).features
    except MalformedZnode:
        return {}


def _stat(result: OpResult) -> ZnodeStat:
    assert isinstance(result, ZnodeStat), result
    return result
