"""The limits of one request: how many array elements it may have, by API.

A few megabytes can hold millions of array elements, and each becomes an object. The compiled
decoders count the elements of all arrays of a request together, and unknown tagged fields with
them. They raise DecodeError before they make the objects of an array that exceeds the limit.

The limits are far above what clients send: Kafka recommends at most 200,000 partitions in a
cluster, and the Java clients send one request for each coordinator, leader or resource.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from minikafka.protocol.api_keys import ApiKey

DEFAULT_MAX_ELEMENTS: Final = 100_000

# One request names every partition of a cluster, with several broker ids for each.
_WHOLE_CLUSTER: Final = 4_000_000
# One request names the partitions that one broker leads, those of a group or a transaction, or the
# topics that a client uses or an administrator changes.
_MANY: Final = 25_000
# One request names some groups, transactions, users or resources, each of which is looked up.
_LOOK_UPS: Final = 10_000

MAX_ELEMENTS: Final = MappingProxyType(
    {
        ApiKey.LEADER_AND_ISR: _WHOLE_CLUSTER,
        ApiKey.UPDATE_METADATA: _WHOLE_CLUSTER,
        ApiKey.STOP_REPLICA: _WHOLE_CLUSTER,
        ApiKey.ALTER_PARTITION: _WHOLE_CLUSTER,  # a leader whose followers are all slow or dead
        # kafka-reassign-partitions sends all partitions of its file at once.
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _WHOLE_CLUSTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _WHOLE_CLUSTER,  # and verifies them likewise
        ApiKey.ELECT_LEADERS: _WHOLE_CLUSTER,
        ApiKey.FETCH: 50_000,  # a follower names all partitions that it follows of one leader
        ApiKey.PRODUCE: _MANY,
        ApiKey.LIST_OFFSETS: _MANY,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _MANY,
        ApiKey.DELETE_RECORDS: _MANY,
        ApiKey.OFFSET_COMMIT: _MANY,
        ApiKey.OFFSET_FETCH: _MANY,
        ApiKey.OFFSET_DELETE: _MANY,
        ApiKey.TXN_OFFSET_COMMIT: _MANY,
        ApiKey.ADD_PARTITIONS_TO_TXN: _MANY,
        ApiKey.METADATA: _MANY,
        ApiKey.CREATE_TOPICS: _MANY,
        ApiKey.CREATE_PARTITIONS: _MANY,
        ApiKey.DELETE_TOPICS: _MANY,
        ApiKey.ALTER_CONFIGS: _MANY,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _MANY,
        ApiKey.FIND_COORDINATOR: _LOOK_UPS,
        ApiKey.DESCRIBE_GROUPS: _LOOK_UPS,
        ApiKey.DELETE_GROUPS: _LOOK_UPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _LOOK_UPS,
        ApiKey.JOIN_GROUP: _LOOK_UPS,
        ApiKey.LEAVE_GROUP: _LOOK_UPS,
        ApiKey.LIST_GROUPS: _LOOK_UPS,
        ApiKey.DESCRIBE_TRANSACTIONS: _LOOK_UPS,
        ApiKey.LIST_TRANSACTIONS: _LOOK_UPS,
        ApiKey.DESCRIBE_PRODUCERS: _LOOK_UPS,
        ApiKey.DESCRIBE_CONFIGS: _LOOK_UPS,
        ApiKey.CREATE_ACLS: _LOOK_UPS,
        ApiKey.DELETE_ACLS: _LOOK_UPS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _LOOK_UPS,
        ApiKey.ALTER_CLIENT_QUOTAS: _LOOK_UPS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _LOOK_UPS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _LOOK_UPS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _LOOK_UPS,
        ApiKey.CREATE_DELEGATION_TOKEN: _LOOK_UPS,
        ApiKey.UPDATE_FEATURES: _LOOK_UPS,
        ApiKey.API_VERSIONS: 1_000,
    }
)


def max_elements(api_key: ApiKey) -> int:
    return MAX_ELEMENTS.get(api_key, DEFAULT_MAX_ELEMENTS)
