"""Chapter 4: the election of the controller, and ``/controller`` changed by hand."""

from __future__ import annotations

from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.looks import (
    active_controllers,
    context,
    controller_epoch,
    has_controller,
    is_registered,
    leader_epoch,
    log_end,
    znode,
)
from minikafka.page.learn.story import Chapter, Story
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import SimCluster

ORDERS = [TopicPartition("orders", number) for number in range(3)]
BROKERS = ("host|broker-1", "host|broker-2", "host|broker-3")
ZOOKEEPER = "host|zookeeper"


async def play(story: Story) -> None:
    await story.say("intro", focus=("stage",))
    first = await _the_first(story)
    await _its_work(story, first)
    second = await _deleted_by_hand(story, first)
    third = await _a_foreign_id(story, second)
    fourth = await _garbage(story, third)
    await _its_own_old_node(story, fourth)
    await story.wait(ms=500, pace=200)
    await story.say("end", focus=("controller",))


async def _the_first(story: Story) -> int:
    await story.until(
        "three registrations",
        lambda cluster: all(is_registered(cluster, broker) for broker in (1, 2, 3)),
        pace=5,
    )
    await story.say("registered", focus=(ZOOKEEPER, *BROKERS))
    for _ in range(2):  # of the three candidates
        await story.until_message("Multi /controller", target="zookeeper", arrived=False, pace=1)
    await story.say("candidates", focus=("stage",))
    elected = await story.until_event("controller_elected", pace=1)
    first: int = elected["broker"]
    await story.say("race", focus=(ZOOKEEPER, f"host|broker-{first}"), controller=first)
    data = znode(story.cluster, paths.CONTROLLER) or b""
    named = f'"brokerid":{first}'.encode() in data.replace(b" ", b"")
    story.check("first-epoch", named and controller_epoch(story.cluster) == 1, focus=(ZOOKEEPER,))
    await _take_over(story, first)
    await story.say("take-over", focus=(f"controller|{first}|",), controller=first)
    story.check("known", _all_know(story.cluster, first), focus=BROKERS, controller=first)
    return first


async def _its_work(story: Story, first: int) -> None:
    view = f"controller|{first}|"
    created = story.do("create_topic", topic="orders", assignment="1,2,3;2,3,1;3,1,2")
    await story.until_event("partition_state_changed", after="NewPartition", pace=3)
    await story.say("new-partition", focus=(view,), controller=first)
    await story.until_event("partition_state_changed", after="OnlinePartition", pace=1)
    await story.say("online-partition", focus=(view, ZOOKEEPER), controller=first)
    leaders = [story.cluster.leader(partition) for partition in ORDERS]
    story.check("first-replicas-lead", leaders == [1, 2, 3], focus=("lanes",))
    await story.until_message("LeaderAndIsr", source=f"broker-{first}", arrived=False, pace=1)
    await story.say("orders", focus=("wire",), controller=first)
    await story.finished(created, pace=5)
    await story.until("metadata everywhere", _metadata_alike, limit_ms=1_000, pace=5)
    online = has_controller(story.cluster) and all(
        context(story.cluster).partition_state(tp) is PartitionState.ONLINE for tp in ORDERS
    )
    story.check("all-online", online, focus=(view,))
    await story.say("watches", focus=(view, ZOOKEEPER), controller=first)


async def _deleted_by_hand(story: Story, first: int) -> int:
    story.do("produce", topic="orders", records=200, every_ms=5)
    await story.wait(ms=100, pace=50)
    await story.ask("delete", right=2, focus=(ZOOKEEPER,))
    story.do("delete_znode", path=paths.CONTROLLER)
    await story.until_message(
        "WatchEvent /controller", source="zookeeper", is_request=False, arrived=False, pace=1
    )
    await story.say("watch-fires", focus=("stage",))
    await story.until_event("controller_resigned", broker=first, pace=1)
    await story.say("resigned", focus=(f"controller|{first}|",), controller=first)
    before = _records(story.cluster)
    elected = await story.until_event("controller_elected", pace=1)
    second: int = elected["broker"]
    await _take_over(story, second)
    await story.say("second", focus=(f"controller|{second}|",), controller=second)
    _check_elected(story, "second-epoch", second, 2)
    unmoved = [leader_epoch(story.cluster, partition) for partition in ORDERS] == [0, 0, 0]
    grown = _records(story.cluster) > before
    story.check("leaders-unmoved", unmoved and grown, focus=("lanes",))
    await story.wait(ms=1_000, pace=500)
    return second


