"""Records of internal topics: bytes by hand from Kafka's formats, and how dump-log shows them."""

import json
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.cluster.dump_log import add_arguments, options_of
from minikafka.core.share.persister import StateBatch, TopicIdPartition
from minikafka.core.share.records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareState,
    encode_record,
)
from minikafka.protocol.messages.consumer_group_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from minikafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerTopicPartitions,
)
from minikafka.protocol.messages.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.messages.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from minikafka.protocol.records.record import Record
from minikafka.protocol.schema import Message
from minikafka.protocol.versioned import decode_versioned, encode_versioned
from minikafka.server.storage.dump import (
    decode_offsets_record,
    decode_share_state_record,
    decode_text,
    decode_transaction_record,
)
from tests.support.protocol.messages import messages

GOLDEN: list[tuple[Message, int, str]] = [
    (OffsetCommitKey("g", "t", 3), 1, "0001 0001 67 0001 74 00000003"),
    (OffsetCommitValue(7, -1, "m", 9, 5), 0, "0000 0000000000000007 0001 6d 0000000000000009"),
    (
        OffsetCommitValue(7, -1, "m", 9, 5),
        1,
        "0001 0000000000000007 0001 6d 0000000000000009 0000000000000005",
    ),
    (
        OffsetCommitValue(7, 2, "m", 9),
        3,
        "0003 0000000000000007 00000002 0001 6d 0000000000000009",
    ),
    (
        OffsetCommitValue(7, 2, "m", 9),
        4,
        "0004 0000000000000007 00000002 02 6d 0000000000000009 00",
    ),
    (GroupMetadataKey("g"), 2, "0002 0001 67"),
    (
        GroupMetadataValue("c", 4, None, None, 8),
        2,
        "0002 0001 63 00000004 ffff ffff 0000000000000008 00000000",
    ),
    (
        GroupMetadataValue("c", 4, "r", "a", 8, [MemberMetadata("a", None, "i", "h", 6, 5, b"S")]),
        3,
        (
            "0003 0001 63 00000004 0001 72 0001 61 0000000000000008 00000001 "
            "0001 61 ffff 0001 69 0001 68 00000006 00000005 00000001 53 00000000"
        ),
    ),
    (TransactionLogKey("x"), 0, "0000 0001 78"),
    (
        TransactionLogValue(5, 1, 60000, 1, [TransactionPartitions("t", [0, 2])], 11, 10),
        0,
        (
            "0000 0000000000000005 0001 0000ea60 01 00000001 0001 74 00000002 00000000 00000002 "
            "000000000000000b 000000000000000a"
        ),
    ),
    (
        TransactionLogValue(5, 1, 60000, 0, None, 11, 10),
        1,
        "0001 0000000000000005 0001 0000ea60 00 00 000000000000000b 000000000000000a 00",
    ),
]


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(12, 0, key, value, [])


