"""Topics of Metadata responses that are kept encoded, beside those that are built each time."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.kernel.cluster import Broker, Endpoint
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.codec import decode, element_count, encode
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.server.broker.metadata.topic_rows import EncodedTopics, PlainTopics, ResponseTopics

pytestmark = pytest.mark.mission("SCALE-1")

LISTENERS = ("IN", "OUT")
VERSIONS = range(13)
NAMES = ("a", "b", "ü", "__consumer_offsets")
BROKER_IDS = st.integers(1, 4)

replica_lists = st.lists(BROKER_IDS, unique=True, max_size=3).map(tuple)
partition_states = st.builds(
    PartitionMetadata,
    leader=st.integers(-1, 4),
    leader_epoch=st.integers(-1, 3),
    isr=replica_lists,
    replicas=replica_lists,
    offline_replicas=replica_lists,
    controller_epoch=st.integers(0, 1),
    zk_version=st.integers(0, 1),
)
partition_maps = st.dictionaries(st.integers(0, 200), partition_states, min_size=1, max_size=3)
endpoint_lists = st.sets(st.sampled_from(LISTENERS)).map(
    lambda names: tuple(Endpoint("h", 1, name) for name in sorted(names))
)
broker_maps = st.dictionaries(BROKER_IDS, endpoint_lists, max_size=4).map(
    lambda found: {broker: Broker(broker, endpoints) for broker, endpoints in found.items()}
)
ids = st.integers(1, 2).map(lambda number: UUID(int=number))
# What changes from one image to the next; the rest is shared.
changes = st.one_of(
    st.tuples(st.just("topic"), st.sampled_from(NAMES), partition_maps),
    st.tuples(st.just("gone"), st.sampled_from(NAMES)),
    st.tuples(st.just("id"), st.sampled_from(NAMES), ids),
    st.tuples(st.just("brokers"), broker_maps),
    st.tuples(st.just("none")),
)


def changed(image: MetadataImage, change: tuple) -> MetadataImage:  # type: ignore[type-arg]
    match change:
        case ("topic", name, partitions):
            return replace(image, topics={**image.topics, name: partitions})
        case ("gone", name):
            kept = {n: partitions for n, partitions in image.topics.items() if n != name}
            return replace(image, topics=kept)
        case ("id", name, topic_id):
            return replace(image, topic_ids={**image.topic_ids, name: topic_id})
        case ("brokers", brokers):
            return replace(image, brokers=brokers)
    return image


def response_of_all(rows: ResponseTopics, image: MetadataImage) -> MetadataResponse:
    return MetadataResponse(cluster_id="c", topics=run_at_once(rows.all(image)))


def check(encoded: EncodedTopics, image: MetadataImage, listener: str, version: int) -> None:
    """Both make the same bytes, of all topics and of each alone."""
    plain = PlainTopics(listener, version)
    wanted = encode(response_of_all(plain, image), version)
    rows = encoded.rows(image, listener, version)
    assert encode(response_of_all(rows, image), version) == wanted
    for name in image.topics:
        one = MetadataResponse(topics=[run_at_once(plain.one(image, name))])
        kept = run_at_once(encoded.rows(image, listener, version).one(image, name))
        assert kept.name == name
        assert encode(MetadataResponse(topics=[kept]), version) == encode(one, version)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(changes, st.sampled_from(LISTENERS), st.sampled_from(VERSIONS)), max_size=12
    ),
    max_bytes=st.sampled_from([0, 600, 10_000]),
)
def test_the_bytes_are_those_of_plain_topics(steps: list, max_bytes: int) -> None:  # type: ignore[type-arg]
    encoded = EncodedTopics(max_bytes)
    image = MetadataImage()
    for change, listener, version in steps:
        image = changed(image, change)
        check(encoded, image, listener, version)


def state(leader: int = 1) -> PartitionMetadata:
    return PartitionMetadata(leader, 0, (1,), (1,), (), 1, 0)


def image_of(count: int, partitions: int = 1) -> MetadataImage:
    topics = {f"t{n}": {p: state() for p in range(partitions)} for n in range(count)}
    return MetadataImage({1: Broker(1, (Endpoint("h", 1),))}, topics)


def steps_of(rows: ResponseTopics, image: MetadataImage) -> int:
    return sum(1 for _ in rows.all(image))


def test_only_a_changed_topic_is_encoded_again() -> None:
    encoded, image = EncodedTopics(), image_of(10, partitions=50)
    rows = encoded.rows(image, "PLAINTEXT", 12)
    assert steps_of(rows, image) == 10 * 51
    before = run_at_once(rows.all(image))
    after = replace(image, topics={**image.topics, "t3": {0: state()}})
    again = encoded.rows(after, "PLAINTEXT", 12)
    topics = run_at_once(again.all(after))
    assert [old is new for old, new in zip(before, topics, strict=True)] == [
        number != 3 for number in range(10)
    ]


def test_an_unchanged_image_is_not_looked_through() -> None:
    encoded, image = EncodedTopics(), image_of(10)
    run_at_once(encoded.rows(image, "PLAINTEXT", 12).all(image))
    assert steps_of(encoded.rows(image, "PLAINTEXT", 12), image) == 0


def test_each_topic_and_partition_is_a_step() -> None:
    """So that the loop runs between slices of them."""
    image = image_of(3, partitions=1_000)
    rows = EncodedTopics().rows(image, "PLAINTEXT", 12)
    assert steps_of(rows, image) >= 3_000


def test_topics_that_are_gone_are_dropped() -> None:
    encoded, image = EncodedTopics(), image_of(100)
    run_at_once(encoded.rows(image, "PLAINTEXT", 12).all(image))
    before = encoded.size
    smaller = replace(image, topics={"t1": image.topics["t1"]})
    run_at_once(encoded.rows(smaller, "PLAINTEXT", 12).all(smaller))
    assert 0 < encoded.size < before / 50


def test_rows_of_single_topics_do_not_pile_up() -> None:
    encoded = EncodedTopics()
    for number in range(1_000):
        image = MetadataImage(topics={f"t{number}": {0: state()}})
        run_at_once(encoded.rows(image, "PLAINTEXT", 12).one(image, f"t{number}"))
    many = EncodedTopics()
    image = image_of(200)
    run_at_once(many.rows(image, "PLAINTEXT", 12).all(image))
    assert encoded.size < many.size


def test_the_bytes_of_all_audiences_are_bounded() -> None:
    image = image_of(100)
    one = EncodedTopics()
    run_at_once(one.rows(image, "PLAINTEXT", 12).all(image))
    encoded = EncodedTopics(max_bytes=3 * one.size)
    for version in VERSIONS:
        run_at_once(encoded.rows(image, "PLAINTEXT", version).all(image))
        encoded.rows(image, "PLAINTEXT", version)
        assert encoded.size <= 4 * one.size
    encoded.rows(image, "PLAINTEXT", 0)
    assert 0 < encoded.size <= 3 * one.size


def test_two_requests_share_rows_while_both_are_served() -> None:
    encoded, image = EncodedTopics(), image_of(10, partitions=10)
    first = encoded.rows(image, "PLAINTEXT", 12).all(image)
    for _ in range(55):
        next(first)
    second = encoded.rows(image, "PLAINTEXT", 12).all(image)
    taken = sum(1 for _ in second)
    assert taken < 10 * 11
    assert run_at_once(first) == run_at_once(encoded.rows(image, "PLAINTEXT", 12).all(image))


def test_an_encoded_topic_counts_as_one_element() -> None:
    image = image_of(3, partitions=100)
    rows = EncodedTopics().rows(image, "PLAINTEXT", 12)
    assert element_count(response_of_all(rows, image)) == 3
    assert element_count(response_of_all(PlainTopics("PLAINTEXT", 12), image)) == 303


def test_a_client_reads_encoded_topics() -> None:
    image = image_of(2)
    response = response_of_all(EncodedTopics().rows(image, "PLAINTEXT", 12), image)
    read = decode(MetadataResponse, 12, encode(response, 12))
    assert [topic.name for topic in read.topics] == ["t0", "t1"]
    assert read.topics[1].partitions[0].leader_id == 1
