"""Chapter 1: the way of a record from a producer to a consumer, with acks and watermarks."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.looks import high_watermark, is_led, isr, log_end
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

ORDERS = TopicPartition("orders", 0)
VISITS = [TopicPartition("visits", number) for number in range(3)]
LEADER = "partition|1|orders-0"
FOLLOWERS = ("partition|2|orders-0", "partition|3|orders-0")
LANES = (LEADER, *FOLLOWERS)
SERVED_MS = 0.02  # from the arrival of a message until its effect can be seen


async def play(story: Story) -> None:
    await _the_stage(story)
    await _to_the_leader(story)
    await _to_the_followers(story)
    await _the_response(story)
    await _less_than_all(story)
    await _the_consumer(story)
    await _no_acknowledgement(story)
    await _keys(story)
    await story.say("end", focus=("lanes",))


async def _the_stage(story: Story) -> None:
    await story.say("intro", focus=("stage",))
    await story.until("three brokers", lambda cluster: len(cluster.nodes()) == 3, pace=10)
    await story.say("brokers", focus=("host|broker-1", "host|broker-2", "host|broker-3"))
    created = story.do("create_topic", topic="orders", assignment="1,2,3")
    await story.finished(created, pace=50)
    await story.wait(ms=300, pace=200)
    await story.say("topic", focus=LANES)
    story.check("led", is_led(story.cluster, ORDERS, 1), focus=(LEADER,))
    await story.say("roles", focus=LANES)


async def _to_the_leader(story: Story) -> None:
    story.do("produce", topic="orders", value="order-")
    await story.until_message("Metadata", target="client", is_request=False, pace=1)
    await story.say("metadata", focus=("wire",))
    await story.say("steps", focus=("host|client",))
    await story.until_message("Produce", source="client", arrived=False, pace=2)
    await story.say("produce", focus=("stage",))
    await story.say("header", focus=("wire",))
    await story.until_message("Produce", source="client", pace=0.5)
    await story.wait(ms=SERVED_MS)
    await story.say("appended", focus=(LEADER,))
    ends = [log_end(story.cluster, ORDERS, broker) for broker in (1, 2, 3)]
    story.check("only-leader", ends == [1, 0, 0], focus=LANES)
    await story.ask("what-next", right=1, focus=(LEADER,))
    await story.say("copies-leave", focus=("stage",))


async def _to_the_followers(story: Story) -> None:
    await _arrivals(
        story,
        is_request=False,
        until=lambda cluster: all(log_end(cluster, ORDERS, broker) == 1 for broker in (2, 3)),
    )
    await story.say("copied", focus=FOLLOWERS)
    before = high_watermark(story.cluster, ORDERS, 1)
    story.check("not-committed-yet", before == 0, focus=(LEADER,))
    await _arrivals(
        story,
        is_request=True,
        until=lambda cluster: high_watermark(cluster, ORDERS, 1) == 1,
    )
    await story.say("committed", focus=(LEADER,))
    complete = isr(story.cluster, ORDERS) == (1, 2, 3)
    marks = [high_watermark(story.cluster, ORDERS, broker) for broker in (1, 2, 3)]
    story.check("watermark", complete and marks == [1, 0, 0], focus=LANES)


async def _the_response(story: Story) -> None:
    await story.until_message("Produce", target="client", is_request=False, pace=0.5)
    await story.say("response", focus=("wire",))
    outcome = await story.until_event("produced", topic="orders", pace=1)
    story.check("acknowledged", outcome["records"] == 1, focus=("host|client",))
    await story.until(
        "the watermark at the followers",
        lambda cluster: all(high_watermark(cluster, ORDERS, broker) == 1 for broker in (2, 3)),
        pace=20,
    )
    await story.say("followers-know", focus=FOLLOWERS)


async def _less_than_all(story: Story) -> None:
    """Broker 3 is cut off from the leader; a record with acks=1 is acknowledged nevertheless."""
    cut = story.do("cut", one="broker-1", other="broker-3")
    await story.finished(cut)
    await story.say("cut", focus=("host|broker-1", "host|broker-3"))
    story.do("produce", topic="orders", value="order-", acks="1")
    outcome = await story.until_event("produced", topic="orders", pace=2)
    await story.say("acks-one", focus=LANES)
    ends = [log_end(story.cluster, ORDERS, broker) for broker in (1, 3)]
    held = outcome["records"] == 1 and ends == [2, 1]
    story.check("acknowledged-early", held, focus=LANES)
    await story.ask("who-sees-it", right=1, focus=(LEADER,))


async def _the_consumer(story: Story) -> None:
    story.do("read", topic="orders", offset=1, max_wait_ms=2_000)
    await story.until_message("Fetch", source="client", pace=2)
    await story.wait(ms=300, pace=100)
    await story.say("hidden", focus=(LEADER, "host|client"))
    story.check("watermark-stays", high_watermark(story.cluster, ORDERS, 1) == 1, focus=(LEADER,))
    story.do("heal", one="broker-1", other="broker-3")
    read = await story.until_event("read", pace=2)
    await story.say("visible", focus=(LEADER, "host|client"))
    mark = high_watermark(story.cluster, ORDERS, 1)
    story.check("read", read["records"] == 1 and mark == 2, focus=(LEADER,))


async def _no_acknowledgement(story: Story) -> None:
    await story.wait(ms=1_000, pace=500)
    story.do("produce", topic="orders", value="order-", acks="0")
    await story.until_event("produced", topic="orders", pace=2)
    await story.say("acks-zero", focus=("wire",))
    story.check("not-there-yet", log_end(story.cluster, ORDERS, 1) == 2, focus=(LEADER,))
    await story.wait(ms=500, pace=200)
    story.check("there-now", log_end(story.cluster, ORDERS, 1) == 3, focus=(LEADER,))


async def _keys(story: Story) -> None:
    """Records with one key go to one partition; so does a batch of records without a key."""
    created = story.do("create_topic", topic="visits", assignment="1,2,3;2,3,1;3,1,2")
    await story.finished(created, pace=20)
    await story.say("partitions", focus=("lanes",))
    sent = story.do("produce", topic="visits", records=6, key="anna")
    await story.finished(sent, pace=50)
    await story.say("key", focus=("lanes",))
    with_key = _ends(story.cluster)
    story.check("one-partition", sorted(with_key) == [0, 0, 6], focus=("lanes",))
    await story.say("hash", focus=("lanes",))
    sent = story.do("produce", topic="visits", records=6)
    await story.finished(sent, pace=50)
    await story.say("sticky", focus=("lanes",))
    grown = [after - before for after, before in zip(_ends(story.cluster), with_key, strict=True)]
    story.check("one-batch", sorted(grown) == [0, 0, 6], focus=("lanes",))


def _ends(cluster: SimCluster) -> list[int]:
    """Return the log ends of the leaders of the three partitions of visits."""
    return [log_end(cluster, partition, cluster.leader(partition)) for partition in VISITS]


async def _arrivals(story: Story, *, is_request: bool, until: Callable[[SimCluster], bool]) -> None:
    """Play from one Fetch message to the next until a condition holds."""
    while not until(story.cluster):
        await story.until_message("Fetch", is_request=is_request, pace=0.5)
        await story.wait(ms=SERVED_MS)


CHAPTER = Chapter(name="a-records-way", number=1, seed=2, brokers=3, play=play)
