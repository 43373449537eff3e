"""What the cluster as a whole keeps in ZooKeeper: brokers, cluster id, broker and producer ids."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from minikafka.kernel.cluster import Broker
from minikafka.kernel.ports import (
    BadVersion,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    OpResult,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.zookeeper import paths
from minikafka.zookeeper.requests import Requests, in_chunks, raise_error
from minikafka.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    FeatureZnode,
    ProducerIdBlockZnode,
)

PRODUCER_ID_BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


class ClusterStore:
    """Written by brokers, not fenced."""

    def __init__(self, requests: Requests, former_sessions: Collection[int]) -> None:
        self._requests = requests
        self._former_sessions = former_sessions

    async def create_persistent_paths(self) -> None:
        """Kafka's top-level paths, where they are missing."""
        make = self._requests.create_if_missing
        await in_chunks([partial(make, path) for path in paths.PERSISTENT_PATHS])

    async def cluster_id(self) -> str | None:
        """Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.CLUSTER_ID)
        return ClusterIdZnode.decode(found[0]).cluster_id if found else None

    async def get_or_create_cluster_id(self, proposed: str) -> str:
        """``proposed`` unless the cluster has an id already. Raises ``MalformedZnode``."""
        while True:
            found = await self.cluster_id()
            if found is not None:
                return found
            await self._requests.create_if_missing("/cluster")
            node = ClusterIdZnode(proposed)
            await self._requests.create(CreateOp(node.path, node.encode()))

    # --------------------------------------------------------------------------------- brokers

    async def register_broker(self, node: BrokerZnode) -> int:
        """Create the broker's ephemeral znode; returns the broker epoch (its czxid).

        A node that one of our own former sessions left behind is removed first (KAFKA-7165: a
        server may forget to). Raises ``NodeExists`` when another living session holds the id.
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
        """A node that has gone already is fine."""
        error = (await self._requests.multi([DeleteOp(path, version)])).error
        if error is not None and not isinstance(error, NoNode):
            raise error

    async def update_broker(self, node: BrokerZnode) -> None:
        """Write a broker's znode anew, in place (its epoch stays). Raises ``NoNode``."""
        await self._requests.multi_or_raise([SetOp(node.path, node.encode())])

    async def unregister_broker(self, broker_id: int) -> None:
        await self._delete(paths.broker_id(broker_id))

    async def broker_ids(self, watcher: Watcher | None = None) -> list[int]:
        """Of live brokers, sorted."""
        names = await self._requests.children(paths.BROKER_IDS, watcher)
        return sorted(int(name) for name in names if name.isdecimal())

    async def brokers(
        self, watcher: Watcher | None = None, node_watcher: Watcher | None = None
    ) -> dict[int, Broker]:
        """Live brokers with their epochs, by id, ascending.

        ``watcher`` is told when one comes or goes, ``node_watcher`` when one's data change.
        Raises ``MalformedZnode``.
        """
        ids = await self.broker_ids(watcher)
        found = await self._requests.get_all([paths.broker_id(i) for i in ids], node_watcher)
        return {
            broker_id: BrokerZnode.decode(broker_id, node[0]).broker(node[1].czxid)
            for broker_id, node in zip(ids, found, strict=True)
            if node is not None
        }

    async def broker(self, broker_id: int, watcher: Watcher | None = None) -> Broker | None:
        """Raises ``MalformedZnode``."""
        found = await self._requests.get(paths.broker_id(broker_id), watcher)
        return BrokerZnode.decode(broker_id, found[0]).broker(found[1].czxid) if found else None

    async def broker_stat(self, broker_id: int, watcher: Watcher | None = None) -> ZnodeStat | None:
        """Of a broker's znode; the watch also fires when it comes into being."""
        return await self._requests.exists(paths.broker_id(broker_id), watcher)

    # ------------------------------------------------------------------------------ number gen

    async def generate_broker_id(self, reserved_max: int = 1000) -> int:
        """A broker id above ``reserved.broker.max.id`` that nobody was given before."""
        await self._requests.create_if_missing(paths.BROKER_SEQUENCE)
        results = await self._requests.multi_or_raise([SetOp(paths.BROKER_SEQUENCE, b"")])
        return reserved_max + _stat(results[0]).version

    async def allocate_producer_ids(self, broker_id: int) -> range:
        """The next block of a thousand producer ids, now this broker's own. Raises
        ``OverflowError`` when there are none left, ``MalformedZnode``."""
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
                raise OverflowError("all producer ids have been given out")
            node = ProducerIdBlockZnode(broker_id, first, last)
            outcome = await self._requests.multi([SetOp(path, node.encode(), stat.version)])
            if not isinstance(outcome.error, BadVersion):
                raise_error(outcome.results)
                return range(first, last + 1)

    async def ensure_feature_node(self) -> None:
        """``/feature`` enabled and without finalized features, as a new Kafka cluster has it."""
        node = FeatureZnode()
        await self._requests.create(CreateOp(node.path, node.encode()))


def _stat(result: OpResult) -> ZnodeStat:
    assert isinstance(result, ZnodeStat), result
    return result
