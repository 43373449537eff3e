"""The protocol that a broker speaks to other brokers: ``inter.broker.protocol.version``.

While a cluster is upgraded, its brokers are of several Kafka versions. Each speaks to the others in
the version of this key, which every broker of the cluster understands. When the last broker is
upgraded, the key is raised on one broker after the other.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, TypeAlias


class InterBrokerProtocol(IntEnum):
    """The versions of the protocol in order, and what brokers decide by them. Kafka's
    ``MetadataVersion``, from 2.0 on. "IV" counts the changes during the development of one Kafka
    version. For clients a broker chooses versions by their requests instead."""

    IBP_2_0_IV0 = 0
    IBP_2_0_IV1 = 1
    IBP_2_1_IV0 = 2
    IBP_2_1_IV1 = 3
    IBP_2_1_IV2 = 4
    IBP_2_2_IV0 = 5
    IBP_2_2_IV1 = 6
    IBP_2_3_IV0 = 7
    IBP_2_3_IV1 = 8
    IBP_2_4_IV0 = 9
    IBP_2_4_IV1 = 10
    IBP_2_5_IV0 = 11
    IBP_2_6_IV0 = 12
    IBP_2_7_IV0 = 13
    IBP_2_7_IV1 = 14
    IBP_2_7_IV2 = 15
    IBP_2_8_IV0 = 16
    IBP_2_8_IV1 = 17
    IBP_3_0_IV0 = 18
    IBP_3_0_IV1 = 19
    IBP_3_1_IV0 = 20
    IBP_3_2_IV0 = 21
    IBP_3_3_IV0 = 22
    IBP_3_3_IV1 = 23
    IBP_3_3_IV2 = 24
    IBP_3_3_IV3 = 25
    IBP_3_4_IV0 = 26
    IBP_3_5_IV0 = 27
    IBP_3_5_IV1 = 28
    IBP_3_5_IV2 = 29
    IBP_3_6_IV0 = 30
    IBP_3_6_IV1 = 31
    IBP_3_6_IV2 = 32
    IBP_3_7_IV0 = 33
    IBP_3_7_IV1 = 34
    IBP_3_7_IV2 = 35
    IBP_3_7_IV3 = 36
    IBP_3_7_IV4 = 37
    IBP_3_8_IV0 = 38
    IBP_3_9_IV0 = 39

    @classmethod
    def parse(cls, text: str) -> InterBrokerProtocol:
        """Return the version of a text such as ``2.7-IV1``. ``2.7`` and ``2.7.2`` are the last
        version of 2.7, and text after a second dot is ignored, as in Kafka. Raises ValueError."""
        name = ".".join(text.split(".")[:2])
        known = {version.text: version for version in cls}
        known |= {version.release: version for version in cls}  # the last of a release wins
        if name in known:
            return known[name]
        if re.fullmatch(r"0\.(8|9|10|11)(\.\d+)*(-IV\d+)?|1\.[01](\.\d+)*(-IV\d+)?", text):
            raise ValueError(f"Version {text} is older than 2.0, the oldest that is supported")
        raise ValueError(f"Version {text} is not a valid version")

    @property
    def text(self) -> str:
        """The value of the configuration key, such as ``2.7-IV1``."""
        _, major, minor, change = self.name.split("_")
        return f"{major}.{minor}-{change}"

    @property
    def release(self) -> str:
        """The Kafka version in which this version was released, such as ``2.7``."""
        return self.text.partition("-")[0]

    # ----------------------------------------------------------------- requests of the controller

    @property
    def leader_and_isr_version(self) -> int:
        return _step(self, _LEADER_AND_ISR)

    @property
    def update_metadata_version(self) -> int:
        return _step(self, _UPDATE_METADATA)

    @property
    def stop_replica_version(self) -> int:
        return _step(self, _STOP_REPLICA)

    # --------------------------------------------------------------------- requests of a follower

    @property
    def fetch_version(self) -> int:
        """The version of Fetch. From 13 on topics are requested by id: a request for a topic
        without an id has version 12."""
        return _step(self, _FETCH)

    @property
    def list_offsets_version(self) -> int:
        return _step(self, _LIST_OFFSETS)

    @property
    def offset_for_leader_epoch_version(self) -> int:
        return _step(self, _OFFSET_FOR_LEADER_EPOCH)

    @property
    def truncates_on_fetch(self) -> bool:
        """Whether the leader compares epochs in every Fetch (KIP-595). If not, a new follower sends
        OffsetForLeaderEpoch before its first Fetch (KIP-101)."""
        return self >= InterBrokerProtocol.IBP_2_7_IV1

    # -------------------------------------------------------------------- requests to other brokers

    @property
    def write_txn_markers_version(self) -> int:
        return 1 if self >= InterBrokerProtocol.IBP_2_8_IV0 else 0

    @property
    def controlled_shutdown_version(self) -> int:
        return _step(self, _CONTROLLED_SHUTDOWN)

    @property
    def metadata_version(self) -> int:
        """The version of Metadata between brokers: from 7 on it has leader epochs, from 10 on the
        ids of topics. Apache Kafka's brokers do not send it to each other."""
        return _step(self, _METADATA)

    @property
    def has_alter_partition(self) -> bool:
        """Whether leaders change the ISR by AlterPartition (KIP-497); otherwise they write the
        partition's znode."""
        return self >= InterBrokerProtocol.IBP_2_7_IV2

    @property
    def has_allocate_producer_ids(self) -> bool:
        """Whether brokers request producer ids by AllocateProducerIds (KIP-730); otherwise they
        write the znode of the last block."""
        return self >= InterBrokerProtocol.IBP_3_0_IV0

    # ------------------------------------------------------------------------------ shared state

    @property
    def has_topic_ids(self) -> bool:
        """Whether the controller gives topics ids (KIP-516)."""
        return self >= InterBrokerProtocol.IBP_2_8_IV0

    @property
    def has_leader_recovery(self) -> bool:
        """Whether an unclean election is noted in the partition's state (KIP-704)."""
        return self >= InterBrokerProtocol.IBP_3_2_IV0

    @property
    def has_features(self) -> bool:
        """Whether the cluster has finalized features (KIP-584)."""
        return self >= InterBrokerProtocol.IBP_2_7_IV0

    @property
    def broker_znode_version(self) -> int:
        """The version of ``/brokers/ids/<id>``: 5 lists the broker's features, 4 does not."""
        return 5 if self.has_features else 4

    @property
    def feature_znode_version(self) -> int:
        """The version of ``/feature``: 2 has no lowest levels any more (KIP-778)."""
        return 2 if self >= InterBrokerProtocol.IBP_3_3_IV0 else 1

    @property
    def has_static_members(self) -> bool:
        """Whether groups have members with an instance id (KIP-345)."""
        return self >= InterBrokerProtocol.IBP_2_3_IV0

    @property
    def group_metadata_value_version(self) -> int:
        """The version of a group's record in ``__consumer_offsets``."""
        return _step(self, _GROUP_METADATA_VALUE)

    def offset_commit_value_version(self, expires: bool) -> int:
        """Return the version of an offset's record in ``__consumer_offsets``. Only version 1 has an
        expiry time."""
        return 1 if expires else _step(self, _OFFSET_COMMIT_VALUE)


