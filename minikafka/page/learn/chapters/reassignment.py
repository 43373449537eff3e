"""Chapter 8: a partition moves from brokers 1, 2, 3 to brokers 4, 5, 6, step by step."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.server.zookeeper import paths

PARTITION = TopicPartition("orders", 0)
OLD, TARGET = (1, 2, 3), (4, 5, 6)
LEADER = "partition|1|orders-0"
SETTINGS = {"auto.leader.rebalance.enable": "false"}  # it would make broker 4 the leader early
REQUEST = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[4,5,6]}]}'


async def play(story: Story) -> None:
    await _begin(story)
    await _catch_up(story)
    await _new_controller(story)
    await _move(story)


async def _step(story: Story, number: int) -> None:
    """Play until the controller has completed a step."""
    await story.until_event("reassignment_step_completed", step=number, pace=2)


async def _begin(story: Story) -> None:
    """A partition with records on 1, 2, 3, and a request to move it."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", assignment="1,2,3")
    await story.finished(created, pace=20)
    await story.finished(story.do("produce", topic="orders", records=20), pace=20)
    await story.wait(ms=600, pace=300)
    assert_old = looks.assignment(story.cluster, PARTITION).replicas == OLD
    story.check("at-home", assert_old and looks.in_sync(story.cluster, PARTITION) == OLD)
    marks = looks.high_watermarks(story.cluster, PARTITION)
    story.check("copied", marks == dict.fromkeys(OLD, 20), focus=("lanes",))
    await story.say("three-lists", focus=("lanes", LEADER))
    story.do("cut", one="broker-1", other="broker-6")
    await story.say("cut", focus=("host|broker-6",))
    await story.ask("first-write", right=1)
    story.do("write_znode", path=paths.REASSIGN_PARTITIONS, text=REQUEST)
    await _step(story, 1)
    found = looks.assignment(story.cluster, PARTITION)
    union = set(found.replicas) == {*OLD, *TARGET}
    story.check("union", union and found.adding == TARGET and found.removing == OLD)
    await story.say("step-1", focus=("controller",))


async def _catch_up(story: Story) -> None:
    """Steps 2 to 4: the new replicas fetch, but broker 6 cannot."""
    await _step(story, 2)
    state = story.cluster.state(PARTITION).leader_and_isr
    story.check("new-epoch", (state.leader, state.leader_epoch, state.isr) == (1, 1, OLD))
    await story.wait(ms=0.6, pace=0.3)  # the requests leave
    await story.say("step-2", focus=("wire",))
    await story.say("step-3", focus=("controller",))
    await story.wait(ms=6, pace=2)
    await story.until(
        "5 of 6 in sync", lambda it: looks.in_sync(it, PARTITION) == (1, 2, 3, 4, 5), pace=200
    )
    await story.wait(ms=10, pace=5)  # the leader learns of it
    story.check("five", 6 not in looks.in_sync(story.cluster, PARTITION), focus=(LEADER,))
    await story.say("step-4", focus=(LEADER,))
    await story.ask("how-long", right=2)
    await story.wait(ms=20_000, pace=4_000)
    moving = set(looks.assignment(story.cluster, PARTITION).replicas) == {*OLD, *TARGET}
    story.check("still-waiting", moving and story.cluster.leader(PARTITION) == 1)


async def _new_controller(story: Story) -> None:
    """Another controller finds the reassignment in ZooKeeper and continues it."""
    before = looks.active_controllers(story.cluster)
    (first,) = before
    await story.say("delete-controller", focus=("controller",), controller=first)
    story.do("delete_znode", path=paths.CONTROLLER)
    await story.until_event("controller_failover_completed", pace=5)
    await story.wait(ms=20, pace=8)
    after = looks.active_controllers(story.cluster)
    (second,) = after
    context = looks.context(story.cluster)
    story.check(
        "continued",
        after[second] == before[first] + 1 and PARTITION in context.partitions_being_reassigned,
        controller=second,
    )
    await story.say("continued-why", focus=("controller",), controller=second)


async def _move(story: Story) -> None:
    """Steps 4 to 12: everything is in sync, the leader moves, the old replicas go."""
    story.do("heal", one="broker-1", other="broker-6")
    await _step(story, 4)
    story.check(
        "all-six", looks.in_sync(story.cluster, PARTITION) == (*OLD, *TARGET), focus=(LEADER,)
    )
    await story.say("steps-5-6", focus=("controller",))
    await _step(story, 7)
    state = story.cluster.state(PARTITION).leader_and_isr
    story.check("led-by-4", state.leader == 4 and len(state.isr) == 6)
    await story.say("step-7", focus=("partition|4|orders-0",))
    await _step(story, 8)
    story.check("out", looks.in_sync(story.cluster, PARTITION) == TARGET)
    await story.wait(ms=1, pace=0.5)  # the requests leave
    await story.say("step-8", focus=("wire",))
    await story.ask("crash-now", right=0)
    union = set(looks.assignment(story.cluster, PARTITION).replicas) >= {*OLD}
    story.check("znode-last", union)
    await _step(story, 10)
    found = looks.assignment(story.cluster, PARTITION)
    story.check("target", found.replicas == TARGET and not found.removing)
    await story.say("step-10", focus=("controller",))
    await _step(story, 12)
    story.check("request-gone", not looks.has_znode(story.cluster, paths.REASSIGN_PARTITIONS))
    await story.wait(ms=1, pace=0.5)  # the requests leave
    await story.say("steps-11-12", focus=("wire",))
    await story.wait(ms=200, pace=60)
    story.check("deleted", sorted(looks.log_ends(story.cluster, PARTITION)) == [*TARGET])
    await story.finished(story.do("produce", topic="orders", records=5), pace=20)
    await story.wait(ms=600, pace=300)
    marks = looks.high_watermarks(story.cluster, PARTITION)
    story.check("nothing-lost", marks == dict.fromkeys(TARGET, 25), focus=("lanes",))
    await story.say("end", focus=("lanes",))


CHAPTER = Chapter(name="reassignment", number=8, seed=8, brokers=6, settings=SETTINGS, play=play)
