"""The APIs that a broker knows, with their version ranges in each release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

NEVER = 1 << 15  # above every version: an API that never became flexible (KIP-482)


class ApiKey(IntEnum):
    """One row per API: key, highest version, first flexible version, highest version in 3.9 (with
    ZooKeeper), in 2.8 and in 2.0 (``None``: that release has no such API). The lowest version is
    ``first_version``. Versions above those of 3.9 are Kafka 4's.
    """

    max_version: int
    first_flexible: int
    max_version_3_9: int | None
    max_version_2_8: int | None
    max_version_2_0: int | None

    def __new__(
        cls,
        key: int,
        max_version: int,
        first_flexible: int,
        max_version_3_9: int | None,
        max_version_2_8: int | None,
        max_version_2_0: int | None,
    ) -> ApiKey:
        row = int.__new__(cls, key)
        row._value_ = key
        row.max_version = max_version
        row.first_flexible = first_flexible
        row.max_version_3_9 = max_version_3_9
        row.max_version_2_8 = max_version_2_8
        row.max_version_2_0 = max_version_2_0
        return row

    PRODUCE = 0, 13, 9, 11, 9, 6
    FETCH = 1, 18, 12, 17, 12, 8
    LIST_OFFSETS = 2, 11, 6, 9, 6, 3
    METADATA = 3, 13, 9, 12, 11, 6
    LEADER_AND_ISR = 4, 7, 4, 7, 5, 1
    STOP_REPLICA = 5, 4, 2, 4, 3, 0
    UPDATE_METADATA = 6, 8, 6, 8, 7, 4
    CONTROLLED_SHUTDOWN = 7, 3, 3, 3, 3, 1
    OFFSET_COMMIT = 8, 10, 8, 9, 8, 4
    OFFSET_FETCH = 9, 10, 6, 9, 7, 4
    FIND_COORDINATOR = 10, 6, 3, 6, 3, 2
    JOIN_GROUP = 11, 9, 6, 9, 7, 3
    HEARTBEAT = 12, 4, 4, 4, 4, 2
    LEAVE_GROUP = 13, 5, 4, 5, 4, 2
    SYNC_GROUP = 14, 5, 4, 5, 5, 2
    DESCRIBE_GROUPS = 15, 6, 5, 5, 5, 2
    LIST_GROUPS = 16, 5, 3, 5, 4, 2
    SASL_HANDSHAKE = 17, 1, NEVER, 1, 1, 1
    API_VERSIONS = 18, 4, 3, 4, 3, 2
    CREATE_TOPICS = 19, 7, 5, 7, 7, 3
    DELETE_TOPICS = 20, 6, 4, 6, 6, 2
    DELETE_RECORDS = 21, 2, 2, 2, 2, 1
    INIT_PRODUCER_ID = 22, 5, 2, 5, 4, 1
    OFFSET_FOR_LEADER_EPOCH = 23, 4, 4, 4, 4, 1
    ADD_PARTITIONS_TO_TXN = 24, 5, 3, 5, 3, 1
    ADD_OFFSETS_TO_TXN = 25, 4, 3, 4, 3, 1
    END_TXN = 26, 5, 3, 4, 3, 1
    WRITE_TXN_MARKERS = 27, 2, 1, 1, 1, 0
    TXN_OFFSET_COMMIT = 28, 5, 3, 4, 3, 1
    DESCRIBE_ACLS = 29, 3, 2, 3, 2, 1
    CREATE_ACLS = 30, 3, 2, 3, 2, 1
    DELETE_ACLS = 31, 3, 2, 3, 2, 1
    DESCRIBE_CONFIGS = 32, 4, 4, 4, 4, 2
    ALTER_CONFIGS = 33, 2, 2, 2, 2, 1
    ALTER_REPLICA_LOG_DIRS = 34, 2, 2, 2, 2, 1
    DESCRIBE_LOG_DIRS = 35, 4, 2, 4, 2, 1
    SASL_AUTHENTICATE = 36, 2, 2, 2, 2, 0
    CREATE_PARTITIONS = 37, 3, 2, 3, 3, 1
    CREATE_DELEGATION_TOKEN = 38, 3, 2, 3, 2, 1
    RENEW_DELEGATION_TOKEN = 39, 2, 2, 2, 2, 1
    EXPIRE_DELEGATION_TOKEN = 40, 2, 2, 2, 2, 1
    DESCRIBE_DELEGATION_TOKEN = 41, 3, 2, 3, 2, 1
    DELETE_GROUPS = 42, 2, 2, 2, 2, 1
    ELECT_LEADERS = 43, 2, 2, 2, 2, None
    INCREMENTAL_ALTER_CONFIGS = 44, 1, 1, 1, 1, None
    ALTER_PARTITION_REASSIGNMENTS = 45, 1, 0, 0, 0, None
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0, 0, None
    OFFSET_DELETE = 47, 0, NEVER, 0, 0, None
    DESCRIBE_CLIENT_QUOTAS = 48, 1, 1, 1, 1, None
    ALTER_CLIENT_QUOTAS = 49, 1, 1, 1, 1, None
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0, 0, None
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0, 0, None
    ALTER_PARTITION = 56, 3, 0, 3, 0, None
    UPDATE_FEATURES = 57, 2, 0, 1, 0, None
    ENVELOPE = 58, 0, 0, 0, None, None
    DESCRIBE_CLUSTER = 60, 2, 0, 1, 0, None
    DESCRIBE_PRODUCERS = 61, 0, 0, 0, 0, None
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0, None, None
    LIST_TRANSACTIONS = 66, 2, 0, 1, None, None
    ALLOCATE_PRODUCER_IDS = 67, 0, 0, 0, None, None
    CONSUMER_GROUP_HEARTBEAT = 68, 1, 0, 0, None, None
    CONSUMER_GROUP_DESCRIBE = 69, 1, 0, 0, None, None
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0, None, None, None
    PUSH_TELEMETRY = 72, 0, 0, None, None, None
    LIST_CONFIG_RESOURCES = 74, 1, 0, None, None, None
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0, None, None, None
    SHARE_GROUP_HEARTBEAT = 76, 1, 0, None, None, None
    SHARE_GROUP_DESCRIBE = 77, 1, 0, None, None, None
    SHARE_FETCH = 78, 2, 0, None, None, None
    SHARE_ACKNOWLEDGE = 79, 2, 0, None, None, None
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, 0, None, None, None
    READ_SHARE_GROUP_STATE = 84, 0, 0, None, None, None
    WRITE_SHARE_GROUP_STATE = 85, 1, 0, None, None, None
    DELETE_SHARE_GROUP_STATE = 86, 0, 0, None, None, None
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 1, 0, None, None, None
    STREAMS_GROUP_HEARTBEAT = 88, 0, 0, None, None, None
    STREAMS_GROUP_DESCRIBE = 89, 0, 0, None, None, None
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 1, 0, None, None, None
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0, None, None, None
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0, None, None, None

    @property
    def api_name(self) -> str:
        """Kafka's name as in logs and metrics: ``LeaderAndIsr``."""
        return self.name.title().replace("_", "")

    @property
    def first_version(self) -> int:
        return FIRST_VERSIONS.get(self, 0)

    def is_flexible(self, version: int) -> bool:
        return version >= self.first_flexible


