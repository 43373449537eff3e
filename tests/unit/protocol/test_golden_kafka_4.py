"""Versions that Kafka 4 added: bytes that the generated classes of Kafka 4.2.0 gave."""

from uuid import UUID

import pytest

from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages import alter_partition_reassignments as reassign
from minikafka.protocol.messages import consumer_group_describe as describe
from minikafka.protocol.messages import consumer_group_heartbeat as heartbeat
from minikafka.protocol.messages import describe_topic_partitions as pages
from minikafka.protocol.messages import offset_commit, offset_fetch
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from minikafka.protocol.messages.fetch import NOT_SENT, FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from minikafka.protocol.schema import Message

TOPIC_ID = UUID(int=(1 << 64) + 2)
TOPIC = "00000000000000010000000000000002"
MEMBER = "02 6d 00 00 00000003 02 63 03 2f68 02 02 74 00 01 00 01 00"
GROUP = "00000000 02 0000 00 02 67 07 537461626c65 00000003 00000002 06 72616e6765 02"


def described(member_type: int) -> Message:
    """Return a description of one group with one member."""
    member = describe.Member(
        *("m", None, None, 3, "c", "/h", ["t"], None),
        describe.Assignment(),
        describe.Assignment(),
        member_type,
    )
    group = describe.DescribedGroup(0, None, "g", "Stable", 3, 2, "range", [member])
    return describe.ConsumerGroupDescribeResponse(0, [group])


