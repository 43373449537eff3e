"""Chapter 3: the purgatory, in which requests wait for an event or for their time-out."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.looks import (
    high_watermark,
    is_led,
    isr,
    log_end,
    parked,
    purgatory,
    slots,
)
from minikafka.page.learn.story import Chapter, Story

ORDERS = TopicPartition("orders", 0)
FETCH = "purgatory|1|Fetch"
PRODUCE = "purgatory|1|Produce"
LEADER = "partition|1|orders-0"
LANES = (LEADER, "partition|2|orders-0", "partition|3|orders-0")
SERVED_MS = 0.02  # from the arrival of a message until its effect can be seen


async def play(story: Story) -> None:
    await story.say("begin", focus=("stage",))
    await story.until("three brokers", lambda cluster: len(cluster.nodes()) == 3, pace=20)
    created = story.do("create_topic", topic="orders", assignment="1,2,3")
    await story.finished(created, pace=100)
    await story.until("a leader", lambda cluster: is_led(cluster, ORDERS, 1), pace=20)
    await story.wait(ms=200, pace=200)
    await story.say("intro", focus=("purgatories",))
    await _fetches(story)
    await _an_event(story)
    await _a_time_out(story)
    await _too_few_in_sync(story)
    await _long_poll(story)
    await story.say("end", focus=("purgatories",))


async def _appended(story: Story, *cut_off: str) -> None:
    """Play until the leader has appended a record; then cut its links to some followers, before
    their Fetch responses arrive."""
    await story.until_message("Produce", source="client", pace=2)
    await story.wait(ms=SERVED_MS)
    for follower in cut_off:
        await story.finished(story.do("cut", one="broker-1", other=follower))


async def _fetches(story: Story) -> None:
    await story.say("two-fetches", focus=(FETCH,))
    story.check("parked-fetches", parked(story.cluster, 1, "Fetch") == 2, focus=(FETCH,))
    await story.say("their-timers", focus=(FETCH,))
    before = purgatory(story.cluster, 1, "Fetch").expired
    await story.until_message("Fetch", source="broker-1", is_request=False, pace=100)
    await story.say("empty-response", focus=("wire",))
    expired = purgatory(story.cluster, 1, "Fetch").expired - before
    story.check("one-expired", expired >= 1, focus=(FETCH,))


async def _an_event(story: Story) -> None:
    await story.wait(ms=100, pace=50)
    completed = purgatory(story.cluster, 1, "Produce").completed
    story.do("produce", topic="orders", value="order-")
    await _appended(story, "broker-3")
    await story.say("produce-parked", focus=(PRODUCE,))
    story.check("one-produce", parked(story.cluster, 1, "Produce") == 1, focus=(PRODUCE,))
    await story.ask("one-of-two", right=1, focus=(PRODUCE, *LANES))
    await story.wait(ms=100, pace=50)
    await story.say("still-parked", focus=(PRODUCE, *LANES))
    ends = [log_end(story.cluster, ORDERS, broker) for broker in (1, 2, 3)]
    mark = high_watermark(story.cluster, ORDERS, 1)
    held = ends == [1, 1, 0] and mark == 0 and parked(story.cluster, 1, "Produce") == 1
    story.check("two-copies", held, focus=LANES)
    story.do("heal", one="broker-1", other="broker-3")
    await story.until_message("Produce", source="broker-1", is_request=False, pace=2)
    await story.say("completed", focus=(PRODUCE,))
    done = purgatory(story.cluster, 1, "Produce").completed - completed
    empty = parked(story.cluster, 1, "Produce") == 0 and not any(
        slots(purgatory(story.cluster, 1, "Produce"), level) for level in range(1, 5)
    )
    story.check("timer-cancelled", done == 1 and empty, focus=(PRODUCE,))


async def _a_time_out(story: Story) -> None:
    await story.wait(ms=1_000, pace=500)
    expired = purgatory(story.cluster, 1, "Produce").expired
    sent = story.do("produce", topic="orders", value="order-")
    await _appended(story, "broker-2", "broker-3")
    await story.say("nobody-fetches", focus=(PRODUCE, "stage"))
    await story.until(
        "a time-out",
        lambda cluster: purgatory(cluster, 1, "Produce").expired > expired,
        limit_ms=8_000,
        pace=1_500,
    )
    await story.say("timed-out", focus=(PRODUCE, "wire"))
    forced = purgatory(story.cluster, 1, "Produce").expired - expired
    story.check("expired", forced == 1, focus=(PRODUCE,))
    story.check("in-the-log", log_end(story.cluster, ORDERS, 1) == 2, focus=(LEADER,))
    await story.until_message("Produce", source="client", pace=50)
    await story.wait(ms=SERVED_MS)
    await story.ask("retry", right=0, focus=(PRODUCE, LEADER))
    story.do("heal_all")
    await story.finished(sent, pace=2)
    await story.say("no-duplicate", focus=LANES)
    story.check("two-records", log_end(story.cluster, ORDERS, 1) == 2, focus=LANES)


async def _too_few_in_sync(story: Story) -> None:
    set_least = story.do("set_config", topic="orders", name="min.insync.replicas", value="3")
    await story.finished(set_least, pace=50)
    await story.wait(ms=500, pace=200)
    sent = story.do("produce", topic="orders", value="order-")
    await _appended(story, "broker-3")
    await story.say("three-wanted", focus=(PRODUCE, LEADER))
    story.check("waits-for-three", parked(story.cluster, 1, "Produce") == 1, focus=(PRODUCE,))
    await story.until(
        "a smaller ISR",
        lambda cluster: isr(cluster, ORDERS) == (1, 2) and parked(cluster, 1, "Produce") == 0,
        limit_ms=30_000,
        pace=3_000,
    )
    await story.until_message("Produce", source="broker-1", is_request=False, pace=500)
    await story.say("too-few", focus=(PRODUCE, "wire"))
    enough = len(isr(story.cluster, ORDERS)) >= 3
    mark = high_watermark(story.cluster, ORDERS, 1)
    story.check("two-in-sync", not enough and mark == 2, focus=(LEADER,))
    story.do("heal", one="broker-1", other="broker-3")
    await story.finished(sent, pace=500)
    await story.say("enough-again", focus=LANES)
    whole = sorted(isr(story.cluster, ORDERS)) == [1, 2, 3]
    story.check("three-records", whole and log_end(story.cluster, ORDERS, 1) == 3, focus=LANES)


async def _long_poll(story: Story) -> None:
    await story.wait(ms=500, pace=500)
    story.do("read", topic="orders", offset=3, min_bytes=200, max_wait_ms=5_000)
    await story.until_message("Fetch", source="client", pace=2)
    await story.wait(ms=SERVED_MS)
    await story.say("long-poll", focus=(FETCH,))
    story.check("three-fetches", parked(story.cluster, 1, "Fetch") == 3, focus=(FETCH,))
    await story.finished(story.do("produce", topic="orders", value="order-"), pace=5)
    await story.wait(ms=100, pace=50)
    await story.ask("one-record", right=1, focus=(FETCH, LEADER))
    story.check("not-enough", parked(story.cluster, 1, "Fetch") == 3, focus=(FETCH,))
    story.do("produce", topic="orders", records=3, every_ms=100, value="order-")
    read = await story.until_event("read", pace=50)
    await story.say("enough-bytes", focus=(FETCH, "host|client"))
    story.check("several-records", read["records"] > 1, focus=(LEADER,))


CHAPTER = Chapter(name="purgatory", number=3, seed=2, brokers=3, play=play)
