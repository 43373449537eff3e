"""Chapter 13: a transaction over two topics, its markers, a fenced producer and a time-out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
TX, LATE = "payments", "late"
TRANSACTION = ("transactions", f"transaction||{TX}")
LANE = ("lanes", "partition|1|orders-0")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
# Without features the producer adds partitions to its transaction itself, which can be watched.
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
    "group.coordinator.rebalance.protocols": "classic",
}


async def play(story: Story) -> None:
    await _begin(story)
    await _ongoing(story)
    await _commit(story)
    await _second_instance(story)
    await _time_out(story)


def _facts(story: Story, transactional_id: str = TX) -> Mapping[str, Any]:
    return looks.transaction(story.cluster, transactional_id) or {"state": "unknown"}


def _offsets(story: Story) -> tuple[int, int]:
    """Return the last stable offset and the log end of orders-0 at its leader."""
    leader = story.cluster.replicas(ORDERS)[1]
    return leader.last_stable_offset, leader.log.log_end_offset


async def _read(story: Story, topic: str, isolation: str) -> list[str]:
    """Read a topic from its beginning and return the values."""
    story.do("read", topic=topic, isolation=isolation)
    found = await story.until_event("read", topic=topic, isolation=isolation, pace=300)
    return sorted(found["values"].split())


async def _send(story: Story, topic: str, records: int, value: str, instance: int = 1) -> None:
    sent = story.do(
        "send_in_transaction",
        transactional_id=TX,
        instance=instance,
        topic=topic,
        records=records,
        value=value,
    )
    await story.finished(sent, pace=5)
    await story.wait(ms=50, pace=20)


async def _begin(story: Story) -> None:
    """A producer with a transactional id gets its producer id and epoch."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    for topic, assignment in (("orders", "1,2,3"), ("bills", "2,3,1")):
        created = story.do("create_topic", topic=topic, assignment=assignment)
        await story.finished(created, pace=20)
    await story.say("all-or-nothing", focus=TRANSACTION)
    story.do("begin_transaction", transactional_id=TX, instance=1, timeout_ms=60_000)
    await story.until_message("InitProducerId", arrived=False, pace=25)
    await story.say("coordinator", focus=("wire",))
    await story.until_event("transaction_begun", pace=5)
    facts = _facts(story)
    first = facts["state"] == "Empty" and facts["producer_epoch"] == 0
    ids = {"id": facts["producer_id"], "coordinator": facts["coordinator"]}
    story.check("producer-id", first, focus=TRANSACTION, **ids)
    await story.say("begin-is-local", focus=("wire",))


async def _ongoing(story: Story) -> None:
    """Records in two topics; consumers see them or not."""
    sent = story.do(
        "send_in_transaction", transactional_id=TX, topic="orders", records=3, value="a"
    )
    await story.until_message("AddPartitionsToTxn", source="client", pace=3)
    await story.say("add-partitions", focus=("wire",))
    await story.finished(sent, pace=3)
    await story.say("verified", focus=("wire",))
    await _send(story, "bills", 2, "b")
    facts = _facts(story)
    both = facts["state"] == "Ongoing" and facts["partitions"] == ["bills-0", "orders-0"]
    story.check("ongoing", both, focus=TRANSACTION)
    mark = looks.high_watermarks(story.cluster, ORDERS)[1]
    story.check("lso", (mark, _offsets(story)) == (3, (0, 3)), focus=LANE)
    await story.ask("who-sees", right=2, focus=LANE)
    values = await _read(story, "orders", UNCOMMITTED)
    story.check("uncommitted", values == ["a0", "a1", "a2"])
    story.check("committed", await _read(story, "orders", COMMITTED) == [])
    await story.say("default", focus=LANE)