LATEST: Final = InterBrokerProtocol.IBP_3_9_IV0

_Steps: TypeAlias = tuple[tuple[InterBrokerProtocol, int], ...]


def _step(protocol: InterBrokerProtocol, steps: _Steps) -> int:
    """Return the number of the last step that ``protocol`` has reached."""
    return max(number for since, number in steps if protocol >= since)


# Since which version of the protocol a number holds.
_LEADER_AND_ISR: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 1),
    (InterBrokerProtocol.IBP_2_2_IV0, 2),
    (InterBrokerProtocol.IBP_2_4_IV0, 3),
    (InterBrokerProtocol.IBP_2_4_IV1, 4),
    (InterBrokerProtocol.IBP_2_8_IV1, 5),
    (InterBrokerProtocol.IBP_3_2_IV0, 6),
    (InterBrokerProtocol.IBP_3_4_IV0, 7),
)
_UPDATE_METADATA: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 4),
    (InterBrokerProtocol.IBP_2_2_IV0, 5),
    (InterBrokerProtocol.IBP_2_4_IV1, 6),
    (InterBrokerProtocol.IBP_2_8_IV1, 7),
    (InterBrokerProtocol.IBP_3_4_IV0, 8),
)
_STOP_REPLICA: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 0),
    (InterBrokerProtocol.IBP_2_2_IV0, 1),
    (InterBrokerProtocol.IBP_2_4_IV1, 2),
    (InterBrokerProtocol.IBP_2_6_IV0, 3),
    (InterBrokerProtocol.IBP_3_4_IV0, 4),
)
_CONTROLLED_SHUTDOWN: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 1),
    (InterBrokerProtocol.IBP_2_2_IV0, 2),
    (InterBrokerProtocol.IBP_2_4_IV1, 3),
)
_METADATA: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 6),
    (InterBrokerProtocol.IBP_2_1_IV1, 7),
    (InterBrokerProtocol.IBP_2_8_IV0, 10),
)
_FETCH: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 7),
    (InterBrokerProtocol.IBP_2_0_IV1, 8),
    (InterBrokerProtocol.IBP_2_1_IV2, 10),
    (InterBrokerProtocol.IBP_2_3_IV1, 11),
    (InterBrokerProtocol.IBP_2_7_IV1, 12),
    (InterBrokerProtocol.IBP_3_1_IV0, 13),
    (InterBrokerProtocol.IBP_3_5_IV0, 14),
    (InterBrokerProtocol.IBP_3_5_IV1, 15),
    (InterBrokerProtocol.IBP_3_7_IV4, 16),
    (InterBrokerProtocol.IBP_3_9_IV0, 17),
)
_LIST_OFFSETS: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 2),
    (InterBrokerProtocol.IBP_2_0_IV1, 3),
    (InterBrokerProtocol.IBP_2_1_IV1, 4),
    (InterBrokerProtocol.IBP_2_2_IV1, 5),
    (InterBrokerProtocol.IBP_2_8_IV0, 6),
    (InterBrokerProtocol.IBP_3_0_IV1, 7),
    (InterBrokerProtocol.IBP_3_5_IV0, 8),
    (InterBrokerProtocol.IBP_3_9_IV0, 9),
)
_OFFSET_FOR_LEADER_EPOCH: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 1),
    (InterBrokerProtocol.IBP_2_1_IV1, 2),
    (InterBrokerProtocol.IBP_2_3_IV1, 3),
    (InterBrokerProtocol.IBP_2_8_IV0, 4),
)
_GROUP_METADATA_VALUE: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 1),
    (InterBrokerProtocol.IBP_2_1_IV0, 2),
    (InterBrokerProtocol.IBP_2_3_IV0, 3),
)
_OFFSET_COMMIT_VALUE: Final[_Steps] = (
    (InterBrokerProtocol.IBP_2_0_IV0, 1),
    (InterBrokerProtocol.IBP_2_1_IV0, 2),
    (InterBrokerProtocol.IBP_2_1_IV1, 3),
)
