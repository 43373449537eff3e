"""Chapter 7: the elections of partition leaders: offline, preferred, reassignment, controlled
shutdown, and the unclean one."""

from __future__ import annotations

from minikafka.kernel.cluster import NO_LEADER, TopicPartition
from minikafka.page.learn.looks import (
    has_controller,
    high_watermark,
    is_led,
    isr,
    leader_epoch,
    log_end,
)
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

TOPIC = "topic-leader"
P = [TopicPartition(TOPIC, number) for number in range(3)]
RISKY = TopicPartition("risky", 0)
LANE = "partition|2|topic-leader-1"


async def play(story: Story) -> None:
    await story.say("begin", focus=("stage",))
    await story.until("a controller", lambda cluster: has_controller(cluster), pace=20)
    await story.wait(ms=500, pace=500)
    await _created(story)
    await _offline(story)
    await _preferred(story)
    await _reassigned(story)
    await _controlled_shutdown(story)
    await _unclean(story)
    await story.wait(ms=500, pace=200)
    await story.say("end", focus=("controller",))


async def _created(story: Story) -> None:
    replicas = "3,1,2;1,2,3;2,3,1"
    await story.finished(story.do("create_topic", topic=TOPIC, assignment=replicas), pace=100)
    await story.wait(ms=200, pace=100)
    await story.say("intro", focus=("lanes",))
    leaders = [story.cluster.leader(partition) for partition in P]
    story.check("first-leaders", leaders == [3, 1, 2], focus=("lanes",))
    story.do("cut", one="broker-1", other="broker-2")
    story.do("produce", topic=TOPIC, partition=1, acks="1")
    await story.until(
        "broker 2 out of sync",
        lambda cluster: isr(cluster, P[1]) == (1, 3),
        limit_ms=25_000,
        pace=3_000,
    )
    story.do("heal_all")
    await story.until("broker 2 in sync", lambda cluster: isr(cluster, P[1]) == (1, 3, 2), pace=500)
    await story.say("isr-order", focus=("partition|1|topic-leader-1",))


async def _offline(story: Story) -> None:
    await story.ask("two-or-three", right=0, focus=("partition|1|topic-leader-1",))
    await story.finished(story.do("kill", broker=1), pace=5)
    await story.until(
        "a leader of partition 1",
        lambda cluster: cluster.leader(P[1]) not in (1, NO_LEADER),
        limit_ms=15_000,
        pace=2_000,
    )
    await story.until(
        "broker 1 out of all ISRs",
        lambda cluster: all(1 not in isr(cluster, partition) for partition in P),
        limit_ms=3_000,
        pace=50,
    )
    await story.say("offline", focus=(LANE,))
    story.check("two-leads", _leader_and_isr(story.cluster, P[1]) == (2, (3, 2)), focus=(LANE,))
    leaders = [story.cluster.leader(partition) for partition in P]
    story.check("as-described", leaders == [3, 2, 2], focus=("lanes",))


async def _preferred(story: Story) -> None:
    await story.finished(story.do("start", broker=1), pace=50)
    await story.until("broker 1 in sync", lambda cluster: isr(cluster, P[1]) == (3, 2, 1), pace=100)
    await story.ask("leader-again", right=1, focus=(LANE,))
    story.check("still-two", story.cluster.leader(P[1]) == 2, focus=(LANE,))
    await story.finished(
        story.do("elect_leaders", topic=TOPIC, partition=1, election="preferred"), pace=5
    )
    await story.say("preferred", focus=("partition|1|topic-leader-1",))
    story.check("one-leads", is_led(story.cluster, P[1], 1), focus=("lanes",))


