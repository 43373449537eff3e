"""The bytes of subscriptions, assignments and user data, against fixed ones and other clients."""

from __future__ import annotations

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyAssignorUserDataV1,
)
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from minikafka.core.client.assignors.model import Subscription
from minikafka.core.client.assignors.sticky import (
    Memory,
    remembered_by_user_data,
    sticky_user_data,
)
from minikafka.core.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.buffer import DecodeError

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
WHOLE = Subscription(("t", "u"), (T0, T1, U0), 7, b"\1\2", rack_id="r")

FRAMES = {
    0: "0000 00000002 0001 74 0001 75 00000002 0102",
    1: "0001 00000002 0001 74 0001 75 00000002 0102"
    " 00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000000",
    2: "0002 00000002 0001 74 0001 75 00000002 0102"
    " 00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000000 00000007",
    3: "0003 00000002 0001 74 0001 75 00000002 0102"
    " 00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000000 00000007 0001 72",
}


@pytest.mark.parametrize("version", FRAMES)
def test_subscriptions_of_every_version(version: int) -> None:
    frame = bytes.fromhex(FRAMES[version])
    assert encode_subscription(WHOLE, version) == frame
    found = decode_subscription(frame, "static")
    assert found.topics == WHOLE.topics
    assert found.user_data == WHOLE.user_data
    assert found.group_instance_id == "static"
    assert found.owned == (WHOLE.owned if version >= 1 else ())
    assert found.generation == (7 if version >= 2 else -1)
    assert found.rack_id == ("r" if version >= 3 else None)


def test_a_version_of_the_future_is_read_as_far_as_it_is_known() -> None:
    frame = bytearray(bytes.fromhex(FRAMES[3]) + b"more")
    frame[1] = 9
    assert decode_subscription(frame).owned == WHOLE.owned


def test_assignments() -> None:
    frame = bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000001 ffffffff")
    assert encode_assignment([T1, T0], version=0) == frame
    assert decode_assignment(frame) == (T0, T1)
    assert decode_assignment(encode_assignment([U0, T1])) == (T1, U0)
    assert decode_assignment(b"") == ()
    with pytest.raises(DecodeError):
        decode_assignment(b"\0\0\0")


def test_sticky_user_data_is_that_of_other_clients() -> None:
    ours = sticky_user_data([U0, T1, T0], 5)
    assert ours is not None
    theirs = StickyAssignorUserDataV1([("t", [0, 1]), ("u", [0])], 5).encode()
    assert ours == theirs
    assert sticky_user_data(None, -1) is None
    old = ours[:-4]
    rubbish = b"\0\0\0\x05?"
    wanted = {
        "new": Subscription(("t",), user_data=ours),
        "old": Subscription(("t",), user_data=old),
        "rubbish": Subscription(("t",), user_data=rubbish),
        "none": Subscription(("t",)),
    }
    assert remembered_by_user_data(wanted) == {
        "new": Memory((T0, T1, U0), 5),
        "old": Memory((T0, T1, U0), -1),
        "rubbish": Memory(),
        "none": Memory(),
    }


def test_aiokafka_decodes_our_subscription() -> None:
    theirs = ConsumerProtocolMemberMetadata.decode(encode_subscription(WHOLE))
    assert list(theirs.subscription) == ["t", "u"]
    assert theirs.user_data == b"\1\2"
