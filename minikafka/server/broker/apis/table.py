"""The table of APIs: where the row of each is, which is imported at its first request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import module_name
from minikafka.server.broker.apis.api import Api

_ROOMS: Final[Mapping[str, tuple[ApiKey, ...]]] = MappingProxyType(
    {
        "records": (
            ApiKey.PRODUCE,
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.DELETE_RECORDS,
        ),
        "topics": (
            ApiKey.METADATA,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
        ),
        "groups": (
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.LIST_GROUPS,
            ApiKey.DELETE_GROUPS,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_DESCRIBE,
        ),
        "transactions": (
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.END_TXN,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        ),
        "share": (
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        "cluster": (
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.UPDATE_FEATURES,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            ApiKey.PUSH_TELEMETRY,
            ApiKey.LIST_CONFIG_RESOURCES,
        ),
        "brokers": (
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.ENVELOPE,
        ),
        "security": (
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
    }
)
_ROOM_OF: Final[Mapping[ApiKey, str]] = MappingProxyType(
    {api_key: room for room, api_keys in _ROOMS.items() for api_key in api_keys}
)


class ApiTable(Mapping[ApiKey, Api]):
    """The row of each API but ApiVersions, which ``Apis`` serves itself. The row is the constant of
    the API's name in the file of the API."""

    def __getitem__(self, api_key: ApiKey) -> Api:
        """Raises KeyError, and what an import can raise without memory or descriptors."""
        module = f"{__package__}.{_ROOM_OF[api_key]}.{module_name(api_key)}"
        row: Api = getattr(import_module(module), api_key.name)
        return row

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(_ROOM_OF)

    def __len__(self) -> int:
        return len(_ROOM_OF)
