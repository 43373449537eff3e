"""Chapter 5: a broker dies, another one takes over its partitions, and it comes back."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.looks import (
    has_controller,
    is_led,
    is_registered,
    isr,
    leader_epoch,
    log_end,
)
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

ORDERS = [TopicPartition("orders", number) for number in range(3)]
BROKERS = (1, 2, 3)
RECORDS = 400


async def play(story: Story) -> None:
    await story.say("begin", focus=("stage",))
    await story.until("a controller", lambda cluster: has_controller(cluster), pace=20)
    chief = story.cluster.controller_id() or 0
    victim = next(broker for broker in BROKERS if broker != chief)
    heir, third = (broker for broker in (*BROKERS, *BROKERS)[victim : victim + 2])
    await _a_steady_load(story, victim, heir, third)
    await _killed(story, victim)
    await _expired(story, chief, victim)
    await _elected(story, chief, victim, heir)
    await _the_client(story, heir)
    await _back(story, chief, victim)
    await _in_order_again(story, victim)
    await story.say("end", focus=("stage",))


async def _a_steady_load(story: Story, victim: int, heir: int, third: int) -> None:
    replicas = f"{victim},{heir},{third};{heir},{third},{victim};{third},{victim},{heir}"
    created = story.do("create_topic", topic="orders", assignment=replicas)
    await story.finished(created, pace=100)
    story.do("produce", topic="orders", records=RECORDS, every_ms=50)
    await story.wait(ms=1_500, pace=500)
    facts = {"victim": victim, "heir": heir, "third": third}
    await story.say("intro", focus=("lanes",), **facts)
    whole = all(len(isr(story.cluster, partition)) == 3 for partition in ORDERS)
    led = is_led(story.cluster, ORDERS[0], victim)
    story.check("whole", whole and led, focus=("lanes",), victim=victim)


async def _killed(story: Story, victim: int) -> None:
    await story.finished(story.do("kill", broker=victim), pace=1)
    await story.wait(ms=100, pace=50)
    await story.say("killed", focus=(f"host|broker-{victim}", "wire"), victim=victim)
    unaware = is_registered(story.cluster, victim) and victim in isr(story.cluster, ORDERS[0])
    story.check("unaware", unaware, focus=("host|zookeeper",), victim=victim)
    await story.ask("who-notices", right=2, focus=("host|zookeeper",), victim=victim)


async def _expired(story: Story, chief: int, victim: int) -> None:
    await story.until_message(
        "WatchEvent /brokers/ids",
        source="zookeeper",
        target=f"broker-{chief}",
        is_request=False,
        arrived=False,
        limit_ms=10_000,
        pace=2_000,
    )
    await story.say("expired", focus=("stage", "host|zookeeper"), victim=victim)
    on_paper = story.cluster.leader(ORDERS[0]) == victim
    gone = not is_registered(story.cluster, victim)
    story.check("leader-is-gone", gone and on_paper, focus=("host|zookeeper",), victim=victim)
    await story.until_event("brokers_failed", pace=1)
    await story.say("failure", focus=(f"controller|{chief}|",), controller=chief, victim=victim)


async def _elected(story: Story, chief: int, victim: int, heir: int) -> None:
    view, lane = f"controller|{chief}|", f"partition|{heir}|orders-0"
    await story.ask("who-leads", right=0, focus=(view,), victim=victim, heir=heir)
    await story.until_event("offline_partition_leader_elected", partition="orders-0", pace=1)
    await story.say("elected", focus=(view,), controller=chief, victim=victim, heir=heir)
    led = (story.cluster.leader(ORDERS[0]), leader_epoch(story.cluster, ORDERS[0])) == (heir, 1)
    smaller = victim not in isr(story.cluster, ORDERS[0])
    story.check("new-leader", led and smaller, focus=("host|zookeeper",), heir=heir)
    await story.until_event("replica_became_leader", broker=heir, partition="orders-0", pace=1)
    await story.say("told", focus=(lane, "wire"), heir=heir)
    await story.until(
        "smaller ISRs",
        lambda cluster: all(victim not in isr(cluster, partition) for partition in ORDERS),
        limit_ms=2_000,
        pace=5,
    )
    await story.until_message("Produce", target="client", is_request=False, arrived=False, pace=1)
    await story.say("others-shrunk", focus=("lanes", "wire"), victim=victim)
    story.check(
        "two-each", all(len(isr(story.cluster, tp)) == 2 for tp in ORDERS), focus=("lanes",)
    )


async def _the_client(story: Story, heir: int) -> None:
    before = log_end(story.cluster, ORDERS[0], heir)
    await story.until(
        "records at the new leader",
        lambda cluster: log_end(cluster, ORDERS[0], heir) > before,
        limit_ms=20_000,
        pace=200,
    )
    await story.say(
        "client-goes-on", focus=(f"partition|{heir}|orders-0", "host|client"), heir=heir
    )


async def _back(story: Story, chief: int, victim: int) -> None:
    story.do("start", broker=victim)
    await story.until_event("broker_started", broker=victim, pace=10)
    await story.say("started", focus=(f"host|broker-{victim}",), victim=victim)
    await story.until_event("brokers_started", pace=2)
    await story.say("startup", focus=(f"controller|{chief}|",), controller=chief, victim=victim)
    await story.until(
        "complete ISRs",
        lambda cluster: all(len(isr(cluster, partition)) == 3 for partition in ORDERS),
        limit_ms=30_000,
        pace=5,
    )
    await story.say("joined", focus=("lanes",), victim=victim)


async def _in_order_again(story: Story, victim: int) -> None:
    await story.until(
        "the preferred leader",
        lambda cluster: is_led(cluster, ORDERS[0], victim),
        limit_ms=30_000,
        pace=2_000,
    )
    await story.say("preferred", focus=(f"partition|{victim}|orders-0",), victim=victim)
    epoch = leader_epoch(story.cluster, ORDERS[0])
    story.check("third-term", epoch == 2, focus=("lanes",), victim=victim)
    produced = await story.until_event("produced", limit_ms=60_000, pace=5_000)
    await story.wait(ms=1_000, pace=1_000)
    await story.say("nothing-lost", focus=("lanes",))
    stored = sum(log_end(story.cluster, tp, story.cluster.leader(tp)) for tp in ORDERS)
    story.check("all-there", produced["records"] == RECORDS == stored, focus=("lanes",))
    story.check("alike", _alike(story.cluster), focus=("lanes",))


def _alike(cluster: SimCluster) -> bool:
    """Return whether the three replicas of each partition end at the same offset."""
    return all(len({log_end(cluster, tp, broker) for broker in BROKERS}) == 1 for tp in ORDERS)


CHAPTER = Chapter(
    name="a-broker-dies",
    number=5,
    seed=1,
    brokers=3,
    settings={"leader.imbalance.check.interval.seconds": "10"},
    play=play,
)
