"""A group coordinator alone, with a log in memory, a manual clock, and tasks that run at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import HeartbeatFacts
from minikafka.core.group.group import Group, GroupConfig
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.rebalance import SyncFacts
from minikafka.core.group.records import CommittedOffset, GroupRecord, decode_record
from minikafka.core.group.settings import GroupSettings
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.heartbeat import ShareHeartbeatFacts
from minikafka.core.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from minikafka.core.log.verification import Verification
from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from minikafka.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from minikafka.protocol.messages.sync_group import SyncGroupResponse
from minikafka.protocol.records.batch import RecordBatch, parse_batch
from minikafka.protocol.records.record import decode_records
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.coordinator.config import GroupCoordinatorConfig
from minikafka.server.coordinator.group_coordinator import GroupCoordinator
from minikafka.server.coordinator.ports import InternalLog
from tests.support.coordinator.memory_persister import FixedEndOffsets, MemoryPersister
from tests.support.storage.stored_batches import stamp
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog
from tests.support.world.standing_clock import standing_clock

GROUP = "g"
PARTITION = 0


class LabClock(ManualClock):
    async def sleep(self, delay_ms: int) -> None:
        assert delay_ms == 0, "nothing here waits"
        await asyncio.sleep(0)


class HandTasks:
    """Runs finite tasks to their end at once, or look-ups when the test says so, and does not start
    periodic ones."""

    def __init__(self) -> None:
        self.look_ups: list[Coroutine[Any, Any, None]] = []
        self.states: list[Coroutine[Any, Any, None]] = []  # of share-partitions

    def create_task(self, work: Coroutine[Any, Any, None], name: str) -> HandTasks:
        if name.startswith(("load-", "forget-", "transaction-end")):
            run(work)
        elif name.startswith("resolve-"):
            self.look_ups.append(work)
        elif name in ("initialize-share-partitions", "delete-share-group"):
            self.states.append(work)
        else:
            work.close()
        return self

    def drop_states(self) -> None:
        while self.states:
            self.states.pop().close()

    def add_done_callback(self, callback: Any) -> None: ...

    def cancel(self) -> None: ...


class Gate:
    """An awaitable that completes when the test opens it."""

    def __init__(self) -> None:
        self._waiting: Coroutine[Any, Any, Any] | None = None

    def __await__(self) -> Generator[Gate, None, None]:
        yield self

    def keep(self, work: Coroutine[Any, Any, Any]) -> None:
        self._waiting = work

    def open(self) -> None:
        assert self._waiting is not None, "a coroutine waits"
        run(self._waiting)


def run(work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine to its end, or up to a closed gate."""
    with standing_clock(), suppress(StopIteration):
        while True:
            waits_for = work.send(None)
            if isinstance(waits_for, Gate):
                waits_for.keep(work)
                return


class MemoryLog:
    """A log in memory. While it is ``held``, appends are not replicated until ``release``.
    ``refusal`` is the error of the next appends."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.high_watermark = 0
        self._gates: list[Gate] = []
        self.held = False
        self.is_led = True
        self.refusal: ErrorCode | None = None
        self.waiting: deque[tuple[Callable[[ErrorCode, int], None], int]] = deque()

    def append(self, partition: int, batch: bytes, done: Callable[[ErrorCode, int], None]) -> None:
        self._append(batch, done, replicated=True)

    def append_on_leader(
        self, partition: int, batch: bytes, done: Callable[[ErrorCode, int], None]
    ) -> None:
        self._append(batch, done, replicated=False)

    def append_in_transaction(
        self,
        partition: int,
        batch: bytes,
        guard: Verification | None,
        done: Callable[[ErrorCode, int], None],
    ) -> None:
        self._append(batch, done, replicated=True)

    def _append(
        self, batch: bytes, done: Callable[[ErrorCode, int], None], replicated: bool
    ) -> None:
        if self.refusal is not None:
            done(self.refusal, -1)
            return
        stamped = bytearray(batch)
        stamp(stamped, self.end, 0)
        base_offset = self.end
        self.batches.append(bytes(stamped))
        self.end += parse_batch(stamped, 0).record_count
        if self.held and replicated:
            self.waiting.append((done, base_offset))
        else:
            if replicated:
                self.replicate()
            done(ErrorCode.NONE, base_offset)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Settle the held appends. After an error their batches may still be replicated."""
        if error is ErrorCode.NONE:
            self.replicate()
        while self.waiting:
            done, base_offset = self.waiting.popleft()
            done(error, base_offset if error is ErrorCode.NONE else -1)

    def replicate(self) -> None:
        """Replicate the whole log. Held appends stay incomplete."""
        self.high_watermark = self.end
        gates, self._gates = self._gates, []
        for gate in gates:
            gate.open()

    async def replicated(self, partition: int) -> bool:
        while self.high_watermark < self.end:
            gate = Gate()
            self._gates.append(gate)
            await gate
        return self.is_led

    @property
    def unreplicated(self) -> int:
        """Return the number of batches that the next leader may not have."""
        return sum(
            parse_batch(batch, 0).base_offset >= self.high_watermark for batch in self.batches
        )

    def truncate(self, batches: int) -> None:
        """Remove the last batches, which are not replicated."""
        for _ in range(min(batches, len(self.batches))):
            self.end -= parse_batch(self.batches.pop(), 0).record_count

    def bounds(self, partition: int) -> tuple[int, int] | None:
        return (0, self.end) if self.is_led else None

    async def opened(self, batch: RecordBatch) -> bytes:
        return batch.plain_records()

    async def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        return b"".join(
            batch for batch in self.batches if parse_batch(batch, 0).last_offset >= offset
        )

    def records(self) -> Iterable[GroupRecord]:
        for record in decode_records(b"".join(self.batches)):
            assert record.key is not None
            found = decode_record(record.key, record.value)
            assert found is not None
            yield found