GOLDEN: list[tuple[Message, int, str]] = [
    *(
        (
            pages.DescribeTopicPartitionsRequest([pages.DescribedTopicName("t")], 5, cursor),
            0,
            f"02 02 74 00 00000005 {text} 00",
        )
        for cursor, text in ((None, "ff"), (pages.Cursor("t", 1), "01 02 74 00000001 00"))
    ),
    *(
        (
            pages.DescribeTopicPartitionsResponse(
                0,
                [
                    pages.DescribeTopicPartitionsResponseTopic(
                        0,
                        "t",
                        TOPIC_ID,
                        False,
                        [
                            pages.DescribeTopicPartitionsResponsePartition(
                                *(0, 1, 2, 3, [2, 4], [2], [], [], [4])
                            )
                        ],
                    )
                ],
                cursor,
            ),
            0,
            (
                f"00000000 02 0000 02 74 {TOPIC} 00 02 0000 00000001 00000002 00000003 "
                "03 00000002 00000004 02 00000002 01 01 02 00000004 00 80000000 00 "
                f"{text} 00"
            ),
        )
        for cursor, text in ((None, "ff"), (pages.Cursor("t", 2), "01 02 74 00000002 00"))
    ),
    (
        MetadataRequest([MetadataRequestTopic(name="t")]),
        13,
        "02 00000000000000000000000000000000 02 74 00 01 00 00",
    ),
    (
        MetadataResponse(cluster_id="c", controller_id=1, error_code=-1),
        13,
        "00000000 01 02 63 00000001 01 ffff 00",
    ),
    *(
        (
            FetchRequest(
                max_wait_ms=1,
                min_bytes=2,
                max_bytes=3,
                topics=[
                    FetchTopic(
                        "",
                        TOPIC_ID,
                        [
                            FetchPartition(
                                1, fetch_offset=4, partition_max_bytes=5, high_watermark=known
                            )
                        ],
                    )
                ],
            ),
            18,
            (
                f"00000001 00000002 00000003 00 00000000 ffffffff 02 {TOPIC} 02 00000001 ffffffff "
                f"0000000000000004 ffffffff ffffffffffffffff 00000005 {tags} 00 01 01 00"
            ),
        )
        for known, tags in ((6, "01 01 08 0000000000000006"), (NOT_SENT, "00"))
    ),
    (
        UpdateFeaturesRequest(9, [FeatureUpdateKey("f", 2, upgrade_type=2)], validate_only=True),
        2,
        "00000009 02 02 66 0002 02 00 01 00",
    ),
    (UpdateFeaturesResponse(0, 95, "m"), 2, "00000000 005f 02 6d 00"),
    (
        ListTransactionsRequest(["Ongoing"], [7], 5, "t.*"),
        2,
        "02 08 4f6e676f696e67 02 0000000000000007 0000000000000005 04 742e2a 00",
    ),
    (ListTransactionsRequest(), 2, "01 01 ffffffffffffffff 00 00"),
    (DescribeClusterRequest(include_fenced_brokers=True), 2, "00 01 01 00"),
    (
        DescribeClusterResponse(
            cluster_id="c",
            controller_id=1,
            brokers=[DescribeClusterBroker(1, "h", 9, is_fenced=True)],
        ),
        2,
        "00000000 0000 00 01 02 63 00000001 02 00000001 02 68 00000009 00 01 00 80000000 00",
    ),
    (
        reassign.AlterPartitionReassignmentsRequest(
            9,
            False,
            [reassign.ReassignableTopic("t", [reassign.ReassignablePartition(1, [2])])],
        ),
        1,
        "00000009 00 02 02 74 02 00000001 02 00000002 00 00 00",
    ),
    (
        reassign.AlterPartitionReassignmentsResponse(
            0,
            False,
            0,
            None,
            [
                reassign.ReassignableTopicResponse(
                    "t", [reassign.ReassignablePartitionResponse(1, 38, "m")]
                )
            ],
        ),
        1,
        "00000000 00 0000 00 02 02 74 02 00000001 0026 02 6d 00 00 00",
    ),
    *(
        (
            ListOffsetsRequest(
                -1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(1, 2, -6)])], timeout_ms=5
            ),
            version,
            "ffffffff 00 02 02 74 02 00000001 00000002 fffffffffffffffa 00 00 00000005 00",
        )
        for version in (10, 11)
    ),
    (
        heartbeat.ConsumerGroupHeartbeatRequest(
            *("g", "m", 3, "i", "r", 5, ["t"], "t.*", "range"),
            [heartbeat.TopicPartitions(TOPIC_ID, [1])],
        ),
        1,
        (
            "02 67 02 6d 00000003 02 69 02 72 00000005 02 02 74 04 742e2a 06 72616e6765 "
            f"02 {TOPIC} 02 00000001 00 00"
        ),
    ),
    (
        heartbeat.ConsumerGroupHeartbeatRequest("g", "m", 3),
        1,
        "02 67 02 6d 00000003 00 00 ffffffff 00 00 00 00 00",
    ),
    (
        heartbeat.ConsumerGroupHeartbeatResponse(
            *(0, 0, None, "m", 3, 5),
            heartbeat.Assignment([heartbeat.TopicPartitions(TOPIC_ID, [1])]),
        ),
        1,
        f"00000000 0000 00 02 6d 00000003 00000005 01 02 {TOPIC} 02 00000001 00 00 00",
    ),
    (described(describe.UNKNOWN_MEMBER_TYPE), 0, f"{GROUP} {MEMBER} 00 80000000 00 00"),
    (described(describe.CONSUMER_MEMBER_TYPE), 1, f"{GROUP} {MEMBER} 01 00 80000000 00 00"),
    (
        DescribeGroupsResponse(0, [DescribedGroup(69, "no", "g", "Dead")]),
        6,
        "00000000 02 0045 03 6e6f 02 67 05 44656164 01 01 01 80000000 00 00",
    ),
    (
        offset_commit.OffsetCommitRequest(
            *("g", 3, "m"),
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    "",
                    TOPIC_ID,
                    [offset_commit.OffsetCommitRequestPartition(1, 9, 4, committed_metadata="x")],
                )
            ],
        ),
        10,
        (
            f"02 67 00000003 02 6d 00 02 {TOPIC} "
            "02 00000001 0000000000000009 00000004 02 78 00 00 00"
        ),
    ),
    (
        offset_commit.OffsetCommitResponse(
            0,
            [
                offset_commit.OffsetCommitResponseTopic(
                    "", TOPIC_ID, [offset_commit.OffsetCommitResponsePartition(1, 100)]
                )
            ],
        ),
        10,
        f"00000000 02 {TOPIC} 02 00000001 0064 00 00 00",
    ),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    "g", "m", 3, [offset_fetch.OffsetFetchRequestTopics("", TOPIC_ID, [1])]
                )
            ],
            require_stable=True,
        ),
        10,
        f"02 02 67 02 6d 00000003 02 {TOPIC} 02 00000001 00 00 01 00",
    ),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=None)]
        ),
        10,
        "02 02 67 00 ffffffff 00 00 00 00",
    ),
    (
        offset_fetch.OffsetFetchResponse(
            groups=[
                offset_fetch.OffsetFetchResponseGroup(
                    "g",
                    [
                        offset_fetch.OffsetFetchResponseTopics(
                            "", TOPIC_ID, [offset_fetch.OffsetFetchResponsePartitions(1, 9, 4, "x")]
                        )
                    ],
                )
            ]
        ),
        10,
        (
            f"00000000 02 02 67 02 {TOPIC} "
            "02 00000001 0000000000000009 00000004 02 78 0000 00 00 0000 00 00"
        ),
    ),
]


@pytest.mark.parametrize(("message", "version", "text"), GOLDEN)
def test_bytes_are_kafkas(message: Message, version: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode(message, version) == data
    assert decode(type(message), version, data) == message


def test_the_type_of_a_member_is_left_out_of_version_0() -> None:
    in_0 = encode(described(describe.UNKNOWN_MEMBER_TYPE), 0)
    assert encode(described(describe.CONSUMER_MEMBER_TYPE), 0) == in_0
