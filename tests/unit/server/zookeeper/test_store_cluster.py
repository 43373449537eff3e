"""Brokers, ids, producer ids, configuration; requests over lost connections."""

from __future__ import annotations

import asyncio
import json

import pytest

from minikafka.kernel.cluster import Broker, Endpoint
from minikafka.kernel.features import Levels
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationError,
    CreateOp,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    SetOp,
    TooLarge,
    WatchEvent,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import (
    MAX_MULTI_BYTES,
    NEVER_TAKEN_BYTES,
    batches,
    in_chunks,
)
from minikafka.server.zookeeper.store import MalformedZnode, ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode, TopicZnode
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper


def node(broker_id: int, port: int = 9092) -> BrokerZnode:
    return BrokerZnode(broker_id, (Endpoint("h", port),), 5, f"rack{broker_id}")


async def test_top_level_paths(zookeeper: DirectZookeeper, store: ZkStore) -> None:
    assert set(paths.PERSISTENT_PATHS) <= set(zookeeper.nodes)
    entity_types = {path for path in zookeeper.nodes if path.startswith("/config/")}
    assert entity_types == {
        # Not client-metrics: the first resource creates it.
        *("/config/brokers", "/config/changes", "/config/clients", "/config/ips"),
        *("/config/topics", "/config/users"),
    }
    await store.create_persistent_paths()
    assert zookeeper.multis == []  # nothing to do


async def test_the_cluster_id_is_made_once(zookeeper: DirectZookeeper, store: ZkStore) -> None:
    assert await store.cluster_id() is None
    assert await store.get_or_create_cluster_id("first") == "first"
    assert await store.get_or_create_cluster_id("second") == "first"
    assert zookeeper.nodes["/cluster/id"].data == b'{"version":"1","id":"first"}'


