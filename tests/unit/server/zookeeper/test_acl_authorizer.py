"""The built-in authorizer on the simulated znode tree: two brokers, conflicts, sessions, audit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from minikafka.core.security.acl_cache import AclRules
from minikafka.core.security.acls import (
    CLUSTER,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.core.security.authorizer import AclAction, Requester
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CreateOp
from minikafka.kernel.principals import Principal
from minikafka.server.zookeeper.acl_authorizer import ATTEMPTS, AclAuthorizer
from minikafka.server.zookeeper.notice_follower import NOTICE_LIFETIME_MS
from minikafka.server.zookeeper.store import ZkStore
from minikafka.world.sim.entropy import SimEntropy
from tests.support.world.manual_clock import StoppedClock
from tests.support.world.recording_log import RecordingLog
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
EVE = Requester(Principal("eve"), "127.0.0.1", "Metadata", 12, "PLAINTEXT", "c")
TP1 = ResourcePattern(AclResourceType.TOPIC, "tp1")
PREFIX = ResourcePattern(AclResourceType.TOPIC, "tp", PatternType.PREFIXED)
EVERYTHING = AclFilter(
    PatternFilter(AclResourceType.ANY, None, PatternType.ANY),
    EntryFilter(None, None, AclOperation.ANY, PermissionType.ANY),
)


class ImpatientClock(StoppedClock):
    """A clock on which pauses end after some hundred turns of the loop. Its wall is that of
    ``DirectZookeeper``."""

    def wall_ms(self) -> int:
        return self.now_ms

    async def sleep(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        for _ in range(5 * delay_ms):
            await asyncio.sleep(0)


class Broker:
    """The authorizer of one broker, with its session and its log."""

    def __init__(self, zookeeper: DirectZookeeper, number: int, rules: AclRules) -> None:
        self.zookeeper = zookeeper
        self.clock = ImpatientClock()
        self.log = RecordingLog()
        self._store: ZkStore | None = None
        self.authorizer = AclAuthorizer(
            lambda: self.store, self.clock, SimEntropy(number), number, rules, self.log
        )

    @property
    def store(self) -> ZkStore:
        assert self._store is not None
        return self._store

    async def connect(self) -> None:
        self._store = ZkStore(await self.zookeeper.open("", 0, 0))

    def may(self, operation: AclOperation, name: str = "tp1") -> bool:
        resource = ResourcePattern(AclResourceType.TOPIC, name)
        return self.authorizer.authorize(EVE, [AclAction(operation, resource)]) == [True]

    def audit(self) -> list[tuple[str, str]]:
        return [(level, str(f["audit"])) for level, _, f in self.log.events if "audit" in f]


Make = Callable[..., Awaitable[Broker]]


@pytest.fixture
async def brokers(zookeeper: DirectZookeeper) -> AsyncIterator[Make]:
    made: list[Broker] = []
    async with asyncio.TaskGroup() as tasks:

        async def make(rules: AclRules | None = None) -> Broker:
            broker = Broker(zookeeper, len(made) + 1, rules or AclRules())
            await broker.connect()
            await broker.authorizer.start(tasks)
            made.append(broker)
            return broker

        yield make
        for broker in made:
            await broker.authorizer.stop()


def allow(operation: AclOperation, principal: str = "User:eve", host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, PermissionType.ALLOW)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not become so")


def stored(zookeeper: DirectZookeeper, path: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(zookeeper.nodes[path].data)["acls"]
    return rows


@pytest.mark.mission("SEC-130")
async def test_an_acl_made_on_one_broker_is_effective_on_the_others(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    first, second = await brokers(), await brokers()
    assert {f"/kafka-acl/{kind}" for kind in ("Topic", "TransactionalId", "User")} <= set(
        zookeeper.nodes
    )
    bindings = [AclBinding(TP1, allow(READ)), AclBinding(PREFIX, allow(WRITE))]
    assert await first.authorizer.create_acls(EVE, bindings) == [None, None]
    assert first.may(READ)
    assert first.may(WRITE, "tp2")
    await until(lambda: second.may(READ) and second.may(WRITE, "tp2"))
    assert zookeeper.nodes["/kafka-acl-changes/acl_changes_0000000000"].data == b"TOPIC:tp1"
    assert stored(zookeeper, "/kafka-acl/Topic/tp1") == [
        {"principal": "User:eve", "permissionType": "Allow", "host": "*", "operation": "Read"}
    ]
    (result,) = await second.authorizer.delete_acls(EVE, [EVERYTHING])
    assert result.bindings == dict.fromkeys(bindings)
    assert "/kafka-acl/Topic/tp1" not in zookeeper.nodes
    await until(lambda: not first.may(READ) and not first.may(WRITE, "tp2"))


@pytest.mark.mission("SEC-130")
async def test_an_acl_written_by_hand_with_a_notice_is_effective(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    broker = await brokers()
    text = (
        b'{"version":1,"acls":[{"principal":"User:eve","permissionType":"Allow","host":"*",'
        b'"operation":"Read"}]}'
    )
    other = await zookeeper.open("", 0, 0)
    await other.multi([CreateOp("/kafka-acl/Topic/tp1", text)])
    assert not broker.may(READ), "without a notice it is not read"
    notice = CreateOp("/kafka-acl-changes/acl_changes_", b"TOPIC:tp1", sequential=True)
    await other.multi([notice])
    await until(lambda: broker.may(READ))
    garbled = CreateOp("/kafka-acl-changes/acl_changes_", b"\xff", sequential=True)
    await other.multi([garbled, notice])
    await until(lambda: len(broker.authorizer._changes._taken) == 3)
    assert broker.may(READ)


@pytest.mark.mission("SEC-139")
async def test_two_brokers_that_write_one_resource_at_once_lose_nothing(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    first, second = await brokers(), await brokers()

    def has_all(broker: Broker) -> bool:
        return len(broker.authorizer.acls(EVERYTHING, TP1)) == 40

    async def create(broker: Broker, number: int) -> None:
        entry = allow(READ, f"User:u{number}")
        assert await broker.authorizer.create_acls(EVE, [AclBinding(TP1, entry)]) == [None]

    both = (first, second)
    await asyncio.gather(*(create(both[number % 2], number) for number in range(40)))
    rows = stored(zookeeper, "/kafka-acl/Topic/tp1")
    assert {row["principal"] for row in rows} == {f"User:u{number}" for number in range(40)}
    for broker in both:
        await until(partial(has_all, broker))


async def test_after_eleven_conflicts_the_change_is_given_up(
    zookeeper: DirectZookeeper, brokers: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await brokers()
    other = await brokers()
    attempts = 0
    change = ZkStore.change_acls

    async def overtaken(self: ZkStore, *arguments: object) -> object:
        nonlocal attempts
        if self is broker.store:
            attempts += 1
            entry = allow(READ, f"User:o{attempts}")
            await other.authorizer.create_acls(EVE, [AclBinding(TP1, entry)])
        return await change(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ZkStore, "change_acls", overtaken)
    (error,) = await broker.authorizer.create_acls(EVE, [AclBinding(TP1, allow(WRITE))])
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert attempts == ATTEMPTS
    assert len(stored(zookeeper, "/kafka-acl/Topic/tp1")) == ATTEMPTS
    assert not broker.may(WRITE)


async def test_no_notice_is_left_if_nothing_changes(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    broker = await brokers()
    binding = AclBinding(TP1, allow(READ))
    for _ in range(2):
        assert await broker.authorizer.create_acls(EVE, [binding]) == [None]
    assert zookeeper.nodes["/kafka-acl/Topic/tp1"].version == 1, "it is written again, as in Kafka"
    (nothing,) = await broker.authorizer.delete_acls(
        EVE,
        [
            AclFilter(
                PatternFilter(AclResourceType.TOPIC, "none", PatternType.LITERAL), EVERYTHING.entry
            )
        ],
    )
    assert nothing.bindings == {}
    assert len(zookeeper.tree.children("/kafka-acl-changes")) == 1


@pytest.mark.mission("SEC-129")
async def test_an_entry_is_deleted_by_the_first_filter_that_selects_it(
    brokers: Make,
) -> None:
    broker = await brokers()
    bindings = [AclBinding(TP1, allow(READ)), AclBinding(TP1, allow(WRITE))]
    await broker.authorizer.create_acls(EVE, bindings)
    reads = AclFilter(EVERYTHING.pattern, EntryFilter(None, None, READ, PermissionType.ANY))
    results = await broker.authorizer.delete_acls(EVE, [reads, EVERYTHING, reads])
    assert [list(result.bindings) for result in results] == [[bindings[0]], [bindings[1]], []]


@pytest.mark.mission("SEC-129")
async def test_bindings_that_cannot_be_stored_are_refused(brokers: Make) -> None:
    broker = await brokers()
    results = await broker.authorizer.create_acls(
        EVE,
        [
            AclBinding(ResourcePattern(AclResourceType.GROUP, "a/b"), allow(READ)),
            AclBinding(TP1, allow(READ, "eve")),
            AclBinding(TP1, allow(READ)),
        ],
    )
    assert [None if error is None else (error.code, error.message) for error in results] == [
        (ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, None),
        None,
    ]


@pytest.mark.mission("SEC-140")
async def test_all_is_read_again_in_a_new_session(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    first, second = await brokers(), await brokers()
    await second.authorizer.create_acls(EVE, [AclBinding(TP1, allow(READ))])
    await until(lambda: first.may(READ))
    session = first.store.session
    assert isinstance(session, DirectSession)
    zookeeper.expire(session)
    await second.authorizer.delete_acls(EVE, [EVERYTHING])
    await second.authorizer.create_acls(EVE, [AclBinding(PREFIX, allow(WRITE))])
    for name in list(zookeeper.tree.children("/kafka-acl-changes")):  # purged meanwhile
        zookeeper.delete(f"/kafka-acl-changes/{name}")
    assert first.may(READ), "without a session it decides by what it knows"
    await first.connect()
    await first.authorizer.on_new_session(first.store)
    await until(lambda: not first.may(READ) and first.may(WRITE))


async def test_old_notices_are_deleted(zookeeper: DirectZookeeper, brokers: Make) -> None:
    broker = await brokers()
    await broker.authorizer.create_acls(EVE, [AclBinding(TP1, allow(READ))])
    await until(lambda: len(broker.authorizer._changes._taken) == 1)
    broker.clock.now_ms += NOTICE_LIFETIME_MS * 1000  # far beyond the znode's time
    await broker.authorizer.create_acls(EVE, [AclBinding(TP1, allow(WRITE))])
    await until(lambda: zookeeper.tree.children("/kafka-acl-changes") == [])


async def test_garbage_stops_the_start_and_later_changes_nothing(
    zookeeper: DirectZookeeper, brokers: Make
) -> None:
    broker = await brokers()
    await broker.authorizer.create_acls(EVE, [AclBinding(TP1, allow(READ))])
    zookeeper.set("/kafka-acl/Topic/tp1", b"garbage")
    await broker.authorizer.refresh([TP1])
    assert broker.may(READ)
    await broker.authorizer.refresh_all(is_start=False)
    assert broker.may(READ)
    with pytest.raises(ConfigError, match="Topic:LITERAL:tp1"):
        await brokers()


# -------------------------------------------------------------------------------------- audit log

DENIED = (
    "Principal = User:eve is Denied Operation = Describe from host = 127.0.0.1 on resource = "
    "Topic:LITERAL:tp1 for request = Metadata with resourceRefCount = 1"
)


def at(level: str, broker: Broker, action: AclAction) -> list[tuple[str, str]]:
    """Return the lines of the audit log that the action writes if the logger has this level."""
    before = events.logger_levels()
    broker.log.events.clear()
    events.set_logger_levels(events.LoggerLevels(level))
    try:
        broker.authorizer.authorize(EVE, [action])
    finally:
        events.set_logger_levels(before)
    return broker.audit()


@pytest.mark.mission("SEC-141")
async def test_the_audit_log_has_kafkas_lines(brokers: Make) -> None:
    broker = await brokers(AclRules(frozenset({"User:root"})))
    describe = AclAction(DESCRIBE, TP1)
    silent = describe._replace(log_if_denied=False, log_if_allowed=False)
    assert at("INFO", broker, describe) == [("info", DENIED)]
    assert at("INFO", broker, silent) == []
    assert at("DEBUG", broker, silent)[1:] == []
    assert at("TRACE", broker, silent)[1:] == [("debug", DENIED)]
    assert "No acl found for resource Topic:LITERAL:tp1" in at("DEBUG", broker, describe)[0][1]
    await broker.authorizer.create_acls(EVE, [AclBinding(TP1, allow(READ))])
    assert at("INFO", broker, describe) == []
    assert at("DEBUG", broker, describe) == [
        (
            "debug",
            (
                "operation = DESCRIBE on resource = Topic:LITERAL:tp1 from host = 127.0.0.1 is "
                "ALLOW based on acl = User:eve has ALLOW permission for operations: READ from "
                "hosts: *"
            ),
        ),
        ("debug", DENIED.replace("Denied", "Allowed")),
    ]
    assert len(at("DEBUG", broker, silent)) == 1
    broker.log.events.clear()
    assert not broker.authorizer.authorize_by_type(EVE, WRITE, AclResourceType.TOPIC)
    ((level, line),) = broker.audit()[-1:]
    assert level == "info"
    assert "on resource = Topic:UNKNOWN:NONE" in line
    assert line.endswith("resourceRefCount = 0")


@pytest.mark.mission("SEC-141")
async def test_a_line_cannot_be_forged_and_is_cut(brokers: Make) -> None:
    broker = await brokers()
    name = "x\n2026 [info ] forged" + "y" * 40_000
    broker.may(READ, name)
    (facts,) = [facts for _, event, facts in broker.log.events if event == "operation_denied"]
    assert len(str(facts["audit"])) < 1_100
    line = events.plain_line(None, "", {"timestamp": "t", "level": "l", "event": "e", **facts})
    assert "\n" not in line
    assert facts["client"] == "127.0.0.1", "the log bounds the lines of each client"


async def test_a_super_user_may_everything(brokers: Make) -> None:
    broker = await brokers(AclRules(frozenset({"User:root", "User:CN=a,O=b"})))
    deny = AclEntry("User:*", "*", AclOperation.ALL, PermissionType.DENY)
    await broker.authorizer.create_acls(EVE, [AclBinding(TP1, deny)])
    for name in ("root", "CN=a,O=b"):
        root = EVE._replace(principal=Principal(name))
        actions = [AclAction(READ, TP1), AclAction(AclOperation.CLUSTER_ACTION, CLUSTER)]
        assert broker.authorizer.authorize(root, actions) == [True, True]
        assert broker.authorizer.authorize_by_type(root, WRITE, AclResourceType.TOPIC)
    assert not broker.authorizer.authorize_by_type(EVE, WRITE, AclResourceType.TOPIC)
