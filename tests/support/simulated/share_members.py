"""Members of a share group in a simulated cluster, and what is checked of their deliveries."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from minikafka.client import Consumer, ConsumerConfig
from minikafka.client.consumer.share_consumer import ShareConsumer, ShareConsumerConfig
from minikafka.core.client.consumer.share_session import (
    ShareFetched,
    ShareFetchSession,
    SharePlace,
    ShareRecord,
)
from minikafka.core.share.in_flight import RecordState
from minikafka.core.share.records import ShareSnapshot, ShareUpdate, decode_record
from minikafka.core.share.share_partition import AcknowledgeType
from minikafka.kernel.cluster import SHARE_GROUP_STATE_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import NoNode
from minikafka.testing.simulator.cluster import SimCluster

Place: TypeAlias = tuple[TopicPartition, int]

GROUP: Final = "workers"
DELIVERIES: Final = 10
LIFE_MS: Final = 40_000
MORE_THAN_A_LIFE_MS: Final = 2 * LIFE_MS
POLL_MS: Final = 1_000
# A member that stands still before it acknowledges, perhaps for longer than its locks.
NAPS_ONE_IN, NAP_MS = 20, 25_000
RELEASES_ONE_IN, REJECTS_ONE_IN = 6, 40
TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class ShareChecker:
    """The facts that all members share.

    A record of which a leader has confirmed an ACCEPT or a REJECT is never delivered again by a
    leader. One that is released is delivered with a higher count. A record is accepted a second
    time only by a member that got it earlier, and only before the start offset, where leaders
    ignore acknowledgements as Kafka's do. ``uncertain`` are the records with an ACCEPT or REJECT
    whose outcome nobody knows.
    """

    def __init__(self) -> None:
        self.settled: dict[Place, str] = {}
        self.uncertain: set[Place] = set()
        self.counts: dict[Place, int] = defaultdict(int)
        self.redeliveries = 0
        self.late = 0
        self._released: dict[Place, int] = defaultdict(int)

    def delivered(self, place: Place, count: int, member: str, *, led: bool) -> None:
        """Note a delivery. ``led``: its broker led the partition from the request to the response.
        Another one may believe that it still does."""
        self.redeliveries += place in self.counts
        self.counts[place] = max(self.counts[place], count)
        if led:
            settled, released = self.settled.get(place), self._released[place]
            assert settled is None, f"{place} was delivered to {member}, settled by {settled}"
            assert count > released, f"{place} has the count {count} after {released}"

    def acknowledged(
        self,
        place: Place,
        kind: AcknowledgeType,
        count: int,
        member: str,
        error: object,
        start_offset: int,
    ) -> None:
        """Note the outcome of an acknowledgement: None for a success, else an error. The leaders
        have come to ``start_offset``."""
        if kind is AcknowledgeType.RELEASE:
            if error is None:
                self._released[place] = max(self._released[place], count)
        elif error is None:
            settled = self.settled.setdefault(place, member)
            self.late += settled != member
            is_ignored = place[1] < start_offset
            assert settled == member or is_ignored, f"{place}: {settled} and {member} settled it"
        elif error is not ErrorCode.INVALID_RECORD_STATE:
            self.uncertain.add(place)

    def is_done(self, place: Place) -> bool:
        """Whether the group may never see a record again."""
        known = place in self.settled or place in self.uncertain
        return known or self.counts[place] >= DELIVERIES


class SimShareMember(ShareConsumer):
    """A share consumer that acknowledges each poll, mostly with ACCEPT."""

    def __init__(self, cluster: SimCluster, checker: ShareChecker, name: str) -> None:
        own = ShareConsumerConfig(group_id=GROUP, share_acknowledgement_mode="explicit")
        super().__init__(cluster.client_host.world, cluster.client_config, own)
        self._cluster = cluster
        self._checker = checker
        self._name = name
        self._dice = cluster.simulation.entropy.fork(f"member-{name}")

    async def consume(self, topic: str, lasting_ms: int | None) -> None:
        """Work for so long; None means until cancelled. With a limit the member is moody: it naps,
        releases and rejects."""
        clock = self.session.world.clock
        end_ms = None if lasting_ms is None else clock.monotonic_ms() + lasting_ms
        self.subscribe([topic])
        while end_ms is None or clock.monotonic_ms() < end_ms:
            records = await self.poll(POLL_MS)
            if not records:
                continue
            if end_ms is not None and not self._dice.randrange(NAPS_ONE_IN):
                await clock.sleep(self._dice.randrange(NAP_MS))
            kinds = [self._kind(end_ms is not None) for _ in records]
            await self._acknowledge(dict(zip(records, kinds, strict=True)))

    def _kind(self, is_moody: bool) -> AcknowledgeType:
        if is_moody and not self._dice.randrange(RELEASES_ONE_IN):
            return AcknowledgeType.RELEASE
        if is_moody and not self._dice.randrange(REJECTS_ONE_IN):
            return AcknowledgeType.REJECT
        return AcknowledgeType.ACCEPT

    async def _acknowledge(self, kinds: Mapping[ShareRecord, AcknowledgeType]) -> None:
        for record, kind in kinds.items():
            self.acknowledge(record, kind)
        unknown: object = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes: dict[TopicPartition, object] = {}
        try:
            outcomes |= await self.commit()
        finally:
            starts = {tp: self._start_offset(tp) for tp in {_place(record)[0] for record in kinds}}
            for record, kind in kinds.items():
                place = _place(record)
                error = outcomes.get(place[0], unknown)
                code = error.code if isinstance(error, KafkaError) else error
                count, start = record.delivery_count, starts[place[0]]
                self._checker.acknowledged(place, kind, count, self._name, code, start)

    async def _fetch(
        self, node_id: int, session: ShareFetchSession, places: list[SharePlace]
    ) -> ShareFetched:
        terms = {place.topic_partition: self._term(place.topic_partition) for place in places}
        fetched = await super()._fetch(node_id, session, places)
        for record in fetched.records:
            place = _place(record)
            before, now = terms.get(place[0]), self._term(place[0])
            led = before == now is not None and now[0] == node_id
            self._checker.delivered(place, record.delivery_count, self._name, led=led)
        return fetched

    def _start_offset(self, partition: TopicPartition) -> int:
        """Return the highest start offset at any leader of a partition."""
        machines = (
            led.machine
            for node in self._cluster.nodes().values()
            for led in node.entities.shares
            if led.topic_partition == partition
        )
        return max((each.start_offset for each in machines if each is not None), default=0)

    def _term(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the leader of a partition and its epoch."""
        try:
            state = self._cluster.state(partition).leader_and_isr
        except NoNode:
            return None
        return state.leader, state.leader_epoch