# The first version of an API, if it is not 0: Kafka has removed the versions of early access.
FIRST_VERSIONS: Final[Mapping[int, int]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}

# The last version of each API that Kafka calls deprecated: 4.0 has removed it (KIP-896).
LAST_DEPRECATED: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 3,
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_COMMIT: 1,
    ApiKey.OFFSET_FETCH: 0,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.JOIN_GROUP: 1,
    ApiKey.SASL_HANDSHAKE: 0,
    ApiKey.CREATE_TOPICS: 1,
    ApiKey.DELETE_TOPICS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 1,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.CREATE_ACLS: 0,
    ApiKey.DELETE_ACLS: 0,
    ApiKey.DESCRIBE_CONFIGS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 0,
    ApiKey.RENEW_DELEGATION_TOKEN: 0,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 0,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 0,
    ApiKey.DELETE_GROUPS: 0,
}


class Release(Enum):
    """What a broker serves to clients: Kafka 2.0 if ``inter.broker.protocol.version`` is 2.0, all
    versions of ``ApiKey`` otherwise.

    In Kafka that key only decides what brokers send each other and write (``InterBrokerProtocol``).
    Here a broker with 2.0 also serves clients as Kafka 2.0 did. Brokers inside a test's process can
    serve clients as the other releases do, too.
    """

    NEWEST = "newest"
    KAFKA_4_2 = "4.2"
    KAFKA_4_1 = "4.1"
    KAFKA_4_0 = "4.0"
    KAFKA_3_9 = "3.9"
    KAFKA_2_8 = "2.8"
    KAFKA_2_0 = "2.0"

    @classmethod
    def of(cls, inter_broker_protocol_version: str) -> Release:
        """Return the release for a valid ``inter.broker.protocol.version``, such as ``2.0-IV1``."""
        of_2_0 = re.match(r"2\.0(\.|-|$)", inter_broker_protocol_version)
        return cls.KAFKA_2_0 if of_2_0 else cls.NEWEST

    def newest(self, api_key: ApiKey) -> int | None:
        """Return the highest version of an API; None if the release does not have the API."""
        match self:
            case Release.NEWEST:
                return api_key.max_version
            case Release.KAFKA_4_2 | Release.KAFKA_4_1 | Release.KAFKA_4_0:
                if api_key in _BETWEEN_BROKERS:
                    return None
                return _NEWEST_IN[self].get(api_key, api_key.max_version)
            case Release.KAFKA_3_9:
                return api_key.max_version_3_9
            case Release.KAFKA_2_8:
                return api_key.max_version_2_8
            case Release.KAFKA_2_0:
                return api_key.max_version_2_0

    def oldest(self, api_key: ApiKey) -> int:
        """Return the lowest version of an API that the release has."""
        if self.is_before_4 or self is Release.NEWEST:
            return api_key.first_version
        if self is Release.KAFKA_4_0 and api_key is ApiKey.JOIN_GROUP:
            return 2
        return _OLDEST_IN_4.get(api_key, api_key.first_version)

    def oldest_listed(self, api_key: ApiKey) -> int:
        """Return the lowest version in ApiVersions. Kafka 4 lists versions of Produce that it does
        not serve: librdkafka needs them to choose its compression (KAFKA-18659)."""
        return 0 if api_key is ApiKey.PRODUCE else self.oldest(api_key)

    @property
    def is_before_4(self) -> bool:
        return self in (Release.KAFKA_3_9, Release.KAFKA_2_8, Release.KAFKA_2_0)

    def at_most(self, api_key: ApiKey, version: int) -> int:
        """Return the version in which to send a request: ``version``, or the release's highest
        version if that is lower."""
        newest = self.newest(api_key)
        assert newest is not None, f"{api_key.api_name} is not in Kafka {self.value}"
        return min(version, newest)


