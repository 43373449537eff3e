"""Chapter 9: the deletion of a topic halts while a broker is away, and resumes when it returns."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.server.zookeeper import paths

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
REQUEST = paths.delete_topic("orders")
FILE_DELAY_MS = 61_000  # file.delete.delay.ms, and a second
SETTINGS = {"auto.leader.rebalance.enable": "false"}  # bills stays with its new leader


async def play(story: Story) -> None:
    await _begin(story)
    await _halt(story)
    await _second_death(story)
    await _resume(story)
    await _records(story)


async def _begin(story: Story) -> None:
    """Two topics on three brokers; then broker 3 dies."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    for topic in ("orders", "bills"):
        await story.finished(story.do("create_topic", topic=topic, assignment="2,1,3"), pace=40)
    await story.finished(story.do("produce", topic="orders", records=20), pace=20)
    await story.wait(ms=600, pace=300)
    copies = [looks.directories(story.cluster, broker, "orders") for broker in (1, 2, 3)]
    story.check("three-copies", copies == [["orders-0"]] * 3, focus=("lanes",))
    await story.say("kill-3", focus=("host|broker-3",))
    story.do("kill", broker=3)
    await story.until_event("brokers_failed", pace=1_000)
    await story.wait(ms=20, pace=5)
    states = looks.replica_states(story.cluster, ORDERS)
    story.check("offline", states[3] == "OfflineReplica", focus=("controller",))
    await story.say("three-is-dead", focus=("controller",))


async def _halt(story: Story) -> None:
    """The deletion starts on the live brokers and halts because of the dead one."""
    await story.ask("delete-now", right=2)
    story.do("delete_topic", topic="orders")
    await story.until_event("topic_deletion_started", pace=3)
    story.check("listed", looks.has_znode(story.cluster, REQUEST), focus=("controller",))
    await story.say("non-existent", focus=("controller",))
    await story.until_event("topic_deletion_halted", pace=3)
    states = looks.replica_states(story.cluster, ORDERS)
    started = states[1] == states[2] == "ReplicaDeletionStarted"
    story.check("started", started and states[3] == "ReplicaDeletionIneligible")
    await story.wait(ms=0.4, pace=0.2)  # the requests leave
    await story.say("two-requests", focus=("wire",))
    await story.wait(ms=12, pace=4)
    await story.wait(ms=40, pace=30)
    states = looks.replica_states(story.cluster, ORDERS)
    story.check("two-done", states[1] == states[2] == "ReplicaDeletionSuccessful")
    await story.wait(ms=20_000, pace=5_000)
    kept = looks.has_znode(story.cluster, paths.topic("orders"))
    left = looks.directories(story.cluster, 3, "orders")
    story.check("halted", kept and left == ["orders-0"], focus=("controller",))
    await story.say("why-halt", focus=("host|broker-3",))


async def _second_death(story: Story) -> None:
    """Broker 2 dies, too: only the topic that is not being deleted gets a new leader."""
    await story.ask("second-death", right=1)
    before = story.cluster.state(ORDERS)
    story.do("kill", broker=2)
    await story.until_event("brokers_failed", pace=1_000)
    await story.until("led", lambda cluster: cluster.leader(BILLS) == 1, pace=3)
    story.check("only-bills", story.cluster.state(ORDERS) == before, focus=("lanes",))
    await story.say("no-election", focus=("controller",))
    story.do("start", broker=2)
    await story.until_event("topic_deletion_resumed", pace=10)
    await story.wait(ms=20, pace=5)
    ineligible = looks.context(story.cluster).topics_ineligible_for_deletion
    story.check("halted-again", ineligible == {"orders"})
    await story.say("halted-again-why", focus=("controller",))


async def _resume(story: Story) -> None:
    """Broker 3 returns: the rest is deleted, then the znodes."""
    await story.ask("three-returns", right=0)
    story.do("start", broker=3)
    await story.until_event("topic_deletion_resumed", pace=10)
    await story.until_message("StopReplica", target="broker-3", arrived=False, pace=2)
    await story.say("resumed", focus=("controller",))
    await story.until_event("topic_deletion_completed", pace=3)
    topic, config = paths.topic("orders"), paths.config("topics", "orders")
    gone = not any(looks.has_znode(story.cluster, path) for path in (topic, config, REQUEST))
    story.check("znodes-gone", gone, focus=("controller",))
    story.check("forgotten", looks.replica_states(story.cluster, ORDERS) == {})
    await story.say("completed", focus=("controller",))
    left = looks.directories(story.cluster, 3, "orders")
    story.check("renamed", [name[-7:] for name in left] == ["-delete"], focus=("host|broker-3",))
    await story.wait(ms=FILE_DELAY_MS, pace=10_000)
    copies = [looks.directories(story.cluster, broker, "orders") for broker in (1, 2, 3)]
    story.check("files-gone", copies == [[], [], []])
    await story.finished(story.do("produce", topic="bills", records=10), pace=20)
    story.check("bills-lives", looks.in_sync(story.cluster, BILLS) == (1, 2, 3), focus=("lanes",))


async def _records(story: Story) -> None:
    """Delete some records of the other topic: the response waits for all replicas."""
    await story.say("only-records", focus=("lanes",))
    deleted = story.do("delete_records", topic="bills", offset=6)
    await story.until_message("DeleteRecords", pace=5)
    await story.wait(ms=1, pace=1)
    starts = looks.log_starts(story.cluster, BILLS)
    waits = looks.parked(story.cluster, 1, "DeleteRecords") == 1
    waiting = ("purgatories", "purgatory|1|DeleteRecords")
    story.check("leader-first", waits and starts[1] == 6, focus=waiting)
    await story.say("parked", focus=waiting)
    await story.finished(deleted, pace=50)
    starts = looks.log_starts(story.cluster, BILLS)
    story.check("low-watermark", starts == {1: 6, 2: 6, 3: 6}, focus=("lanes",))
    await story.say("end", focus=("stage",))


CHAPTER = Chapter(name="topic-deletion", number=9, seed=4, settings=SETTINGS, play=play)
