"""Takes a sample of the cluster every ten seconds and keeps it: now, and over the last day.

Without a file it samples only while somebody reads the page, as all sources do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from minikafka.core.client.admin.groups import SHARE
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Network, World
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.cluster_reader import LARGE, ClusterReader
from minikafka.page.dashboard.history.counters import BrokerCounters
from minikafka.page.dashboard.history.end_times import EndTimes
from minikafka.page.dashboard.history.figures import Figures, SampledCluster, figures
from minikafka.page.dashboard.history.ring import COARSE_MS, FINE_MS, PageHistory
from minikafka.page.dashboard.history.store import HistoryStore, row

MAX_PARTITIONS: Final = 20_000  # whose log ends are read
MAX_COMMITTED: Final = 5_000  # partitions whose log ends are kept over time
MAX_SAVED: Final = 500  # partitions whose log ends go into the file
MAX_GROUPS: Final = 500
SLICE: Final = 1_000  # partitions in one request, so that other work goes on between
SIZES_EVERY_MS: Final = 60_000
IDLE_MS: Final = 1_000  # nobody reads the page


class Sampler:
    """``now`` is what the last two samples say. ``has_readers`` says whether somebody reads the
    page; with a ``file`` the sampler runs in any case."""

    def __init__(
        self,
        world: World,
        reader: ClusterReader,
        network_of: Callable[[int], Network],
        has_readers: Callable[[], bool],
        file: str | None = None,
    ) -> None:
        self.history = PageHistory()
        self.now = Figures({}, {}, {})
        self.newest: SampledCluster | None = None
        self.end_times: dict[TopicPartition, EndTimes] = {}  # of partitions with commits
        self._world = world
        self._reader = reader
        self._has_readers = has_readers
        self._counters = BrokerCounters(world.clock, reader, network_of)
        self._store = None if file is None else HistoryStore.open(Path(file))
        self._sizes: dict[TopicPartition, dict[int, int]] = {}
        self._sizes_due_ms = 0

    async def run(self) -> None:
        """Take samples until cancelled."""
        clock = self._world.clock
        try:
            if self._store is not None:
                await self._do(self._store.load, self.history, self.end_times)
            while True:
                if self._store is None and not self._has_readers():
                    self.newest = None  # the next rate is not of the time meanwhile
                    await clock.sleep(IDLE_MS)
                    continue
                begun_ms = clock.monotonic_ms()
                await self._sample()
                took_ms = clock.monotonic_ms() - begun_ms
                # Reading the log ends of so many partitions takes a while.
                every_ms = FINE_MS if self._reader.totals.partitions < LARGE else COARSE_MS
                await clock.sleep(max(every_ms - took_ms, IDLE_MS))
        finally:
            self._counters.close()
            if self._store is not None:
                self._store.close()

    async def _sample(self) -> None:
        """Take one sample. What cannot be read is missing in the history."""
        try:
            sample = await self.read()
        except KafkaError:
            self.newest = None
            return
        self.add(sample)
        ended_ms = self.history.put(sample.at_ms, self.now.values)
        if self._store is None:
            return
        rows = [row(self.history.fine, sample.at_ms)]
        if ended_ms is not None:
            rows.append(row(self.history.coarse, ended_ms))
        await self._do(self._store.save, rows)
        if ended_ms is not None:
            await self._do(self._store.save_ends, self._awaited(sample))

    def _awaited(self, sample: SampledCluster) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Return what is known of partitions that a group has not read to the end, up to a bound:
        only these are needed after a restart."""
        behind = {
            tp: None
            for committed in sample.committed.values()
            for tp, offset in committed.items()
            if offset < sample.ends.get(tp, 0) and tp in self.end_times
        }
        return {tp: self.end_times[tp].points for tp in islice(behind, MAX_SAVED)}

    async def _do(self, work: Callable[..., None], *arguments: object) -> None:
        """Read or write the file in a thread. What fails is logged: the next step may succeed."""
        try:
            await self._world.workers.run(work, *arguments)
        except OSError as error:
            event_log("page").error("history_failed", error=str(error))

    def add(self, sample: SampledCluster) -> None:
        """Make a sample the newest one."""
        wanted = sorted({tp for rows in sample.committed.values() for tp in rows})[:MAX_COMMITTED]
        self.end_times = {tp: self.end_times.get(tp) or EndTimes() for tp in wanted}
        for tp, known in self.end_times.items():
            if tp in sample.ends:
                known.add(sample.at_ms, sample.ends[tp])
        self.now = figures(self.newest, sample, self.end_times)
        self.newest = sample

    async def read(self) -> SampledCluster:
        """Read the cluster in slices. Raises KafkaError if no broker responds."""
        reader, errors = self._reader, list[FailedCall]()
        view = await reader.listed_topics()
        committed = await self._committed(errors)
        partitions = list(islice(self._partitions(committed), MAX_PARTITIONS))
        ends: dict[TopicPartition, int] = {}
        at_ms = self._world.clock.wall_ms()
        for some in _slices(partitions):
            ends |= await reader.ends(some, errors)
        await self._read_sizes(partitions, errors)
        counters = await self._counters.read(view.nodes)
        return SampledCluster(at_ms, ends, committed, self._sizes, counters)

    async def _committed(self, errors: list[FailedCall]) -> dict[str, Mapping[TopicPartition, int]]:
        listed = await self._reader.list_groups(errors)
        committing = sorted(
            name for name, (_, group) in listed.items() if group.group_type != SHARE
        )
        coordinators = {name: listed[name][0] for name in committing[:MAX_GROUPS]}
        found = await self._reader.committed(coordinators, errors)
        return {
            name: {tp: at.offset for tp, at in offsets.items()} for name, offsets in found.items()
        }

    def _partitions(
        self, committed: Mapping[str, Mapping[TopicPartition, int]]
    ) -> Iterator[TopicPartition]:
        """Yield the partitions of groups, then all others."""
        leaders = self._reader.view.leaders
        first = {tp: None for rows in committed.values() for tp in rows if tp in leaders}
        yield from first
        for name, topic in self._reader.view.topics.items():
            for number in topic.partitions:
                tp = TopicPartition(name, number)
                if tp not in first:
                    yield tp

    async def _read_sizes(
        self, partitions: Sequence[TopicPartition], errors: list[FailedCall]
    ) -> None:
        now_ms = self._world.clock.monotonic_ms()
        if now_ms < self._sizes_due_ms:
            return
        self._sizes_due_ms = now_ms + SIZES_EVERY_MS
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for some in _slices(partitions):
            sizes |= await self._reader.sizes(some, errors)
        self._sizes = sizes


def _slices(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for first in range(0, len(partitions), SLICE):
        yield partitions[first : first + SLICE]
