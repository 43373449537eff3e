"""Random lives of a share-partition, beside a slow twin that knows each record.

Members fetch, acknowledge, lose their locks and leave; writes fail; the log start moves; leaders
change, and the next one has what was written. Each record is accepted once or delivered again, and
at the end none is lost.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from minikafka.core.share.in_flight import Delivery, RecordState
from minikafka.core.share.in_flight_summary import in_flight_summary
from minikafka.core.share.persister import StateBatch
from minikafka.core.share.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    AcquireMode,
    Demand,
    ShareLimits,
    SharePartition,
    Span,
    Transition,
)
from minikafka.core.share.state_batches import combined
from minikafka.kernel.errors import KafkaError

LOCK_MS = 100
MEMBERS = st.sampled_from(("a", "b", "c"))
TYPES = st.sampled_from([*AcknowledgeType][1:])


class Lives(RuleBasedStateMachine):
    """``accepted`` has the records whose acceptance is written, ``rejected`` those that were
    archived for good; ``held`` says who has each record that is acquired."""

    @initialize(
        sizes=st.lists(st.integers(1, 6), min_size=4, max_size=14),
        limit=st.integers(2, 5),
        most=st.integers(3, 30),
    )
    def begin(self, sizes: list[int], limit: int, most: int) -> None:
        self.log: list[Span] = []
        for size in sizes:
            first = self.log[-1].last + 1 if self.log else 0
            self.log.append(Span(first, first + size - 1))
        self.limits = ShareLimits(limit, most)
        self.now_ms = 0
        self.log_start = 0
        self.stored_start = 0
        self.stored: tuple[StateBatch, ...] = ()
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        self.deliveries: dict[int, int] = {}
        self.held: dict[int, tuple[str, int]] = {}
        self.writing: list[tuple[Transition, str]] = []
        self.partition = SharePartition(0, self.limits)

    # -- the world

    def fetched(self, offset: int) -> list[Span]:
        """Return the record batches that a read from an offset finds, three at most."""
        return [span for span in self.log if span.last >= offset][:3]

    def write(self, batches: list[StateBatch]) -> None:
        """Store a change, as the share coordinator does."""
        self.stored_start = self.partition.start_offset
        self.stored = combined((*self.stored, *batches), self.stored_start)

    def acquire(self, member: str, mode: AcquireMode, count: int, size: int) -> int:
        offset = self.partition.next_fetch_offset()
        if offset < self.log_start:  # the read is out of range
            self.partition.log_start_moved(self.log_start)
            return 0
        demand = Demand(member, mode, size, count, self.now_ms + LOCK_MS)
        acquired = self.partition.acquire(demand, offset, self.fetched(offset))
        total = 0
        for row in acquired:
            for each in range(row.first_offset, row.last_offset + 1):
                assert each not in self.held, f"{each} is delivered to two members"
                assert each not in self.accepted, f"{each} is delivered after it was accepted"
                assert each not in self.rejected
                assert each >= self.partition.start_offset
                self.deliveries[each] = self.deliveries.get(each, 0) + 1
                assert row.delivery_count <= self.limits.delivery_count
                self.held[each] = (member, self.now_ms + LOCK_MS)
                total += 1
        if mode is AcquireMode.RECORD_LIMIT:
            assert total <= count
        return total

    def own(self, member: str) -> set[int]:
        """Return what a member has acquired, without records whose change is being written."""
        changing = {
            offset
            for transition, _ in self.writing
            for row in transition.batches
            for offset in range(row.first_offset, row.last_offset + 1)
        }
        return {o for o, (who, _) in self.held.items() if who == member} - changing

    # -- what happens

    @rule(
        member=MEMBERS,
        mode=st.sampled_from(AcquireMode),
        count=st.integers(1, 12),
        size=st.integers(1, 5),
    )
    def fetch(self, member: str, mode: AcquireMode, count: int, size: int) -> None:
        self.acquire(member, mode, count, size)

    @rule(
        member=MEMBERS,
        data=st.data(),
        kind=TYPES,
        written=st.sampled_from((True, True, None, False)),
    )
    def acknowledge(
        self, member: str, data: st.DataObject, kind: AcknowledgeType, written: bool | None
    ) -> None:
        own = sorted(self.own(member))
        if not own:
            return
        first = data.draw(st.sampled_from(own))
        last = first
        while last + 1 in own and last - first < 7:
            last += 1
        last = data.draw(st.integers(first, last))
        count = last - first + 1
        types = [kind]
        if data.draw(st.booleans()):
            types = data.draw(st.lists(TYPES, min_size=count, max_size=count))
        row = Acknowledgement(first, last, types)
        until_ms = self.now_ms + LOCK_MS
        transition = self.partition.acknowledge(member, [row], until_ms, self.now_ms)
        for index, offset in enumerate(range(first, last + 1)):
            each = types[index] if len(types) > 1 else types[0]
            if offset >= self.partition.start_offset and each is AcknowledgeType.RENEW:
                self.held[offset] = (member, until_ms)
        self.begun(transition, member, written)

    @rule(member=MEMBERS, offsets=st.tuples(st.integers(0, 60), st.integers(0, 9)))
    def acknowledge_what_is_not_owned(self, member: str, offsets: tuple[int, int]) -> None:
        first, last = offsets[0], sum(offsets)
        span = range(max(first, self.partition.start_offset), last + 1)
        before = self.described()
        if self.own(member).issuperset(span):
            return
        try:
            row = Acknowledgement(first, last, [AcknowledgeType.ACCEPT])
            transition = self.partition.acknowledge(member, [row], 0, self.now_ms)
        except KafkaError:
            assert self.described() == before
        else:
            # Offsets between batches are not noticed, nor are records that are gone.
            touched = {o for row in transition.batches for o in range(row[0], row[1] + 1)}
            assert touched <= self.own(member)
            self.begun(transition, member, True)

    def described(self) -> list[tuple[int, RecordState, int, str]]:
        return [
            (offset, delivery.state, delivery.count, delivery.member_id)
            for first, last, delivery in self.partition.states()
            for offset in range(first, last + 1)
        ]

    @rule(member=MEMBERS, written=st.sampled_from((True, None, False)))
    def leave(self, member: str, written: bool | None) -> None:
        self.begun(self.partition.release_member(member), member, written)

    def begun(self, transition: Transition, member: str, written: bool | None) -> None:
        """A change has begun, and is written or refused now, or later (None)."""
        for row in transition.batches:
            for offset in range(row.first_offset, row.last_offset + 1):
                assert self.held[offset][0] == member
        self.writing.append((transition, member))
        if written is not None:
            self.ended(len(self.writing) - 1, written)

    @rule(data=st.data(), written=st.booleans())
    def end_a_write(self, data: st.DataObject, written: bool) -> None:
        if self.writing:
            self.ended(data.draw(st.integers(0, len(self.writing) - 1)), written)

    def ended(self, index: int, written: bool) -> None:
        transition, _ = self.writing.pop(index)
        if written:
            self.write(transition.batches)
        self.partition.complete(transition, written, self.now_ms)
        for row in transition.batches:
            for offset in range(row.first_offset, row.last_offset + 1):
                # Releases are archived when the log deletes their records, written or not.
                is_gone = (
                    offset < self.partition.start_offset
                    and row.delivery_state == RecordState.AVAILABLE
                )
                if not written and not is_gone and self.held[offset][1] > self.now_ms:
                    continue
                del self.held[offset]
                if written and row.delivery_state == RecordState.ACKNOWLEDGED:
                    self.accepted.add(offset)
                elif written and row.delivery_state == RecordState.ARCHIVED:
                    self.rejected.add(offset)

    @rule(passed_ms=st.integers(1, 2 * LOCK_MS), written=st.booleans())
    def pass_time(self, passed_ms: int, written: bool) -> None:
        self.now_ms += passed_ms
        changed = self.partition.expire_locks(self.now_ms)
        for row in changed:
            for offset in range(row.first_offset, row.last_offset + 1):
                _, until_ms = self.held.pop(offset)
                assert until_ms <= self.now_ms
        if written:
            self.write(changed)
        self.partition.advance()

    @rule(moved=st.integers(1, 9))
    def delete_records(self, moved: int) -> None:
        self.log_start = min(self.log_start + moved, self.log[-1].first)

    @rule(moved=st.booleans())
    def elect_a_leader(self, moved: bool) -> None:
        """Nothing is left but what was written."""
        self.writing.clear()
        self.held.clear()
        self.partition = SharePartition(self.stored_start, self.limits, self.stored)
        if moved:
            self.partition.log_start_moved(self.log_start)

    # -- what holds

    @invariant()
    def a_summary_has_each_record_once(self) -> None:
        if not hasattr(self, "held"):
            return
        start = self.partition.start_offset
        rows = [row for row in self.described() if row[0] >= start]
        summary = in_flight_summary(self.partition.states(), start, 99)
        assert summary.records == Counter(state for _, state, _, _ in rows)
        attempts = Counter(count for _, state, count, _ in rows if not state.is_terminal)
        assert summary.attempts == attempts
        assert summary.num_runs == len(summary.runs)
        assert rows == [
            (offset, run.state, run.delivery_count, run.member_id)
            for run in summary.runs
            for offset in range(run.first, run.last + 1)
        ]
        for before, after in pairwise(summary.runs):
            assert before._replace(first=after.first, last=after.last) != after or (
                before.last + 1 < after.first
            )
        few = in_flight_summary(self.partition.states(), start, 2)
        assert few == summary._replace(runs=summary.runs[:2])

    @invariant()
    def locks_are_those_of_the_twin(self) -> None:
        if not hasattr(self, "held"):
            return
        being_written = {id(d) for transition, _ in self.writing for d in transition.deliveries}

        def acquired(delivery: Delivery) -> bool:
            return delivery.state is RecordState.ACQUIRED or id(delivery) in being_written

        held = {
            offset
            for first, last, delivery in self.partition.states()
            if acquired(delivery)
            for offset in range(first, last + 1)
        }
        assert held == self.held.keys()
        assert self.partition.start_offset <= self.partition.end_offset + 1
        lowest = self.partition.next_lock_ms
        assert lowest is None or lowest >= self.now_ms - 2 * LOCK_MS

    def teardown(self) -> None:
        """Let all locks end, and consume what is left: nothing else is in the way."""
        if not hasattr(self, "held"):
            return
        for index in reversed(range(len(self.writing))):
            self.ended(index, False)
        self.pass_time(3 * LOCK_MS, True)
        for _ in range(1000):
            if not self.acquire("z", AcquireMode.BATCH_OPTIMIZED, 500, 500) and (
                self.partition.next_fetch_offset() > self.log[-1].last
            ):
                break
            for offset in sorted(self.held):
                row = Acknowledgement(offset, offset, [AcknowledgeType.ACCEPT])
                transition = self.partition.acknowledge("z", [row], 0, self.now_ms)
                self.begun(transition, "z", True)
        assert not self.held
        for offset in range(self.log_start, self.log[-1].last + 1):
            assert (
                offset in self.accepted
                or offset in self.rejected
                or self.deliveries[offset] >= self.limits.delivery_count
            ), f"{offset} is lost"


TestLives = pytest.mark.mission("SHR-17")(Lives.TestCase)
TestLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
