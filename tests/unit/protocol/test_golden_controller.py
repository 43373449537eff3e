"""What the controller asks of brokers (keys 4 to 7), byte by byte from the specifications.

No client library knows these, so these frames are the only oracle.
"""

from typing import Any
from uuid import UUID

import pytest

from minikafka.protocol.codec import EncodeError, decode, encode
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    encode_request,
)
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
)
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.protocol.schema import Message
from tests.support.protocol.golden import golden

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def isr_state(**more: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=3,
        controller_epoch=8,
        leader=1,
        leader_epoch=5,
        isr=[1, 2],
        partition_epoch=6,
        replicas=[1, 2, 3],
        **more,
    )


def metadata_state(**more: Any) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=3,
        controller_epoch=8,
        leader=1,
        leader_epoch=5,
        isr=[1, 2],
        zk_version=6,
        replicas=[1, 2],
        **more,
    )


LIVE_LEADER = LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=9092)

REQUESTS: list[tuple[int, Message, str]] = [
    (
        0,
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=8,
            ungrouped_partition_states=[isr_state(topic_name="a")],
            live_leaders=[LIVE_LEADER],
        ),
        """
        00000001 00000008                       # controller, its epoch
        00000001 0001 'a' 00000003              # partitions, topic, partition
          00000008 00000001 00000005            # controller epoch, leader, leader epoch
          00000002 00000001 00000002            # ISR
          00000006                              # version of the state znode
          00000003 00000001 00000002 00000003   # replicas
        00000001 00000001 0001 'h' 00002384     # live leaders: id, host, port
        """,
    ),
    (
        1,
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=8,
            ungrouped_partition_states=[isr_state(topic_name="a", is_new=True)],
        ),
        """
        00000001 00000008
        00000001 0001 'a' 00000003
          00000008 00000001 00000005
          00000002 00000001 00000002
          00000006
          00000003 00000001 00000002 00000003
          01                                    # is new
        00000000
        """,
    ),
    (
        3,
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=8,
            broker_epoch=0x21,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name="a",
                    partition_states=[
                        isr_state(adding_replicas=[3], removing_replicas=[2], is_new=True)
                    ],
                )
            ],
        ),
        """
        00000001 00000008 0000000000000021      # controller, its epoch, broker epoch
        00000001 0001 'a' 00000001 00000003     # topics, name, partitions, partition
          00000008 00000001 00000005
          00000002 00000001 00000002
          00000006
          00000003 00000001 00000002 00000003
          00000001 00000003 00000001 00000002   # adding, removing
          01
        00000000
        """,
    ),
    (
        7,
        LeaderAndIsrRequest(
            controller_id=1,
            is_kraft_controller=True,
            controller_epoch=8,
            broker_epoch=0x21,
            type=2,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name="a",
                    topic_id=TOPIC_ID,
                    partition_states=[isr_state(leader_recovery_state=1)],
                )
            ],
            live_leaders=[LIVE_LEADER],
        ),
        f"""
        00000001 01 00000008 0000000000000021 02  # controller, KRaft, epochs, type
        02 02 'a' {TOPIC_ID.hex} 02 00000003    # topics + 1, name + 1, id, partitions + 1
          00000008 00000001 00000005
          03 00000001 00000002
          00000006
          04 00000001 00000002 00000003
          01 01 00 01 00                        # adding, removing, is new, recovery, tags
          00
        02 00000001 02 'h' 00002384 00
        00
        """,
    ),
    (
        0,
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=8,
            delete_partitions=True,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name="a", partition_index=3)],
        ),
        "00000001 00000008 01 00000001 0001 'a' 00000003",
    ),
    (
        1,
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=8,
            broker_epoch=0x21,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name="a", partition_indexes=[3, 4])],
        ),
        """
        00000001 00000008 0000000000000021 01
        00000001 0001 'a' 00000002 00000003 00000004
        """,
    ),
    (
        2,
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=8,
            broker_epoch=0x21,
            topics=[StopReplicaTopicV1(name="a", partition_indexes=[3])],
        ),
        "00000001 00000008 0000000000000021 00 02 02 'a' 02 00000003 00 00",
    ),
    (
        4,
        StopReplicaRequest(
            controller_id=1,
            is_kraft_controller=True,
            controller_epoch=8,
            broker_epoch=0x21,
            topic_states=[
                StopReplicaTopicState(
                    topic_name="a",
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=3, leader_epoch=5, delete_partition=True
                        )
                    ],
                )
            ],
        ),
        """
        00000001 01 00000008 0000000000000021
        02 02 'a' 02 00000003 00000005 01 00 00 # partition, leader epoch, delete
        00
        """,
    ),
    (
        0,
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=8,
            ungrouped_partition_states=[metadata_state(topic_name="a")],
            live_brokers=[UpdateMetadataBroker(id=2, v0_host="h", v0_port=9092)],
        ),
        """
        00000001 00000008                       # controller, its epoch
        00000001 0001 'a' 00000003              # partitions, topic, partition
          00000008 00000001 00000005            # controller epoch, leader, leader epoch
          00000002 00000001 00000002            # ISR
          00000006                              # version of the state znode
          00000002 00000001 00000002            # replicas
        00000001 00000002 0001 'h' 00002384     # brokers: id, host, port
        """,
    ),
    (
        5,
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=8,
            broker_epoch=0x21,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name="a", partition_states=[metadata_state(offline_replicas=[2])]
                )
            ],
            live_brokers=[
                UpdateMetadataBroker(
                    id=2,
                    endpoints=[
                        UpdateMetadataEndpoint(
                            port=9092, host="h", listener="L", security_protocol=1
                        )
                    ],
                    rack=None,
                )
            ],
        ),
        """
        00000001 00000008 0000000000000021      # controller, its epoch, broker epoch
        00000001 0001 'a' 00000001 00000003     # topics, name, partitions, partition
          00000008 00000001 00000005
          00000002 00000001 00000002
          00000006
          00000002 00000001 00000002
          00000001 00000002                     # offline replicas
        00000001 00000002 00000001              # brokers, id, endpoints
          00002384 0001 'h' 0001 'L' 0001       # port, host, listener, security protocol
          ffff                                  # rack
        """,
    ),
    (
        8,
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=8,
            broker_epoch=0x21,
            type=2,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name="a", topic_id=TOPIC_ID, partition_states=[metadata_state()]
                )
            ],
            live_brokers=[
                UpdateMetadataBroker(
                    id=2,
                    endpoints=[UpdateMetadataEndpoint(port=9092, host="h", listener="L")],
                    rack="r",
                )
            ],
        ),
        f"""
        00000001 00 00000008 0000000000000021   # controller, KRaft, epochs
        02 02 'a' {TOPIC_ID.hex} 02 00000003
          00000008 00000001 00000005
          03 00000001 00000002
          00000006
          03 00000001 00000002
          01 00                                 # offline replicas, tags
          00
        02 00000002 02 00002384 02 'h' 02 'L' 0000 00 02 'r' 00
        01 00 01 02                             # one tagged field: 0, 1 byte: type
        """,
    ),
    (1, ControlledShutdownRequest(broker_id=2), "00000002"),
    (2, ControlledShutdownRequest(broker_id=2, broker_epoch=0x21), "00000002 0000000000000021"),
    (3, ControlledShutdownRequest(broker_id=2, broker_epoch=0x21), "00000002 0000000000000021 00"),
]


