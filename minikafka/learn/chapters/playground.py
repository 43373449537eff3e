"""Chapter 14, the playground: a cluster with clients, which the reader breaks."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.learn.story import Chapter, Story

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
RECORDS = 10_000


async def play(story: Story) -> None:
    await story.say("intro", focus=("stage",))
    await story.until("up", lambda cluster: len(cluster.nodes()) == 3, pace=200)
    created = story.do("create_topic", topic=TOPIC, partitions=3, replicas=3)
    await story.finished(created, pace=200)
    story.do("join_group", topic=TOPIC, group="billing", member="m1")
    story.do("produce", topic=TOPIC, records=RECORDS, every_ms=100)
    await story.wait(ms=3_000, pace=500)
    led = [story.cluster.leader(partition) for partition in PARTITIONS]
    story.check("led", all(leader > 0 for leader in led), focus=("lanes",))
    await story.say("yours", focus=("stage",))


CHAPTER = Chapter(name="playground", number=14, seed=14, play=play)
