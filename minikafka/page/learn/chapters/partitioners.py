"""Chapter 14: how a producer chooses the partition of a record, with a key and without one."""

from __future__ import annotations

from itertools import pairwise

from minikafka.core.client.producer.partitioner import murmur2, partition_for_key, to_positive
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.looks import log_end
from minikafka.page.learn.story import Chapter, Story
from minikafka.protocol.records.batch import RecordBatch
from minikafka.testing.simulator.cluster import SimCluster

KEYS = ("anna", "bob", "carol", "dave")
PARTITIONS, MORE_PARTITIONS = 3, 4
ON_EACH_BROKER = "1;2;3"  # partition 0 on broker 1, and so on
NO_LEADER = -1
RECORDS, EVERY_MS, LINGER_MS = 24, 5, 30
LANES = ("lanes",)


async def play(story: Story) -> None:
    await _by_key(story)
    await _without_a_leader(story)
    await _more_partitions(story)
    turns = await _in_turn(story)
    await _sticky(story, turns)
    await _many(story)
    await story.say("end", focus=LANES)


def _partition(key: str, partitions: int) -> int:
    return partition_for_key(key.encode(), partitions)


def _ends(cluster: SimCluster, topic: str, partitions: int = PARTITIONS) -> list[int]:
    """Return the log end of each partition, on whichever broker has it."""
    found = (looks.log_ends(cluster, TopicPartition(topic, n)) for n in range(partitions))
    return [max(ends.values(), default=0) for ends in found]


def _grown(before: list[int], after: list[int]) -> list[int]:
    return [new - old for old, new in zip(before, after, strict=True)]


async def _send_keys(story: Story, records: int, partitions: int) -> dict[str, list[int]]:
    """Send records of each key, one key after the other; return by how much each partition grew."""
    grown = {}
    for key in KEYS:
        before = _ends(story.cluster, "orders", partitions)
        sent = story.do("produce", topic="orders", records=records, key=key)
        await story.finished(sent, pace=50)
        grown[key] = _grown(before, _ends(story.cluster, "orders", partitions))
    return grown


def _only(partition: int, records: int, partitions: int) -> list[int]:
    """Return the growth of each partition if only one got records."""
    return [records if number == partition else 0 for number in range(partitions)]


async def _by_key(story: Story) -> None:
    """Records of a key go to the partition of its hash, unless the application names another."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", assignment=ON_EACH_BROKER)
    await story.finished(created, pace=20)
    await story.say("who-chooses", focus=LANES)
    grown = await _send_keys(story, 2, PARTITIONS)
    places = {key: _partition(key, PARTITIONS) for key in KEYS}
    hashed = all(grown[key] == _only(places[key], 2, PARTITIONS) for key in KEYS)
    story.check("by-hash", hashed, focus=LANES, **places)
    anna = murmur2(b"anna")
    await story.say("murmur2", focus=LANES, hash=anna, positive=to_positive(anna), **places)
    await story.say("other-hash", focus=LANES)
    before = _ends(story.cluster, "orders")
    await story.finished(story.do("produce", topic="orders", key="anna", partition=2), pace=50)
    named = _grown(before, _ends(story.cluster, "orders")) == _only(2, 1, PARTITIONS)
    story.check("named", named, focus=LANES)


async def _without_a_leader(story: Story) -> None:
    """The leader of anna's partition dies: her record waits, one without a key goes elsewhere."""
    leaderless = TopicPartition("orders", _partition("anna", PARTITIONS))
    broker = story.cluster.leader(leaderless)
    await story.ask("no-leader", right=2, focus=LANES, broker=broker)
    written = _ends(story.cluster, "orders")
    story.do("kill", broker=broker)
    gone = lambda cluster: cluster.leader(leaderless) == NO_LEADER  # noqa: E731
    await story.until("no leader", gone, pace=1_000)
    others = [n for n in range(PARTITIONS) if n != leaderless.partition]
    before = _ends(story.cluster, "orders")
    story.do("produce", topic="orders", key="anna")
    await story.wait(ms=3_000, pace=500)
    after = _ends(story.cluster, "orders")
    story.check("waits", [after[n] for n in others] == [before[n] for n in others], focus=LANES)
    await story.finished(story.do("produce", topic="orders", records=6), pace=50)
    grown = _grown(after, _ends(story.cluster, "orders"))
    elsewhere = sum(grown[n] for n in others) == 6
    story.check("elsewhere", elsewhere, focus=LANES)
    story.do("start", broker=broker)
    sent = await story.until_event("produced", topic="orders", pace=200)
    end = log_end(story.cluster, leaderless, broker)
    arrived = sent["records"] == 1 and end == written[leaderless.partition] + 1
    story.check("arrived", arrived, focus=LANES)