# What KRaft brokers ask controllers, or what only ZooKeeper mode has: not for clients in Kafka 4.
_BETWEEN_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
# The lowest versions of 4.0 to 4.2 (KIP-896), unless it is ``first_version``.
_OLDEST_IN_4: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
# The highest versions of 4.x that are not ``max_version``, without those that are not stable: these
# are offered only with ``unstable.api.versions.enable``. None: the release has no such API.
_IN_4_1: Final[Mapping[int, int | None]] = {
    ApiKey.LIST_OFFSETS: 10,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
    ApiKey.WRITE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 0,
    ApiKey.STREAMS_GROUP_HEARTBEAT: None,
    ApiKey.STREAMS_GROUP_DESCRIBE: None,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
}
_NEWEST_IN: Final[Mapping[Release, Mapping[int, int | None]]] = {
    Release.KAFKA_4_2: {},
    Release.KAFKA_4_1: _IN_4_1,
    Release.KAFKA_4_0: {
        **_IN_4_1,
        **dict.fromkeys(range(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.DELETE_SHARE_GROUP_OFFSETS + 1)),
        ApiKey.PRODUCE: 12,
        ApiKey.FETCH: 17,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
        ApiKey.LIST_TRANSACTIONS: 1,
        ApiKey.LIST_CONFIG_RESOURCES: 0,
    },
}
