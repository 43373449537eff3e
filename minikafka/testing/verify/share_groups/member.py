"""A member of a verified share group: it accepts, releases, rejects, stands still, and notes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from minikafka.client import AcknowledgeType, ShareConsumer, ShareConsumerConfig, ShareRecord
from minikafka.core.client.consumer.share_session import (
    ShareFetched,
    ShareFetchSession,
    SharePlace,
)
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.lives import kill
from minikafka.testing.verify.share_groups.history import ShareHistory, ShareStep
from minikafka.testing.verify.share_groups.judge import DONE
from minikafka.testing.verify.workload import Scene

POLL_MS = 1_000
RELEASES_ONE_IN, REJECTS_ONE_IN = 6, 40
# A member that stands still before it acknowledges, perhaps for longer than its locks.
NAPS_ONE_IN, NAP_MS = 40, 20_000


class VerifiedShareConsumer(ShareConsumer):
    """One life of a member, which acknowledges each poll. It is moody until the load ends: then it
    accepts all."""

    def __init__(self, scene: Scene, history: ShareHistory, topic: str, name: str) -> None:
        own = ShareConsumerConfig(history.group, share_acknowledgement_mode="explicit")
        super().__init__(scene.world, scene.client, own)
        self._scene = scene
        self._history = history
        self._topic = topic
        self._number = history.add_member(name)
        self._sending: dict[int, set[int]] = {}  # offsets to be done, by partition
        self._ended = False

    async def consume(self, leaves: asyncio.Event) -> None:
        """See ``Living``."""
        async with self:
            self.subscribe([self._topic])
            while not leaves.is_set():
                records = await self.poll(POLL_MS)
                if records and self._chance(NAPS_ONE_IN):
                    await self._scene.sleep(self._scene.world.entropy.randrange(NAP_MS))
                await self._acknowledge(records)

    async def die(self, task: asyncio.Task[None]) -> None:
        """See ``Living``."""
        self._add_event(ShareStep.BLIND)
        self._ended = True
        self._add_done(self._sending)  # nobody will tell
        await kill(self._scene, self, task)

    def _chance(self, one_in: int) -> bool:
        return not (self._scene.stop.is_set() or self._scene.world.entropy.randrange(one_in))

    def _kind(self) -> AcknowledgeType:
        if self._chance(RELEASES_ONE_IN):
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if self._chance(REJECTS_ONE_IN) else AcknowledgeType.ACCEPT

    # -- what is noted

    def _add_event(self, step: ShareStep, *values: int) -> None:
        if not self._ended:
            self._history.events.add(step, self._scene.now_ms(), self._number, *values)

    async def _acknowledge(self, records: Iterable[ShareRecord]) -> None:
        """Acknowledge records, and note the outcome for each partition."""
        partitions: set[int] = set()
        self._sending = {}
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            if (tp, record.offset) not in self._held:
                continue
            node, kind = self._held[tp, record.offset][0], self._kind()
            self.acknowledge(record, kind)
            place = tp.partition, record.offset, record.offset
            self._add_event(ShareStep.SENT, *place, kind, node, self._term(tp))
            partitions.add(tp.partition)
            if kind in DONE:
                self._sending.setdefault(tp.partition, set()).add(record.offset)
        if not partitions:
            return
        outcomes = await self.commit()
        for partition in sorted(partitions):
            tp = TopicPartition(self._topic, partition)
            step = _outcome(outcomes[tp]) if tp in outcomes else ShareStep.DOUBTFUL
            self._add_event(step, partition)
            if step is ShareStep.REFUSED:
                self._sending.pop(partition, None)
        self._add_done(self._sending)

    def _add_done(self, offsets: Mapping[int, Iterable[int]]) -> None:
        for partition, more in offsets.items():
            self._history.done.setdefault(partition, set()).update(more)

    async def _fetch(
        self, node_id: int, session: ShareFetchSession, places: list[SharePlace]
    ) -> ShareFetched:
        since = len(self._history.events)
        terms = {place.topic_partition: self._term(place.topic_partition) for place in places}
        responded = False
        try:
            fetched = await super()._fetch(node_id, session, places)
            responded = not fetched.errors and session.is_open
        finally:
            if not responded:
                self._add_event(ShareStep.BLIND)
        for partition, first, last, count in _runs(fetched.records):
            term = terms.get(TopicPartition(self._topic, partition), NO_EPOCH)
            self._add_event(
                ShareStep.DELIVERED, partition, first, last, count, node_id, term, since
            )
            if count >= self._history.delivery_limit:
                self._add_done({partition: range(first, last + 1)})
        return fetched

    def _term(self, tp: TopicPartition) -> int:
        """Return the leader epoch that this client knows."""
        partition = self.session.metadata.view.partition(tp)
        return NO_EPOCH if partition is None else partition.leader_epoch


def _outcome(error: KafkaError | None) -> ShareStep:
    if error is None:
        return ShareStep.CONFIRMED
    is_refused = error.code is ErrorCode.INVALID_RECORD_STATE
    return ShareStep.REFUSED if is_refused else ShareStep.DOUBTFUL


def _runs(records: Iterable[ShareRecord]) -> Iterator[tuple[int, int, int, int]]:
    """Yield partition, first and last offset, and delivery count of consecutive records."""
    run: tuple[int, int, int, int] | None = None
    for record in records:
        partition, offset, count = record.partition, record.offset, record.delivery_count
        if run is not None and run[0] == partition and run[2] == offset - 1 and run[3] == count:
            run = (partition, run[1], offset, count)
            continue
        if run is not None:
            yield run
        run = (partition, offset, offset, count)
    if run is not None:
        yield run
