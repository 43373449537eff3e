"""The share coordinator with a log in memory, and the persister in front of it."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.core.share.persister import (
    InitialState,
    StateBatch,
    StateUpdate,
    StoredState,
    TopicIdPartition,
)
from minikafka.core.share.records import ShareSnapshot, ShareUpdate, decode_record
from minikafka.core.share.state_shard import ShareStateConfig
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.record import decode_records
from minikafka.server.coordinator.config import ShareCoordinatorConfig
from minikafka.server.coordinator.share_coordinator import ShareCoordinator
from minikafka.server.coordinator.share_persister import (
    MAX_ATTEMPTS,
    ShareStatePersister,
    StateItem,
    complete_items,
    item_batch,
    items_request,
)
from tests.support.coordinator.group_lab import HandTasks, LabClock, MemoryLog
from tests.support.world.recording_log import RecordingLog

pytestmark = pytest.mark.mission("SHR-18")

TOPIC_ID = UUID(int=3)
P0, P1 = TopicIdPartition(TOPIC_ID, 0), TopicIdPartition(TOPIC_ID, 1)
ROW = PartitionMetadata(1, 0, (1,), (1,), (), 1, 0)
IMAGE = MetadataImage(
    topics={"t": {0: ROW, 1: ROW}}, topic_ids={"t": TOPIC_ID}, topic_names={TOPIC_ID: "t"}
)
E = ErrorCode


class Waits(LabClock):
    def __init__(self) -> None:
        super().__init__()
        self.slept: list[int] = []

    async def sleep(self, delay_ms: int) -> None:
        self.slept.append(delay_ms)
        await asyncio.sleep(0)


class Even:
    def random(self) -> float:
        return 0.5


class Lab:
    """One share coordinator of the only partition of its topic, and a persister."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.clock = Waits()
        self.log = log or MemoryLog()
        self.pruned: list[tuple[int, int]] = []
        self.coordinator = ShareCoordinator(
            self.clock,
            self.log,
            ShareCoordinatorConfig(ShareStateConfig(snapshot_update_records_per_snapshot=2)),
            lambda: 1,
            lambda: IMAGE,
            lambda partition, offset: self.pruned.append((partition, offset)),
            RecordingLog(),
        )
        self.coordinator.runtime.start(HandTasks())  # type: ignore[arg-type]
        self.coordinator_id: int | None = 1
        self.put: list[StateItem] = []
        self.persister = ShareStatePersister(
            self.clock,
            Even(),  # type: ignore[arg-type]
            1,
            lambda key: self.coordinator_id,
            self.coordinator.serve,
            lambda broker, item: self.put.append(item),
        )

    def elect(self) -> None:
        self.coordinator.runtime.elected(0, 1)

    def records(self) -> list[Any]:
        return [
            decode_record(record.key or b"", record.value)
            for batch in self.log.batches
            for record in decode_records(batch)
        ]

    async def read(self, where: TopicIdPartition = P0, epoch: int = 0) -> StoredState:
        return (await self.persister.read_state("g", {where: epoch}))[where]

    async def write(self, start: int, *batches: StateBatch, epoch: int = 0) -> ErrorCode:
        update = StateUpdate(0, epoch, start, -1, batches)
        return (await self.persister.write_state("g", {P0: update}))[P0]


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.elect()
    return lab


