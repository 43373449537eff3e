"""The common paths read a frame as the decoder does, whatever its bytes are."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minikafka.broker.requests import common_fetch, common_produce
from minikafka.core.log.validation import plain_batch
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from tests.support.broker.replicas import TOPIC, TOPIC_ID

CLIENT_IDS = st.sampled_from(("c", "", "a-client", None))
# Where, how many bytes are taken out, and what is put in their place.
Change = tuple[int, int, bytes]
DAMAGE = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.binary(max_size=2)), max_size=3
)


def damaged(frame: bytes, damage: list[Change]) -> memoryview:
    """Replace bytes of a frame without its size, but for the API key."""
    changed = bytearray(frame[4:])
    for where, count, new in damage:
        place = 2 + where % (len(changed) - 2)
        changed[place : place + count] = new
    return memoryview(changed)


@pytest.mark.mission("FAST-1")
@given(
    version=st.integers(common_produce.FIRST_VERSION, common_produce.LAST_VERSION),
    client_id=CLIENT_IDS,
    acks=st.sampled_from((-1, 0, 1)),
    transactional_id=st.sampled_from((None, "t", "a-longer-transactional-id")),
    damage=DAMAGE,
)
def test_a_common_produce_is_read_as_by_the_decoder(
    version: int,
    client_id: str | None,
    acks: int,
    transactional_id: str | None,
    damage: list[Change],
) -> None:
    records = build_batch([(0, None, b"value", ())])
    topics = [TopicProduceData(TOPIC, [PartitionProduceData(1, records)])]
    header = RequestHeader(0, version, 7, client_id)
    request = ProduceRequest(transactional_id, acks, 100, topics)
    frame = damaged(encode_request(header, request), damage)
    common = common_produce.common_request(frame)
    terms = None if common is None else common_produce.produce_terms(common.form)
    if common is None or terms is None:
        assert damage or transactional_id is not None or acks == 0
        return
    named = common_produce.named_partition(terms.name, common.version)
    assume(named is not None and named.topic == TOPIC)  # as others are not hosted
    assume(plain_batch(frame[common.start : common.stop], 1_000) is not None)
    header, body = decode_request_header(frame)
    read = decode(ProduceRequest, header.api_version, frame, body)
    assert (common.version, common.correlation_id) == (header.api_version, header.correlation_id)
    assert terms.client_id == (header.client_id or "")
    assert (terms.acks, terms.timeout_ms) == (read.acks, read.timeout_ms)
    assert read.transactional_id is None
    ((topic, (partition,)),) = [(each.name, each.partition_data) for each in read.topic_data]
    assert named == (topic, partition.index)
    assert bytes(frame[common.start : common.stop]) == bytes(partition.records or b"")


@pytest.mark.mission("FET-20")
@given(
    version=st.integers(common_fetch.FIRST_VERSION, common_fetch.LAST_VERSION),
    client_id=CLIENT_IDS,
    session=st.sampled_from(((0, -1), (9, 1), (0, 0), (0, 1), (9, -1))),
    damage=DAMAGE,
)
def test_a_common_fetch_is_read_as_by_the_decoder(
    version: int,
    client_id: str | None,
    session: tuple[int, int],
    damage: list[Change],
) -> None:
    partition = FetchPartition(1, fetch_offset=5, partition_max_bytes=900)
    topic = FetchTopic(TOPIC, TOPIC_ID if version >= common_fetch.FIRST_BY_ID else ZERO_UUID)
    topic.partitions = [partition]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic],
    )
    frame = damaged(encode_request(RequestHeader(1, version, 7, client_id), request), damage)
    common = common_fetch.common_fetch(frame)
    terms = None if common is None else common_fetch.fetch_terms(common.form)
    if common is None or terms is None:
        assert damage or session not in ((0, -1), (9, 1))
        return
    named = common_fetch.named_partition(terms.name, common.version)
    assume(named is not None and (named.topic == TOPIC or named.topic_id == TOPIC_ID))
    assert named is not None
    header, body = decode_request_header(frame)
    read = decode(FetchRequest, header.api_version, frame, body)
    assert (common.version, common.correlation_id) == (header.api_version, header.correlation_id)
    assert (common.session_id, common.session_epoch) == (read.session_id, read.session_epoch)
    assert read.replica_id == -1
    assert read.replica_state is None
    assert (terms.min_bytes, terms.max_bytes) == (read.min_bytes, read.max_bytes)
    assert terms.isolation_level == read.isolation_level
    ((its_topic, (row,)),) = [(each, each.partitions) for each in read.topics]
    assert named.partition == row.partition
    assert named.topic_id in (None, its_topic.topic_id)
    assert (common.offset, terms.leader_epoch) == (row.fetch_offset, row.current_leader_epoch)
    assert terms.partition_max_bytes == row.partition_max_bytes
    assert (row.last_fetched_epoch, row.log_start_offset) == (-1, -1)
    assert (read.forgotten_topics_data, read.rack_id) == ([], "")
