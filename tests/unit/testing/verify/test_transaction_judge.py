"""The judge of transactions: clean histories of a model, and one thing wrong in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from minikafka.testing.verify.append.history import Reading, RecordId, Seen
from minikafka.testing.verify.transactions.cycles import components, cycles, read_dependencies
from minikafka.testing.verify.transactions.evidence import evidence
from minikafka.testing.verify.transactions.history import (
    NEVER,
    ObservedTransaction,
    TransactionHistory,
    TransactionOutcome,
)
from minikafka.testing.verify.transactions.judge import Anomaly, judge, write_cycles
from tests.support.verify.transaction_model import TransactionModel

SEEDS = 1_000
Rows = dict[int, list[Seen]]
T = TypeVar("T")


class Unfit(Exception):
    """The history has nothing that this anomaly could be planted in."""


def kinds(history: TransactionHistory) -> set[Anomaly]:
    return {Anomaly(finding.kind) for finding in judge(history)}


@pytest.mark.mission("JUDGE-10")
def test_nothing_is_found_in_clean_histories() -> None:
    outcomes: set[TransactionOutcome] = set()
    legal = 0
    for seed in range(SEEDS):
        history = TransactionModel(seed).history()
        found = [f for f in judge(history) if f.kind is not Anomaly.UNPROVEN]
        assert found == [], f"seed {seed}: {found[:3]}"
        outcomes.update(each.outcome for each in history.transactions)
        legal += len(write_cycles(history))
    assert outcomes == set(TransactionOutcome)
    assert legal > 0, "writes of transactions at the same time alternate"


# ---------------------------------------------------------------------------------- anomalies


def rows_of(reading: Reading) -> Rows:
    return {partition: list(reading.seen(partition)) for partition in reading.partitions}


def with_rows(reading: Reading, rows: Rows) -> Reading:
    made = Reading(reading.name)
    for partition, seen in rows.items():
        for one in seen:
            made.see(partition, one.offset, one.id, one.at_ms)
    return made


def without(reading: Reading, *records: RecordId) -> Reading:
    rows = rows_of(reading)
    return with_rows(
        reading, {p: [s for s in seen if s.id not in records] for p, seen in rows.items()}
    )


def ended(
    history: TransactionHistory, outcome: TransactionOutcome, records: int = 1
) -> list[ObservedTransaction]:
    found = [
        each
        for each in history.transactions
        if each.outcome is outcome and len(each.partitions) >= records
    ]
    if not found:
        raise Unfit
    return found


def chosen(found: list[T], dice: random.Random) -> T:
    if not found:
        raise Unfit
    return found[dice.randrange(len(found))]


def forget(history: TransactionHistory, *records: RecordId) -> None:
    """Remove records from both final readings."""
    history.final_committed = without(history.final_committed, *records)
    history.final_uncommitted = without(history.final_uncommitted, *records)


def lost(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.COMMITTED), dice)
    forget(history, *(record for record, *_ in transaction.records))


def lost_though_aborted(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.ABORTED), dice)
    forget(history, chosen([record for record, *_ in transaction.records], dice))


def half_visible(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.COMMITTED, 2), dice)
    hidden = RecordId(transaction.number, dice.randrange(len(transaction.partitions)))
    history.final_committed = without(history.final_committed, hidden)


def half_visible_in_doubt(history: TransactionHistory, dice: random.Random) -> None:
    visible = {s.id.producer for p in rows_of(history.final_committed).values() for s in p if s.id}
    found = [t for t in ended(history, TransactionOutcome.IN_DOUBT, 2) if t.number in visible]
    forget(history, RecordId(chosen(found, dice).number, 0))


def aborted_read(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.ABORTED), dice)
    record, partition, offset = chosen(list(transaction.records), dice)
    reading = history.committed[0]
    rows = rows_of(reading)
    seen = rows.setdefault(partition, [])
    seen.append(Seen(offset, record, seen[-1].at_ms if seen else 0))
    seen.sort()
    history.committed[0] = with_rows(reading, rows)


def aborted_in_the_end(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.ABORTED), dice)
    rows = rows_of(history.final_committed)
    for record, partition, offset in transaction.records:
        rows[partition] = sorted([*rows.get(partition, []), Seen(offset, record, 0)])
    history.final_committed = with_rows(history.final_committed, rows)


def intermediate(history: TransactionHistory, dice: random.Random) -> None:
    reading = history.committed[dice.randrange(2)]
    rows = rows_of(reading)
    partition = chosen(sorted(rows), dice)
    at = dice.randrange(len(rows[partition]))
    seen = rows[partition][at]
    assert seen.id is not None
    commit_ms = history.transactions[seen.id.producer].commit_ms
    rows[partition][at] = seen._replace(at_ms=commit_ms - 1)
    history.committed = [with_rows(reading, rows)]


def circular(history: TransactionHistory, dice: random.Random) -> None:
    one, other = dice.sample(ended(history, TransactionOutcome.COMMITTED), 2)
    one.reads.append(RecordId(other.number, 0))
    other.reads.append(RecordId(one.number, 0))


def zombie(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.COMMITTED), dice)
    old = transaction.incarnation
    new = history.incarnate(old.transactional_id, old.ready_ms + 1)
    new.ready_ms = transaction.commit_ms - 1
    if new.ready_ms < new.begun_ms:
        raise Unfit


def zombie_in_doubt(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.COMMITTED), dice)
    transaction.committed_ms = NEVER
    zombie(history, dice)


def moved(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.COMMITTED), dice)
    transaction.offsets[0] += 1


def doubled(history: TransactionHistory, dice: random.Random) -> None:
    final = history.final_uncommitted
    rows = rows_of(final)
    partition = chosen(sorted(rows), dice)
    seen = chosen(rows[partition], dice)
    final.see(partition, rows[partition][-1].offset + 1, seen.id, 0)


def reordered(history: TransactionHistory, dice: random.Random) -> None:
    places: dict[tuple[int, int], list[tuple[RecordId, int]]] = {}
    for transaction in history.transactions:
        for record, partition, offset in transaction.records:
            key = (transaction.incarnation.number, partition)
            places.setdefault(key, []).append((record, offset))
    (_, partition), found = chosen([row for row in places.items() if len(row[1]) > 1], dice)
    (one, first), (other, second) = found[:2]
    rows = rows_of(history.final_uncommitted)
    swapped = {first: other, second: one}
    rows[partition] = [s._replace(id=swapped.get(s.offset, s.id)) for s in rows[partition]]
    history.final_uncommitted = with_rows(history.final_uncommitted, rows)


def phantom(history: TransactionHistory, dice: random.Random) -> None:
    reading = history.uncommitted[0]
    rows = rows_of(reading)
    partition = chosen(sorted(rows), dice)
    at = dice.randrange(len(rows[partition]))
    unknown = chosen([None, RecordId(10_000, 0), RecordId(0, 10_000)], dice)
    rows[partition][at] = rows[partition][at]._replace(id=unknown)
    history.uncommitted[0] = with_rows(reading, rows)


def vanished(history: TransactionHistory, dice: random.Random) -> None:
    transaction = chosen(ended(history, TransactionOutcome.IN_DOUBT), dice)
    forget(history, *(record for record, *_ in transaction.records))


def vanished_mark(history: TransactionHistory, dice: random.Random) -> None:
    reading = chosen(history.uncommitted, dice)
    reading.note_mark(0, history.ends[0] + 1)


def passed_over(history: TransactionHistory, dice: random.Random, is_committed: bool) -> RecordId:
    """Remove a record, not the last one, from a reader."""
    readings = history.committed if is_committed else history.uncommitted
    rows = rows_of(readings[0])
    fitting = [p for p in sorted(rows) if len(rows[p]) > 1]
    partition = chosen(fitting, dice)
    gone = rows[partition].pop(dice.randrange(len(rows[partition]) - 1))
    readings[0] = with_rows(readings[0], rows)
    assert gone.id is not None
    return gone.id


def skipped(history: TransactionHistory, dice: random.Random) -> None:
    record = passed_over(history, dice, is_committed=True)
    transaction = history.transactions[record.producer]
    transaction.committed_ms = transaction.begun_ms  # before the reader passed it


def skipped_uncommitted(history: TransactionHistory, dice: random.Random) -> None:
    passed_over(history, dice, is_committed=False)


def read_skew(history: TransactionHistory, dice: random.Random) -> None:
    record = passed_over(history, dice, is_committed=True)
    history.transactions[record.producer].committed_ms = 1_000_000  # late


def read_again(history: TransactionHistory, dice: random.Random) -> None:
    reading = history.committed[0]
    partition = chosen(reading.partitions, dice)
    seen = next(reading.seen(partition))
    reading.see(partition, seen.offset, seen.id, 1_000_000)


def stopped(history: TransactionHistory, dice: random.Random) -> None:
    reading = history.committed[0]
    rows = rows_of(reading)
    partition = chosen(sorted(rows), dice)
    rows[partition].pop()
    history.committed[0] = with_rows(reading, rows)
    history.committed[0].short_of[partition] = history.stable_ends[partition]


def refused(history: TransactionHistory, dice: random.Random) -> None:
    history.committed[0].complaints.append("OFFSET_OUT_OF_RANGE")


def lso_back(history: TransactionHistory, dice: random.Random) -> None:
    history.note_stable_offset(0, history.stable_ends[0] + 1, 1_000_000)


def lso_stuck(history: TransactionHistory, dice: random.Random) -> None:
    """Everything from an offset on is hidden from readers with read_committed."""
    rows = rows_of(history.final_committed)
    partition = chosen(sorted(rows), dice)
    stuck = rows[partition][-1].offset
    for reading in (*history.committed, history.final_committed):
        kept = rows_of(reading)
        kept[partition] = [s for s in kept.get(partition, []) if s.offset < stuck]
        reading.__dict__.update(with_rows(reading, kept).__dict__)
    history.stable_ends[partition] = stuck
    history.stable_offsets.clear()


def unsettled(history: TransactionHistory, dice: random.Random) -> None:
    history.unsettled.append("id-0")


def unproven(history: TransactionHistory, dice: random.Random) -> None:
    for transaction in history.transactions:
        transaction.committed_ms = NEVER


PLANTED: dict[Callable[[TransactionHistory, random.Random], None], Anomaly] = {
    lost: Anomaly.LOST,
    lost_though_aborted: Anomaly.LOST,
    half_visible: Anomaly.HALF_VISIBLE,
    half_visible_in_doubt: Anomaly.HALF_VISIBLE,
    aborted_read: Anomaly.ABORTED_READ,
    aborted_in_the_end: Anomaly.ABORTED_READ,
    intermediate: Anomaly.INTERMEDIATE,
    circular: Anomaly.CIRCULAR,
    zombie: Anomaly.ZOMBIE,
    zombie_in_doubt: Anomaly.ZOMBIE,
    moved: Anomaly.MOVED,
    doubled: Anomaly.DOUBLED,
    reordered: Anomaly.REORDERED,
    phantom: Anomaly.PHANTOM,
    vanished: Anomaly.VANISHED,
    vanished_mark: Anomaly.VANISHED,
    skipped: Anomaly.SKIPPED,
    skipped_uncommitted: Anomaly.SKIPPED,
    read_skew: Anomaly.READ_SKEW,
    read_again: Anomaly.READ_AGAIN,
    stopped: Anomaly.STOPPED,
    refused: Anomaly.REFUSED,
    lso_back: Anomaly.LSO_BACK,
    lso_stuck: Anomaly.LSO_STUCK,
    unsettled: Anomaly.UNSETTLED,
    unproven: Anomaly.UNPROVEN,
}
# What cannot be planted without another anomaly: a lost record that a reader had seen vanished.
WITH: dict[Anomaly, set[Anomaly]] = {
    Anomaly.LOST: {Anomaly.VANISHED, Anomaly.HALF_VISIBLE},
    Anomaly.HALF_VISIBLE: {Anomaly.LOST, Anomaly.VANISHED},
    Anomaly.ABORTED_READ: {Anomaly.READ_SKEW},
    Anomaly.REORDERED: {Anomaly.MOVED, Anomaly.VANISHED},
    Anomaly.VANISHED: {Anomaly.LOST},
}


def planted(
    plant: Callable[[TransactionHistory, random.Random], None],
) -> Iterator[TransactionHistory]:
    """Yield 20 histories with the anomaly."""
    count = 0
    for seed in range(1_000):
        history = TransactionModel(seed).history()
        try:
            plant(history, random.Random(seed))
        except (Unfit, ValueError):
            continue
        yield history
        count += 1
        if count == 20:
            return
    raise AssertionError("too few histories fit")


@pytest.mark.mission("JUDGE-11")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_anomaly_is_found_and_no_other(
    plant: Callable[[TransactionHistory, random.Random], None],
) -> None:
    expected = PLANTED[plant]
    for history in planted(plant):
        found = kinds(history)
        assert expected in found
        assert found - {expected, Anomaly.UNPROVEN} <= WITH.get(expected, set())


def test_every_anomaly_is_planted() -> None:
    assert set(PLANTED.values()) == set(Anomaly)


# ------------------------------------------------------------------------------- other parts


def test_components_of_a_graph_are_those_of_mutual_reachability() -> None:
    dice = random.Random(1)
    for _ in range(200):
        size = dice.randrange(1, 8)
        graph = {
            node: [other for other in range(size) if dice.randrange(4) == 0] for node in range(size)
        }
        reach = {node: {node} for node in range(size)}
        for _ in range(size):
            for node in range(size):
                reach[node].update(*(reach[after] for after in graph[node]))
        expected = {
            frozenset(o for o in range(size) if o in reach[n] and n in reach[o])
            for n in range(size)
        }
        assert {frozenset(component) for component in components(graph)} == expected


def test_components_of_a_long_chain() -> None:
    chain = {node: [node + 1] for node in range(50_000)}
    assert len(components(chain)) == 50_001


def test_a_cycle_is_a_shortest_one_and_names_its_records() -> None:
    reads = {1: [RecordId(3, 0)], 2: [RecordId(1, 5)], 3: [RecordId(2, 0), RecordId(1, 6)]}
    found = cycles(each for n, of in reads.items() for each in read_dependencies(n, of))
    assert [[str(each) for each in cycle] for cycle in found] == [
        ["1 wr 3 by 1/6", "3 wr 1 by 3/0"]
    ]


def test_evidence_is_in_the_order_of_time() -> None:
    history = TransactionModel(1).history()
    dice = random.Random(1)
    lost(history, dice)
    finding = judge(history)[0]
    lines = list(evidence(history, finding.about))
    assert "begun by producer" in lines[0]
    times = [float(line.split(" ")[0]) for line in lines]
    assert times == sorted(times)
    assert any("its commit is acknowledged" in line for line in lines)
    assert any("reader 3 sees record" in line for line in lines)
