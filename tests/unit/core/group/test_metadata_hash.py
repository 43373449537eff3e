"""The hash of a group's topics: tests/kafka/test_consumer_groups.py compares it with Kafka's."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.group.modern.metadata_hash import hash_of, topic_hash
from minikafka.core.metadata_image import MetadataImage, apply
from minikafka.kernel.cluster import LEADER_DURING_DELETE
from tests.support.broker.cluster_metadata import live_broker, partition_state, topic_id, update

pytestmark = pytest.mark.mission("G848-11")

replica_sets = st.sampled_from([(1,), (2,), (1, 2), (2, 1)])
leaders = st.sampled_from([LEADER_DURING_DELETE, 1])
updates = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.lists(st.tuples(st.integers(0, 2), leaders, replica_sets), max_size=3),
        st.sampled_from("xy"),  # the id of the topic
        st.dictionaries(st.integers(1, 2), st.sampled_from(["r", "s", None])),  # racks
    )
)


@settings(max_examples=60)
@given(updates)
def test_an_image_keeps_hashes_that_are_still_right(changes: object) -> None:
    image = MetadataImage()
    for name, partitions, identity, racks in changes:  # type: ignore[attr-defined]
        states = [partition_state(*each) for each in partitions]
        request = update({name: states}, [live_broker(b, rack=r) for b, r in racks.items()])
        request.topic_states[0].topic_id = topic_id(identity)
        image, _ = apply(image, request)
        fresh = replace(image, topic_hashes={})
        for topic in image.topic_ids:
            assert topic_hash(topic, image) == topic_hash(topic, fresh)


def test_a_topic_keeps_its_hash_when_a_broker_dies_or_leads() -> None:
    partition = partition_state(0, 1)
    brokers = [live_broker(n, rack=f"r{n}") for n in (1, 2, 3)]
    image, _ = apply(MetadataImage(), update({"a": [partition]}, brokers))
    later, _ = apply(image, update({"a": [partition_state(0, 2)]}, brokers[1:]))
    assert topic_hash("a", later) == topic_hash("a", image)
    moved, _ = apply(image, update({"a": [partition_state(0, 1, (1, 2))]}, brokers))
    assert topic_hash("a", moved) != topic_hash("a", image)


def test_topics_that_do_not_exist_have_no_hash() -> None:
    image, _ = apply(MetadataImage(), update({"a": [partition_state(0, 1)]}))
    assert hash_of(["z"], image) == 0
    assert hash_of(["a", "z"], image) == hash_of(["a"], image) != 0