async def test_brokers_register_with_their_czxid_as_epoch(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    seen: list[WatchEvent] = []
    assert await store.brokers(seen.append) == {}
    epoch = await store.register_broker(node(10))
    assert zookeeper.nodes["/brokers/ids/10"].czxid == epoch
    other = ZkStore(await zookeeper.open("", 0, 0))
    await other.register_broker(node(9))
    assert len(seen) == 1
    changed: list[WatchEvent] = []
    brokers = await store.brokers(None, changed.append)
    assert list(brokers) == [9, 10]
    assert brokers[10] == Broker(10, (Endpoint("h", 9092),), "rack10", epoch)
    assert await store.broker(10) == brokers[10]
    assert await store.broker(11) is None
    await store.update_broker(node(10, 9999))
    await asyncio.sleep(0)
    assert [e.path for e in changed] == ["/brokers/ids/10"]
    assert (await store.brokers())[10].epoch == epoch
    await store.unregister_broker(10)
    await store.unregister_broker(10)
    assert await store.broker_ids() == [9]
    stat = await store.broker_stat(9)
    assert stat is not None
    assert stat.ephemeral_owner == other.session.session_id


async def test_an_id_in_use_is_refused(zookeeper: DirectZookeeper, store: ZkStore) -> None:
    await store.register_broker(node(1))
    twin = ZkStore(await zookeeper.open("", 0, 0))
    with pytest.raises(NodeExists, match="/brokers/ids/1"):
        await twin.register_broker(node(1))


@pytest.mark.mission("GONE-3")
async def test_a_registration_is_removed_only_as_it_was_read(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    """Refused connections to its old endpoints say nothing about a broker that has others now."""
    other = ZkStore(await zookeeper.open("", 0, 0))
    await other.register_broker(node(9))
    old = await store.registration(9)
    await other.update_broker(node(9, 9999))
    new = await store.registration(9)
    assert old is not None
    assert new is not None
    assert not await store.remove_registration(old)
    assert await store.registration(9) == new
    assert await store.remove_registration(new)
    assert await store.registration(9) is None
    await other.register_broker(node(9, 9999))
    assert not await store.remove_registration(new)


async def test_a_registration_of_a_former_session_is_replaced(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    old = await store.register_broker(node(1))
    reborn = ZkStore(await zookeeper.open("", 0, 0), {store.session.session_id})
    assert await reborn.register_broker(node(1)) > old
    owner = zookeeper.nodes["/brokers/ids/1"].ephemeral_owner
    assert owner == reborn.session.session_id


async def test_a_registration_with_a_lost_response_succeeds(
    session: DirectSession, store: ZkStore
) -> None:
    session.lose_answers = 2
    epoch = await store.register_broker(node(1))
    assert await store.register_broker(node(1)) == epoch


async def test_a_broken_broker_is_an_error(session: DirectSession, store: ZkStore) -> None:
    await session.create("/brokers/ids/1", b"rubbish")
    with pytest.raises(MalformedZnode):
        await store.brokers()


async def test_generated_broker_ids_start_above_the_reserved(session: DirectSession) -> None:
    store = ZkStore(session)
    assert [await store.generate_broker_id() for _ in range(2)] == [1001, 1002]
    assert await store.generate_broker_id(5) == 8


async def test_producer_ids_are_given_out_in_blocks(
    zookeeper: DirectZookeeper, session: DirectSession, store: ZkStore
) -> None:
    assert await store.allocate_producer_ids(1) == range(1000)
    taken = b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}'
    session.before_multis = [zookeeper.another_client(SetOp(paths.PRODUCER_ID_BLOCK, taken))]
    assert await store.allocate_producer_ids(1) == range(2000, 3000)
    session.lose_answers = 1
    assert await store.allocate_producer_ids(1) == range(3000, 4000)
    await session.delete(paths.PRODUCER_ID_BLOCK)
    assert await store.allocate_producer_ids(1) == range(1000)
    last = b'{"version":1,"broker":2,"block_start":"0","block_end":"9223372036854775000"}'
    await session.set(paths.PRODUCER_ID_BLOCK, last)
    with pytest.raises(OverflowError):
        await store.allocate_producer_ids(1)


async def test_the_feature_node(zookeeper: DirectZookeeper, store: ZkStore) -> None:
    assert not await store.has_feature_znode()
    await store.set_feature_znode(LATEST, {"group.version": 1})
    assert await store.has_feature_znode()
    created = b'{"features":{"group.version":{"max_version_level":1}},"version":2,"status":1}'
    assert zookeeper.nodes["/feature"].data == created
    await store.set_feature_znode(LATEST, {"group.version": 2})
    assert zookeeper.nodes["/feature"].data == created


@pytest.mark.mission("MIX-14")
async def test_the_feature_node_follows_the_inter_broker_protocol(
    zookeeper: DirectZookeeper, store: ZkStore, session: DirectSession
) -> None:
    async def after(version: str) -> bytes:
        await store.set_feature_znode(InterBrokerProtocol.parse(version), {"first": 1})
        return zookeeper.nodes["/feature"].data

    assert await after("2.6") == b'{"features":{},"version":1,"status":0}'
    assert await after("2.7") == b'{"features":{},"version":1,"status":1}'
    levels = {"max_version_level": 2, "min_version_level": 2}
    finalized = json.dumps({"features": {"f": levels}, "version": 1, "status": 1}).encode()
    await session.set("/feature", finalized)
    assert json.loads(await after("3.2")) == json.loads(finalized)
    raised = {"features": {"f": {"max_version_level": 2}}, "version": 2, "status": 1}
    assert json.loads(await after("3.3")) == raised
    assert json.loads(await after("3.2")) == json.loads(finalized)
    assert await after("2.6") == b'{"features":{},"version":1,"status":0}'
    kept = zookeeper.nodes["/feature"]
    await after("2.0")
    assert zookeeper.nodes["/feature"] is kept
    await session.set("/feature", b"?")
    assert await after("3.9") == b'{"features":{},"version":2,"status":1}'


async def test_the_features_of_registered_brokers(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    assert await store.broker_features() == []
    endpoints = (Endpoint("h", 9092),)
    await store.register_broker(BrokerZnode(1, endpoints, 5))
    await store.register_broker(BrokerZnode(2, endpoints, 5, features={"f": Levels(1, 4)}))
    await store.register_broker(BrokerZnode(3, endpoints, 5))
    zookeeper.set("/brokers/ids/3", b"?")
    assert await store.broker_features() == [{}, {"f": Levels(1, 4)}, {}]


async def test_configuration(session: DirectSession) -> None:
    store = ZkStore(session)
    assert await store.entity_config("brokers", "1") == {}
    await store.set_entity_config("brokers", "1", {"a": "1"})
    await store.set_entity_config("brokers", "1", {"b": "2"})
    await store.set_entity_config("brokers", paths.DEFAULT_ENTITY, {"c": "3"})
    assert await store.entity_configs("brokers", ["1", "2", "<default>"]) == {
        "1": {"b": "2"},
        "2": {},
        "<default>": {"c": "3"},
    }
    assert await store.configured_entities("brokers") == ["1", "<default>"]
    assert await store.topic_configs(["t"]) == {"t": {}}


async def test_configuration_changes_are_announced(store: ZkStore) -> None:
    seen: list[WatchEvent] = []
    assert await store.config_changes(seen.append) == []
    await store.change_entity_config("topics", "a", {"k": "1"})
    await store.change_entity_config("brokers", "1", {})
    assert len(seen) == 1
    assert await store.entity_config("topics", "a") == {"k": "1"}
    names = await store.config_changes()
    assert names == ["config_change_0000000000", "config_change_0000000001"]
    await store.session.multi([CreateOp("/config/changes/config_change_x", b"{")])
    names = await store.config_changes()
    notices = await store.config_change_notices([*names, "config_change_gone"])
    assert [n.entity_path for n in notices] == ["topics/a", "brokers/1", None]
    await store.delete_config_changes([*names, "config_change_gone"])
    assert await store.config_changes() == []


async def test_too_large_writes_are_not_sent(session: DirectSession, store: ZkStore) -> None:
    """Kazoo would be busy with it until the session is over."""
    session.lose_requests = 1
    with pytest.raises(TooLarge, match="/config/topics/a"):
        await store.change_entity_config("topics", "a", {"k": "x" * NEVER_TAKEN_BYTES})
    assert session.lose_requests == 1
    await store.change_entity_config("topics", "a", {"k": "x" * (NEVER_TAKEN_BYTES // 2)})
    assert len((await store.entity_config("topics", "a"))["k"]) == NEVER_TAKEN_BYTES // 2


async def test_configuration_is_changed_as_it_was_read_or_not_at_all(store: ZkStore) -> None:
    assert await store.entity_config_version("topics", "a") == ({}, -1)
    await store.change_entity_config("topics", "a", {"k": "1"}, expected_version=-1)
    assert await store.entity_config_version("topics", "a") == ({"k": "1"}, 0)
    with pytest.raises(BadVersion):
        await store.change_entity_config("topics", "a", {"k": "2"}, expected_version=-1)
    await store.change_entity_config("topics", "a", {"k": "2"}, expected_version=0)
    for stale in (0, 7):
        with pytest.raises(BadVersion):
            await store.change_entity_config("topics", "a", {"k": "3"}, expected_version=stale)
    with pytest.raises(BadVersion):
        await store.change_entity_config("topics", "gone", {}, expected_version=0)
    await store.change_entity_config("topics", "a", {"k": "4"})
    assert await store.entity_config("topics", "a") == {"k": "4"}
    assert len(await store.config_changes()) == 3, "what was refused was announced"


# --------------------------------------------------------------------------------- requests


async def test_requests_wait_while_the_session_is_suspended(
    session: DirectSession, store: ZkStore
) -> None:
    session.change(SessionState.SUSPENDED)
    reading = asyncio.ensure_future(store.topics())
    writing = asyncio.ensure_future(store.register_broker(node(1)))
    await asyncio.sleep(0.01)
    assert not reading.done()
    assert not writing.done()
    session.change(SessionState.CONNECTED)
    assert await reading == []
    assert await writing == session.zookeeper.zxid


async def test_requests_end_with_the_session(
    zookeeper: DirectZookeeper, session: DirectSession, store: ZkStore
) -> None:
    session.change(SessionState.SUSPENDED)
    waiting = asyncio.ensure_future(store.topics())
    await asyncio.sleep(0.01)
    zookeeper.expire(session)
    with pytest.raises(SessionExpired):
        await waiting
    with pytest.raises(SessionExpired):
        await store.topics()


def test_batches_keep_both_bounds() -> None:
    small = [CreateOp(f"/{n}", b"") for n in range(1200)]
    sizes = [sum(len(group) for group in batch) for batch in batches([[op] for op in small])]
    assert sizes == [500, 500, 200]
    big = [[CreateOp("/a", bytes(MAX_MULTI_BYTES // 2 - 100))] for _ in range(5)]
    assert [len(batch) for batch in batches(big)] == [2, 2, 1]
    pairs = [[CreateOp("/a", b""), CreateOp("/b", b"")]] * 300
    assert [len(batch) for batch in batches(pairs)] == [250, 50]
    huge = [[CreateOp("/a", bytes(2 * MAX_MULTI_BYTES))]]
    assert batches(huge) == [huge]


async def test_an_error_among_many_calls_is_raised_when_all_have_ended() -> None:
    ended = []

    async def call(number: int) -> int:
        await asyncio.sleep(0)
        ended.append(number)
        if number == 1:
            raise NoNode("/x")
        return number

    with pytest.raises(CoordinationError):
        await in_chunks([lambda n=n: call(n) for n in range(4)])  # type: ignore[misc]
    assert ended == [0, 1, 2, 3]


async def test_the_last_setting_is_removed_where_the_notices_have_no_parent(
    session: DirectSession, store: ZkStore
) -> None:
    await store.change_entity_config("users", "u", {"k": "1"})
    for name in await store.config_changes():
        await session.delete(f"/config/changes/{name}")
    await session.delete("/config/changes")
    _, version = await store.entity_config_version("users", "u")
    await store.change_or_remove_entity("users", "u", {}, version)
    assert await store.entity_config_version("users", "u") == ({}, -1)
    assert len(await store.config_changes()) == 1


async def test_a_large_write_is_given_up_when_the_server_hangs_up_on_it(
    session: DirectSession, store: ZkStore
) -> None:
    """A server with the default ``jute.maxbuffer`` takes 1 MB and never says why it hangs up."""
    session.lose_requests = 1_000
    with pytest.raises(TooLarge, match="/config/topics/a"):
        await store.change_entity_config("topics", "a", {"k": "x" * 1_500_000})
    assert session.lose_requests > 900
    session.lose_requests = 20
    await store.change_entity_config("topics", "a", {"k": "small"})
    assert await store.entity_config("topics", "a") == {"k": "small"}


BAD_NUMBERS = ["1_0", "01", "00", "-1", "+1", " 1", "1.0", "x", "2147483648", "9" * 5_000, "\u0661"]


@pytest.mark.parametrize("name", BAD_NUMBERS)
async def test_a_broker_znode_without_a_plain_number_is_no_broker(
    name: str, store: ZkStore
) -> None:
    await store.register_broker(node(10))
    await store.session.multi([CreateOp(f"/brokers/ids/{name}", node(1).encode())])
    assert await store.broker_ids() == [10]
    assert list(await store.brokers()) == [10]


@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_a_partition_that_is_not_a_plain_number_is_refused(name: str) -> None:
    data = f'{{"version":1,"partitions":{{"0":[1],"{name}":[1]}}}}'.encode()
    with pytest.raises(MalformedZnode, match="a partition is not a number"):
        TopicZnode.decode("t", data)
    assert paths.partition_of_state(f"/brokers/topics/t/partitions/{name}/state") is None


def test_plain_numbers_are_ids() -> None:
    names = ["0", "7", "10", "2147483647"]
    assert [paths.number_of(name) for name in names] == [0, 7, 10, 2**31 - 1]
