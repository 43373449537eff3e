"""One request per broker and kind; what the requests carry; an unsent batch is refused."""

from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import Broker, Endpoint, ReplicaAssignment
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.registry import version_range
from tests.support.controller.controller_states import Cluster, Summary


@pytest.mark.mission("CTX-6")
def test_one_request_per_broker_and_kind_in_kafkas_order(
    cluster: Cluster, summary: Summary
) -> None:
    a, b = cluster.topic("t", (1, 2), (2, 1))
    for tp in (a, b):
        state = cluster.led(tp, 1, (1, 2))
        cluster.batch.add_leader_and_isr(
            (1, 2), tp, state, cluster.context.assignment(tp), is_new=False
        )
    cluster.batch.add_stop_replica((2,), b, delete=False)
    sent = summary(cluster.sent())
    assert [(kind, broker) for kind, broker, _ in sent] == [
        ("LeaderAndIsr", 1), ("LeaderAndIsr", 2),
        ("UpdateMetadata", 1), ("UpdateMetadata", 2), ("UpdateMetadata", 3),
        ("StopReplica", 2),
    ]  # fmt: skip
    assert cluster.sent() == []


@pytest.mark.mission("CTX-6")
def test_a_batch_that_was_not_sent_is_not_covered_up(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.batch.new_batch()
    cluster.batch.add_stop_replica((1,), tp, delete=False)
    with pytest.raises(RuntimeError, match="StopReplica state changes might be lost"):
        cluster.batch.new_batch()
    cluster.batch.clear()
    cluster.batch.new_batch()
    cluster.batch.add_update_metadata((1,), ())
    with pytest.raises(RuntimeError, match="UpdateMetadata"):
        cluster.batch.new_batch()
    cluster.sent()
    state = cluster.led(tp, 1, (1, 2))
    cluster.batch.add_leader_and_isr((1,), tp, state, cluster.context.assignment(tp), False)
    with pytest.raises(RuntimeError, match="LeaderAndIsr, UpdateMetadata"):
        cluster.batch.new_batch()


@pytest.mark.mission("CEL-15", "CTX-6")
def test_every_request_carries_controller_and_broker_epoch(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    state = cluster.led(tp, 1, (1, 2))
    cluster.batch.add_leader_and_isr((2,), tp, state, cluster.context.assignment(tp), False)
    cluster.batch.add_stop_replica((2,), tp, delete=True)
    for request in cluster.sent():
        assert request.message.controller_id == 1
        assert request.message.controller_epoch == 5
        assert request.message.broker_epoch == 100 + request.broker_id


@pytest.mark.mission("CTX-6")
def test_only_live_brokers_and_real_ids_are_written_to(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 9))
    state = cluster.led(tp, -1, (9,))
    cluster.context.shutting_down_broker_ids.add(3)
    cluster.batch.add_leader_and_isr((-1, 9), tp, state, cluster.context.assignment(tp), False)
    cluster.batch.add_stop_replica((-1, 9), tp, delete=False)
    sent = cluster.sent()
    assert [r.broker_id for r in sent] == [1, 2, 3]  # UpdateMetadata, also to one shutting down


@pytest.mark.mission("CTX-6")
def test_new_and_delete_stick_within_a_batch(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1,))
    state = cluster.led(tp, 1, (1,))
    for is_new in (True, False):
        cluster.batch.add_leader_and_isr((1,), tp, state, cluster.context.assignment(tp), is_new)
        cluster.batch.add_stop_replica((1,), tp, delete=is_new)
    sent = summary(cluster.sent())
    assert sent[0] == ("LeaderAndIsr", 1, {"t-0": (1, (1,), True)})
    assert sent[-1] == ("StopReplica", 1, {"t-0": (3, True)})


@pytest.mark.mission("CTX-6")
def test_repeated_additions_do_not_set_is_new_or_delete(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1,))
    state = cluster.led(tp, 1, (1,))
    for _ in range(2):
        cluster.batch.add_leader_and_isr((1,), tp, state, cluster.context.assignment(tp), False)
        cluster.batch.add_stop_replica((1,), tp, delete=False)
    sent = summary(cluster.sent())
    assert sent[0] == ("LeaderAndIsr", 1, {"t-0": (1, (1,), False)})
    assert sent[-1] == ("StopReplica", 1, {"t-0": (3, False)})


@pytest.mark.mission("CTX-6")
def test_metadata_of_an_unfinished_topic_wait_for_the_next_batch(
    cluster: Cluster, summary: Summary
) -> None:
    """No broker learns a part of the topic; every broker that waits learns the whole."""
    a, b = cluster.topic("t", (1,), (1,))
    (other,) = cluster.topic("other", (1,))
    for tp in (a, b, other):
        cluster.led(tp, 1, (1,))
    cluster.batch.add_update_metadata((1,), (a,))
    assert cluster.batch.send_requests_to_brokers(5, unfinished={"t"}) == []
    cluster.batch.add_update_metadata((2,), (other,))
    sent = summary(cluster.batch.send_requests_to_brokers(5, unfinished={"t"}))
    assert sent == [("UpdateMetadata", broker, {"other-0": (1, (1,))}) for broker in (1, 2)]
    cluster.batch.add_update_metadata((3,), (b,))
    sent = summary(cluster.sent())
    whole = {"t-0": (1, (1,)), "t-1": (1, (1,))}
    assert sent == [("UpdateMetadata", broker, whole) for broker in (1, 2, 3)]
    assert cluster.sent() == []