@pytest.mark.parametrize(("message", "version", "text"), GOLDEN)
def test_bytes_are_kafkas(message: Message, version: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode_versioned(message, version) == data
    again, found = decode_versioned(type(message), data)
    assert found == version
    assert encode_versioned(again, version) == data


@given(data=st.data())
def test_encoded_offset_records_are_decoded_unchanged(data: st.DataObject) -> None:
    cls, version = data.draw(
        st.sampled_from(
            [
                (cls, version)
                for cls in (
                    OffsetCommitKey,
                    OffsetCommitValue,
                    GroupMetadataKey,
                    GroupMetadataValue,
                    TransactionLogKey,
                    TransactionLogValue,
                    ConsumerProtocolSubscription,
                    ConsumerProtocolAssignment,
                )
                for version in range(cls.SPEC.versions.first, cls.SPEC.versions.last + 1)
            ]
        )
    )
    message = data.draw(messages(cls, version))
    assert decode_versioned(cls, encode_versioned(message, version)) == (message, version)


def test_offset_commits() -> None:
    key = encode_versioned(OffsetCommitKey("g\u00e9", "t", 3), 1)
    value = encode_versioned(OffsetCommitValue(7, 2, "", 9), 3)
    shown = '{"type":"1","data":{"group":"g\u00e9","topic":"t","partition":3}}'
    assert decode_offsets_record(record(key, value)) == (
        shown,
        '{"version":"3","data":{"offset":7,"leaderEpoch":2,"metadata":"","commitTimestamp":9}}',
    )
    assert decode_offsets_record(record(key, None)) == (shown, "<DELETE>")


def test_groups_of_consumers_are_opened() -> None:
    owned = [ConsumerTopicPartitions("t", [0])]
    wanted = ConsumerProtocolSubscription(["t"], b"\x00\xff", owned, 3, None)
    given_ = ConsumerProtocolAssignment(owned, None)
    newer = struct.pack(">h", 9) + encode_versioned(given_, 3)[2:]  # read as the newest known
    members = [MemberMetadata("a", "s", "i", "h", 6, 5, encode_versioned(wanted, 3), newer)]
    value = GroupMetadataValue("consumer", 4, "range", "a", 8, members)
    _, shown = decode_offsets_record(
        record(encode_versioned(GroupMetadataKey("g"), 2), encode_versioned(value, 3))
    )
    assert shown is not None
    assert json.loads(shown) == {
        "version": "3",
        "data": {
            "protocolType": "consumer",
            "generation": 4,
            "protocol": "range",
            "leader": "a",
            "currentStateTimestamp": 8,
            "members": [
                {
                    "memberId": "a",
                    "groupInstanceId": "s",
                    "clientId": "i",
                    "clientHost": "h",
                    "rebalanceTimeout": 6,
                    "sessionTimeout": 5,
                    "subscription": {
                        "topics": ["t"],
                        "userData": "AP8=",
                        "ownedPartitions": [{"topic": "t", "partitions": [0]}],
                        "generationId": 3,
                        "rackId": None,
                    },
                    "assignment": {
                        "assignedPartitions": [{"topic": "t", "partitions": [0]}],
                        "userData": None,
                    },
                }
            ],
        },
    }


def test_groups_of_others_stay_bytes() -> None:
    members = [MemberMetadata("a", None, "i", "h", 6, 5, b"\x00", b"\x01\x02")]
    for kind in ("connect", "consumer"):
        value = encode_versioned(GroupMetadataValue(kind, members=members), 3)
        _, shown = decode_offsets_record(record(encode_versioned(GroupMetadataKey("g"), 2), value))
        assert shown is not None
        member = json.loads(shown)["data"]["members"][0]
        assert (member["subscription"], member["assignment"]) == ("AA==", "AQI=")


CLASSIC = ClassicMemberMetadata(6, [ClassicProtocol("p", b"\7\10")])
# Kafka 4.2.0 shows them so: its ``...JsonConverter`` classes.
CONSUMER_GROUP_VALUES: list[tuple[Message, Message, str]] = [
    (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3), '{"epoch":3}'),
    (
        ConsumerGroupMetadataKey("g"),
        ConsumerGroupMetadataValue(3, -2),
        '{"epoch":3,"metadataHash":-2}',
    ),
    *(
        (
            ConsumerGroupMemberMetadataKey("g", "m"),
            ConsumerGroupMemberMetadataValue(
                None, None, "c", "/h", ["t"], None, 5, None, classic_member_metadata=classic
            ),
            (
                '{"instanceId":null,"rackId":null,"clientId":"c","clientHost":"/h",'
                '"subscribedTopicNames":["t"],"subscribedTopicRegex":null,"rebalanceTimeoutMs":5,'
                f'"serverAssignor":null{shown}}}'
            ),
        )
        for classic, shown in (
            (None, ',"classicMemberMetadata":null'),
            (ClassicMemberMetadata(), ""),
            (
                CLASSIC,
                (
                    ',"classicMemberMetadata":{"sessionTimeoutMs":6,"supportedProtocols":'
                    '[{"name":"p","metadata":"Bwg="}]}'
                ),
            ),
        )
    ),
    (
        ConsumerGroupRegularExpressionKey("g", "t.*"),
        ConsumerGroupRegularExpressionValue(["t"], 9, 10),
        '{"topics":["t"],"version":9,"timestamp":10}',
    ),
]


