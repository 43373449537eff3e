"""A member of a verified group: it polls, commits, stands still, and notes all of that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minikafka.client import Consumer, ConsumerConfig, ConsumerRecord, RebalanceListener
from minikafka.client.session import Coordinators
from minikafka.core.client.consumer.group_calls import group_key, offset_commit
from minikafka.core.client.offsets import GroupMetadata, with_metadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.event_table import NOTHING
from minikafka.testing.verify.groups.history import GroupHistory, GroupStep
from minikafka.testing.verify.lives import kill
from minikafka.testing.verify.workload import Scene

POLL_MS = 200
COMMITS_ONE_IN = 3  # of the polls with records
NAPS_ONE_IN, NAP_MS = 60, 10_000
HANDS_OVER_ONE_IN = 3  # the revocations before which a moody member commits
LATE_MS = 15_000  # how late a late commit is at most


class LateCommit(NamedTuple):
    """What a member has not committed before it lost its partitions, or died. Somebody commits it
    later in its name: the coordinator must refuse it if the partitions have newer owners."""

    due_ms: int
    number: int  # of the member in the history
    metadata: GroupMetadata
    positions: dict[int, int]


class VerifiedMember(RebalanceListener):
    """One life of a member. It is moody until the load ends: it stands still, perhaps for longer
    than ``max.poll.interval.ms``, and has not always committed what it gives up."""

    def __init__(
        self,
        scene: Scene,
        history: GroupHistory,
        topic: str,
        config: ConsumerConfig,
        name: str,
        late: list[LateCommit],
    ) -> None:
        self.owned: frozenset[int] = frozenset()
        self._scene = scene
        self._history = history
        self._topic = topic
        self._consumer = Consumer(scene.world, scene.client, config)
        self._is_classic = not config.is_consumer_protocol
        self._number = history.add_member(name, config.group_instance_id)
        self._late = late
        self._metadata = GroupMetadata(history.group)  # as of the last poll with partitions
        self._positions: dict[int, int] = {}  # received, and not committed
        self._ended = False

    async def consume(self, leaves: asyncio.Event) -> None:
        """See ``Living``."""
        try:
            async with self._consumer as consumer:
                consumer.subscribe([self._topic], listener=self)
                while not leaves.is_set():
                    self._receive(await consumer.poll(POLL_MS))
                    if self._chance(NAPS_ONE_IN):
                        await self._scene.sleep(self._scene.world.entropy.randrange(NAP_MS))
                    if not self._is_moody or self._chance(COMMITS_ONE_IN):
                        await self._commit(self._positions)
                    if self._late and self._late[0].due_ms <= self._scene.now_ms():
                        await self._commit_late(self._late.pop(0))
                await self._commit(self._positions)
        finally:
            self._end()

    async def die(self, task: asyncio.Task[None]) -> None:
        """See ``Living``."""
        self._end()
        await kill(self._scene, self._consumer, task)

    @property
    def _is_moody(self) -> bool:
        return not self._scene.stop.is_set()

    def _chance(self, one_in: int) -> bool:
        return self._is_moody and not self._scene.world.entropy.randrange(one_in)

    # -- what is noted

    def _note(self, step: GroupStep, epoch: int, partition: int, *places: int) -> None:
        if not self._ended:
            now_ms = self._scene.now_ms()
            self._history.events.add(step, now_ms, self._number, epoch, partition, *places)

    def _end(self) -> None:
        if not self._ended:
            self._note(GroupStep.ENDED, self._epoch, NOTHING)
            self._leave_late(self._positions)
        self._ended, self.owned = True, frozenset()

    def _leave_late(self, positions: dict[int, int]) -> None:
        if positions and self._is_moody:
            due_ms = self._scene.now_ms() + self._scene.world.entropy.randrange(LATE_MS)
            self._late.append(LateCommit(due_ms, self._number, self._metadata, dict(positions)))
            self._late.sort()

    def _receive(self, records: list[ConsumerRecord]) -> None:
        if not self._is_classic and self.owned:
            self._metadata = self._consumer.group_metadata  # the epoch rises between rebalances
        epoch = self._epoch
        for partition, first, last in _runs(records):
            self._note(GroupStep.POLLED, epoch, partition, first, last)
            self._positions[partition] = last + 1
            if not self._ended:
                self._history.received[partition] = max(
                    self._history.received.get(partition, 0), last + 1
                )

    async def _commit(self, positions: dict[int, int]) -> None:
        """Commit, and note the outcome. A commit that fails is not repeated."""
        offsets = dict(positions)
        if not offsets:
            return
        epoch = self._consumer.group_metadata.generation
        for partition, offset in offsets.items():
            self._note(GroupStep.SENT, epoch, partition, offset)
            del self._positions[partition]
        named = {TopicPartition(self._topic, number): at for number, at in offsets.items()}
        try:
            await self._consumer.commit(named)
            outcome = GroupStep.COMMITTED
        except KafkaError:
            outcome = GroupStep.REFUSED
        for partition, offset in offsets.items():
            self._note(outcome, epoch, partition, offset)

    async def _commit_late(self, late: LateCommit) -> None:
        """Commit in the name of a member that may have no right to it any more, once."""
        metadata, session = late.metadata, self._consumer.session
        named = {TopicPartition(self._topic, at): offset for at, offset in late.positions.items()}
        self._note_late(GroupStep.SENT, late)
        try:
            errors = await Coordinators(session).call_once(
                group_key(metadata.group_id),
                offset_commit(metadata, with_metadata(named)),
                session.deadline_ms(session.config.request_timeout_ms),
            )
            was_accepted = not any(errors.values())
        except KafkaError:
            was_accepted = False
        self._note_late(GroupStep.COMMITTED if was_accepted else GroupStep.REFUSED, late)

    def _note_late(self, step: GroupStep, late: LateCommit) -> None:
        """Note an event of the other member. It has an outcome even if this member dies."""
        epoch, now_ms = late.metadata.generation, self._scene.now_ms()
        for partition, offset in late.positions.items():
            self._history.events.add(step, now_ms, late.number, epoch, partition, offset)

    @property
    def _epoch(self) -> int:
        return self._metadata.generation

    # -- rebalances

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._metadata = self._consumer.group_metadata
        self.owned = frozenset(tp.partition for tp in self._consumer.assignment)
        for partition in sorted(self.owned):
            self._note(GroupStep.ASSIGNED, self._epoch, partition)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if not self._is_moody or self._chance(HANDS_OVER_ONE_IN):
            going = {tp.partition for tp in partitions}
            await self._commit({p: at for p, at in self._positions.items() if p in going})
        self._give_up(GroupStep.REVOKED, partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._give_up(GroupStep.LOST, partitions)

    def _give_up(self, step: GroupStep, partitions: Iterable[TopicPartition]) -> None:
        if self._ended:
            return
        going = {tp.partition for tp in partitions}
        for partition in sorted(going):
            self._note(step, self._epoch, partition)
        self._leave_late({p: at for p, at in self._positions.items() if p in going})
        self._positions = {p: at for p, at in self._positions.items() if p not in going}
        self.owned -= going


def _runs(records: list[ConsumerRecord]) -> Iterator[tuple[int, int, int]]:
    """Yield partitions with the first and last of consecutive offsets, as received."""
    ends: dict[int, tuple[int, int]] = {}
    for record in records:
        first, last = ends.get(record.partition, (record.offset, record.offset - 1))
        if record.offset != last + 1:
            yield record.partition, first, last
            first = record.offset
        ends[record.partition] = first, record.offset
    for partition, (first, last) in ends.items():
        yield partition, first, last
