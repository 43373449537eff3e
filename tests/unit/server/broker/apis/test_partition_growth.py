"""CreatePartitions: what is refused, where new partitions go, what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.controller.placement import assign_replicas, broker_racks
from minikafka.core.purgatory import Purgatory
from minikafka.kernel.cluster import Broker, ReplicaAssignment
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import CoordinationError, SessionExpired
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from minikafka.server.broker.admin import partitions
from minikafka.server.broker.admin.partitions import PartitionGrowth, new_partitions
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics.create_partitions import CreatePartitionsHandler
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.zookeeper.store import ZkStore
from tests.support.broker.cluster_metadata import cache_with, live_broker, partition_state, update
from tests.support.world.manual_clock import ManualClock
from tests.support.zookeeper.direct import DirectZookeeper

ID = UUID(int=7)


class Lab:
    """Broker 1 of 1, 2, 3 is the controller; topic t has two partitions of two replicas."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.clock = ManualClock()
        self.cache = cache_with(
            update(
                {"t": [partition_state(0, 2), partition_state(1, 3)]},
                brokers=[live_broker(b) for b in (1, 2, 3)],
            )
        )
        self.is_controller = True
        self.reaper: Reaper[Any] = Reaper(self.clock, Purgatory("topic"), "topic")
        growth = PartitionGrowth(lambda: self.store, self.cache, self.reaper, 100)
        self.handler = CreatePartitionsHandler(lambda: self.is_controller, growth)

    async def grow(self, *topics: Any, version: int = 3, **fields: Any) -> list[Any]:
        """(name, count, assignments or nothing); (name, error, message) of each."""
        request = CreatePartitionsRequest([_topic(*topic) for topic in topics], **fields)
        request = decode(CreatePartitionsRequest, version, encode(request, version))
        context = RequestContext(RequestHeader(37, version, 1), "PLAINTEXT", "h")
        response = await self.handler(context, request)
        response = decode(CreatePartitionsResponse, version, encode(response, version))
        return [(r.name, ErrorCode(r.error_code), r.error_message) for r in response.results]

    async def replicas(self) -> dict[int, tuple[int, ...]]:
        found = (await self.store.topic_assignments(["t"]))["t"]
        assert found.topic_id == ID
        return {p: a.replicas for p, a in found.partitions.items()}