@pytest.mark.parametrize(("key", "value", "shown"), CONSUMER_GROUP_VALUES)
def test_groups_of_kip_848(key: Message, value: Message, shown: str) -> None:
    kind = key.SPEC.versions.last
    encoded = encode_versioned(key, kind)
    found, payload = decode_offsets_record(record(encoded, encode_versioned(value, 0)))
    assert found is not None
    assert json.loads(found)["type"] == str(kind)
    assert json.loads(found)["data"]["groupId"] == "g"
    assert payload == f'{{"version":"0","data":{shown}}}'
    assert decode_offsets_record(record(encoded, None)) == (found, "<DELETE>")


def test_transactions() -> None:
    key = encode_versioned(TransactionLogKey("x"), 0)
    written = [TransactionPartitions("t", [0, 2]), TransactionPartitions("u", [1])]
    value = encode_versioned(TransactionLogValue(5, 1, 60000, 1, written, 11, 10), 0)
    name = "transaction_metadata::transactionalId=x"
    assert decode_transaction_record(record(key, value)) == (
        name,
        (
            "producerId:5,producerEpoch:1,state=Ongoing,partitions=[t-0,t-2,u-1],"
            "txnLastUpdateTimestamp=11,txnTimeoutMs=60000"
        ),
    )
    assert decode_transaction_record(record(key, None)) == (name, "<DELETE>")
    empty = encode_versioned(TransactionLogValue(5, 1, 60000, 0, None, 11, -1), 1)
    shown = decode_transaction_record(record(key, empty))[1] or ""
    assert "state=Empty,partitions=[]," in shown


def test_share_state_record() -> None:
    name = SharePartitionKey("g", TopicIdPartition(UUID(int=1), 2))
    state = ShareState(3, 4, 0, 5, 2, (StateBatch(5, 6, 2, 1),))
    key, value = encode_record(ShareSnapshot(name, state))
    assert value is not None
    shown_key, shown = decode_share_state_record(record(key, value))
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    assert json.loads(shown_key or "") == {
        "type": "0",
        "data": {"groupId": "g", "topicId": topic_id, "partition": 2},
    }
    assert json.loads(shown or "")["data"]["stateBatches"] == [
        {"firstOffset": 5, "lastOffset": 6, "deliveryState": 2, "deliveryCount": 1}
    ]


@pytest.mark.parametrize("decode", [decode_offsets_record, decode_transaction_record])
def test_undecodable_records_are_reported(decode) -> None:  # type: ignore[no-untyped-def]
    assert decode(record(None, b"x"))[0].startswith("Error at offset 12, skipping. ")
    assert decode(record(b"\x00", b"x"))[0].startswith("Error at offset 12, skipping. ")
    good_key = encode_versioned(
        OffsetCommitKey() if decode is decode_offsets_record else TransactionLogKey(), 0
    )
    assert decode(record(good_key, b"\x00\x00"))[0].startswith("Error at offset 12, skipping. ")
    assert decode(record(good_key, b"\x00\x77"))[0].startswith("Error at offset 12, skipping. ")


def test_unknown_kinds() -> None:
    key = b"\x00\x18\x00\x01g"  # the first one after those of streams groups
    assert decode_offsets_record(record(key, b"x")) == (
        "Unknown record type 24 at offset 12, skipping.",
        None,
    )
    assert decode_transaction_record(record(key, b"x")) == ("unknown::version=24", None)


@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
def test_no_bytes_end_the_dump(key: bytes | None, value: bytes | None) -> None:
    for decode in (decode_text, decode_offsets_record, decode_transaction_record):
        decode(record(key, value))


def test_a_decoder_implies_contents_and_records() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = options_of(parser.parse_args(["--files", "x", "--offsets-decoder"]))
    assert (options.decode, options.contents, options.deep) == (decode_offsets_record, True, True)
    plain = options_of(parser.parse_args(["--files", "x", "--deep-iteration"]))
    assert (plain.contents, plain.deep) == (False, True)
