"""The metadata image: what one UpdateMetadata after the other makes of it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.metadata_image import (
    MetadataImage,
    PartitionMetadata,
    apply,
    partition_states,
    update_steps,
    with_newer_leaders,
)
from minikafka.kernel.cluster import (
    LEADER_DURING_DELETE,
    ZERO_UUID,
    Broker,
    Endpoint,
    TopicPartition,
)
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.broker.cluster_metadata import (
    deletion,
    live_broker,
    partition_state,
    topic_id,
    update,
)


def image_of(*requests: UpdateMetadataRequest) -> MetadataImage:
    image = MetadataImage()
    for request in requests:
        image, _ = apply(image, request)
    return image


def test_partitions_are_added_and_replaced() -> None:
    image = image_of(
        update({"a": [partition_state(0, 1), partition_state(1, 2)]}),
        update({"a": [partition_state(1, 3, leader_epoch=1)], "b": [partition_state(0, 2)]}),
    )
    assert {t: {p: s.leader for p, s in ps.items()} for t, ps in image.topics.items()} == {
        "a": {0: 1, 1: 3},
        "b": {0: 2},
    }
    state = image.partition(TopicPartition("a", 1))
    assert state is not None
    assert state.leader_epoch == 1
    assert image.partition(TopicPartition("a", 9)) is None
    assert image.partition(TopicPartition("z", 0)) is None
    assert image.topic_names[topic_id("b")] == "b"


def test_image_keeps_every_field_of_a_partition_state() -> None:
    state = partition_state(0, 1, isr=(1, 2), leader_epoch=4, offline=(3,))
    state.zk_version = 7
    assert image_of(update({"a": [state]})).topics["a"][0] == PartitionMetadata(
        leader=1,
        leader_epoch=4,
        isr=(1, 2),
        replicas=(1, 2, 3),
        offline_replicas=(3,),
        controller_epoch=1,
        zk_version=7,
    )


def test_a_partition_may_be_without_a_leader() -> None:
    image = image_of(update({"a": [partition_state(0, 1), partition_state(1, -1)]}))
    assert [state.has_leader for state in image.topics["a"].values()] == [True, False]


def test_unchanged_topics_are_shared_between_images() -> None:
    first = image_of(update({"a": [partition_state(0, 1)]}))
    second, _ = apply(first, update({}, brokers=(1,)))
    assert second.topics is first.topics
    assert second.topic_ids is first.topic_ids
    assert second.topic_names is first.topic_names


def test_an_image_is_never_changed() -> None:
    first = image_of(update({"a": [partition_state(0, 1)]}))
    second, _ = apply(first, update({"a": [partition_state(0, 2)], "b": [partition_state(0, 1)]}))
    third, _ = apply(second, deletion("a", 1))
    assert first.topics["a"][0].leader == 1
    assert set(first.topics) == {"a"}
    assert set(second.topics) == {"a", "b"}
    assert set(third.topics) == {"b"}
    assert third.topics["b"] is second.topics["b"]


def test_live_brokers_and_controller_are_replaced_as_a_whole() -> None:
    image = image_of(update(brokers=(1, 2, 3)), update(brokers=(2,), controller=2))
    assert set(image.brokers) == {2}
    assert image.controller_id == 2
    assert image_of(update(controller=-1)).controller_id is None


def test_a_topic_goes_with_its_last_partition() -> None:
    image = image_of(update({"a": [partition_state(0, 1), partition_state(1, 1)]}))
    image, deleted = apply(image, update({"a": [partition_state(0, LEADER_DURING_DELETE)]}))
    assert deleted == [TopicPartition("a", 0)]
    assert image.topic_ids == {"a": topic_id("a")}
    image, deleted = apply(image, update({"a": [partition_state(1, LEADER_DURING_DELETE)]}))
    assert deleted == [TopicPartition("a", 1)]
    assert (image.topics, image.topic_ids, image.topic_names) == ({}, {}, {})


def test_a_topic_without_partitions_is_none() -> None:
    """A lookup by its id would find a topic that does not exist."""
    image = image_of(update({"a": []}))
    assert not image.topics
    assert not image.topic_names
    known = image_of(update({"a": [partition_state(0, 1)]}), update({"a": []}))
    assert known.topic_names == {topic_id("a"): "a"}


def test_deleted_and_created_again_in_one_request_is_not_deleted() -> None:
    image = image_of(update({"a": [partition_state(0, 1)]}))
    states = [partition_state(0, LEADER_DURING_DELETE), partition_state(0, 2)]
    image, deleted = apply(image, update({"a": states}))
    assert deleted == []
    assert image.topics["a"][0].leader == 2


def test_a_topic_may_lose_its_id_or_get_another() -> None:
    image = image_of(update({"a": [partition_state(0, 1)]}))
    image, _ = apply(image, update({"a": [partition_state(0, 1)]}, with_ids=False))
    assert (image.topic_ids, image.topic_names) == ({}, {})
    request = update({"a": [partition_state(0, 1)]})
    request.topic_states[0].topic_id = topic_id("other")
    image, _ = apply(image, request)
    assert image.topic_names == {topic_id("other"): "a"}


def test_old_versions_have_ungrouped_partition_states_and_v0_hosts() -> None:
    request = UpdateMetadataRequest(
        controller_id=1,
        ungrouped_partition_states=[partition_state(0, 1, topic="a")],
        live_brokers=[
            UpdateMetadataBroker(1, v0_host="h", v0_port=9092),
            UpdateMetadataBroker(2, endpoints=[UpdateMetadataEndpoint(9093, "h", "", 1)]),
        ],
    )
    image = image_of(request)
    assert image.topics["a"][0].leader == 1
    assert [topic for topic, _ in partition_states(request)] == ["a"]
    assert image.brokers[1] == Broker(1, (Endpoint("h", 9092),), None)
    assert image.brokers[2].endpoints == (Endpoint("h", 9093, "SSL", "SSL"),)
    request = UpdateMetadataRequest(
        controller_id=0,
        ungrouped_partition_states=[
            partition_state(0, 1, topic="b"),
            partition_state(0, 1, topic="a"),
            partition_state(1, 1, topic="b"),
        ],
        live_brokers=[
            UpdateMetadataBroker(n, endpoints=[UpdateMetadataEndpoint(1, "h", "", n)])
            for n in range(5)
        ],
    )
    assert [topic for topic, _ in partition_states(request)] == ["b", "a", "b"]
    image = image_of(update({"a": [partition_state(0, 1)]}), request)
    assert image.topic_ids == {}  # this controller knows of none
    assert image.controller_id == 0
    protocols = [image.brokers[n].endpoints[0].listener for n in range(5)]
    assert protocols == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "PLAINTEXT"]


def test_broker_endpoints_are_read_in_every_version() -> None:
    endpoint = UpdateMetadataEndpoint(9093, "new", "IN", 0)
    request = UpdateMetadataRequest(
        controller_id=1,
        live_brokers=[
            UpdateMetadataBroker(1, v0_host="old", v0_port=9092, endpoints=[endpoint], rack=""),
            UpdateMetadataBroker(2, v0_host="old", v0_port=9092, rack="r"),
            UpdateMetadataBroker(3, rack=""),
        ],
    )
    assert dict(image_of(request).brokers) == {
        1: Broker(1, (Endpoint("new", 9093, "IN", "PLAINTEXT"),), None),
        2: Broker(2, (Endpoint("old", 9092),), "r"),
        3: Broker(3, (), None),
    }


def test_endpoints_by_listener() -> None:
    image = image_of(update(brokers=[live_broker(1, ("IN", "OUT"), "r1"), live_broker(2, ("IN",))]))
    assert image.brokers[1].rack == "r1"
    endpoint = image.endpoint(1, "OUT")
    assert endpoint is not None
    assert endpoint.port == 9101
    assert image.endpoint(2, "OUT") is None
    assert image.endpoint(3, "IN") is None


changes = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.sampled_from([-2, -1, 1, 2])),
        max_size=4,
    ),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(changes)
def test_equals_a_plain_dictionary_of_partitions(requests: Any) -> None:
    image = MetadataImage()
    twin: dict[Any, Any] = {}
    for states in requests:
        request = update(brokers=())
        for topic, index, leader in states:
            more = update({topic: [partition_state(index, leader)]})
            request.topic_states += more.topic_states
        image, deleted = apply(image, request)
        for topic, index, leader in states:
            if leader == LEADER_DURING_DELETE:
                twin.pop((topic, index), None)
            else:
                twin[topic, index] = leader
        found = {(t, p): s.leader for t, ps in image.topics.items() for p, s in ps.items()}
        assert found == twin
        assert set(image.topic_ids) == set(image.topics)
        assert image.topic_names == {i: t for t, i in image.topic_ids.items()}
        assert not any(tuple(tp) in twin for tp in deleted)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from([-2, 1]), st.integers(0, 2)),
            max_size=3,
        ),
        max_size=8,
    )
)
def test_the_names_are_those_of_the_ids(requests: Any) -> None:
    """Ids change, and go with their topics and with a controller that knows none (id 0)."""
    image = MetadataImage()
    for topics in requests:
        request = update(brokers=())
        for name, leader, number in topics:
            topic = UpdateMetadataTopicState(name, ZERO_UUID, [partition_state(0, leader)])
            if number:
                topic.topic_id = topic_id(f"{name}{number}")
            request.topic_states.append(topic)
        image, _ = apply(image, request)
        assert image.topic_names == {i: t for t, i in image.topic_ids.items()}


@pytest.mark.mission("SCALE-3")
def test_an_update_takes_steps_for_its_own_topics_alone() -> None:
    def steps_beside(topics: int) -> int:
        image = image_of(update({f"t{n}": [partition_state(0, 1)] for n in range(topics)}))
        return sum(1 for _ in update_steps(image, update({"new": [partition_state(0, 1)]})))

    assert steps_beside(500) == steps_beside(1)


@pytest.mark.mission("JUDGE-70")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 2),
            st.sampled_from([-1, 1, 2]),
            st.integers(0, 4),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_of_another_broker_only_newer_leaders_are_taken(rows: Any, with_ids: bool) -> None:
    """The image has two partitions of the topics a and b. The other broker knows b by another id,
    if by any."""
    states = [partition_state(0, 3, leader_epoch=2), partition_state(1, 3, leader_epoch=2)]
    image = before = image_of(update({"a": states, "b": states}))
    twin = {(topic, index): (3, 2) for topic in "ab" for index in (0, 1)}
    for topic, index, leader, epoch in rows:
        other_id = topic_id("z" if topic == "b" else topic) if with_ids else ZERO_UUID
        partition = MetadataResponsePartition(0, index, leader, epoch, [1, 2, 3], [1, 2], [3])
        response = MetadataResponse(
            topics=[MetadataResponseTopic(0, topic, other_id, partitions=[partition])]
        )
        last, (image, newer) = image, with_newer_leaders(image, response)
        known = twin.get((topic, index))
        if known is not None and epoch > known[1] and not (with_ids and topic == "b"):
            twin[topic, index] = leader, epoch
            assert newer == [TopicPartition(topic, index)]
            state = image.partition(newer[0])
            assert state is not None
            assert (state.replicas, state.isr, state.offline_replicas) == ((1, 2, 3), (1, 2), (3,))
        else:
            assert newer == []
            assert image is last
    found = {
        (topic, index): (state.leader, state.leader_epoch)
        for topic, partitions in image.topics.items()
        for index, state in partitions.items()
    }
    assert found == twin
    assert (image.brokers, image.topic_ids) == (before.brokers, before.topic_ids)


def test_a_late_request_of_the_controller_replaces_what_another_broker_knew() -> None:
    """The next one has the epoch that was learned. No ZooKeeper has lost data."""
    image = image_of(update({"a": [partition_state(0, 3, leader_epoch=2)]}))
    partition = MetadataResponsePartition(leader_id=2, leader_epoch=4)
    topic = MetadataResponseTopic(name="a", topic_id=topic_id("a"), partitions=[partition])
    image, newer = with_newer_leaders(image, MetadataResponse(topics=[topic]))
    assert newer == [TopicPartition("a", 0)]
    late = update({"a": [partition_state(0, 1, leader_epoch=3)]})
    found = run_at_once(update_steps(image, late))
    state = found.after.partition(newer[0])
    assert state is not None
    assert (state.leader, state.leader_epoch, found.decreased) == (1, 3, [])