def _topic(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsTopic:
    told = None
    if assignments is not None:
        told = [CreatePartitionsAssignment(list(a)) for a in assignments]
    return CreatePartitionsTopic(name, count, told)


@pytest.fixture
async def lab() -> Lab:
    store = ZkStore(await DirectZookeeper().open("", 0, 0))
    await store.create_persistent_paths()
    await store.create_topic("t", ID, {0: (2, 3), 1: (3, 1)}, {})
    return Lab(store)


@pytest.mark.mission("CCB-8")
@pytest.mark.parametrize("version", range(4))
async def test_a_topic_grows_and_the_response_waits_for_the_leaders(lab: Lab, version: int) -> None:
    asking = asyncio.create_task(lab.grow(("t", 4), version=version, timeout_ms=1000))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asking.done()
    assert await lab.replicas() == {0: (2, 3), 1: (3, 1), 2: (1, 3), 3: (2, 3)}
    lab.cache.update(update({"t": [partition_state(p, 1) for p in (2, 3)]}))
    lab.reaper.check_and_complete("t")
    assert await asking == [("t", ErrorCode.NONE, None)]


@pytest.mark.mission("SAFE-32")
@pytest.mark.parametrize("count", [2**31 - 1, 101])
async def test_a_topic_grows_only_so_far(
    lab: Lab, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assign(brokers: Any, added: int, *others: Any, **options: Any) -> Any:
        assert added <= 98, "replicas are assigned to too many partitions"
        return assign_replicas(brokers, added, *others, **options)

    monkeypatch.setattr(partitions, "assign_replicas", assign)
    ((_, error, message),) = await lab.grow(("t", count), timeout_ms=0)
    assert error is ErrorCode.INVALID_PARTITIONS
    assert "at most 100 partitions" in str(message)
    assert len(await lab.replicas()) == 2
    ((_, error, _),) = await lab.grow(("t", 100), timeout_ms=0)
    assert error is ErrorCode.REQUEST_TIMED_OUT
    assert len(await lab.replicas()) == 100


async def test_leaders_that_do_not_come_in_time(lab: Lab) -> None:
    asking = asyncio.create_task(lab.grow(("t", 3), timeout_ms=1000))
    for _ in range(20):
        await asyncio.sleep(0)
    lab.clock.advance(1100)
    assert [error for _, error, _ in await asking] == [ErrorCode.REQUEST_TIMED_OUT]
    assert len(await lab.replicas()) == 3
    ((_, error, _),) = await lab.grow(("t", 4), timeout_ms=0)
    assert error is ErrorCode.REQUEST_TIMED_OUT
    assert len(await lab.replicas()) == 4


async def test_new_partitions_with_a_manual_assignment(lab: Lab) -> None:
    await lab.grow(("t", 4, [(3, 1), (1, 2)]), timeout_ms=0)
    assert await lab.replicas() == {0: (2, 3), 1: (3, 1), 2: (3, 1), 3: (1, 2)}


@pytest.mark.parametrize(
    ("count", "told", "error", "reason"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher",
        ),
        (-1, None, ErrorCode.INVALID_PARTITIONS, "higher than the requested -1."),
        (3, [(9, 1)], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker(s) in replica"),
        (4, [(1, 2)], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 2 but 1 assignments provided."),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 1 but 0 assignments provided."),
        (3, [()], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replication factor of 0 for partition"),
        (3, [(1, 1)], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate brokers not allowed"),
        (3, [(1, 2, 3)], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Inconsistent replication factor"),
    ],
)
async def test_invalid_partition_counts_and_assignments_are_rejected(
    lab: Lab, count: int, told: Any, error: ErrorCode, reason: str
) -> None:
    ((_, code, message),) = await lab.grow(("t", count, told), timeout_ms=0)
    assert code is error
    assert reason in message
    assert len(await lab.replicas()) == 2


async def test_each_topic_has_its_own_fate(lab: Lab) -> None:
    await lab.store.create_topic("going", ID, {0: (1,)}, {})
    await lab.store.request_topic_deletion("going")
    moving = ReplicaAssignment((1, 2), adding=(2,))
    await lab.store.create_topic("moving", ID, {0: (1,)}, {})
    await lab.store.set_topic_assignment("moving", ID, {0: moving})
    answers = await lab.grow(
        ("twice", 2), ("nope", 2), ("t", 3), ("twice", 2), ("going", 2), ("moving", 2)
    )
    assert [(name, error) for name, error, _ in answers] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", ErrorCode.REQUEST_TIMED_OUT),
        ("going", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("moving", ErrorCode.REASSIGNMENT_IN_PROGRESS),
    ]


async def test_only_validated_and_elsewhere_than_at_the_controller(lab: Lab) -> None:
    assert await lab.grow(("t", 5), validate_only=True) == [("t", ErrorCode.NONE, None)]
    ((_, error, _),) = await lab.grow(("t", 2), validate_only=True)
    assert error is ErrorCode.INVALID_PARTITIONS
    lab.is_controller = False
    answers = await lab.grow(("t", 5), ("u", 2))
    assert [(n, e) for n, e, _ in answers] == [
        ("t", ErrorCode.NOT_CONTROLLER),
        ("u", ErrorCode.NOT_CONTROLLER),
    ]
    assert len(await lab.replicas()) == 2


async def test_a_concurrent_write_of_the_controller_is_not_overwritten(lab: Lab) -> None:
    read = lab.store.topic_assignment_version
    times = 0

    async def read_then_somebody_writes(topic: str) -> Any:
        nonlocal times
        found = await read(topic)
        times += 1
        if times == 1:
            moving = ReplicaAssignment((2, 3, 1), adding=(1,))
            known = found[0].partitions
            await lab.store.set_topic_assignment("t", ID, {**known, 0: moving})
        return found

    lab.store.topic_assignment_version = read_then_somebody_writes
    ((_, error, _),) = await lab.grow(("t", 3), timeout_ms=0)
    assert error is ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert (await lab.replicas())[0] == (2, 3, 1)


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (SessionExpired(), ErrorCode.NOT_CONTROLLER),
        (CoordinationError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_zookeeper_away(lab: Lab, trouble: Exception, error: ErrorCode) -> None:
    async def away(_: str) -> Any:
        raise trouble

    lab.store.topic_assignment_version = away
    ((_, code, _),) = await lab.grow(("t", 3))
    assert code is error


def test_placement_goes_on_as_it_would_have_for_a_larger_topic_racks_and_all() -> None:
    brokers = [Broker(i, (), f"rack{i % 3}") for i in range(6)]
    racks = broker_racks(brokers)
    existing = assign_replicas(racks, 4, 3, start_index=2, replica_shift=2)
    known = {p: ReplicaAssignment(r) for p, r in existing.items()}
    added = new_partitions(CreatePartitionsTopic("t", 9, None), known, brokers)
    first = next(n for n, b in enumerate(racks) if b.id >= existing[0][0])
    whole = assign_replicas(racks, 9, 3, start_index=first, replica_shift=first)
    assert sorted(added) == [4, 5, 6, 7, 8]
    assert {p: a.replicas for p, a in added.items()} == {p: whole[p] for p in added}
    for assignment in added.values():
        assert len({b % 3 for b in assignment.replicas}) == 3


def test_a_topic_without_partition_0_does_not_grow() -> None:
    with pytest.raises(KafkaError):
        new_partitions(CreatePartitionsTopic("t", 3), {1: ReplicaAssignment((1,))}, [Broker(1, ())])


@pytest.mark.mission("DOOR-1")
@pytest.mark.parametrize("name", ["", ".", "..", "t/partitions", "x" * 250, "a b"])
async def test_a_name_that_no_topic_may_have_is_refused(lab: Lab, name: str) -> None:
    ((_, error, _),) = await lab.grow((name, 4))
    assert error is ErrorCode.INVALID_TOPIC_EXCEPTION