async def _commit(story: Story) -> None:
    """EndTxn, the decision in the coordinator's log, markers."""
    story.do("commit_transaction", transactional_id=TX)
    await story.until_message("EndTxn", pace=0.2)
    await story.say("end-txn", focus=("wire",))
    await story.until_message("WriteTxnMarkers", arrived=False, pace=1)
    story.check("prepared", _facts(story)["state"] == "PrepareCommit", focus=TRANSACTION)
    await story.say("no-return", focus=TRANSACTION)
    await story.until(
        "complete", lambda it: _state(looks.transaction(it, TX)) == "CompleteCommit", pace=2
    )
    await story.wait(ms=50, pace=20)
    story.check("marker", _offsets(story) == (4, 4), focus=LANE)
    await story.say("marker-offset", focus=LANE)
    orders = await _read(story, "orders", COMMITTED)
    bills = await _read(story, "bills", COMMITTED)
    story.check("visible", (len(orders), len(bills)) == (3, 2))


def _state(facts: Mapping[str, Any] | None) -> str:
    return "" if facts is None else str(facts["state"])


async def _second_instance(story: Story) -> None:
    """A second process with the same transactional id fences the first one."""
    begun = story.do("begin_transaction", transactional_id=TX, instance=1)
    await story.finished(begun, pace=20)
    await _send(story, "orders", 2, "c")
    open_at = _offsets(story) == (4, 6)
    story.check("open-again", open_at, focus=LANE)
    await story.ask("two-instances", right=1, focus=LANE)
    begun = story.do("begin_transaction", transactional_id=TX, instance=2)
    await story.finished(begun, pace=5)
    await story.wait(ms=50, pace=20)
    facts = _facts(story)
    epoch = facts["producer_epoch"]
    story.check("new-epoch", epoch > 0, focus=TRANSACTION, epoch=epoch)
    story.check("aborted", _offsets(story) == (7, 7), focus=LANE)
    await story.say("abort-marker", focus=LANE)
    story.do("send_in_transaction", transactional_id=TX, topic="orders", records=1, value="x")
    failed = await story.until_event("client_failed", pace=3)
    refused = any(name in failed["error"] for name in ("PRODUCER_FENCED", "PRODUCER_EPOCH"))
    story.check("fenced", refused, focus=("wire",))
    await _send(story, "orders", 1, "d", instance=2)
    committed = story.do("commit_transaction", transactional_id=TX, instance=2)
    await story.finished(committed, pace=5)
    await story.wait(ms=50, pace=20)
    values = await _read(story, "orders", COMMITTED)
    story.check("skipped", values == ["a0", "a1", "a2", "d0"])
    values = await _read(story, "orders", UNCOMMITTED)
    story.check("still-there", {"c0", "c1"} <= set(values) and "x0" not in values)
    await story.say("aborted-index", focus=LANE)


async def _time_out(story: Story) -> None:
    """A producer dies in its transaction: others wait behind it until the time-out."""
    begun = story.do("begin_transaction", transactional_id=LATE, timeout_ms=5_000)
    await story.finished(begun, pace=50)
    sent = story.do(
        "send_in_transaction", transactional_id=LATE, topic="orders", records=1, value="e"
    )
    await story.finished(sent, pace=20)
    story.do("vanish_producer", transactional_id=LATE)
    await story.finished(story.do("produce", topic="orders", records=1, value="plain"), pace=20)
    await story.wait(ms=50, pace=20)
    stable, end = _offsets(story)
    story.check("behind", stable == end - 2, focus=LANE)
    hidden = "plain0" not in await _read(story, "orders", COMMITTED)
    story.check("hidden", hidden)
    await story.ask("who-ends-it", right=1, focus=LANE)
    await story.until_event("transaction_timed_out", transactional_id=LATE, pace=1_000)
    await story.until(
        "aborted", lambda it: _state(looks.transaction(it, LATE)) == "CompleteAbort", pace=5
    )
    await story.wait(ms=50, pace=20)
    stable, end = _offsets(story)
    story.check("released", stable == end, focus=LANE)
    values = await _read(story, "orders", COMMITTED)
    story.check("plain", "plain0" in values and "e0" not in values)
    await story.say("end", focus=TRANSACTION)


CHAPTER = Chapter(name="transactions", number=13, seed=13, settings=SETTINGS, play=play)