class GroupLab:
    """One coordinator of one partition. ``log`` replaces the log in memory."""

    def __init__(self, elect: bool = True, log: InternalLog | None = None, **config: Any) -> None:
        self.clock = LabClock()
        self.log = MemoryLog()
        self.events = RecordingLog()
        self.image = MetadataImage()
        self.settings: dict[str, GroupSettings] = {}
        self.persister = MemoryPersister()
        self.end_offsets = FixedEndOffsets()
        self.heartbeats: Reaper[DelayedOperation] = self._reaper("Heartbeat")
        self.rebalances: Reaper[DelayedOperation] = self._reaper("Rebalance")
        self.coordinator = GroupCoordinator(
            self.clock,
            log or self.log,
            self.rebalances,
            self.heartbeats,
            GroupCoordinatorConfig(GroupConfig(**config)),
            self.settings.get,
            lambda: 1,
            lambda: self.image,
            self.persister,
            self.end_offsets,
            self.events,
        )
        self.tasks = HandTasks()
        tasks: Any = self.tasks
        self.coordinator.start(tasks)
        self.epoch = 0
        if elect:
            self.elect()

    def _reaper(self, name: str) -> Reaper[DelayedOperation]:
        return Reaper(self.clock, Purgatory(name), f"ExpirationReaper-1-{name}")

    def elect(self) -> None:
        self.epoch += 1
        self.coordinator.runtime.elected(PARTITION, self.epoch)

    def resign(self) -> None:
        self.epoch += 1
        self.coordinator.runtime.resigned(PARTITION, self.epoch)

    def look_up(self) -> None:
        """Let the look-ups of regular expressions that have begun end."""
        while self.tasks.look_ups:
            run(self.tasks.look_ups.pop(0))

    async def settle_states(self) -> None:
        """Let the share coordinators make and delete the states that they were asked for."""
        while self.tasks.states:
            await self.tasks.states.pop(0)

    def expire(self) -> None:
        run(self.coordinator.expire())

    def find_group(self, group_id: str) -> Group | None:
        """Return the group; None if there is none or if the partition is not loaded here."""
        context = self.coordinator.runtime.active_in(PARTITION)
        found = None if context is None else context.shard.groups.get(group_id)
        assert found is None or isinstance(found, Group)
        return found

    def find_consumer_group(self, group_id: str = GROUP) -> ConsumerGroup | None:
        """Return the consumer group; None if there is none."""
        context = self.coordinator.runtime.active_in(PARTITION)
        found = None if context is None else context.shard.groups.get(group_id)
        assert found is None or isinstance(found, ConsumerGroup)
        return found

    def find_share_group(self, group_id: str = GROUP) -> ShareGroup | None:
        """Return the share group; None if there is none."""
        context = self.coordinator.runtime.active_in(PARTITION)
        found = None if context is None else context.shard.groups.get(group_id)
        assert found is None or isinstance(found, ShareGroup)
        return found

    @property
    def group(self) -> Group:
        found = self.find_group(GROUP)
        assert found is not None
        return found

    def said(self) -> list[str]:
        return [event for _, event, _ in self.events.events]

    # -- requests, with defaults

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        metadata: bytes = b"\0\0\0\0\0\0\xff\xff\xff\xff",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        new_id: str = "new",
        must_know_id: bool = False,
        can_skip: bool = False,
        protocol_type: str = "consumer",
        group_id: str = GROUP,
    ) -> list[JoinGroupResponse]:
        """Send JoinGroup. The returned list gets the response."""
        responses: list[JoinGroupResponse] = []
        facts = JoinFacts(
            member_id,
            instance,
            "client",
            "/127.0.0.1",
            rebalance_ms,
            session_ms,
            protocol_type,
            tuple((name, metadata) for name in protocols),
            new_id,
            must_know_id,
            can_skip,
        )
        self.coordinator.join(group_id, facts, responses.append)
        return responses

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> list[SyncGroupResponse]:
        responses: list[SyncGroupResponse] = []
        facts = SyncFacts(
            member_id, instance, generation, protocol_type, protocol_name, assignments or {}
        )
        self.coordinator.sync(GROUP, facts, responses.append)
        return responses

    def beat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.coordinator.heartbeat(GROUP, member_id, instance, generation)

    def consumer_beat(
        self, member_id: str, epoch: int, *, group_id: str = GROUP, **facts: Any
    ) -> list[ConsumerGroupHeartbeatResponse]:
        """Send ConsumerGroupHeartbeat. The returned list gets the response."""
        responses: list[ConsumerGroupHeartbeatResponse] = []
        heartbeat = HeartbeatFacts(
            member_id, epoch, client_id="client", client_host="/127.0.0.1", **facts
        )
        self.coordinator.consumer_heartbeat(group_id, heartbeat, responses.append)
        return responses

    def share_beat(
        self, member_id: str, epoch: int, *, group_id: str = GROUP, **facts: Any
    ) -> list[ShareGroupHeartbeatResponse]:
        """Send ShareGroupHeartbeat. The returned list gets the response."""
        responses: list[ShareGroupHeartbeatResponse] = []
        heartbeat = ShareHeartbeatFacts(
            member_id, epoch, client_id="client", client_host="/127.0.0.1", **facts
        )
        self.coordinator.share_heartbeat(group_id, heartbeat, responses.append)
        return responses

    def streams_beat(
        self, member_id: str, epoch: int, *, group_id: str = GROUP, **fields: Any
    ) -> list[StreamsHeartbeatResult]:
        """Send StreamsGroupHeartbeat. The returned list gets the response."""
        responses: list[StreamsHeartbeatResult] = []
        request = StreamsGroupHeartbeatRequest(group_id, member_id, epoch, **fields)
        self.coordinator.streams_heartbeat(
            StreamsHeartbeat(request, "client", "/127.0.0.1"), responses.append
        )
        return responses

    def make_topics(self, **partitions: int) -> None:
        """Let topics exist with these numbers of partitions, and no others."""
        ids = {topic: UUID(int=int.from_bytes(topic.encode(), "big")) for topic in partitions}
        state = PartitionMetadata(1, 0, (1,), (1,), (), 1, 0)
        self.image = MetadataImage(
            topics={t: dict.fromkeys(range(count), state) for t, count in partitions.items()},
            topic_ids=ids,
            topic_names={topic_id: topic for topic, topic_id in ids.items()},
        )

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group_id: str = GROUP,
        metadata: str = "",
        expire_ms: int = -1,
        instance: str | None = None,
        transaction: InTransaction | None = None,
    ) -> dict[TopicPartition, ErrorCode]:
        """Commit offsets. The returned dict gets the results."""
        response: dict[TopicPartition, ErrorCode] = {}
        now_ms = self.clock.wall_ms()
        facts = CommitFacts(
            member_id,
            instance,
            generation,
            {
                TopicPartition(*where): CommittedOffset(offset, -1, metadata, now_ms, expire_ms)
                for where, offset in offsets.items()
            },
            transaction,
        )
        self.coordinator.commit(group_id, facts, response.update)
        return response

    def committed(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        found = self.coordinator.fetch_all(group_id, require_stable=False)
        return {tuple(fetched.topic_partition): fetched.committed.offset for fetched in found}  # type: ignore[misc]

    # -- whole scenes

    def stable(self, *names: str, **options: Any) -> tuple[int, list[str]]:
        """Make a stable group of these members, each assigned its name. Return generation and
        ids."""
        responses = [self.join(new_id=name, **options) for name in names]
        self.clock.advance(6_000)  # the initial delay, and its extension for new members
        joined = [response[0] for response in responses]
        assert all(response.error_code == ErrorCode.NONE for response in joined), joined
        generation = joined[0].generation_id
        leader = joined[0].leader
        assignments = {name: name.encode() for name in names}
        synced = [
            self.sync(name, generation, assignments if name == leader else None)
            for name in sorted(names, key=lambda name: name == leader)
        ]
        assert [bytes(response[0].assignment) for response in synced]
        return generation, list(names)