@pytest.mark.parametrize(("version", "message", "text"), REQUESTS)
def test_request_frames(version: int, message: Message, text: str) -> None:
    key = message.SPEC.api_key
    assert key is not None
    head = f"{key:04x} {version:04x} 00000007 0002 'br' {'00' if key.is_flexible(version) else ''}"
    body = golden(head + text)
    frame = len(body).to_bytes(4, "big") + body
    header = RequestHeader(key, version, 7, "br")
    assert encode_request(header, message) == frame
    got, position = decode_request_header(memoryview(frame)[4:])
    assert got == header
    assert decode(type(message), version, memoryview(frame)[4:], position) == message


def test_a_request_of_the_old_shape_refuses_the_new_fields() -> None:
    grouped = LeaderAndIsrRequest(topic_states=[LeaderAndIsrTopicState(topic_name="a")])
    with pytest.raises(EncodeError, match=r"LeaderAndIsrRequest v1: .*topic_states"):
        encode(grouped, 1)
    with pytest.raises(EncodeError, match="ungrouped_partition_states"):
        encode(LeaderAndIsrRequest(ungrouped_partition_states=[isr_state()]), 2)
    with pytest.raises(EncodeError, match="leader_recovery_state"):
        encode(
            LeaderAndIsrRequest(ungrouped_partition_states=[isr_state(leader_recovery_state=1)]), 1
        )
    # Ignorable ones are dropped without a word.
    assert encode(LeaderAndIsrRequest(broker_epoch=5), 1) == encode(LeaderAndIsrRequest(), 1)
