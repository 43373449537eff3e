"""Chapter 6: kill -15, the controlled shutdown of a broker step by step."""

from __future__ import annotations

from minikafka.kernel.cluster import NO_LEADER, TopicPartition
from minikafka.page.learn.looks import (
    active_controllers,
    controller_epoch,
    has_controller,
    is_led,
    is_registered,
    isr,
    leader_epoch,
    log_end,
)
from minikafka.page.learn.story import Chapter, Story

ORDERS = [TopicPartition("orders", number) for number in range(3)]
SOLO = TopicPartition("solo", 0)
PAIR = TopicPartition("pair", 0)
BROKERS = (1, 2, 3)
RECORDS = 300


async def play(story: Story) -> None:
    await story.say("begin", focus=("stage",))
    await story.until("a controller", lambda cluster: has_controller(cluster), pace=20)
    chief = story.cluster.controller_id() or 0
    leaving = next(broker for broker in BROKERS if broker != chief)
    heir, third = (*BROKERS, *BROKERS)[leaving : leaving + 2]
    friend = heir if heir != chief else third
    await _a_steady_load(story, leaving, heir, third)
    await _asked(story, chief, leaving, heir)
    await _moved(story, chief, leaving, heir)
    await _closed(story, leaving, heir)
    await _clean_start(story, leaving)
    await _refused(story, chief, leaving, friend)
    await _the_controller_itself(story, chief)
    await story.say("end", focus=("stage",))


async def _a_steady_load(story: Story, leaving: int, heir: int, third: int) -> None:
    replicas = f"{leaving},{heir},{third};{heir},{third},{leaving};{third},{leaving},{heir}"
    await story.finished(story.do("create_topic", topic="orders", assignment=replicas), pace=100)
    await story.finished(story.do("create_topic", topic="solo", assignment=f"{leaving}"), pace=100)
    story.do("produce", topic="orders", records=RECORDS, every_ms=50)
    await story.wait(ms=1_500, pace=500)
    await story.say("intro", focus=("lanes",), leaving=leaving)
    led = is_led(story.cluster, ORDERS[0], leaving) and is_led(story.cluster, SOLO, leaving)
    story.check("leads-two", led, focus=("lanes",), leaving=leaving)


async def _asked(story: Story, chief: int, leaving: int, heir: int) -> None:
    await story.ask("first-step", right=1, focus=(f"host|broker-{leaving}",), leaving=leaving)
    story.do("stop", broker=leaving)
    await story.until_message(
        "ControlledShutdown", source=f"broker-{leaving}", arrived=False, pace=1
    )
    await story.say("request", focus=("wire",), leaving=leaving, controller=chief)
    await story.until_event("controlled_shutdown_requested", leaving_broker=leaving, pace=0.5)
    view = f"controller|{chief}|"
    await story.say("received", focus=(view,), leaving=leaving, controller=chief)


async def _moved(story: Story, chief: int, leaving: int, heir: int) -> None:
    view = f"controller|{chief}|"
    await story.until_event(
        "partition_state_changed", partition="orders-0", after="OnlinePartition", pace=0.5
    )
    await story.say("leader-moved", focus=(view, "lanes"), leaving=leaving, heir=heir)
    state = (story.cluster.leader(ORDERS[0]), leader_epoch(story.cluster, ORDERS[0]))
    moved = state == (heir, 1) and leaving not in isr(story.cluster, ORDERS[0])
    story.check("new-leader", moved, focus=("lanes",), heir=heir, leaving=leaving)
    await story.until_event("controlled_shutdown_succeeded", broker=leaving, pace=0.5)
    await story.say("response", focus=("wire",), leaving=leaving)
    gone = all(leaving not in isr(story.cluster, partition) for partition in ORDERS)
    alive = story.cluster.host(leaving).alive
    story.check("left-while-alive", gone and alive, focus=("lanes",), leaving=leaving)
    await story.until_event("replica_stopped", broker=leaving, pace=0.5)
    await story.say("stop-replica", focus=("wire",), leaving=leaving)


