"""Records of KIP-848's groups: bytes that the generated classes of Kafka 4.1.1 and 4.2.0 gave."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.messages.consumer_group_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartitions,
)
from minikafka.protocol.schema import Message
from minikafka.protocol.versioned import decode_versioned, encode_versioned
from tests.support.protocol.messages import messages

TOPIC_ID = UUID(int=(1 << 64) + 2)
TOPIC = "00000000000000010000000000000002"
GOLDEN: list[tuple[Message, str]] = [
    (ConsumerGroupMetadataKey("g"), "0003 0001 67"),
    (ConsumerGroupMetadataValue(3), "0000 00000003 00"),
    (ConsumerGroupMetadataValue(3, -2), "0000 00000003 01 00 08 fffffffffffffffe"),
    (ConsumerGroupPartitionMetadataKey("g"), "0004 0001 67"),
    (
        ConsumerGroupPartitionMetadataValue(
            [TopicMetadata(TOPIC_ID, "t", 2, [PartitionMetadata(1, ["r", "s"])])]
        ),
        f"0000 02 {TOPIC} 02 74 00000002 02 00000001 03 02 72 02 73 00 00 00",
    ),
    (ConsumerGroupMemberMetadataKey("g", "m"), "0005 0001 67 0001 6d"),
    (
        ConsumerGroupMemberMetadataValue(
            None, None, "c", "/h", ["t", "u"], None, 5, None, ClassicMemberMetadata()
        ),
        "0000 00 00 02 63 03 2f68 03 02 74 02 75 00 00000005 00 00",
    ),
    (
        ConsumerGroupMemberMetadataValue(
            None, None, "c", "/h", ["t", "u"], None, 5, None, classic_member_metadata=None
        ),
        "0000 00 00 02 63 03 2f68 03 02 74 02 75 00 00000005 00 01 00 01 00",
    ),
    (
        ConsumerGroupMemberMetadataValue(
            *("i", "r", "c", "/h", [], "t.*", 5, "range"),
            ClassicMemberMetadata(6, [ClassicProtocol("p", b"\7\10")]),
        ),
        (
            "0000 02 69 02 72 02 63 03 2f68 01 04 742e2a 00000005 06 72616e6765 "
            "01 00 0d 01 00000006 02 02 70 03 0708 00 00"
        ),
    ),
    (ConsumerGroupMemberMetadataValue(), "0000 01 01 01 01 01 01 ffffffff 01 00"),
    (ConsumerGroupTargetAssignmentMetadataKey("g"), "0006 0001 67"),
    (ConsumerGroupTargetAssignmentMetadataValue(4), "0000 00000004 00"),
    (ConsumerGroupTargetAssignmentMemberKey("g", "m"), "0007 0001 67 0001 6d"),
    (
        ConsumerGroupTargetAssignmentMemberValue([TopicPartitions(TOPIC_ID, [0, 3])]),
        f"0000 02 {TOPIC} 03 00000000 00000003 00 00",
    ),
    (ConsumerGroupCurrentMemberAssignmentKey("g", "m"), "0008 0001 67 0001 6d"),
    (
        ConsumerGroupCurrentMemberAssignmentValue(
            *(5, 4, 2, [TopicPartitions(TOPIC_ID, [0])], [TopicPartitions(TOPIC_ID, [1])])
        ),
        (f"0000 00000005 00000004 02 02 {TOPIC} 02 00000000 00 02 {TOPIC} 02 00000001 00 00"),
    ),
    (ConsumerGroupRegularExpressionKey("g", "t.*"), "0010 0001 67 0003 742e2a"),
    (
        ConsumerGroupRegularExpressionValue(["t"], 9, 10),
        "0000 02 02 74 0000000000000009 000000000000000a 00",
    ),
]


@pytest.mark.parametrize(("message", "text"), GOLDEN)
def test_bytes_are_kafkas(message: Message, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode_versioned(message, message.SPEC.versions.last) == data
    assert decode_versioned(type(message), data) == (message, message.SPEC.versions.last)


@given(data=st.data())
def test_records_are_decoded_unchanged(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from([type(message) for message, _ in GOLDEN]))
    version = cls.SPEC.versions.last
    message = data.draw(messages(cls, version))
    assert decode_versioned(cls, encode_versioned(message, version)) == (message, version)


def test_an_absent_field_is_a_new_object_each_time() -> None:
    data = bytes.fromhex("0000 01 01 01 01 01 01 ffffffff 01 00")
    first, _ = decode_versioned(ConsumerGroupMemberMetadataValue, data)
    second, _ = decode_versioned(ConsumerGroupMemberMetadataValue, data)
    assert first.classic_member_metadata == ClassicMemberMetadata()
    assert first.classic_member_metadata is not second.classic_member_metadata