@pytest.mark.mission("CTX-6", "CFO-2")
def test_a_cleared_batch_holds_nothing_back(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1,))
    cluster.led(tp, 1, (1,))
    cluster.batch.add_update_metadata((1,), (tp,))
    cluster.batch.send_requests_to_brokers(5, unfinished={"t"})
    cluster.batch.clear()
    assert cluster.sent() == []


@pytest.mark.mission("CTX-6")
def test_a_leader_without_the_inter_broker_listener_has_no_address(cluster: Cluster) -> None:
    elsewhere = Broker(2, (Endpoint("out", 2, "EXTERNAL"),), epoch=8)
    cluster.context.add_brokers([elsewhere])
    (tp,) = cluster.topic("t", (2, 1))
    state = cluster.led(tp, 2, (2, 1))
    cluster.batch.add_leader_and_isr((1,), tp, state, cluster.context.assignment(tp), False)
    message: Any = cluster.sent()[0].message
    assert message.live_leaders == []


@pytest.mark.mission("CTX-6", "CDU-9")
def test_the_contents(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 4))
    cluster.context.set_assignment(tp, ReplicaAssignment((1, 2, 4), adding=(4,), removing=(2,)))
    state = cluster.led(tp, 2, (2, 1), leader_epoch=3, zk_version=7)
    cluster.batch.add_leader_and_isr((1,), tp, state, cluster.context.assignment(tp), False)
    leader_and_isr: Any
    metadata: Any
    leader_and_isr, metadata = (r.message for r in cluster.sent() if r.broker_id == 1)
    (topic,) = leader_and_isr.topic_states
    (partition,) = topic.partition_states
    assert (topic.topic_name, topic.topic_id) == ("t", UUID(int=1))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 3, 7)
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        [1, 2, 4], [4], [2],
    )  # fmt: skip
    (leader,) = leader_and_isr.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (2, "host2", 9002)
    (partition,) = metadata.topic_states[0].partition_states
    assert (partition.leader, partition.isr, partition.zk_version) == (2, [2, 1], 7)
    assert partition.offline_replicas == [4]
    assert [b.id for b in metadata.live_brokers] == [1, 2, 3]


@pytest.mark.mission("CTX-6")
def test_brokers_are_described_with_every_listener(cluster: Cluster) -> None:
    cluster.context.set_brokers(
        [
            Broker(
                7,
                (
                    Endpoint("in", 1),
                    Endpoint("out", 2, "EXTERNAL", "SASL_SSL"),
                    Endpoint("tls", 3, "SSL", "SSL"),
                    Endpoint("sasl", 4, "SASL", "SASL_PLAINTEXT"),
                ),
                rack="r1",
                epoch=44,
            )
        ]
    )
    cluster.batch.add_update_metadata((7,), ())
    (request,) = cluster.sent()
    message: Any = request.message
    (broker,) = message.live_brokers
    assert broker.rack == "r1"
    assert [(e.host, e.port, e.listener, e.security_protocol) for e in broker.endpoints] == [
        ("in", 1, "PLAINTEXT", 0),
        ("out", 2, "EXTERNAL", 3),
        ("tls", 3, "SSL", 1),
        ("sasl", 4, "SASL", 2),
    ]


@pytest.mark.mission("CTX-6", "DEL-5")
def test_partitions_of_doomed_topics_are_marked_and_leaderless_ones_left_out(
    cluster: Cluster, summary: Summary
) -> None:
    doomed, never = cluster.topic("t", (1, 2), (1, 2))
    cluster.led(doomed, 1, (1, 2))
    cluster.context.topics_to_be_deleted.add("t")
    cluster.batch.add_update_metadata((1,), (doomed, never))
    (request,) = cluster.sent()
    message: Any = request.message
    (partition,) = message.topic_states[0].partition_states
    assert (partition.leader, partition.leader_epoch, partition.isr) == (-2, 0, [1, 2])


@pytest.mark.mission("CTX-6")
def test_every_request_encodes_at_the_newest_version(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    state = cluster.led(tp, 1, (1, 2))
    cluster.batch.add_leader_and_isr((1, 2), tp, state, cluster.context.assignment(tp), True)
    cluster.batch.add_stop_replica((1,), tp, delete=True)
    for request in cluster.sent():
        api_key = request.message.SPEC.api_key
        assert api_key is not None
        _, newest = version_range(api_key)
        data = encode(request.message, newest)
        assert encode(decode(type(request.message), newest, data), newest) == data