async def _a_foreign_id(story: Story, second: int) -> int:
    other = next(broker for broker in (1, 2, 3) if broker != second)
    await story.ask("foreign", right=2, focus=(ZOOKEEPER,), controller=second, other=other)
    text = f'{{"version":1,"brokerid":{other},"timestamp":"0"}}'
    story.do("write_znode", path=paths.CONTROLLER, text=text)
    elected = await story.until_event("controller_elected", pace=10)
    third: int = elected["broker"]
    await _take_over(story, third)
    await story.say("repaired", focus=(f"controller|{third}|",), controller=third, other=other)
    _check_elected(story, "third-epoch", third, 3)
    return third


async def _garbage(story: Story, third: int) -> int:
    story.do("write_znode", path=paths.CONTROLLER, text="no JSON at all")
    elected = await story.until_event("controller_elected", pace=10)
    fourth: int = elected["broker"]
    await _take_over(story, fourth)
    await story.say("garbage", focus=(f"controller|{fourth}|",), before=third, controller=fourth)
    _check_elected(story, "fourth-epoch", fourth, 4)
    return fourth


async def _its_own_old_node(story: Story, fourth: int) -> None:
    """The controller dies and starts again before ZooKeeper has noticed."""
    await story.finished(story.do("kill", broker=fourth))
    story.do("start", broker=fourth)
    await story.wait(ms=3_000, pace=1_000)
    host = f"host|broker-{fourth}"
    await story.ask("old-self", right=1, focus=(host, ZOOKEEPER), controller=fourth)
    named = story.cluster.controller_id() == fourth
    nobody = not active_controllers(story.cluster)
    held = named and nobody and _awaits_registration(story.cluster, fourth)
    story.check("nobody", held, focus=(ZOOKEEPER,), controller=fourth)
    elected = await story.until_event("controller_elected", limit_ms=15_000, pace=1_000)
    fifth: int = elected["broker"]
    await _take_over(story, fifth)
    await story.say("fifth", focus=(f"controller|{fifth}|",), controller=fifth, before=fourth)
    _check_elected(story, "fifth-epoch", fifth, 5)


async def _take_over(story: Story, elected: int) -> None:
    await story.until_event("controller_failover_completed", broker=elected, pace=4)
    await story.until("known", lambda cluster: _all_know(cluster, elected), pace=5)


def _check_elected(story: Story, key: str, elected: int, epoch: int) -> None:
    alone = list(active_controllers(story.cluster)) == [elected]
    named = story.cluster.controller_id() == elected
    held = alone and named and controller_epoch(story.cluster) == epoch
    story.check(key, held, focus=(f"controller|{elected}|",), controller=elected)


def _awaits_registration(cluster: SimCluster, broker: int) -> bool:
    """Return whether the broker runs and its znode still belongs to its former life."""
    starts = cluster.is_alive(broker) and broker not in cluster.nodes()
    return starts and is_registered(cluster, broker)


def _records(cluster: SimCluster) -> int:
    """Return how many records the leaders of the three partitions have."""
    return sum(log_end(cluster, partition, cluster.leader(partition)) for partition in ORDERS)


def _all_know(cluster: SimCluster, elected: int) -> bool:
    """Return whether all brokers that are up know the controller."""
    nodes = cluster.nodes().values()
    return all(node.entities.controller.active_controller_id == elected for node in nodes)


def _metadata_alike(cluster: SimCluster) -> bool:
    """Return whether all brokers know the leaders of the three partitions."""
    caches = [node.entities.metadata for node in cluster.nodes().values()]
    known = [[cache.partition_leader(partition) for partition in ORDERS] for cache in caches]
    return known[0] == known[1] == known[2] == [(1, 0), (2, 0), (3, 0)]


CHAPTER = Chapter(name="controller-election", number=4, seed=1, brokers=3, play=play)
