"""Three brokers of ours and three official ones live through the same history: ZooKeeper's tree and
the controller's requests are the same."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages import alter_partition_reassignments as reassignments
from minikafka.protocol.messages import client_quotas as quotas
from minikafka.protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    scram_credentials,
)
from minikafka.protocol.messages import elect_leaders as elections
from minikafka.protocol.messages import incremental_alter_configs as configs
from scripts.lib.apache_kafka import NEWEST
from tests.support.cluster.cluster_state import POLL_S, until
from tests.support.cluster.mixed_cluster import OURS
from tests.support.cluster.recorded_cluster import (
    RecordedCluster,
    View,
    Znode,
    by_broker,
    by_partition,
    changes_by_partition,
)
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PROPERTIES: dict[str, object] = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,  # created by broker 1 alone, so that it is placed there
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "auto.leader.rebalance.enable": "false",  # runs 5 s after an election
    "replica.lag.time.max.ms": 60_000,  # the controller alone removes dead replicas from ISRs
}


def create(
    cluster: RecordedCluster,
    name: str,
    *replicas: list[int],
    settings: Mapping[str, str] = {},
    limit_ms: int = 30_000,
) -> int:
    """Create a topic and return the error code."""
    topic = create_topics.CreatableTopic(
        name,
        -1,
        -1,
        [create_topics.CreatableReplicaAssignment(*each) for each in enumerate(replicas)],
        [create_topics.CreatableTopicConfig(*each) for each in settings.items()],
    )
    (result,) = cluster.request(create_topics.CreateTopicsRequest([topic], limit_ms)).topics
    return int(result.error_code)


def delete(cluster: RecordedCluster, name: str) -> None:
    topic = delete_topics.DeleteTopicState(name)
    request = delete_topics.DeleteTopicsRequest([topic], [name], 1)
    cluster.request(request)


def reassign(cluster: RecordedCluster, **targets: Mapping[int, list[int] | None]) -> None:
    topics = [
        reassignments.ReassignableTopic(
            topic, [reassignments.ReassignablePartition(*each) for each in of_topic.items()]
        )
        for topic, of_topic in targets.items()
    ]
    response = cluster.request(
        reassignments.AlterPartitionReassignmentsRequest(60_000, topics=topics)
    )
    assert not any(p.error_code for t in response.responses for p in t.partitions), response


def until_assigned(cluster: RecordedCluster, **targets: dict[int, list[int]]) -> None:
    """Wait until no reassignment is under way, and these replicas are in sync."""

    def done() -> bool:
        return all(
            cluster.assignment(topic).items() >= target.items()
            and not cluster.znode(f"/brokers/topics/{topic}")["adding_replicas"]
            and not cluster.znode(f"/brokers/topics/{topic}")["removing_replicas"]
            for topic, target in targets.items()
        )

    until(done, f"assigned {targets}")
    cluster.until_in_sync()


def elect(cluster: RecordedCluster, **partitions: list[int]) -> None:
    topics = [elections.ElectLeadersTopic(*each) for each in partitions.items()] or None
    cluster.request(elections.ElectLeadersRequest(0, topics))


def alter(cluster: RecordedCluster, kind: int, name: str, **settings: str | None) -> None:
    changes = [
        configs.IncrementalAlterableConfig(
            key.replace("_", "."), 0 if value is not None else 1, value
        )
        for key, value in settings.items()
    ]
    resource = configs.IncrementalAlterConfigsResource(kind, name, changes)
    request = configs.IncrementalAlterConfigsRequest([resource])
    (result,) = cluster.request(request, int(name) if name.isdigit() else None).responses
    assert result.error_code == 0, result


def quota(cluster: RecordedCluster, entity: dict[str, str | None], **limits: float) -> None:
    altered = quotas.AlteredQuotas(
        [quotas.QuotaEntity(*each) for each in entity.items()],
        [quotas.QuotaAlteration(*each) for each in limits.items()],
    )
    (result,) = cluster.request(quotas.AlterClientQuotasRequest([altered])).entries
    assert result.error_code == 0, result


# --------------------------------------------------------------------------------- the history


def first_broker(cluster: RecordedCluster) -> None:
    cluster.start(1)


def records(cluster: RecordedCluster) -> None:
    """A transaction and a group's offset: both internal topics are created."""
    create(cluster, "alone", [1])
    producer = Producer(
        {"bootstrap.servers": cluster.address(1), "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("alone", b"v")
    producer.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": cluster.address(1), "group.id": "g", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("alone", 0, 1)], asynchronous=False)
    consumer.close()
    cluster.until_in_sync()


def controller_deleted(cluster: RecordedCluster) -> None:
    epoch = cluster.znode("/controller_epoch")
    cluster.client.delete("/controller")
    until(
        lambda: cluster.znode("/controller_epoch") > epoch and cluster.controller() == 1,
        "broker 1 is elected again",
    )


def second_broker(cluster: RecordedCluster) -> None:
    cluster.start(2)


def third_broker(cluster: RecordedCluster) -> None:
    cluster.start(3)


def topics(cluster: RecordedCluster) -> None:
    create(cluster, "t", [1, 2, 3], [2, 3, 1], [3, 1, 2], settings={"retention.ms": "86400000"})


def more_topics(cluster: RecordedCluster) -> None:
    create(cluster, "u", [1, 2], [2, 1])
    create(cluster, "unclean", [1, 3])
    create(cluster, "lone", [3])


def partitions_added(cluster: RecordedCluster) -> None:
    topic = create_partitions.CreatePartitionsTopic(
        "t", 4, [create_partitions.CreatePartitionsAssignment([1, 3, 2])]
    )
    request = create_partitions.CreatePartitionsRequest([topic], 30_000)
    (result,) = cluster.request(request).results
    assert result.error_code == 0, result
    cluster.until_in_sync()


def configs_changed(cluster: RecordedCluster) -> None:
    alter(cluster, 2, "t", segment_bytes="1048576", cleanup_policy="compact")
    alter(cluster, 2, "t", cleanup_policy=None)
    alter(cluster, 4, "", log_cleaner_threads="2")
    alter(cluster, 4, "2", log_cleaner_threads="1")
    quota(cluster, {"user": "a b"}, producer_byte_rate=1e6)
    quota(cluster, {"user": None}, consumer_byte_rate=2e6)
    quota(cluster, {"client-id": "c"}, request_percentage=50.0)
    quota(cluster, {"user": "a b", "client-id": "c"}, controller_mutation_rate=10.0)
    scram = scram_credentials.ScramCredentialUpsertion("a b", 2, 4096, b"salt", b"s" * 64)
    cluster.request(scram_credentials.AlterUserScramCredentialsRequest([], [scram]))
    quota(cluster, {"ip": "127.0.0.9"}, connection_creation_rate=10.0)


def moved_there(cluster: RecordedCluster) -> None:
    reassign(cluster, u={0: [3, 2]})
    until_assigned(cluster, u={0: [3, 2]})


def moved_back(cluster: RecordedCluster) -> None:
    """By the znode of Kafka's tools before 2.6."""
    plan = {"version": 1, "partitions": [{"topic": "u", "partition": 0, "replicas": [1, 2]}]}
    cluster.client.create("/admin/reassign_partitions", json.dumps(plan).encode())
    cluster.until_absent("/admin/reassign_partitions")
    until_assigned(cluster, u={0: [1, 2]})


def reordered(cluster: RecordedCluster) -> None:
    reassign(cluster, u={0: [2, 1]})
    until_assigned(cluster, u={0: [2, 1]})


def preferred_leader(cluster: RecordedCluster) -> None:
    elect(cluster, u=[0])


def preferred_leader_by_znode(cluster: RecordedCluster) -> None:
    reassign(cluster, u={1: [1, 2]})
    until_assigned(cluster, u={1: [1, 2]})
    wanted = {"version": 1, "partitions": [{"topic": "u", "partition": 1}]}
    cluster.client.create("/admin/preferred_replica_election", json.dumps(wanted).encode())
    cluster.until_absent("/admin/preferred_replica_election")


def internal_topics_widened(cluster: RecordedCluster) -> None:
    for replicas in ([1, 2], [1, 2, 3]):
        target = {0: replicas, 1: replicas}
        reassign(cluster, __consumer_offsets=target, __transaction_state=target)
        until_assigned(cluster, __consumer_offsets=target, __transaction_state=target)
        cluster.settle()


def second_broker_stopped(cluster: RecordedCluster) -> None:
    cluster.end_broker(2)
    cluster.until_gone(2)


def second_broker_back(cluster: RecordedCluster) -> None:
    cluster.start(2)
    cluster.until_in_sync()


def third_broker_killed(cluster: RecordedCluster) -> None:
    cluster.end_broker(3, signal.SIGKILL)
    cluster.until_gone(3)


def move_cancelled(cluster: RecordedCluster) -> None:
    """The new replica's broker is suspended meanwhile, so that it cannot join the ISR."""
    cluster.suspend(3)
    reassign(cluster, u={1: [2, 3]})
    assert cluster.znode("/brokers/topics/u")["adding_replicas"] == {"1": [3]}
    reassign(cluster, u={1: None})
    cluster.resume(3)
    until_assigned(cluster, u={1: [2, 1]})


def topic_with_dead_replicas(cluster: RecordedCluster) -> None:
    create(cluster, "half", [2, 3], [3, 2])
    assert create(cluster, "dead", [3], limit_ms=100) == ErrorCode.REQUEST_TIMED_OUT


def deletion_halted(cluster: RecordedCluster) -> None:
    delete(cluster, "t")


def controller_stopped(cluster: RecordedCluster) -> None:
    """The leader of ``unclean`` cannot move: the broker tries three times."""
    cluster.end_broker(1)
    cluster.until_gone(1)
    until(lambda: cluster.controller() == 2, "broker 2 is the controller")


def third_broker_back(cluster: RecordedCluster) -> None:
    cluster.start(3)
    cluster.until_in_sync(but=("t", "unclean", "alone"))


def unclean_election(cluster: RecordedCluster) -> None:
    alter(cluster, 2, "unclean", unclean_leader_election_enable="true")
    until(lambda: cluster.state("unclean")["leader"] == 3, "broker 3 leads")


def first_broker_back(cluster: RecordedCluster) -> None:
    cluster.start(1)
    cluster.until_absent("/admin/delete_topics/t")
    cluster.until_in_sync()


def all_preferred_leaders(cluster: RecordedCluster) -> None:
    elect(cluster)


def topic_created_again(cluster: RecordedCluster) -> None:
    delete(cluster, "u")
    cluster.until_absent("/admin/delete_topics/u")
    create(cluster, "u", [3])


class Step(NamedTuple):
    """A step of the history, how its requests are compared, and the broker that it stops. Requests
    to this broker are compared as far as both clusters sent them, since it closes its connections
    while the controller still sends."""

    play: Callable[[RecordedCluster], None]
    view: View = by_broker
    stopped: int = 0


# By partition: steps in which replicas of several partitions join ISRs.
HISTORY = (
    Step(first_broker),
    Step(records),
    Step(controller_deleted),
    Step(second_broker),
    Step(third_broker),
    Step(topics),
    Step(more_topics),
    Step(partitions_added),
    Step(configs_changed),
    Step(moved_there),
    Step(moved_back),
    Step(reordered),
    Step(move_cancelled),
    Step(preferred_leader),
    Step(preferred_leader_by_znode),
    Step(internal_topics_widened, by_partition),
    Step(second_broker_stopped, stopped=2),
    Step(second_broker_back, by_partition),
    # After an election, Kafka sends the state again to take the dead replicas offline.
    Step(third_broker_killed, changes_by_partition),
    Step(topic_with_dead_replicas),
    Step(deletion_halted),
    # And so does a new controller for the replicas of dead brokers.
    Step(controller_stopped, changes_by_partition, stopped=1),
    Step(third_broker_back, by_partition),
    Step(unclean_election),
    Step(first_broker_back, by_partition),
    Step(all_preferred_leaders),
    Step(topic_created_again),
)

# Znodes that Kafka writes more often:
# - It creates a registration empty, and fills it in the same transaction.
# - It writes a topic for each partition that is reassigned, which is once for a request here. It
#   writes it once more to end a reassignment that only changes the order of replicas.
WRITTEN_MORE_OFTEN = (r"/brokers/ids/\d+", r"/brokers/topics/[^/]+")

EQUAL_LIMIT_S = 5.0  # a busy JVM may be later than the quiet time between two of its requests


class Seen(NamedTuple):
    """What a step has left in ZooKeeper, and the requests of the controller in it, as far as they
    are compared."""

    tree: Mapping[str, Znode]
    requests: Mapping[str, Sequence[str]]


class Played(NamedTuple):
    """A step of both clusters."""

    step: Step
    ours: Seen
    official: Seen


class Side:
    """One of the clusters."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster

    def play(self, step: Step) -> None:
        step.play(self._cluster)
        self._cluster.settle()

    def seen(self, step: Step) -> Seen:
        return Seen(self._cluster.tree(), step.view(self._cluster.requests()))

    def forget(self) -> None:
        """Forget the requests so far: they are those of earlier steps."""
        self._cluster.forget_requests(len(self._cluster.requests()))


@pytest.fixture(scope="module")
def history(zookeeper: ZookeeperProcess, tmp_path_factory: pytest.TempPathFactory) -> list[Played]:
    """Play the history on both kinds of cluster, side by side."""

    def cluster(kind: str) -> RecordedCluster:
        home = tmp_path_factory.mktemp("history")
        return RecordedCluster(home, f"{zookeeper.connect}/{home.name}", kind, PROPERTIES)

    found = []
    with cluster(OURS) as ours, cluster(NEWEST) as official, ThreadPoolExecutor(2) as pool:
        sides = Side(ours), Side(official)
        for step in HISTORY:
            for play in [pool.submit(side.play, step) for side in sides]:
                play.result()
            deadline = time.monotonic() + EQUAL_LIMIT_S
            while True:
                seen = [pool.submit(side.seen, step) for side in sides]
                played = Played(step, *(each.result() for each in seen))
                if not differences(played) or time.monotonic() > deadline:
                    break
                time.sleep(POLL_S)
            found.append(played)
            for side in sides:
                side.forget()
    return found


def differences(played: Played) -> list[str]:
    return in_tree(played) + in_requests(played)


def in_tree(played: Played) -> list[str]:
    found: list[str] = []
    step, ours, official = played
    for path in sorted({*ours.tree, *official.tree}):
        pair = [ours.tree.get(path), official.tree.get(path)]
        if any(re.fullmatch(pattern, path) for pattern in WRITTEN_MORE_OFTEN):
            pair = [znode and znode._replace(version=0) for znode in pair]
        if pair[0] != pair[1]:
            found += [f"{step.play.__name__}: {path}", *map(str, pair)]
    return found


def in_requests(played: Played) -> list[str]:
    found: list[str] = []
    step, ours, official = played
    for key in sorted({*ours.requests, *official.requests}):
        of_ours, of_official = ours.requests.get(key, ()), official.requests.get(key, ())
        if step.stopped and key.startswith(f"to broker {step.stopped}"):
            shorter = min(len(of_ours), len(of_official))
            of_ours, of_official = of_ours[:shorter], of_official[:shorter]
        title = f"{step.play.__name__} {key}:"
        found += unified_diff(
            of_ours, of_official, f"{title} ours", f"{title} Kafka", lineterm="", n=0
        )
    return found


@pytest.mark.mission("MIX-53")
def test_the_tree_in_zookeeper_is_the_same(history: list[Played]) -> None:
    if found := [line for played in history for line in in_tree(played)]:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.mission("MIX-54")
def test_the_requests_of_the_controller_are_the_same(history: list[Played]) -> None:
    if found := [line for played in history for line in in_requests(played)]:
        pytest.fail("\n".join(found), pytrace=False)
