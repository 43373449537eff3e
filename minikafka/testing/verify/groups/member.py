"""A member of a verified group: it polls, commits, stands still, and notes all of that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from minikafka.client import Consumer, ConsumerConfig, ConsumerRecord, RebalanceListener
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.event_table import NOTHING
from minikafka.testing.verify.groups.history import GroupHistory, GroupStep
from minikafka.testing.verify.lives import kill
from minikafka.testing.verify.workload import Scene

POLL_MS = 200
COMMITS_ONE_IN = 2  # of the polls with records
NAPS_ONE_IN, NAP_MS = 60, 10_000
HANDS_OVER_ONE_IN = 2  # the revocations before which a moody member commits


class VerifiedMember(RebalanceListener):
    """One life of a member. It is moody until the load ends: it stands still, perhaps for longer
    than ``max.poll.interval.ms``, and has not always committed what it gives up."""

    def __init__(
        self, scene: Scene, history: GroupHistory, topic: str, config: ConsumerConfig, name: str
    ) -> None:
        self.owned: frozenset[int] = frozenset()
        self._scene = scene
        self._history = history
        self._topic = topic
        self._consumer = Consumer(scene.world, scene.client, config)
        self._is_classic = not config.is_consumer_protocol
        self._number = history.add_member(name, config.group_instance_id)
        self._epoch = NOTHING  # in which the partitions were assigned
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
        self._note(GroupStep.ENDED, self._epoch, NOTHING)
        self._ended, self.owned = True, frozenset()

    def _receive(self, records: list[ConsumerRecord]) -> None:
        epoch = self._epoch if self._is_classic else self._consumer.group_metadata.generation
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

    # -- rebalances

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._epoch = self._consumer.group_metadata.generation
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
        for tp in partitions:
            self._note(step, self._epoch, tp.partition)
            self._positions.pop(tp.partition, None)
        self.owned -= {tp.partition for tp in partitions}


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
