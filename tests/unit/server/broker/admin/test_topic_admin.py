"""Creating and deleting topics: checks, the write to ZooKeeper, the wait for the metadata cache."""

import asyncio
from typing import Any

import pytest

from minikafka.core.controller.placement import assign_replicas
from minikafka.core.purgatory import Purgatory
from minikafka.kernel.cluster import NO_LEADER, ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import ConnectionLost, SessionExpired
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.server.broker.admin import topics
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.admin.topics import TopicAdmin, TopicAdminConfig
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics.create_topics import CreateTopicsHandler
from minikafka.server.broker.apis.topics.delete_topics import DeleteTopicsHandler
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.zookeeper.store import ZkStore
from minikafka.world.sim.entropy import SimEntropy
from tests.support.broker.cluster_metadata import (
    cache_with,
    deletion,
    partition_state,
    topic_id,
    update,
)
from tests.support.world.manual_clock import ManualClock
from tests.support.zookeeper.direct import DirectZookeeper

MOST_PARTITIONS = 50


class Admin:
    """The controller's broker: handlers on a store in a dict."""

    def __init__(self, store: Any, **flags: Any) -> None:
        self.store = store
        self.clock = ManualClock()
        self.cache = cache_with(update({"old": [partition_state(0, 1), partition_state(1, 2)]}))
        self.is_controller = True
        config = BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "log.segment.bytes": "1000"})
        entries = ConfigEntries(DynamicBrokerConfig(config), BROKER_CONFIG, TOPIC_CONFIG)
        self.admin = TopicAdmin(
            lambda: self.store,
            self.cache,
            Reaper(self.clock, Purgatory("topic"), "topic"),
            SimEntropy("test"),
            TopicAdminConfig(
                num_partitions=2,
                default_replication_factor=3,
                max_partitions_per_topic=MOST_PARTITIONS,
            ),
            entries.check_topic,
        )
        self.create_handler = CreateTopicsHandler(lambda: self.is_controller, self.admin, entries)
        self.delete_handler = DeleteTopicsHandler(
            lambda: self.is_controller, self.admin, self.cache, **flags
        )

    async def create(self, *topics: CreatableTopic, version: int = 7, **fields: Any) -> Any:
        request = CreateTopicsRequest(topics=list(topics), **fields)
        request = decode(CreateTopicsRequest, version, encode(request, version))
        context = RequestContext(RequestHeader(19, version, 1), "PLAINTEXT", "h")
        response = await self.create_handler(context, request)
        return decode(CreateTopicsResponse, version, encode(response, version)).topics

    async def delete(self, *names: Any, version: int = 6, timeout_ms: int = 1000) -> Any:
        request = DeleteTopicsRequest(timeout_ms=timeout_ms)
        if version >= 6:
            request.topics = [DeleteTopicState(n) if isinstance(n, str) else n for n in names]
        else:
            request.topic_names = list(names)
        request = decode(DeleteTopicsRequest, version, encode(request, version))
        context = RequestContext(RequestHeader(20, version, 1), "PLAINTEXT", "h")
        response = await self.delete_handler(context, request)
        return decode(DeleteTopicsResponse, version, encode(response, version)).responses

    def tell(self, request: Any) -> None:
        """An UpdateMetadata comes in."""
        self.cache.update(request)
        for state in request.topic_states:
            self.admin.topic_changed(state.topic_name)


def topic(name: str = "new", partitions: int = 1, factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name, partitions, factor, **fields)


def manual(*replicas: list[int], name: str = "new") -> CreatableTopic:
    rows = [CreatableReplicaAssignment(p, ids) for p, ids in enumerate(replicas)]
    return CreatableTopic(name, -1, -1, assignments=rows)


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def admin() -> Admin:
    store = ZkStore(await DirectZookeeper().open("", 0, 0))
    await store.create_persistent_paths()
    await store.create_topic("old", topic_id("old"), {0: [1], 1: [2]}, {})
    return Admin(store)


async def test_created_when_every_partition_has_a_leader(admin: Admin) -> None:
    creating = asyncio.ensure_future(admin.create(topic(partitions=2, factor=3)))
    await ticks()
    assignments = await admin.store.topic_assignments(["new"])
    written = assignments["new"]
    assert {p: len(r.replicas) for p, r in written.partitions.items()} == {0: 3, 1: 3}
    admin.tell(update({"new": [partition_state(0, 1), partition_state(1, NO_LEADER)]}))
    await ticks()
    assert not creating.done()
    admin.tell(update({"new": [partition_state(1, 2)]}))
    (result,) = await creating
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 3)
    assert result.topic_id == written.topic_id
    assert result.topic_id.version == 4
    segment = next(c for c in result.configs if c.name == "segment.bytes")
    assert (segment.value, segment.config_source, segment.read_only) == ("1000", 4, False)