async def turns(count: int = 9) -> None:
    """Let the other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def begun(lab: Lab) -> Lab:
    state = InitialState(0, 5)
    assert await lab.persister.initialize_state("g", {P0: state, P1: state}) == {
        P0: E.NONE,
        P1: E.NONE,
    }
    return lab


async def test_what_was_written_is_loaded_by_the_next_coordinator(lab: Lab) -> None:
    await begun(lab)
    for first in range(5, 20, 3):
        assert await lab.write(5, StateBatch(first, first + 1, 2, 1)) is E.NONE
    expected = await lab.read()
    assert len(expected.batches) == 5
    kinds = [type(record) for record in lab.records()]
    assert (kinds.count(ShareSnapshot), kinds.count(ShareUpdate)) == (3, 4)
    heir = Lab(lab.log)
    heir.elect()
    assert await heir.read() == expected
    summary = (await heir.persister.read_summary("g", [P1]))[P1]
    assert (summary.error, summary.start_offset) == (E.NONE, 5)


async def test_writes_of_one_partition_wait_for_each_other(lab: Lab) -> None:
    await begun(lab)
    lab.log.held = True
    writes = [
        asyncio.ensure_future(lab.write(5, StateBatch(first, first, 2, 1)))
        for first in range(5, 12)
    ]
    await asyncio.sleep(0)
    assert len(lab.log.waiting) == 1
    while lab.log.waiting:
        lab.log.release()
        lab.log.held = True
        await asyncio.sleep(0)
    assert [await write for write in writes] == [E.NONE] * 7
    lab.log.held = False
    stored = await lab.read()
    assert stored.batches == (StateBatch(5, 11, 2, 1),)
    heir = Lab(lab.log)
    heir.elect()
    assert await heir.read() == stored


async def test_a_coordinator_that_resigns_refuses_what_waits(lab: Lab) -> None:
    await begun(lab)
    lab.log.held = True
    lab.coordinator_id = None  # what is sent again finds no coordinator
    first = asyncio.ensure_future(lab.coordinator.serve(items_request([await item(lab)])[0]))
    second = asyncio.ensure_future(lab.coordinator.serve(items_request([await item(lab)])[0]))
    await asyncio.sleep(0)
    lab.coordinator.runtime.resigned(0, 2)
    lab.log.release()
    for response in (await first, await second):
        assert response.results[0].partitions[0].error_code == E.NOT_COORDINATOR


async def item(lab: Lab) -> StateItem:
    """An item of a write as another broker sends it."""
    coordinator_id, lab.coordinator_id = lab.coordinator_id, 2
    sending = asyncio.ensure_future(lab.write(5, StateBatch(5, 5, 2, 1)))
    await asyncio.sleep(0)
    lab.coordinator_id = coordinator_id
    sending.cancel()
    return lab.put.pop()


async def test_a_leader_fences_the_leaders_before_it(lab: Lab) -> None:
    await begun(lab)
    assert (await lab.read(epoch=4)).error is E.NONE
    assert (await lab.read(epoch=3)).error is E.FENCED_LEADER_EPOCH
    assert await lab.write(5, epoch=3) is E.FENCED_LEADER_EPOCH
    assert await lab.write(5, epoch=4) is E.NONE


async def test_states_of_deleted_topics_are_forgotten(lab: Lab) -> None:
    await begun(lab)
    lab.coordinator.topics_deleted({UUID(int=9)})
    assert (await lab.read()).error is E.NONE
    lab.coordinator.topics_deleted({TOPIC_ID})
    assert (await lab.read()).error is E.INVALID_REQUEST
    context = lab.coordinator.runtime.active_in(0)
    assert context is not None
    assert context.shard.size == 0
    assert context.shard.redundant_below == lab.log.end - 1


async def test_cold_states_are_written_again_so_that_old_records_can_go(lab: Lab) -> None:
    await begun(lab)
    context = lab.coordinator.runtime.active_in(0)
    assert context is not None
    assert context.shard.redundant_below == 0
    later_ms = context.now_ms() + 10**9
    context.run(context.shard.snapshot_cold_partitions(later_ms))
    assert len(lab.records()) == 4
    assert context.shard.redundant_below == 2
    context.run(context.shard.snapshot_cold_partitions(2 * later_ms))  # they are already
    assert len(lab.records()) == 4


async def test_an_append_that_fails_changes_nothing(lab: Lab) -> None:
    await begun(lab)
    lab.log.refusal = E.MESSAGE_TOO_LARGE
    assert await lab.write(9) is E.UNKNOWN_SERVER_ERROR
    lab.log.refusal = None
    assert (await lab.read()).start_offset == 5


async def test_the_persister_repeats_what_may_pass() -> None:
    lab = Lab()
    reading = asyncio.ensure_future(lab.read())
    await turns(4)
    assert len(lab.clock.slept) > 1
    lab.elect()
    assert (await reading).error is E.INVALID_REQUEST  # it is not initialized
    lab.coordinator_id = None
    lab.clock.slept.clear()
    assert (await lab.read()).error is E.COORDINATOR_NOT_AVAILABLE
    assert lab.clock.slept[:4] == [25, 31, 39, 48]
    assert 6_000 < sum(lab.clock.slept) < 7_000
    assert len(lab.clock.slept) == MAX_ATTEMPTS - 1


async def test_other_brokers_get_requests_with_a_row_for_each_partition(lab: Lab) -> None:
    await begun(lab)
    lab.coordinator_id = 2
    reading = asyncio.ensure_future(lab.persister.read_state("g", {P0: 0, P1: 0}))
    await asyncio.sleep(0)
    assert len({item_batch(item) for item in lab.put}) == 1
    request: Any
    request, version = items_request(lab.put)
    assert (len(request.topics), len(request.topics[0].partitions), version) == (1, 2, 0)
    complete_items(lab.put, await lab.coordinator.serve(request))
    assert {where: state.start_offset for where, state in (await reading).items()} == {P0: 5, P1: 5}
    lab.put.clear()
    reading = asyncio.ensure_future(lab.persister.read_state("g", {P0: 0}))
    await asyncio.sleep(0)
    complete_items(lab.put, None)  # no response: it is sent again
    await turns()
    complete_items(lab.put[1:], await lab.coordinator.serve(items_request(lab.put[1:])[0]))
    assert (await reading)[P0].start_offset == 5