async def _closed(story: Story, leaving: int, heir: int) -> None:
    await story.until(
        "an end", lambda cluster: not cluster.host(leaving).alive, limit_ms=5_000, pace=50
    )
    await story.until(
        "no registration", lambda cluster: not is_registered(cluster, leaving), limit_ms=100, pace=5
    )
    await story.say("closed", focus=(f"host|broker-{leaving}",), leaving=leaving)
    await story.until(
        "solo without a leader",
        lambda cluster: cluster.leader(SOLO) == NO_LEADER,
        limit_ms=2_000,
        pace=5,
    )
    await story.say("solo", focus=("lanes",), leaving=leaving)
    unmoved = leader_epoch(story.cluster, ORDERS[0]) == 1
    story.check("nothing-to-elect", unmoved, focus=("lanes",), heir=heir)


async def _clean_start(story: Story, leaving: int) -> None:
    await story.wait(ms=1_000, pace=500)
    story.do("start", broker=leaving)
    loaded = await story.until_event("logs_loaded", pace=10)
    await story.say("no-recovery", focus=(f"host|broker-{leaving}",), leaving=leaving)
    story.check("clean", bool(loaded["clean"]), focus=(f"host|broker-{leaving}",))
    await story.until(
        "complete ISRs",
        lambda cluster: (
            all(len(isr(cluster, tp)) == 3 for tp in ORDERS) and is_led(cluster, SOLO, leaving)
        ),
        limit_ms=20_000,
        pace=50,
    )


async def _refused(story: Story, chief: int, leaving: int, friend: int) -> None:
    """The other replica of a partition is dead, so its leadership cannot be moved."""
    created = story.do("create_topic", topic="pair", assignment=f"{leaving},{friend}")
    await story.finished(created, pace=20)
    await story.finished(story.do("kill", broker=friend), pace=5)
    await story.until(
        "an ISR of one",
        lambda cluster: isr(cluster, PAIR) == (leaving,),
        limit_ms=15_000,
        pace=3_000,
    )
    await story.ask("nobody-left", right=2, focus=("lanes",), leaving=leaving, friend=friend)
    story.do("stop", broker=leaving)
    refused = await story.until_event("controlled_shutdown_refused", pace=5)
    await story.say("refused", focus=(f"host|broker-{leaving}", "wire"), leaving=leaving)
    serving = story.cluster.host(leaving).alive and is_led(story.cluster, PAIR, leaving)
    story.check("still-serving", serving and refused["remaining"] > 0, focus=("lanes",))
    failed = await story.until_event("controlled_shutdown_failed", limit_ms=20_000, pace=2_000)
    await story.until(
        "an end", lambda cluster: not cluster.host(leaving).alive, limit_ms=5_000, pace=50
    )
    await story.until(
        "pair without a leader",
        lambda cluster: cluster.leader(PAIR) == NO_LEADER,
        limit_ms=2_000,
        pace=5,
    )
    await story.say("gave-up", focus=(f"host|broker-{leaving}",), leaving=leaving, friend=friend)
    story.check("three-attempts", failed["attempts"] == 3, focus=(f"host|broker-{leaving}",))
    for broker in (leaving, friend):
        await story.finished(story.do("start", broker=broker), pace=50)
    await story.until(
        "complete ISRs",
        lambda cluster: all(len(isr(cluster, tp)) == 3 for tp in ORDERS),
        limit_ms=20_000,
        pace=200,
    )


async def _the_controller_itself(story: Story, chief: int) -> None:
    epoch = controller_epoch(story.cluster)
    await story.ask("to-itself", right=0, focus=(f"controller|{chief}|",), controller=chief)
    await story.finished(story.do("stop", broker=chief), pace=20)
    await story.until(
        "another controller",
        lambda cluster: controller_epoch(cluster) == epoch + 1 and has_controller(cluster),
        limit_ms=3_000,
        pace=10,
    )
    (successor,) = active_controllers(story.cluster)
    view = f"controller|{successor}|"
    await story.say("next-controller", focus=(view,), before=chief, controller=successor)
    led = all(story.cluster.leader(partition) not in (chief, NO_LEADER) for partition in ORDERS)
    story.check("all-led", led, focus=("lanes",))
    await story.wait(ms=5_000, pace=3_000)
    stored = sum(log_end(story.cluster, tp, story.cluster.leader(tp)) for tp in ORDERS)
    story.check("nothing-lost", stored == RECORDS, focus=("lanes",))


CHAPTER = Chapter(name="controlled-shutdown", number=6, seed=1, brokers=3, play=play)
