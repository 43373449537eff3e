"""A broker whose id is registered already: by its earlier run, or by another broker."""

from __future__ import annotations

import asyncio

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import CreateOp, DeleteOp
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import BrokerZnode
from minikafka.testing.simulator.cluster import PORT, SimCluster
from minikafka.world.memory.znode_tree import Author

PATH = paths.broker_id(1)
THEIRS = BrokerZnode(1, (Endpoint("other", 7777, "PLAINTEXT", "PLAINTEXT"),), 0)
NEW_PORT = 9095
SESSION_MS = 6_000
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_MS)}


async def registered_by_another(cluster: SimCluster) -> None:
    """Start broker 1, for whose id there is a znode of another broker, and wait until it waits."""
    tree = cluster.simulation.zookeeper.tree
    cluster.start(2)
    await cluster.until("2 is up", lambda: 2 in cluster.nodes())
    assert tree.apply([CreateOp(PATH, THEIRS.encode())], Author(0), 0).error is None
    cluster.start(1)
    await asyncio.sleep(SESSION_MS / 1_000)
    assert cluster.is_alive(1)
    assert 1 not in cluster.nodes()


def test_the_znode_of_another_broker_is_left_alone() -> None:
    """Otherwise clients and brokers would be sent to a broker that never starts."""

    async def play(cluster: SimCluster) -> None:
        await registered_by_another(cluster)
        assert cluster.simulation.zookeeper.tree.get(PATH)[0] == THEIRS.encode()
        end = await cluster.end_of(1)
        assert isinstance(end, ConfigError)
        assert str(end).startswith("another broker is registered with broker.id 1: stop it")
        assert cluster.simulation.zookeeper.tree.get(PATH)[0] == THEIRS.encode()

    SimCluster(1, (1, 2), SETTINGS).run(play)


def test_listeners_that_change_before_the_registration_are_in_it() -> None:
    async def play(cluster: SimCluster) -> None:
        tree = cluster.simulation.zookeeper.tree
        await registered_by_another(cluster)
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NEW:PLAINTEXT",
            "listeners": f"PLAINTEXT://:{PORT},NEW://:{NEW_PORT}",
        }
        store = cluster.nodes()[2]._zk.store
        await store.change_entity_config("brokers", "1", settings)
        await asyncio.sleep(1)
        assert tree.get(PATH)[0] == THEIRS.encode()
        assert tree.apply([DeleteOp(PATH)], Author(0), 0).error is None
        await cluster.until("1 is up", lambda: 1 in cluster.nodes())
        found = BrokerZnode.decode(1, tree.get(PATH)[0]).endpoints
        assert {each.listener: each.port for each in found} == {
            "PLAINTEXT": PORT,
            "NEW": NEW_PORT,
        }

    SimCluster(2, (1, 2), SETTINGS).run(play)
