"""Transactions in a simulated cluster, and the checks of a reader of committed records."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.client import Consumer, ConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.server.broker.replication.partition import Partition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.transactor import Fenced, SimTransactor

LONGEST_PAUSE_MS = 300
ABANDONED_ONE_IN = 12
TIMEOUT_MS = 10_000


@dataclass(slots=True)
class Ran:
    """One transaction: the records sent, and its end as its producer knows it. If ``ended`` is
    None, the producer got no response, and the transaction is either whole or absent."""

    name: str
    sent: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ended: bool | None = None


class Transactors:
    """``seats`` transactional ids, each with a producer that runs one transaction after the other.
    Some transactions are left open: the producer restarts, another one takes its id, or the
    transaction times out. With ``version_2`` their transactions are those of KIP-890."""

    def __init__(
        self,
        cluster: SimCluster,
        partitions: Sequence[TopicPartition],
        seats: int = 3,
        version_2: bool = False,
    ) -> None:
        self._version_2 = version_2
        self.ran: list[Ran] = []
        self.committed_offsets: dict[str, int] = {}
        self.offset_commits = 0
        self._perhaps: dict[str, set[int]] = defaultdict(set)  # the last one, and what came of none
        self._cluster = cluster
        self._partitions = partitions
        self._seats = seats
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ended(self) -> int:
        """Return how many transactions have a known end."""
        return sum(ran.ended is not None for ran in self.ran)

    @property
    def committed(self) -> int:
        return sum(ran.ended is True for ran in self.ran)

    def start(self) -> None:
        for seat in range(self._seats):
            task = self._cluster.spawn_client(self._sit(seat), f"transactor-{seat}")
            self._tasks.append(task)

    async def stop(self) -> None:
        """Let every producer finish its transaction, then stop."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _sit(self, seat: int) -> None:
        name = f"seat-{seat}"
        dice = self._cluster.simulation.entropy.fork(name)
        while not self._stopping:
            async with SimTransactor(
                self._cluster, name, TIMEOUT_MS, self._version_2
            ) as transactor:
                try:
                    await transactor.begin()
                    while not self._stopping:
                        await self._one(transactor, dice)
                except Fenced as error:
                    self._cluster.note("transactor-fenced", name=name, why=str(error))

    async def _one(self, transactor: SimTransactor, dice: Any) -> None:
        """Run a transaction with records for some partitions, and perhaps an offset."""
        ran = Ran(f"{transactor.name}.{len(self.ran)}")
        self.ran.append(ran)
        commits = dice.randrange(4) > 0
        clock = self._cluster.client_host.world.clock
        try:
            for number in range(dice.between(1, 4)):
                where = self._partitions[dice.randrange(len(self._partitions))]
                value = f"{ran.name}:{number}".encode()
                ran.sent[where].append(value)
                await transactor.send(where, value)
                await clock.sleep(dice.randrange(LONGEST_PAUSE_MS))
            offset = len(self.ran) if dice.randrange(2) else None
            if offset is not None:
                await transactor.commit_offset(self._partitions[0], offset)
        except KafkaError as error:
            # Something could not be done: it has to be undone, in the next epoch.
            self._cluster.note("transaction-failed", name=ran.name, error=error.code.name)
            ran.ended = False
            await transactor.give_up()
            return
        if not dice.randrange(ABANDONED_ONE_IN):
            ran.ended = False  # no EndTxn request was sent
            self._cluster.note("transaction-left-open", name=ran.name)
            if dice.randrange(2):
                await clock.sleep(2 * TIMEOUT_MS)
            raise Fenced("left open")
        await self._end(transactor, ran, commits, offset)

    async def _end(
        self, transactor: SimTransactor, ran: Ran, commits: bool, offset: int | None
    ) -> None:
        if commits and offset is not None:
            self._perhaps[transactor.group].add(offset)
        try:
            ran.ended = await transactor.end(commits)
        except KafkaError as error:
            self._cluster.note("end-unknown", name=ran.name, error=error.code.name)
            await transactor.give_up()
            return
        if commits and offset is not None:
            self.committed_offsets[transactor.group] = offset
            self._perhaps[transactor.group] = {offset}
            self.offset_commits += 1

    async def check_offsets(self) -> None:
        """Check that each group's offset is that of its last committed transaction with an
        offset."""
        for group, offset in self.committed_offsets.items():
            async with SimTransactor(self._cluster, f"checks-{group}", TIMEOUT_MS) as asking:
                found = await asking.committed_offset(group, self._partitions[0])
            assert found in self._perhaps[group], f"{group}: {found}, {offset} was promised"


class StableOffsetChecker:
    """An observer that checks that the last stable offset does not decrease while one broker leads
    in one epoch. A leader that restarts and leads on in that epoch begins below it, as its high
    watermark does."""

    def __init__(self, cluster: SimCluster, partitions: Sequence[TopicPartition]) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._seen: dict[tuple[TopicPartition, int, int], tuple[Partition, int]] = {}

    def __call__(self, event: LogEvent) -> None:
        for topic_partition in self._partitions:
            for broker_id, replica in self._cluster.replicas(topic_partition).items():
                if not replica.is_leader or not replica.has_log:
                    continue
                key = (topic_partition, broker_id, replica.leader_epoch)
                stable = replica.last_stable_offset
                process, before = self._seen.get(key, (replica, 0))
                assert stable >= before or process is not replica, (
                    f"{event}: {topic_partition} from {before} to {stable}"
                )
                self._seen[key] = (replica, stable)


def check_whole(ran: Sequence[Ran], seen: dict[TopicPartition, Counter[bytes]]) -> None:
    """Check that a reader of committed records sees each transaction whole, each record once, or
    not at all."""
    for one in ran:
        sent = Counter((tp, value) for tp, values in one.sent.items() for value in values)
        found = Counter({(tp, value): seen[tp][value] for tp, value in sent})
        total = found.total()
        assert total in (0, sent.total()), f"{one.name} is half there: {found} of {sent}"
        assert found == sent or total == 0, f"{one.name}: {found} of {sent}"
        if one.ended is not None:
            assert (total > 0) is one.ended, f"{one.name}: ended {one.ended}, {total} records seen"


def none_hangs(cluster: SimCluster, partitions: Sequence[TopicPartition]) -> Callable[[], bool]:
    """Check that no replica of these partitions has an open transaction."""

    def look() -> bool:
        replicas = [r for tp in partitions for r in cluster.replicas(tp).values()]
        return all(
            r.has_log and r.last_stable_offset == r.high_watermark == r.log.log_end_offset
            for r in replicas
        )

    return look


async def read_committed(cluster: SimCluster, topic: str) -> dict[TopicPartition, Counter[bytes]]:
    """Return all records that a consumer of committed records reads. Raises KafkaError."""
    seen: dict[TopicPartition, Counter[bytes]] = defaultdict(Counter)
    config = ConsumerConfig(auto_offset_reset="earliest", isolation_level="read_committed")
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        await consumer.assign_topics(topic)
        async for record in consumer.read_to():
            seen[TopicPartition(topic, record.partition)][record.value or b""] += 1
    return seen
