"""Deletion of records in a simulated cluster, and the proof that what is gone stays gone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from minikafka.client import EARLIEST_TIMESTAMP, Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.workload import Writer

PAUSE_MS = 400
SHORTEST_MS, LONGEST_MS = 500, 10_000  # how long a deletion may take before we give it up


class Deleter:
    """Deletes up to offsets that the dice choose among the acknowledged ones, until ``stop``.

    ``gone``: the low watermark of each partition as last promised. From then on no leader may serve
    anything below it: looked at in every leader at each line of the log, and asked for by
    ListOffsets. ``wanted``: the highest offset that was asked for, promised or not.
    """

    def __init__(
        self, cluster: SimCluster, partitions: Sequence[TopicPartition], writer: Writer
    ) -> None:
        self.gone: dict[TopicPartition, int] = defaultdict(int)
        self.wanted: dict[TopicPartition, int] = defaultdict(int)
        self.promises = 0
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
        """With everybody up: what was asked for and never promised (the leader died) may be gone on
        some brokers only, so each partition is cut once more, as far as ever."""
        assert self._task is not None
        self._stopping = True
        await self._task
        async with Admin(self._cluster.client_host.world, self._cluster.client_config) as admin:
            outcomes = await admin.delete_records(self.wanted)
        assert outcomes == self.wanted, f"at rest {outcomes}, where {self.wanted} was asked for"
        self.gone.update(self.wanted)

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
        self.wanted[partition] = max(self.wanted[partition], offset)
        timeout_ms = self._dice.between(SHORTEST_MS, LONGEST_MS)
        outcome = (await admin.delete_records({partition: offset}, timeout_ms=timeout_ms))[
            partition
        ]
        if isinstance(outcome, KafkaError):
            self._cluster.note("not-deleted", partition=str(partition), error=outcome.code.name)
            return
        assert outcome >= offset, f"{partition}: {outcome} promised where {offset} was asked for"
        self.promises += 1
        self.gone[partition] = max(self.gone[partition], outcome)
        self._cluster.note("deleted", partition=str(partition), low_watermark=outcome)
        gone = self.gone[partition]
        try:
            found = await admin.list_offsets({partition: EARLIEST_TIMESTAMP}, timeout_ms=timeout_ms)
        except KafkaError:
            return
        assert found[partition].offset >= gone, f"{partition}: {found} though {gone} was promised"

    def _look(self, event: LogEvent) -> None:
        for partition, gone in self.gone.items():
            for broker_id, replica in self._cluster.replicas(partition).items():
                # A broker that stops may not have heard who leads instead; nor is it heard.
                if replica.is_leader and self._cluster.leader(partition) == broker_id:
                    start = replica.log.log_start_offset
                    assert start >= gone, f"{event}: {partition} starts at {start} on {broker_id}"

    def starts(self) -> dict[TopicPartition, int]:
        """Where each log starts after the last deletion, on all brokers alike."""
        starts = {}
        for partition in self._partitions:
            replicas = self._cluster.replicas(partition)
            found = {i: replica.log.log_start_offset for i, replica in replicas.items()}
            starts[partition] = self.gone[partition]
            alike = set(found.values()) == {starts[partition]}
            assert alike, f"{partition}: log starts {found}, promised {starts[partition]}"
        return starts