async def _reassigned(story: Story) -> None:
    before = leader_epoch(story.cluster, P[1])
    await story.ask("moved-away", right=2, focus=("partition|1|topic-leader-1",))
    story.do("reassign", topic=TOPIC, partition=1, replicas="2,3")
    await story.until(
        "the reassignment",
        lambda cluster: 1 not in cluster.replicas(P[1]) and cluster.leader(P[1]) == 2,
        limit_ms=15_000,
        pace=10,
    )
    await story.say("reassigned", focus=(LANE,))
    raised = leader_epoch(story.cluster, P[1]) > before
    story.check("target-leads", raised and is_led(story.cluster, P[1], 2), focus=(LANE,))


async def _controlled_shutdown(story: Story) -> None:
    await story.ask("leaving", right=1, focus=("lanes",))
    story.do("stop", broker=2)
    await story.until(
        "leaders elsewhere",
        lambda cluster: all(cluster.leader(partition) not in (2, NO_LEADER) for partition in P),
        limit_ms=5_000,
        pace=5,
    )
    await story.say("shut-down", focus=("lanes",))
    leaders = [story.cluster.leader(partition) for partition in P]
    story.check("three-leads-all", leaders == [3, 3, 3], focus=("lanes",))
    await story.until("an end", lambda cluster: not cluster.host(2).alive, limit_ms=5_000, pace=50)
    await story.finished(story.do("start", broker=2), pace=50)
    await story.wait(ms=1_000, pace=500)


async def _unclean(story: Story) -> None:
    await story.finished(story.do("create_topic", topic="risky", assignment="1,2"), pace=20)
    await story.finished(story.do("produce", topic="risky", records=3), pace=20)
    story.do("cut", one="broker-1", other="broker-2")
    await story.finished(story.do("produce", topic="risky", acks="1"), pace=20)
    await story.until(
        "an ISR of one", lambda cluster: isr(cluster, RISKY) == (1,), limit_ms=25_000, pace=3_000
    )
    await story.finished(story.do("produce", topic="risky", records=4), pace=20)
    await story.say("alone", focus=("partition|1|risky-0",))
    committed = high_watermark(story.cluster, RISKY, 1)
    story.check("eight-committed", committed == 8, focus=("partition|1|risky-0",))
    await story.finished(story.do("kill", broker=1), pace=5)
    await story.until(
        "no leader",
        lambda cluster: cluster.leader(RISKY) == NO_LEADER,
        limit_ms=15_000,
        pace=2_000,
    )
    await story.say("nobody", focus=("partition|2|risky-0",))
    behind = log_end(story.cluster, RISKY, 2) == 3 and isr(story.cluster, RISKY) == (1,)
    story.check("no-leader", behind, focus=("partition|2|risky-0",))
    await story.ask("clean-or-not", right=1, focus=("partition|2|risky-0",))
    name = "unclean.leader.election.enable"
    story.do("set_config", topic="risky", name=name, value="true")
    await story.until_event("offline_partition_leader_elected", partition="risky-0", pace=10)
    await story.until("a leader", lambda cluster: is_led(cluster, RISKY, 2), pace=10)
    await story.say("unclean", focus=("partition|2|risky-0",))
    lost = _leader_and_isr(story.cluster, RISKY) == (2, (2,)) and log_end(story.cluster, RISKY, 2)
    story.check("five-lost", lost == 3, focus=("partition|2|risky-0",))
    story.do("heal_all")
    await story.finished(story.do("start", broker=1), pace=50)
    await story.until(
        "broker 1 in sync", lambda cluster: isr(cluster, RISKY) == (2, 1), limit_ms=20_000, pace=100
    )
    await story.say("truncated", focus=("partition|1|risky-0",))
    story.check("three-left", log_end(story.cluster, RISKY, 1) == 3, focus=("partition|1|risky-0",))


def _leader_and_isr(cluster: SimCluster, partition: TopicPartition) -> tuple[int, tuple[int, ...]]:
    return cluster.leader(partition), isr(cluster, partition)


CHAPTER = Chapter(
    name="four-elections",
    number=7,
    seed=3,
    brokers=3,
    settings={"auto.leader.rebalance.enable": "false"},
    play=play,
)