async def test_time_runs_out_but_the_topic_is_there(admin: Admin) -> None:
    creating = asyncio.ensure_future(admin.create(topic(), timeout_ms=500))
    await ticks()
    admin.clock.advance(501)
    (result,) = await creating
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert await admin.store.topic_exists("new")


async def test_a_zero_timeout_does_not_wait(admin: Admin) -> None:
    (result,) = await admin.create(topic(), timeout_ms=0)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert await admin.store.topic_exists("new")


async def test_one_that_fails_does_not_hinder_the_others(admin: Admin) -> None:
    creating = asyncio.ensure_future(admin.create(topic("old"), topic("new")))
    await ticks()
    admin.tell(update({"new": [partition_state(0, 1)]}))
    assert [(r.name, r.error_code) for r in await creating] == [
        ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("new", 0),
    ]


async def test_validate_only_writes_nothing(admin: Admin) -> None:
    (result,) = await admin.create(topic(partitions=4), validate_only=True)
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 4, ZERO_UUID)
    assert not await admin.store.topic_exists("new")


async def test_minus_one_takes_the_defaults(admin: Admin) -> None:
    (result,) = await admin.create(CreatableTopic("new", -1, -1), validate_only=True)
    assert (result.num_partitions, result.replication_factor) == (2, 3)