def _place(record: ShareRecord) -> Place:
    return TopicPartition(record.topic, record.partition), record.offset


class Workers:
    """Keeps ``seats`` members in the share group. Each lives for a random time, then leaves or dies
    without a word, and a new one replaces it."""

    def __init__(self, cluster: SimCluster, topic: str, seats: int) -> None:
        self.checker = ShareChecker()
        self.lives = 0
        self._cluster = cluster
        self._topic = topic
        self._seats = seats
        self._settling = False

    def start(self) -> None:
        for seat in range(self._seats):
            self._cluster.spawn_client(self._sit(seat), f"seat-{seat}")

    def settle(self) -> None:
        """Let the members that come from now on stay, and accept all."""
        self._settling = True

    async def _sit(self, seat: int) -> None:
        dice = self._cluster.simulation.entropy.fork(f"seat-{seat}")
        for life in range(1_000):
            self.lives += 1
            member = SimShareMember(self._cluster, self.checker, f"{seat}.{life}")
            lasting_ms = None if self._settling else dice.randrange(LIFE_MS)
            dies_s = None
            if lasting_ms is not None and dice.randrange(2):
                dies_s, lasting_ms = lasting_ms / 1_000, MORE_THAN_A_LIFE_MS
            living = asyncio.ensure_future(self._live(member, lasting_ms))
            living.add_done_callback(lambda living: living.cancelled() or living.exception())
            await asyncio.wait([living], timeout=dies_s)
            if not living.done():
                member.session.connections.close()
            while not living.done():
                living.cancel()
                await asyncio.sleep(0.001)
            try:
                if not living.cancelled():
                    living.result()
            except* KafkaError:
                await asyncio.sleep(1)

    async def _live(self, member: SimShareMember, lasting_ms: int | None) -> None:
        async with member:
            await member.consume(self._topic, lasting_ms)


async def check_stored_states(cluster: SimCluster) -> int:
    """Check that in the records of the share coordinator no delivery count falls, no record that is
    done becomes available, and no start offset goes back. Return the number of records."""
    counts: dict[Any, dict[int, tuple[int, int]]] = {}
    starts: dict[Any, int] = {}
    config = ConsumerConfig(auto_offset_reset="earliest")
    read = 0
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        await consumer.assign_topics(SHARE_GROUP_STATE_TOPIC)
        async for stored in consumer.read_to():
            record = decode_record(stored.key or b"", stored.value)
            assert isinstance(record, ShareSnapshot | ShareUpdate)
            state = record.state if isinstance(record, ShareSnapshot) else record
            assert state is not None, "no state is deleted"
            known, start = counts.setdefault(record.key, {}), starts.get(record.key, -1)
            assert state.start_offset == -1 or state.start_offset >= start, f"{record}: {start}"
            starts[record.key] = max(start, state.start_offset)
            for batch in state.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    before, count = known.get(offset, (RecordState.AVAILABLE, 0))
                    assert batch.delivery_count >= count, f"{record}: {count} of {offset}"
                    assert before not in TERMINAL or batch.delivery_state == before, f"{record}"
                    known[offset] = batch.delivery_state, batch.delivery_count
            read += 1
    return read
