"""Chapter 18: what proves that a broker is dead, and why a wrong proof does no harm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.messages import REFUSED
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.checkers import check_replicas_alike
from minikafka.testing.simulator.cluster import SimCluster

PARTITION = TopicPartition("orders", 0)
BROKERS = (1, 2, 3)
SESSION_MS = 18_000
SOON_MS = 500
AGAIN_MS = 20  # between the two attempts to connect
SETTINGS = {
    "auto.leader.rebalance.enable": "false",  # a new leader stays
    "minikafka.fast.failover": "true",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
}


class _Cast(NamedTuple):
    """The controller, the first leader, and the broker that follows it in the assignment."""

    chief: int
    victim: int
    heir: int


async def play(story: Story) -> None:
    cast = await _begin(story)
    await _killed(story, cast)
    await _back_at_once(story, cast)
    await _silent(story, cast)
    await _refused(story, cast)
    await _judged(story)
    await _the_controller(story, cast.chief)
    await story.say("end", focus=("stage",))


async def _begin(story: Story) -> _Cast:
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    (chief,) = looks.active_controllers(story.cluster)
    victim, heir = (broker for broker in BROKERS if broker != chief)
    order = f"{victim},{heir},{chief}"
    await story.finished(story.do("create_topic", topic="orders", assignment=order), pace=20)
    story.do("produce", topic="orders", records=20, every_ms=40, value="a")
    await story.wait(ms=600, pace=200)
    led = looks.leaders(story.cluster, PARTITION) == {victim: 0}
    whole = looks.in_sync(story.cluster, PARTITION) == BROKERS
    story.check("led", led and whole, focus=("lanes",), victim=victim)
    await story.say("watch", focus=("stage",))
    await story.ask("how-long", right=1, focus=("stage",), victim=victim)
    return _Cast(chief, victim, heir)


async def _killed(story: Story, cast: _Cast) -> None:
    """The process of the leader ends: its kernel refuses connections, twice."""
    chief, victim, heir = cast
    begun_us = story.now_us
    story.do("kill", broker=victim)
    await story.until_message(
        REFUSED,
        source=f"broker-{victim}",
        target=f"broker-{chief}",
        is_request=False,
        pace=0.2,
    )
    first_us = story.now_us
    await story.say("refused", focus=("wire", f"host|broker-{victim}"), **cast._asdict())
    still = looks.is_registered(story.cluster, victim)
    story.check("once-is-not-enough", still, focus=("host|zookeeper",), victim=victim)
    found = await story.until_event("broker_found_gone", gone_broker=victim, pace=2)
    ms = (story.now_us - first_us) // 1_000
    story.check("twice", AGAIN_MS <= ms < SOON_MS, focus=("wire",), ms=ms, victim=victim)
    gone = not looks.is_registered(story.cluster, victim)
    names = {"finder": found["broker"], "victim": victim}
    story.check("deleted", gone and len(found["refused"]) == 1, focus=("host|zookeeper",), **names)
    await story.say("czxid", focus=("host|zookeeper",), **names)
    await story.until_event("brokers_failed", pace=1)
    await story.until_event("replica_became_leader", broker=heir, partition="orders-0", pace=1)
    ms = (story.now_us - begun_us) // 1_000
    led = looks.leader_epoch(story.cluster, PARTITION) == 1 and ms < SOON_MS
    story.check("new-leader", led, focus=("lanes",), heir=heir, ms=ms)
    produced = await story.until_event("produced", pace=200)
    story.check("no-error", produced["records"] == 20, focus=("lanes",))


async def _back_at_once(story: Story, cast: _Cast) -> None:
    """A broker comes back while the session of its earlier run lives; the end of that session
    changes nothing."""
    victim = cast.victim
    await story.finished(story.do("start", broker=victim), pace=20)
    await story.until("whole", _is_whole, pace=20)
    story.check("back", _is_whole(story.cluster), focus=("lanes",), victim=victim)
    await story.wait(ms=SESSION_MS + 2_000, pace=4_000)
    epoch = looks.leader_epoch(story.cluster, PARTITION)
    kept = epoch == 1 and looks.is_registered(story.cluster, victim)
    story.check("nothing-twice", kept and _is_whole(story.cluster), focus=("host|zookeeper",))


async def _silent(story: Story, cast: _Cast) -> None:
    """The leader is suspended: nobody refuses anything, so the session decides."""
    victim, leader = cast.victim, cast.heir
    await story.ask("suspended", right=2, focus=(f"host|broker-{leader}",), leader=leader)
    begun_us = story.now_us
    story.do("pause", broker=leader)
    story.do("produce", topic="orders", records=5, value="b")
    await story.wait(ms=3_000, pace=500)
    registered = looks.is_registered(story.cluster, leader)
    unled = registered and story.cluster.leader(PARTITION) == leader
    story.check("no-evidence", unled, focus=("host|zookeeper", "wire"), leader=leader)
    await story.until_event("brokers_failed", limit_ms=2 * SESSION_MS, pace=3_000)
    await story.until_event("replica_became_leader", broker=victim, partition="orders-0", pace=1)
    seconds = (story.now_us - begun_us) // 1_000_000
    late = seconds > SESSION_MS // 2_000
    story.check("session", late, focus=("lanes",), seconds=seconds, leader=leader, heir=victim)
    await story.until_event("produced", pace=200)
    story.do("resume", broker=leader)
    await story.until("whole", _is_whole, pace=500)
    await story.say("silence", focus=("stage",), leader=leader)


async def _refused(story: Story, cast: _Cast) -> None:
    """Something refuses connections for the leader, which lives and is taken for dead."""
    liar, others = cast.victim, (cast.chief, cast.heir)
    host = f"host|broker-{liar}"
    await story.say("firewall", focus=(host,), liar=liar)
    # A client keeps its connection: it sends one record before the lie, and one after it.
    story.do("produce", topic="orders", records=2, every_ms=100, value="z", to=liar)
    await story.wait(ms=20, pace=5)
    story.do("refuse", broker=liar)
    for other in others:
        story.do("reset", one=f"broker-{liar}", other=f"broker-{other}")
    await story.until_event("broker_found_gone", gone_broker=liar, pace=5)
    alive = liar in looks.leaders(story.cluster, PARTITION)
    story.check("wrong", alive, focus=(host, "host|zookeeper"), liar=liar)
    await story.until("two leaders", lambda it: len(looks.leaders(it, PARTITION)) == 2, pace=2)
    leaders = looks.leaders(story.cluster, PARTITION)
    (heir,) = set(leaders) - {liar}
    names = {"liar": liar, "heir": heir}
    fenced = (leaders[liar], leaders[heir]) == (2, 3)
    story.check("two-leaders", fenced, focus=("lanes",), **names)
    await _zombie(story, names)


async def _zombie(story: Story, names: Mapping[str, Any]) -> None:
    """The deposed leader takes a record, acknowledges nothing, and resigns."""
    liar, lane = names["liar"], f"partition|{names['liar']}|orders-0"
    story.do("produce", topic="orders", records=5, value="c")
    await story.ask("acks-all", right=1, focus=("lanes", lane), **names)
    await story.wait(ms=200, pace=20)
    parked = looks.parked(story.cluster, liar, "Produce") >= 1
    story.check("parked", parked, focus=("purgatories", f"purgatory|{liar}|Produce"), **names)
    registered = looks.is_registered(story.cluster, liar)
    story.check("registered", registered, focus=("host|zookeeper",), **names)
    await story.say("accept", focus=(f"host|broker-{liar}",), **names)
    story.do("accept", broker=liar)
    await story.until_event("replica_became_follower", broker=liar, partition="orders-0", pace=20)
    refused = await story.until_event("produced", to=liar, pace=5)
    resigned = refused["records"] == 1 and "NOT_LEADER_OR_FOLLOWER" in refused["error"]
    story.check("resigned", resigned, focus=("lanes", lane), **names)
    await story.until("whole", _is_whole, pace=100)
    await story.say("epoch", focus=("lanes",), **names)


async def _judged(story: Story) -> None:
    """Every acknowledged record is there, and nothing else."""
    check_replicas_alike(story.cluster, PARTITION)
    story.do("read", topic="orders")
    read = await story.until_event("read", pace=50)
    values = read["values"].split()
    sent = {"a": 20, "b": 5, "c": 5, "z": 1}  # that were acknowledged
    wanted = {f"{name}{number}" for name, count in sent.items() for number in range(count)}
    kept = sorted(values) == sorted(wanted)
    story.check("kept", kept, focus=("lanes",), records=len(wanted))


async def _the_controller(story: Story, chief: int) -> None:
    begun_us = story.now_us
    epoch = looks.controller_epoch(story.cluster)
    story.do("kill", broker=chief)
    elected = await story.until_event("controller_elected", pace=5)
    ms, controller = (story.now_us - begun_us) // 1_000, elected["broker"]
    again = looks.controller_epoch(story.cluster) == epoch + 1 and controller != chief
    names = {"chief": chief, "controller": controller, "ms": ms}
    story.check("controller", again and ms < SOON_MS, focus=("controller",), **names)


def _is_whole(cluster: SimCluster) -> bool:
    """Return whether all brokers run and are in the ISR."""
    return looks.is_up(cluster) and looks.in_sync(cluster, PARTITION) == BROKERS


CHAPTER = Chapter(name="noticing-deaths", number=18, seed=18, settings=SETTINGS, play=play)