async def _more_partitions(story: Story) -> None:
    """A fourth partition: records stay where they are, most keys go elsewhere from now on."""
    await story.ask("grow", right=2, focus=LANES)
    before = _ends(story.cluster, "orders")
    added = story.do("add_partitions", topic="orders", partitions=MORE_PARTITIONS)
    await story.finished(added, pace=20)
    after = _ends(story.cluster, "orders", MORE_PARTITIONS)
    story.check("stay", after == [*before, 0], focus=LANES)
    grown = await _send_keys(story, 1, MORE_PARTITIONS)
    places = {key: _partition(key, MORE_PARTITIONS) for key in KEYS}
    hashed = all(grown[key] == _only(places[key], 1, MORE_PARTITIONS) for key in KEYS)
    moved = [key for key in KEYS if places[key] != _partition(key, PARTITIONS)]
    kept = [key for key in KEYS if key not in moved]
    names = {"moved": ", ".join(moved), "kept": ", ".join(kept)}
    story.check("moved", hashed and len(moved) == 3, focus=LANES, **names)
    await story.say("order-lost", focus=LANES)
    await story.say("how-many", focus=LANES)


async def _produce_slowly(story: Story, topic: str, partitioner: str) -> None:
    """A record without a key each 5 ms, from a producer that waits 30 ms for more of a batch."""
    created = story.do("create_topic", topic=topic, assignment=ON_EACH_BROKER)
    await story.finished(created, pace=20)
    sent = story.do(
        "produce",
        topic=topic,
        records=RECORDS,
        every_ms=EVERY_MS,
        linger_ms=LINGER_MS,
        partitioner=partitioner,
    )
    await story.finished(sent, pace=20)


def _batches(cluster: SimCluster, topic: str) -> list[tuple[RecordBatch, int]]:
    """Return the batches of a topic, each with its partition, in the order of their times."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = [(batch, tp.partition) for tp in partitions for batch in looks.batches(cluster, tp)]
    return sorted(found, key=lambda each: each[0].base_timestamp)


async def _in_turn(story: Story) -> int:
    """Records without a key, in turn: equal shares, and many batches. Return how many."""
    await story.say("no-key", focus=LANES)
    await _produce_slowly(story, "turns", "round_robin")
    share = RECORDS // PARTITIONS
    equal = _ends(story.cluster, "turns") == [share] * PARTITIONS
    story.check("equal", equal, focus=LANES, share=share)
    batches = len(_batches(story.cluster, "turns"))
    story.check("many-batches", batches >= 9, focus=LANES, batches=batches)
    await story.say("small", focus=("requests",), batches=batches)
    return batches


async def _sticky(story: Story, turns: int) -> None:
    """The same with the sticky partitioner: a third of the batches."""
    await story.ask("how-sticky", right=1, turns=turns)
    await _produce_slowly(story, "clicks", "sticky")
    batches = _batches(story.cluster, "clicks")
    complete = sum(batch.record_count for batch, _ in batches) == RECORDS
    fewer = len(batches) * 2 < turns
    story.check("few-batches", complete and fewer, focus=LANES, batches=len(batches), turns=turns)
    changes = all(one != other for (_, one), (_, other) in pairwise(batches))
    story.check("another-each-time", changes, focus=LANES)
    await story.say("why-sticky", focus=LANES)
    ends = _ends(story.cluster, "clicks")
    story.check("uneven", max(ends) > min(ends), focus=LANES, most=max(ends), least=min(ends))


async def _many(story: Story) -> None:
    """Many records: batches that are full, and every partition has some."""
    before = _ends(story.cluster, "clicks")
    known = len(_batches(story.cluster, "clicks"))
    await story.finished(story.do("produce", topic="clicks", records=10_000), pace=20)
    full = _batches(story.cluster, "clicks")[known:]
    largest = max(batch.record_count for batch, _ in full)
    filled = len(full) <= 20 and largest > 500
    story.check("full", filled, focus=LANES, largest=largest, batches=len(full))
    grown = _grown(before, _ends(story.cluster, "clicks"))
    spread = sum(grown) == 10_000 and max(grown) < 2 * min(grown)
    story.check("spread", spread, focus=LANES, first=grown[0], second=grown[1], third=grown[2])
    await story.say("later", focus=LANES)
    await story.say("own", focus=LANES)


CHAPTER = Chapter(name="partitioners", number=14, seed=15, play=play)
