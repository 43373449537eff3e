"""What brokers answer the controller (keys 4 to 7), byte by byte from the specifications."""

from uuid import UUID

import pytest

from minikafka.protocol.frames import decode_response, encode_response
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownResponse,
    RemainingPartition,
)
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaResponse,
)
from minikafka.protocol.messages.update_metadata import UpdateMetadataResponse
from minikafka.protocol.schema import Message
from tests.support.protocol.golden import golden

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

RESPONSES: list[tuple[int, Message, str]] = [
    (
        1,
        LeaderAndIsrResponse(
            error_code=11,
            partition_errors=[
                LeaderAndIsrPartitionError(topic_name="a", partition_index=3, error_code=3)
            ],
        ),
        "000b 00000001 0001 'a' 00000003 0003",
    ),
    (
        4,
        LeaderAndIsrResponse(
            partition_errors=[LeaderAndIsrPartitionError(topic_name="a", partition_index=3)]
        ),
        "00 0000 02 02 'a' 00000003 0000 00 00",
    ),
    (
        5,
        LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=TOPIC_ID,
                    partition_errors=[LeaderAndIsrPartitionError(partition_index=3, error_code=56)],
                )
            ]
        ),
        f"00 0000 02 {TOPIC_ID.hex} 02 00000003 0038 00 00 00",
    ),
    (
        1,
        StopReplicaResponse(
            partition_errors=[StopReplicaPartitionError(topic_name="a", partition_index=3)]
        ),
        "0000 00000001 0001 'a' 00000003 0000",
    ),
    (
        3,
        StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name="a", partition_index=3, error_code=74)
            ]
        ),
        "00 0000 02 02 'a' 00000003 004a 00 00",
    ),
    (5, UpdateMetadataResponse(error_code=77), "004d"),
    (6, UpdateMetadataResponse(error_code=77), "00 004d 00"),
    (
        2,
        ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(topic_name="a", partition_index=3)]
        ),
        "0000 00000001 0001 'a' 00000003",
    ),
    (
        3,
        ControlledShutdownResponse(
            remaining_partitions=[RemainingPartition(topic_name="a", partition_index=3)]
        ),
        "00 0000 02 02 'a' 00000003 00 00",
    ),
]


@pytest.mark.parametrize(("version", "message", "text"), RESPONSES)
def test_response_frames(version: int, message: Message, text: str) -> None:
    body = golden("00000007" + text)
    frame = len(body).to_bytes(4, "big") + body
    assert encode_response(7, message, version) == frame
    assert decode_response(type(message), version, frame[4:]) == (7, message)