@pytest.mark.mission("SAFE-32")
@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_topic_may_have_only_so_many_partitions(
    admin: Admin, validate_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of four bytes must not cost the work of two billion partitions."""

    def assign(brokers: Any, partitions: int, *others: Any, **options: Any) -> Any:
        assert partitions <= MOST_PARTITIONS, "replicas are assigned to too many partitions"
        return assign_replicas(brokers, partitions, *others, **options)

    monkeypatch.setattr(topics, "assign_replicas", assign)
    many = [[1]] * (MOST_PARTITIONS + 1)
    results = await admin.create(
        topic("huge", partitions=2**31 - 1),
        topic("large", partitions=MOST_PARTITIONS + 1),
        manual(*many, name="named"),
        topic("most", partitions=MOST_PARTITIONS),
        timeout_ms=0,
        validate_only=validate_only,
    )
    invalid = ErrorCode.INVALID_PARTITIONS
    done = ErrorCode.NONE if validate_only else ErrorCode.REQUEST_TIMED_OUT
    assert [result.error_code for result in results] == [invalid, invalid, invalid, done]
    assert "at most 50 partitions (max.partitions.per.topic)" in results[0].error_message
    assert await admin.store.topics() == (["old"] if validate_only else ["most", "old"])


async def test_manual_assignment(admin: Admin) -> None:
    creating = asyncio.ensure_future(admin.create(manual([2, 1], [3, 9])))  # 9 is unknown: fine
    await ticks()
    assignments = await admin.store.topic_assignments(["new"])
    replicas = [r.replicas for _, r in sorted(assignments["new"].partitions.items())]
    assert replicas == [(2, 1), (3, 9)]
    admin.clock.advance(60_001)
    await creating


async def test_configuration_is_stored(admin: Admin) -> None:
    settings = [CreatableTopicConfig("cleanup.policy", "compact")]
    await admin.create(topic(configs=settings), timeout_ms=0)
    assert await admin.store.topic_config("new") == {"cleanup.policy": "compact"}


async def test_ids_of_topics_never_begin_with_a_dash(admin: Admin) -> None:
    throws = [b"\xf8" * 16, b"\xfb" * 16, bytes(range(16))]

    class Dice(SimEntropy):
        def random_bytes(self, count: int) -> bytes:
            return throws.pop(0)

    admin.admin._entropy = Dice("test")
    assert admin.admin._new_topic_id().bytes[0] == 0


REFUSED = [
    (topic("old"), ErrorCode.TOPIC_ALREADY_EXISTS),
    (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (topic("x.y"), ErrorCode.INVALID_TOPIC_EXCEPTION),  # x_y exists
    (topic("going"), ErrorCode.TOPIC_ALREADY_EXISTS),  # marked for deletion
    (topic("hidden"), ErrorCode.TOPIC_ALREADY_EXISTS),  # in ZooKeeper, not in the cache yet
    (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
    (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    (topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (topic(factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
    (manual([1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (manual([1], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (manual([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (
        CreatableTopic("new", -1, -1, [CreatableReplicaAssignment(1, [1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    (
        CreatableTopic("new", 1, -1, [CreatableReplicaAssignment(0, [1])]),
        ErrorCode.INVALID_REQUEST,
    ),
    (topic(configs=[CreatableTopicConfig("no.such.key", "1")]), ErrorCode.INVALID_CONFIG),
    (topic(configs=[CreatableTopicConfig("segment.bytes", "x")]), ErrorCode.INVALID_CONFIG),
    (topic(configs=[CreatableTopicConfig("segment.bytes", None)]), ErrorCode.INVALID_CONFIG),
    (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("refused", "error"), REFUSED)
async def test_invalid_topic_creation_is_rejected(
    admin: Admin, refused: CreatableTopic, error: ErrorCode
) -> None:
    await admin.store.create_topic("x_y", None, {0: [1]}, {})
    await admin.store.create_topic("hidden", None, {0: [1]}, {})
    await admin.store.request_topic_deletion("going")
    before = await admin.store.topics()
    (result,) = await admin.create(refused)
    assert result.error_code == error
    assert result.error_message
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    assert await admin.store.topics() == before


@pytest.mark.mission("CFG-7")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("no.such.key", "1", "Unknown topic config name: no.such.key"),
        (
            "segment.bytes",
            "x",
            "Invalid value x for configuration segment.bytes: Not a number of type INT",
        ),
    ],
)
async def test_wrong_settings_of_a_new_topic_are_refused_with_kafkas_texts(
    admin: Admin, key: str, value: str, message: str
) -> None:
    wanted = topic(configs=[CreatableTopicConfig(key, value)])
    (result,) = await admin.create(wanted, validate_only=True)
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_CONFIG, message)


async def test_a_name_that_comes_twice_is_refused_twice(admin: Admin) -> None:
    results = await admin.create(topic("b"), topic("c"), topic("b"), validate_only=True)
    twice = ErrorCode.INVALID_REQUEST
    assert [r.error_code for r in results] == [twice, 0, twice]


async def test_no_broker_is_alive(admin: Admin) -> None:
    admin.tell(update(brokers=()))
    (result,) = await admin.create(topic())
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("version", range(8))
async def test_only_the_controller_creates(admin: Admin, version: int) -> None:
    admin.is_controller = False
    results = await admin.create(topic("a"), topic("b"), version=version)
    assert [r.error_code for r in results] == [ErrorCode.NOT_CONTROLLER] * 2
    admin.is_controller = True
    assert (await admin.create(topic("old"), version=version))[0].error_code == 36


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (SessionExpired(), ErrorCode.NOT_CONTROLLER),
        (ConnectionLost(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_zookeeper_fails(failure: Exception, error: ErrorCode) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            async def fail(*args: Any) -> None:
                raise failure

            return fail

    admin = Admin(Broken())
    assert (await admin.create(topic()))[0].error_code == error
    assert (await admin.delete("old"))[0].error_code == error


async def test_deleted_when_it_is_gone_from_the_cache(admin: Admin) -> None:
    deleting = asyncio.ensure_future(admin.delete("old"))
    again = asyncio.ensure_future(admin.delete("old"))  # under way already: waits too
    await ticks()
    assert await admin.store.topic_deletions() == ["old"]
    admin.tell(deletion("old", 1))
    await ticks()
    assert not deleting.done()
    admin.tell(deletion("old", 2))
    for pending in (deleting, again):
        assert [(r.name, r.error_code) for r in await pending] == [("old", 0)]


async def test_deletion_takes_too_long(admin: Admin) -> None:
    deleting = asyncio.ensure_future(admin.delete("old", timeout_ms=500))
    await ticks()
    admin.clock.advance(501)
    assert (await deleting)[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await admin.delete("old", timeout_ms=0))[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_deletion_by_id(admin: Admin) -> None:
    by_id = DeleteTopicState(None, topic_id("old"))
    unknown = DeleteTopicState(None, topic_id("other"))
    results = await admin.delete(by_id, unknown, "nope", timeout_ms=0)
    assert [(r.name, r.topic_id, r.error_code) for r in results] == [
        ("old", topic_id("old"), ErrorCode.REQUEST_TIMED_OUT),
        (None, topic_id("other"), ErrorCode.UNKNOWN_TOPIC_ID),
        ("nope", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (both,) = await admin.delete(DeleteTopicState("old", topic_id("old")))
    assert both.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(7))
async def test_only_the_controller_deletes(admin: Admin, version: int) -> None:
    admin.is_controller = False
    assert (await admin.delete("old", version=version))[0].error_code == ErrorCode.NOT_CONTROLLER
    assert await admin.store.topic_deletions() == []


@pytest.mark.parametrize("version", range(7))
async def test_deletion_switched_off(admin: Admin, version: int) -> None:
    off = Admin(admin.store, delete_topic_enable=False)
    expected = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
    assert (await off.delete("old", version=version))[0].error_code == expected
    assert await admin.store.topic_deletions() == []
