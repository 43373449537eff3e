"""Deletion of records in a simulated cluster, and the check that deleted records stay deleted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from minikafka.client import EARLIEST_TIMESTAMP, Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.workload import Writer

PAUSE_MS = 400
SHORTEST_MS, LONGEST_MS = 500, 10_000  # the range of time-outs of a deletion


class Deleter:
    """Deletes records up to random acknowledged offsets, until ``stop``.

    ``gone`` has the last confirmed low watermark of each partition. No leader may serve records
    below it: it is checked in every leader at each log event, and by ListOffsets. ``requested`` has
    the highest requested offset, confirmed or not.
    """

    def __init__(
        self, cluster: SimCluster, partitions: Sequence[TopicPartition], writer: Writer
    ) -> None:
        self.gone: dict[TopicPartition, int] = defaultdict(int)
        self.requested: dict[TopicPartition, int] = defaultdict(int)
        self.confirmations = 0
        self._cluster = cluster
        self._partitions = partitions
        self._writer = writer
        self._dice = cluster.simulation.entropy.fork("deleter")
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._cluster.observers.append(self._look)
        self._task = self._cluster.spawn_client(self._delete(), "deleter")

    async def stop(self) -> None:
        """Delete once more when all brokers are up: a deletion that was requested but not confirmed
        (the leader died) may be done on some brokers only."""
        assert self._task is not None
        self._stopping = True
        await self._task
        async with Admin(self._cluster.client_host.world, self._cluster.client_config) as admin:
            outcomes = await admin.delete_records(self.requested)
        assert outcomes == self.requested, (
            f"at rest {outcomes}, where {self.requested} was requested"
        )
        self.gone.update(self.requested)

    async def _delete(self) -> None:
        world = self._cluster.client_host.world
        async with Admin(world, self._cluster.client_config) as admin:
            while not self._stopping:
                await world.clock.sleep(self._dice.randrange(PAUSE_MS))
                partition = self._partitions[self._dice.randrange(len(self._partitions))]
                offsets = sorted(self._writer.acknowledged[partition].values())
                if offsets:
                    offset = offsets[self._dice.randrange(len(offsets))]
                    await self._delete_once(admin, partition, offset)

    async def _delete_once(self, admin: Admin, partition: TopicPartition, offset: int) -> None:
        self.requested[partition] = max(self.requested[partition], offset)
        timeout_ms = self._dice.between(SHORTEST_MS, LONGEST_MS)
        outcome = (await admin.delete_records({partition: offset}, timeout_ms=timeout_ms))[
            partition
        ]
        if isinstance(outcome, KafkaError):
            self._cluster.note("not-deleted", partition=str(partition), error=outcome.code.name)
            return
        assert outcome >= offset, f"{partition}: {outcome} confirmed where {offset} was requested"
        self.confirmations += 1
        self.gone[partition] = max(self.gone[partition], outcome)
        self._cluster.note("deleted", partition=str(partition), low_watermark=outcome)
        gone = self.gone[partition]
        try:
            found = await admin.list_offsets({partition: EARLIEST_TIMESTAMP}, timeout_ms=timeout_ms)
        except KafkaError:
            return
        assert found[partition].offset >= gone, f"{partition}: {found} though {gone} was confirmed"

    def _look(self, event: LogEvent) -> None:
        for partition, gone in self.gone.items():
            for broker_id, replica in self._cluster.replicas(partition).items():
                # A stopping broker may not know the new leader, and serves no client.
                if replica.is_leader and self._cluster.leader(partition) == broker_id:
                    start = replica.log.log_start_offset
                    assert start >= gone, f"{event}: {partition} starts at {start} on {broker_id}"

    def starts(self) -> dict[TopicPartition, int]:
        """Return the log start offsets after the last deletion, which are equal on all brokers."""
        starts = {}
        for partition in self._partitions:
            replicas = self._cluster.replicas(partition)
            found = {i: replica.log.log_start_offset for i, replica in replicas.items()}
            starts[partition] = self.gone[partition]
            alike = set(found.values()) == {starts[partition]}
            assert alike, f"{partition}: log starts {found}, promised {starts[partition]}"
        return starts
