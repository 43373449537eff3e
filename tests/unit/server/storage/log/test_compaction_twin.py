"""Compaction against a dict: random appends, tombstones, transactions, rolls, cuts, restarts."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.compaction import dirt_of
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_batch
from minikafka.server.storage.log.invariants import check_log
from minikafka.server.storage.log.loader import Checkpointed, LogLoader, create_log
from minikafka.server.storage.log.unified_log import LogConfig, UnifiedLog
from minikafka.server.storage.log_facts import log_facts
from tests.support.storage.compaction import batches_up_to, clean, committed_records, latest
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, NOW, TP, cut, run_now
from tests.support.storage.transactions import marker
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog

CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=450,
    index_interval_bytes=100,
    index_size_max_bytes=120,
    delete_retention_ms=1000,
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]
PRODUCERS = [11, 12, 13]
BATCH = st.tuples(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 3)), min_size=1, max_size=4),
    st.sampled_from([-1, -1, *PRODUCERS]),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
    st.sampled_from([False, False, True]),
)


@dataclass
class Sent:
    """A batch as it was appended. ``aborts``: a marker, and what it says."""

    base: int
    last: int
    records: list[Record] = field(default_factory=list)
    producer: int = -1
    transactional: bool = False
    aborts: bool | None = None


class CompactionAgainstDict(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.files = InstantFiles()
        self.clock = ManualClock()
        self.log = create_log(self.files, DIRECTORY, TP, None, CONFIG)
        self.sent: list[Sent] = []
        self.end = 0
        self.high_watermark = 0
        self.number = 0

    # ---- what producers do

    def open_transaction(self, producer: int) -> bool:
        for sent in reversed(self.sent):
            if sent.producer == producer and (sent.transactional or sent.aborts is not None):
                return sent.aborts is None
        return False

    def next_sequence(self, producer: int) -> int:
        return sum(len(s.records) for s in self.sent if s.producer == producer)

    def append(self, sent: Sent, data: bytes, origin: AppendOrigin) -> None:
        info = self.log.append_as_leader(data, 0, self.clock.wall_ms(), origin)
        assert (info.first_offset, info.last_offset) == (sent.base, sent.last)
        self.sent.append(sent)
        self.end = sent.last + 1

    @precondition(lambda self: self.end < 120)
    @rule(batches=st.lists(BATCH, min_size=1, max_size=8))
    def send(self, batches: list[tuple[list[tuple[bytes, int]], int, Compression, bool]]) -> None:
        for batch in batches:
            self.send_one(*batch)

    def send_one(
        self,
        pairs: list[tuple[bytes, int]],
        producer: int,
        codec: Compression,
        transactional: bool,
    ) -> None:
        transactional = producer >= 0 and (transactional or self.open_transaction(producer))
        sent = Sent(self.end, self.end + len(pairs) - 1, [], producer, transactional)
        for offset, (key, kind) in enumerate(pairs, start=self.end):
            self.number += 1
            value = b"%05d" % self.number if kind else None
            sent.records.append(Record(offset, NOW + self.number, key, value, [("h", b"x")]))
        data = build_batch(
            [record[1:] for record in sent.records],
            compression=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.next_sequence(producer) if producer >= 0 else -1,
            transactional=transactional,
        )
        self.append(sent, data, AppendOrigin.CLIENT)

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        sent = Sent(self.end, self.end, [], producer, aborts=not commit)
        self.append(sent, marker(producer, 0, commit), AppendOrigin.COORDINATOR)

    # ---- what happens to the log

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Never below what is committed."""
        bounds = [s.base for s in self.sent if s.base >= self.high_watermark] + [self.end]
        offset = data.draw(st.sampled_from(bounds))
        cut(self.log, offset)
        self.log.transactions.committed_up_to(self.high_watermark)
        self.sent = [s for s in self.sent if s.last < offset]
        self.end = min(self.end, offset)

    @rule(step_ms=st.sampled_from([1, 400, 2000]))
    def time_passes(self, step_ms: int) -> None:
        self.clock.advance(step_ms)

    @rule(clean_stop=st.booleans(), lose_snapshots=st.booleans())
    def restart(self, clean_stop: bool, lose_snapshots: bool) -> None:
        """All is replicated by then: a snapshot does not tell, here as in Kafka, of which ended
        transactions the marker is not, so that readers would come further after a restart."""
        cleaned = self.log.cleaned_offset
        asyncio.run(self.log.flush())
        if clean_stop:
            self.log.persist()
        self.log.close()
        for name in self.files.list(DIRECTORY):
            if lose_snapshots and name.endswith(".snapshot"):
                self.files.remove(f"{DIRECTORY}/{name}")
        self.log = UnifiedLog(self.files, DIRECTORY, TP, CONFIG)
        found = Checkpointed(clean_stop, self.end if clean_stop else 0, 0, cleaned)
        run_now(LogLoader(self.files, self.log, found, RecordingLog()).load())
        if self.log.cut_unflushed:
            run_now(self.log.flush())
        self.high_watermark = self.end
        self.log.transactions.committed_up_to(self.high_watermark)

    @precondition(lambda self: self.end > 0)
    @rule(
        data=st.data(),
        map_bytes=st.sampled_from([24 * 4, 1 << 16, 1 << 16]),
        settled=st.sampled_from([True, True, False]),
    )
    def compact(self, data: st.DataObject, map_bytes: int, settled: bool) -> None:
        if settled:
            for producer in PRODUCERS:
                if self.open_transaction(producer):
                    self.end_transaction(producer, data.draw(st.booleans()))
            self.high_watermark = self.end
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))
        self.log.transactions.committed_up_to(self.high_watermark)
        stable = self.log.last_stable_offset(self.high_watermark)
        dirt = dirt_of(log_facts(self.log, stable), CONFIG, self.clock.wall_ms())
        assert dirt.first_uncleanable <= max(stable, dirt.first_dirty)
        before = batches_up_to(self.log, self.end)
        end = asyncio.run(clean(self.files, self.clock, self.log, stable, map_bytes=map_bytes))
        assert dirt.first_dirty <= end <= max(dirt.first_uncleanable, dirt.first_dirty)
        assert end > dirt.first_dirty or dirt.cleanable_bytes == 0
        after = batches_up_to(self.log, self.end)
        untouched = dirt.first_uncleanable
        assert [bytes(b.view()) for b in after if b.base_offset >= untouched] == [
            bytes(b.view()) for b in before if b.base_offset >= untouched
        ]
        if end == untouched:
            self.nothing_is_left_twice(end)

    def nothing_is_left_twice(self, end: int) -> None:
        """After a complete cleaning, each key stands at most once in the clean part, and aborted
        records not at all."""
        keys: list[bytes | None] = []
        gone = self.aborted_offsets()
        for batch in batches_up_to(self.log, self.end):
            if not batch.is_control and batch.last_offset < end:
                offsets = [record.offset for record in decode_batch(batch)]
                assert not gone.intersection(offsets)
                keys += [record.key for record in decode_batch(batch)]
        assert len(keys) == len(set(keys))

    def aborted_offsets(self) -> set[int]:
        gone: set[int] = set()
        open_offsets: dict[int, list[int]] = {}
        for sent in self.sent:
            if sent.aborts is not None:
                offsets = open_offsets.pop(sent.producer, [])
                if sent.aborts:
                    gone.update(offsets)
            elif sent.transactional:
                open_offsets.setdefault(sent.producer, []).extend(r.offset for r in sent.records)
        return gone

    # ---- what must hold

    @invariant()
    def readers_see_the_latest_value_of_each_key(self) -> None:
        stable = self.log.last_stable_offset(self.end)
        gone = self.aborted_offsets()
        records = [record for sent in self.sent for record in sent.records]
        seen = committed_records(self.log, stable)
        assert latest(seen) == latest(
            [record for record in records if record.offset < stable and record.offset not in gone]
        )
        offsets = [record.offset for record in seen]
        assert offsets == sorted(set(offsets))
        assert not gone.intersection(offsets)
        by_offset = {record.offset: record for record in records}
        assert all(record == by_offset[record.offset] for record in seen)
        assert self.log.log_end_offset == self.end

    @invariant()
    def offsets_epochs_and_segments_fit_together(self) -> None:
        check_log(self.log)

    @invariant()
    def indexes_agree_with_a_scan(self) -> None:
        for segment in self.log.segments:
            places = {f.position: f.batch.last_offset for f in segment.batches()}
            for index in range(segment.offset_index.count):
                offset, position = segment.offset_index.entry(index)
                assert places[position] == segment.base_offset + offset
        names = self.files.list(DIRECTORY)
        assert not [n for n in names if n.endswith((".cleaned", ".swap"))]


CompactionAgainstDict.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCompactionAgainstDict = CompactionAgainstDict.TestCase
