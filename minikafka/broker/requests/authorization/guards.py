"""The guard of each API: what is asked of the authorizer before or around its handler.

Some APIs are open to everybody, and the handlers of some refuse every request; both are named
here. A route that is in none of the tables cannot be served with an authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.broker.requests.authorization import (
    cluster,
    configs,
    groups,
    records,
    topics,
    transactions,
)
from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.authorization.facts import GuardFacts
from minikafka.broker.requests.authorization.wrapping import Guard
from minikafka.broker.requests.routes import Route
from minikafka.core.security.acls import AclOperation
from minikafka.protocol.api_keys import ApiKey

# They come before the login, or are the login.
OPEN: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})
# Their handlers decide, or refuse every request before Kafka would ask the authorizer.
DECIDED_BY_HANDLER: Final = frozenset(
    {
        ApiKey.FETCH,  # the topics are those of the fetch session
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ENVELOPE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)

_BROKERS = cluster.needs(AclOperation.CLUSTER_ACTION)
_ALTER = cluster.needs(AclOperation.ALTER)
_DESCRIBE = cluster.needs(AclOperation.DESCRIBE)


def guards(facts: GuardFacts) -> Mapping[ApiKey, Guard]:
    """Return the guard of each API that has one."""
    return {
        ApiKey.PRODUCE: records.produce,
        ApiKey.LIST_OFFSETS: records.list_of_offsets,
        ApiKey.DELETE_RECORDS: records.deletion_of_records,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: records.offset_for_leader_epoch,
        ApiKey.DESCRIBE_PRODUCERS: records.description_of_producers,
        ApiKey.METADATA: topics.metadata(facts),
        ApiKey.CREATE_TOPICS: topics.create_topics(facts),
        ApiKey.DELETE_TOPICS: topics.delete_topics(facts),
        ApiKey.CREATE_PARTITIONS: topics.create_partitions(facts),
        ApiKey.LEADER_AND_ISR: _BROKERS,
        ApiKey.STOP_REPLICA: _BROKERS,
        ApiKey.UPDATE_METADATA: _BROKERS,
        ApiKey.CONTROLLED_SHUTDOWN: _BROKERS,
        ApiKey.ALTER_PARTITION: _BROKERS,
        ApiKey.ALLOCATE_PRODUCER_IDS: _BROKERS,
        ApiKey.UPDATE_FEATURES: _ALTER,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.alter_partition_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
        ApiKey.ELECT_LEADERS: cluster.elect_leaders,
        ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
        ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
        ApiKey.FIND_COORDINATOR: cluster.find_coordinator,
        ApiKey.DESCRIBE_ACLS: cluster.describe_acls,
        ApiKey.CREATE_ACLS: cluster.create_acls,
        ApiKey.DELETE_ACLS: cluster.delete_acls,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: cluster.alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.describe_user_scram_credentials,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.alter_user_scram_credentials(facts),
        ApiKey.DESCRIBE_CONFIGS: configs.describe,
        ApiKey.ALTER_CONFIGS: configs.alter,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter_incrementally,
        ApiKey.OFFSET_COMMIT: groups.commit_of_offsets,
        ApiKey.OFFSET_FETCH: groups.fetch_of_offsets,
        ApiKey.OFFSET_DELETE: groups.deletion_of_offsets,
        ApiKey.JOIN_GROUP: groups.join,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.LEAVE_GROUP: groups.leave,
        ApiKey.SYNC_GROUP: groups.sync,
        ApiKey.DESCRIBE_GROUPS: groups.description,
        ApiKey.LIST_GROUPS: groups.listing,
        ApiKey.DELETE_GROUPS: groups.deletion,
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions(facts),
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
        ApiKey.END_TXN: transactions.end,
        ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
        ApiKey.TXN_OFFSET_COMMIT: transactions.commit_of_offsets,
        ApiKey.DESCRIBE_TRANSACTIONS: transactions.description,
        ApiKey.LIST_TRANSACTIONS: transactions.listing,
    }


def guarded(
    routes: Iterable[Route], authorization: Authorization, facts: GuardFacts
) -> list[Route]:
    """Return the routes with their guards."""
    table = guards(facts)
    unguarded = OPEN | DECIDED_BY_HANDLER
    return [
        route if route.api_key in unguarded else table[route.api_key](authorization, route)
        for route in routes
    ]
