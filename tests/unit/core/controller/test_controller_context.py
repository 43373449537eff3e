"""The controller's context: beginnings, liveness, figures, forgetting."""

from uuid import UUID

import pytest

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import out_of_balance
from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import ReplicaAssignment
from minikafka.kernel.slices import run_at_once
from tests.support.controller.controller_states import Cluster


@pytest.mark.mission("CTX-3")
def test_before_any_election() -> None:
    context = ControllerContext()
    assert (context.epoch, context.epoch_zk_version) == (0, 0)


@pytest.mark.mission("CTX-2")
def test_the_dump_has_every_field(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.partition_states[tp] = PartitionState.ONLINE
    cluster.context.replica_states[cluster.replica(tp, 1)] = ReplicaState.ONLINE
    cluster.context.replicas_on_offline_dirs = {2: {tp}}
    dump = cluster.context.dump()
    assert {
        "shuttingDownBrokerIds", "epoch", "epochZkVersion", "allTopics",
        "partitionReplicaAssignment", "partitionLeadershipInfo", "partitionsBeingReassigned",
        "partitionsUndergoingPreferredReplicaElection", "liveBrokersUnderlying",
        "liveBrokerIdsUnderlying", "partitionStates", "replicaStates",
    } <= dump.keys()  # fmt: skip
    assert dump["liveBrokerIdsUnderlying"] == [1, 2, 3]
    assert dump["partitionStates"] == {"t-0": "OnlinePartition"}
    assert dump["replicaStates"] == {"t-0/1": "OnlineReplica"}
    assert dump["replicasOnOfflineDirs"] == {2: ["t-0"]}


def test_the_dump_shows_topic_ids_in_base64_as_kafka_does() -> None:
    context = ControllerContext()
    context.add_topic_id("t", UUID("12345678-9abc-def0-1234-56789abcdef0"))
    assert context.dump()["topicIds"] == {"t": "EjRWeJq83vASNFZ4mrze8A"}


def test_shutting_down_is_there_and_not_live(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.shutting_down_broker_ids.add(2)
    assert cluster.context.live_broker_ids() == [1, 3]
    assert cluster.context.live_or_shutting_down_broker_ids() == [1, 2, 3]
    assert not cluster.context.is_replica_online(2, tp)
    assert cluster.context.is_replica_online(2, tp, or_shutting_down=True)


def test_a_topic_has_one_id_and_an_id_one_topic(cluster: Cluster) -> None:
    cluster.topic("a", (1,))
    cluster.context.add_topic_id("a", UUID(int=1))
    with pytest.raises(ValueError, match="topic a"):
        cluster.context.add_topic_id("a", UUID(int=2))
    with pytest.raises(ValueError, match="topic b"):
        cluster.context.add_topic_id("b", UUID(int=1))


def test_context_finds_partitions_by_leader(cluster: Cluster) -> None:
    a, b, c = cluster.topic("t", (1, 2), (2, 1), (1,))
    (doomed,) = cluster.topic("doomed", (1, 2))
    for tp in (a, c, doomed):
        cluster.led(tp, 1, (1,))
    cluster.led(b, 9, (9,))
    cluster.context.topics_to_be_deleted.add("doomed")
    assert list(cluster.context.partitions_with_leaders()) == [a, b, c]
    assert cluster.context.partitions_led_by(1) == [a]  # replicated ones only
    assert cluster.context.partitions_with_offline_leader() == [b]
    assert cluster.context.leader_epoch(a) == 3
    assert cluster.context.leader_epoch(doomed) == -2
    (never,) = cluster.topic("never", (1,))
    assert cluster.context.leader_epoch(never) == -1


def test_figures(cluster: Cluster) -> None:
    a, b, moving = cluster.topic("t", (1, 2), (2, 1), (3, 1))
    (doomed,) = cluster.topic("doomed", (2, 1))
    for tp in (a, b, doomed):
        cluster.led(tp, 1, (1,))
    cluster.led(moving, 1, (1,))
    cluster.context.set_assignment(moving, ReplicaAssignment((3, 1), adding=(3,)))
    assert cluster.context.preferred_replica_imbalance_count() == 2  # 3 is still catching up
    cluster.context.topics_to_be_deleted.add("doomed")
    assert cluster.context.preferred_replica_imbalance_count() == 1
    cluster.led(moving, 1, (1, 3))
    assert cluster.context.preferred_replica_imbalance_count() == 2
    cluster.context.partition_states = {a: PartitionState.OFFLINE, doomed: PartitionState.OFFLINE}
    assert cluster.context.offline_partition_count() == 2
    cluster.context.topics_with_deletion_started.add("doomed")
    assert cluster.context.offline_partition_count() == 1


def test_a_preferred_replica_that_was_there_before_a_reassignment_should_lead(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.set_assignment(tp, ReplicaAssignment((1, 3, 2), adding=(3,), removing=(2,)))
    cluster.led(tp, 1, (1, 2))
    assert cluster.context.preferred_replica_imbalance_count() == 0
    cluster.led(tp, 2, (1, 2))
    assert cluster.context.preferred_replica_imbalance_count() == 1


def test_a_partition_without_replicas_is_not_out_of_balance(cluster: Cluster) -> None:
    """A topic znode that was written by hand may list no replica."""
    (tp,) = cluster.topic("t", ())
    cluster.led(tp, 1, (1,))
    assert cluster.context.preferred_replica_imbalance_count() == 0
    assert run_at_once(out_of_balance(cluster.context, 0)) == {}


def test_the_replicas_of_some_brokers(cluster: Cluster) -> None:
    a, b = cluster.topic("t", (1, 2), (3, 1))
    assert cluster.context.partitions_on_broker(2) == [a]
    assert cluster.context.replicas_on_brokers({3, 2}) == [
        cluster.replica(a, 2),
        cluster.replica(b, 3),
    ]


def test_a_removed_topic_leaves_nothing(cluster: Cluster) -> None:
    empty = cluster.context.dump()
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.partition_states[tp] = PartitionState.ONLINE
    cluster.context.replica_states[cluster.replica(tp, 1)] = ReplicaState.ONLINE
    cluster.context.partitions_being_reassigned.add(tp)
    for topics in (
        cluster.context.topics_to_be_deleted,
        cluster.context.topics_with_deletion_started,
        cluster.context.topics_ineligible_for_deletion,
    ):
        topics.add("t")
    cluster.context.remove_topic("t")
    assert cluster.context.dump() == empty
    assert cluster.context.topic_names == {}


@pytest.mark.mission("CFO-2")
def test_after_a_resignation_nothing_is_known(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.reset()
    assert cluster.context.dump() == ControllerContext().dump()
