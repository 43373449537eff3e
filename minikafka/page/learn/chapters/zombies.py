"""Chapter 12: an isolated leader does not know that it was replaced; epochs and truncation."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.checkers import check_replicas_alike

PARTITION = TopicPartition("orders", 0)
SETTINGS = {"auto.leader.rebalance.enable": "false"}  # the new leader shall stay


class _Cast(NamedTuple):
    """The brokers: the one that becomes a zombie, and the others."""

    zombie: int
    second: int
    third: int


async def play(story: Story) -> None:
    cast = await _begin(story)
    await _isolated(story, cast)
    await _replaced(story, cast)
    await _back(story, cast)


async def _begin(story: Story) -> _Cast:
    """The controller also leads the partition."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    (zombie,) = looks.active_controllers(story.cluster)
    second, third = (each for each in (1, 2, 3) if each != zombie)
    cast = _Cast(zombie, second, third)
    order = f"{zombie},{second},{third}"
    await story.finished(story.do("create_topic", topic="orders", assignment=order), pace=20)
    await story.finished(story.do("produce", topic="orders", records=10), pace=20)
    await story.wait(ms=600, pace=300)
    whole = looks.log_ends(story.cluster, PARTITION) == dict.fromkeys(cast, 10)
    story.check("ten", whole, focus=("lanes",))
    led = looks.leaders(story.cluster, PARTITION) == {zombie: 0}
    story.check("two-hats", led, focus=("stage",), zombie=zombie)
    await story.say("hold-one", focus=(f"host|broker-{zombie}",), zombie=zombie, third=third)
    story.do("cut", one=f"broker-{zombie}", other=f"broker-{third}")
    story.do("create_topic", topic="bills", assignment=order)
    await story.until_message(
        "LeaderAndIsr",
        source=f"broker-{zombie}",
        target=f"broker-{third}",
        arrived=False,
        pace=5,
    )
    await story.say("stuck", focus=("wire",), zombie=zombie, third=third)
    return cast


async def _isolated(story: Story, cast: _Cast) -> None:
    """Cut off from ZooKeeper and the others, the leader goes on to accept records."""
    zombie = cast.zombie
    story.do("isolate", broker=zombie)
    await story.say("isolated", focus=(f"host|broker-{zombie}",), zombie=zombie)
    await story.wait(ms=2_000, pace=500)
    written = story.do("produce", topic="orders", records=3, acks="1", value="x", to=zombie)
    await story.finished(written, pace=5)
    ends = looks.log_ends(story.cluster, PARTITION)
    story.check("accepted", ends[zombie] == 13, focus=("lanes",), zombie=zombie)
    marks = looks.high_watermarks(story.cluster, PARTITION)
    story.check("not-committed", marks[zombie] == 10, focus=("lanes",))
    lanes = ("lanes", f"partition|{zombie}|orders-0")
    await story.ask("acks-all", right=2, focus=lanes, zombie=zombie)
    story.do("produce", topic="orders", records=1, acks="all", value="z", to=zombie)
    await story.wait(ms=100, pace=30)
    parked = looks.parked(story.cluster, zombie, "Produce") == 1
    waiting = ("purgatories", f"purgatory|{zombie}|Produce")
    story.check("parked", parked, focus=waiting, zombie=zombie)
    await story.say("alone", focus=waiting, zombie=zombie)


async def _replaced(story: Story, cast: _Cast) -> None:
    """The others elect a controller and a leader, in new epochs."""
    zombie = cast.zombie
    await story.until_event("controller_failover_completed", pace=800)
    epochs = looks.active_controllers(story.cluster)
    (controller,) = set(epochs) - {zombie}
    story.check("two-controllers", epochs == {zombie: 1, controller: 2}, focus=("stage",))
    await story.say("no-argument", focus=("controller",), zombie=zombie, controller=controller)
    await story.until(
        "another leader", lambda cluster: len(looks.leaders(cluster, PARTITION)) == 2, pace=5
    )
    leaders = looks.leaders(story.cluster, PARTITION)
    story.check("two-leaders", leaders == {zombie: 0, cast.second: 1}, focus=("lanes",))
    written = story.do("produce", topic="orders", records=2, value="y", to=cast.second)
    await story.finished(written, pace=10)
    ends = looks.log_ends(story.cluster, PARTITION)
    story.check("forked", (ends[zombie], ends[cast.second]) == (14, 12), focus=("lanes",))
    await story.say(
        "same-offset",
        focus=("lanes", f"partition|{zombie}|orders-0"),
        zombie=zombie,
        leader=cast.second,
    )
    await story.ask("who-wins", right=1, zombie=zombie, leader=cast.second)


async def _back(story: Story, cast: _Cast) -> None:
    """The zombie is heard again: its request is refused, and its log is truncated."""
    zombie, second, third = cast
    story.do("heal_all")
    refused = await story.until_event("controller_request_refused", pace=0.2)
    stale = refused["error"] == "STALE_CONTROLLER_EPOCH" and refused["controller"] == zombie
    known = refused["known_controller_epoch"] == 2
    story.check("stale", stale and known, focus=("wire",), zombie=zombie, third=third)
    await story.say("past-controller", focus=("controller",), zombie=zombie)
    await story.until("resigned", lambda it: zombie not in looks.active_controllers(it), pace=2)
    produced = await story.until_event("produced", to=zombie, pace=2)
    late = produced["records"] == 0 and "NOT_LEADER_OR_FOLLOWER" in produced["error"]
    story.check("not-leader", late, zombie=zombie)
    cut = await story.until_event("replica_truncated", broker=zombie, pace=2)
    where = (cut["offset"], cut["log_end_offset"], cut["high_watermark"])
    story.check("truncated", where == (10, 14, 10), focus=("lanes",), zombie=zombie)
    await story.say(
        "how-it-knew", focus=("lanes", f"partition|{zombie}|orders-0"), zombie=zombie, leader=second
    )
    await story.wait(ms=1_000, pace=300)
    story.check("rejoined", looks.in_sync(story.cluster, PARTITION) == (1, 2, 3), zombie=zombie)
    check_replicas_alike(story.cluster, PARTITION)
    ends = looks.log_ends(story.cluster, PARTITION)
    story.check("alike", set(ends.values()) == {12}, focus=("lanes",))
    story.do("read", topic="orders")
    found = await story.until_event("read", pace=50)
    values = found["values"].split()
    kept = "y0" in values and "y1" in values and len(values) == 12
    story.check("read", kept and not any(each[0] in "xz" for each in values))
    await story.say("end", focus=("lanes",))


CHAPTER = Chapter(name="zombies", number=12, seed=12, settings=SETTINGS, play=play)
