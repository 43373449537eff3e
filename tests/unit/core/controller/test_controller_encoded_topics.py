"""Topics of UpdateMetadata requests that are encoded before several brokers get them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.controller.request_batch import encoding_steps, for_version
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.codec import encode, encode_parts
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
BROKERS = st.lists(INT32, max_size=3)
PARTITIONS = st.lists(
    st.builds(
        UpdateMetadataPartitionState,
        partition_index=INT32,
        controller_epoch=INT32,
        leader=INT32,
        leader_epoch=INT32,
        isr=BROKERS,
        zk_version=INT32,
        replicas=BROKERS,
        offline_replicas=BROKERS,
    ),
    max_size=3,
)
TOPICS = st.lists(
    st.builds(UpdateMetadataTopicState, st.text(max_size=20), st.uuids(), PARTITIONS), max_size=3
)
VERSIONS = st.integers(5, 8)


@pytest.mark.mission("SCALE-10")
@given(topics=TOPICS, version=VERSIONS, brokers_version=st.integers(0, 8))
def test_each_version_has_the_bytes_of_the_plain_topics(
    topics: list[UpdateMetadataTopicState], version: int, brokers_version: int
) -> None:
    encoded = run_at_once(encoding_steps(topics, version))
    bytes_of = [
        encode(laid_out, brokers_version)
        for some in (encoded, topics)
        for laid_out in for_version(UpdateMetadataRequest(1, topic_states=some), brokers_version)
    ]
    assert len(bytes_of) == 2
    assert bytes_of[0] == bytes_of[1]


@pytest.mark.mission("SCALE-10")
def test_an_encoded_topic_is_one_part_of_each_request() -> None:
    def parts(partitions: int) -> int:
        states = [UpdateMetadataPartitionState(partition_index=n) for n in range(partitions)]
        topics = [UpdateMetadataTopicState("t", UUID(int=1), states)]
        request = UpdateMetadataRequest(topic_states=run_at_once(encoding_steps(topics, 8)))
        (laid_out,) = for_version(request, 8)
        return len(encode_parts(laid_out, 8))

    assert parts(1) == parts(100)
