"""Chapter 19, the playground: a cluster with clients, which the reader breaks."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

TOPIC, GROUP = "orders", "billing"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
BROKERS = (1, 2, 3)
RECORDS = 10_000


async def play(story: Story) -> None:
    await _begin(story)
    await _one_death(story)
    await story.ask("which-fault", right=2)
    await story.say("yours", focus=("stage",))


async def _begin(story: Story) -> None:
    """Start a cluster, a producer and a group."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    story.check("one-controller", len(looks.active_controllers(story.cluster)) == 1)
    created = story.do("create_topic", topic=TOPIC, assignment="1,2,3;2,3,1;3,1,2")
    await story.finished(created, pace=50)
    story.do("join_group", topic=TOPIC, group=GROUP, member="m1")
    story.do("produce", topic=TOPIC, records=RECORDS, every_ms=100)
    await story.wait(ms=3_000, pace=500)
    led = [story.cluster.leader(partition) for partition in PARTITIONS]
    story.check("led", led == [*BROKERS], focus=("lanes",))
    story.check("whole", _is_whole(story.cluster), focus=("lanes",))
    shares = looks.shares(story.cluster, GROUP)
    story.check("group", [*shares.values()] == [[0, 1, 2]], focus=("groups",))
    written = sum(_committed(story.cluster))
    story.check("written", written > 10, focus=("lanes",), records=written)
    await story.say("score", focus=("stage",))


async def _one_death(story: Story) -> None:
    """Kill a leader while clients write."""
    before = _committed(story.cluster)
    await story.say("kill-1", focus=("host|broker-1",))
    story.do("kill", broker=1)
    await story.until(
        "another leader", lambda cluster: cluster.leader(PARTITIONS[0]) == 2, pace=1_000
    )
    await story.wait(ms=1_000, pace=200)
    after = _committed(story.cluster)
    kept = all(now >= then for now, then in zip(after, before, strict=True))
    story.check("kept", kept and sum(after) > sum(before), focus=("lanes",))
    await story.finished(story.do("start", broker=1), pace=100)
    await story.until("whole again", _is_whole, pace=500)
    await story.wait(ms=100, pace=50)
    story.check("again", _is_whole(story.cluster), focus=("lanes",))
    await story.say("checkers", focus=("events",))


def _is_whole(cluster: SimCluster) -> bool:
    """Return whether all brokers are in the ISR of every partition."""
    return all(looks.in_sync(cluster, partition) == BROKERS for partition in PARTITIONS)


def _committed(cluster: SimCluster) -> list[int]:
    """Return the highest high watermark of each partition."""
    return [max(looks.high_watermarks(cluster, each).values()) for each in PARTITIONS]


CHAPTER = Chapter(name="playground", number=19, seed=14, play=play)
