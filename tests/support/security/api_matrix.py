"""Requests of every API in every version, about resources that a client may use and others.

The clients of the matrix:

- ``stranger`` has no ACL.
- ``bob`` has all operations on the topic, the group and the transactional id ``open``, and those
  whose names begin with ``open``. He may describe the missing topic ``seen``. He has none on
  ``secret``, on ``missing`` and on the cluster.

``prepare`` creates the topics, groups and transactional ids ``open`` and ``secret`` as a super
user. ``rows`` are the requests; ``Renderer`` writes responses in a form that is equal for two
clusters in the same state.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from minikafka.core.security.acls import (
    CLUSTER,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages import acls as acl_messages
from minikafka.protocol.messages import add_partitions_to_txn as add_partitions
from minikafka.protocol.messages import (
    alter_configs,
    alter_partition,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    sasl,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from minikafka.protocol.messages import alter_partition_reassignments as reassign
from minikafka.protocol.messages import client_quotas as quotas
from minikafka.protocol.messages import consumer_group_describe as new_groups
from minikafka.protocol.messages import consumer_group_heartbeat as new_heartbeat
from minikafka.protocol.messages import list_partition_reassignments as list_moves
from minikafka.protocol.messages import offset_for_leader_epoch as epochs
from minikafka.protocol.messages import scram_credentials as scram
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from minikafka.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_groups import (
    AUTHORIZED_OPERATIONS_OMITTED,
    DescribeGroupsRequest,
)
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.envelope import EnvelopeRequest
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.legacy import encode_message
from minikafka.protocol.schema import Message
from minikafka.server.zookeeper.znodes.acls import acl_path, encode_acls

# The responses and the audit log of Apache Kafka 3.9.1: tests/kafka/test_authorization.py.
RECORDED: Final = Path(__file__).with_name("kafka_3_9_authorization.txt")
OPEN, SECRET, MISSING, OPEN_MISSING = "open", "secret", "missing", "open-missing"
SEEN: Final = "seen"
NAMES: Final = (OPEN, SECRET, MISSING, OPEN_MISSING)
STRANGER, BOB = "stranger", "bob"
ANONYMOUS: Final = "User:ANONYMOUS"
SETTINGS: Final[Mapping[str, str]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "group.coordinator.rebalance.protocols": "classic",  # as by default in 3.9
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
UNKNOWN_ID: Final = UUID(int=77)
NOW_MS = 1_700_000_000_000
BROKER = 1

# A request that is sent in a version, and then the next one: the response is sent back.
Script = Generator[tuple[Message, int], Any, None]


class Row(NamedTuple):
    """One request. ``case`` tells apart the requests of an API."""

    api: ApiKey
    case: str
    version: int
    request: Message


def acls(bob: str, *admins: str, operation: AclOperation = AclOperation.ALL) -> list[AclBinding]:
    """Return the ACLs of the matrix. All clients are ANONYMOUS: the host ``bob`` is bob's, and the
    hosts ``admins`` may do everything."""
    described = AclEntry(ANONYMOUS, bob, AclOperation.DESCRIBE, PermissionType.ALLOW)
    found = [AclBinding(ResourcePattern(AclResourceType.TOPIC, SEEN), described)]
    kinds = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)
    for kind in kinds:
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            found.append(_allow(ResourcePattern(kind, OPEN, pattern_type), bob, operation))
    for admin in admins:
        found.append(_allow(CLUSTER, admin))
        found += [_allow(ResourcePattern(kind, WILDCARD), admin) for kind in kinds]
    return found


def _allow(
    pattern: ResourcePattern, host: str, operation: AclOperation = AclOperation.ALL
) -> AclBinding:
    return AclBinding(pattern, AclEntry(ANONYMOUS, host, operation, PermissionType.ALLOW))


def acl_znodes(bindings: Iterable[AclBinding]) -> dict[str, bytes]:
    """Return the znodes of ACLs, by path."""
    found: dict[ResourcePattern, list[AclEntry]] = {}
    for pattern, entry in bindings:
        found.setdefault(pattern, []).append(entry)
    return {acl_path(pattern): encode_acls(entries) for pattern, entries in found.items()}


def prepare(ids: dict[str, UUID]) -> Script:
    """Create the resources. The ids of the topics are put into ``ids``."""
    names = (OPEN, SECRET)
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in names]
    created = yield create_topics.CreateTopicsRequest(topics), 7
    ids.update({topic.name: topic.topic_id for topic in created.topics})
    assert [topic.error_code for topic in created.topics] == [0, 0], created
    for kind in (0, 1):
        while True:
            found = yield FindCoordinatorRequest(key_type=kind, coordinator_keys=[*names]), 4
            if all(row.error_code == 0 for row in found.coordinators):
                break
    for name in names:
        commit = offset_commit.OffsetCommitRequest(name)
        commit.topics = [
            offset_commit.OffsetCommitRequestTopic(
                topic, partitions=[offset_commit.OffsetCommitRequestPartition(0, 5)]
            )
            for topic in names
        ]
        while True:
            committed = yield commit, 7
            if all(row.partitions[0].error_code == 0 for row in committed.topics):
                break
        while True:
            begun = yield InitProducerIdRequest(name, 60_000), 4
            if begun.error_code == 0:
                break


# ------------------------------------------------------------------------------------ the requests


def _records(version: int, transactional: bool = False) -> bytes:
    if version < 2:
        return encode_message(0, 0, -1, None, b"v")
    if version == 2:
        return encode_message(1, 0, NOW_MS, None, b"v")
    if transactional:
        return build_batch(
            [(NOW_MS, None, b"v", [])],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    return build_batch([(NOW_MS, None, b"v", [])])


def _produce(version: int, **fields: Any) -> produce.ProduceRequest:
    records = _records(version, transactional=fields.pop("transactional", False))
    topics = [
        produce.TopicProduceData(name, partition_data=[produce.PartitionProduceData(0, records)])
        for name in fields.pop("names", NAMES)
    ]
    return produce.ProduceRequest(
        fields.get("transactional_id"), fields.get("acks", 1), 1000, topics
    )


def _fetch(version: int, ids: Mapping[str, UUID], follower: bool = False) -> fetch.FetchRequest:
    partitions = [fetch.FetchPartition(0, partition_max_bytes=1000)]
    if version < 13:
        topics = [fetch.FetchTopic(topic=name, partitions=partitions) for name in NAMES]
    else:
        wanted = [ids[OPEN], ids[SECRET], UNKNOWN_ID]
        topics = [fetch.FetchTopic(topic_id=topic, partitions=partitions) for topic in wanted]
    request = fetch.FetchRequest(max_wait_ms=0, topics=topics)
    if version >= 3:
        request.max_bytes = 100_000
    if follower and version < 15:
        request.replica_id = BROKER
    elif follower:
        request.replica_state = fetch.ReplicaState(BROKER, -1)
    return request


def _metadata(version: int, names: Sequence[str] | None, **fields: Any) -> metadata.MetadataRequest:
    topics = None if names is None else [metadata.MetadataRequestTopic(name=n) for n in names]
    if version == 0 and topics is None:
        topics = []
    request = metadata.MetadataRequest(topics)
    request.allow_auto_topic_creation = fields.get("create", False) or version < 4
    if version >= 8:
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
    return request


def _metadata_by_id(ids: Sequence[UUID]) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(topic_id, None) for topic_id in ids]
    return metadata.MetadataRequest(topics, False, False, True)


def _commit(version: int, group: str) -> offset_commit.OffsetCommitRequest:
    rows = [offset_commit.OffsetCommitRequestPartition(0, 6)]
    topics = [offset_commit.OffsetCommitRequestTopic(name, partitions=rows) for name in NAMES]
    return offset_commit.OffsetCommitRequest(group, topics=topics)


def _fetch_offsets(version: int, names: Sequence[str] | None) -> offset_fetch.OffsetFetchRequest:
    def topics(kind: Callable[..., Any]) -> list[Any] | None:
        return None if names is None else [kind(name, partition_indexes=[0]) for name in names]

    if version >= 8:
        groups = [
            offset_fetch.OffsetFetchRequestGroup(
                group, topics=topics(offset_fetch.OffsetFetchRequestTopics)
            )
            for group in (OPEN, SECRET)
        ]
        return offset_fetch.OffsetFetchRequest(groups=groups)
    return offset_fetch.OffsetFetchRequest(OPEN, topics(offset_fetch.OffsetFetchRequestTopic))


def _coordinator(version: int, kind: int) -> list[FindCoordinatorRequest]:
    if version >= 4:
        return [FindCoordinatorRequest(key_type=kind, coordinator_keys=[OPEN, SECRET])]
    return [FindCoordinatorRequest(name, kind) for name in (OPEN, SECRET)]


def _leave(version: int, group: str) -> leave_group.LeaveGroupRequest:
    if version < 3:
        return leave_group.LeaveGroupRequest(group, "nobody")
    return leave_group.LeaveGroupRequest(group, members=[leave_group.MemberIdentity("nobody")])


def _join(version: int, group: str) -> join_group.JoinGroupRequest:
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    timeouts = (10_000, 10_000) if version else (10_000, -1)
    return join_group.JoinGroupRequest(
        group, *timeouts, "nobody", protocol_type="consumer", protocols=protocols
    )


def _sync(version: int, group: str) -> sync_group.SyncGroupRequest:
    named = ("consumer", "range") if version >= 5 else (None, None)
    return sync_group.SyncGroupRequest(group, 1, "nobody", None, *named)


def _create_topics(version: int) -> create_topics.CreateTopicsRequest:
    names = [OPEN, SECRET, MISSING, "open-new"]
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in names]
    if version == 0:
        topics.pop()  # it would be created
    return create_topics.CreateTopicsRequest(topics, 1000, version > 0)


def _delete_topics(version: int) -> delete_topics.DeleteTopicsRequest:
    names = [SECRET, MISSING, OPEN_MISSING]
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    topics = [delete_topics.DeleteTopicState(name) for name in names]
    return delete_topics.DeleteTopicsRequest(topics, timeout_ms=1000)


def _delete_topics_by_id(ids: Mapping[str, UUID]) -> delete_topics.DeleteTopicsRequest:
    topics = [delete_topics.DeleteTopicState(None, i) for i in (ids[SECRET], UNKNOWN_ID)]
    return delete_topics.DeleteTopicsRequest(topics, timeout_ms=1000)


def _add_partitions(version: int, transactional_id: str) -> Message:
    if version >= 4:
        topics = [add_partitions.AddPartitionsToTxnTopic(OPEN, [0])]
        return add_partitions.AddPartitionsToTxnRequest(
            [add_partitions.AddPartitionsToTxnTransaction(transactional_id, 7, 0, False, topics)]
        )
    names = (*NAMES, "__consumer_offsets")
    return add_partitions.AddPartitionsToTxnRequest(
        [],
        transactional_id,
        7,
        0,
        [add_partitions.AddPartitionsToTxnTopic(name, [0]) for name in names],
    )


def _add_open_partitions(names: Sequence[str]) -> Message:
    topics = [add_partitions.AddPartitionsToTxnTopic(name, [0]) for name in names]
    return add_partitions.AddPartitionsToTxnRequest([], OPEN, 7, 0, topics)


def _commit_in_transaction(
    version: int, transactional_id: str, group: str, names: Sequence[str] = NAMES
) -> Message:
    rows = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 6)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name, rows) for name in names]
    return txn_offset_commit.TxnOffsetCommitRequest(transactional_id, group, 7, 0, topics=topics)


def _markers() -> Message:
    topic = write_txn_markers.WritableTxnMarkerTopic(OPEN, [0])
    marker = write_txn_markers.WritableTxnMarker(7, 0, False, [topic])
    return write_txn_markers.WriteTxnMarkersRequest([marker])


def _described_configs(version: int) -> Message:
    """In version 0 Kafka never says that a value is the default."""

    def resource(kind: int, name: str, key: str) -> describe_configs.DescribeConfigsResource:
        return describe_configs.DescribeConfigsResource(kind, name, [key])

    return describe_configs.DescribeConfigsRequest(
        [
            *(resource(2, name, "retention.ms") for name in NAMES if version or name != OPEN),
            resource(4, str(BROKER), "broker.id"),
            resource(4, "", "broker.id"),
            resource(8, str(BROKER), "root"),
        ]
    )


def _altered_configs() -> Message:
    value = [alter_configs.AlterableConfig("retention.ms", "1000")]
    of_broker = [alter_configs.AlterableConfig("log.retention.ms", "1000")]
    rows = [alter_configs.AlterConfigsResource(2, name, value) for name in NAMES]
    rows += [alter_configs.AlterConfigsResource(4, name, of_broker) for name in ("1", "")]
    return alter_configs.AlterConfigsRequest(rows, True)


def _incrementally_altered_configs() -> Message:
    value = [incremental_alter_configs.IncrementalAlterableConfig("retention.ms", 0, "1000")]
    level = [incremental_alter_configs.IncrementalAlterableConfig("root", 0, "INFO")]
    row = incremental_alter_configs.IncrementalAlterConfigsResource
    rows = [row(2, name, value) for name in NAMES]
    rows += [row(4, "1", value), row(8, "1", level)]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(rows, True)


def _for_partitions(kind: Callable[..., Any]) -> list[Any]:
    return [kind(name, [0]) for name in NAMES]


def _acl_filter(kind: Callable[..., Any]) -> Any:
    return kind(
        AclResourceType.TOPIC,
        SECRET,
        PatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        PermissionType.ANY,
    )


def _new_acl() -> Message:
    return acl_messages.CreateAclsRequest(
        [acl_messages.AclCreation(2, SECRET, 3, "User:stranger", "*", AclOperation.ALL, 3)]
    )


def _quotas() -> Message:
    entity = [quotas.QuotaEntity("user", "stranger")]
    alteration = [quotas.QuotaAlteration("producer_byte_rate", 1.0, False)]
    return quotas.AlterClientQuotasRequest([quotas.AlteredQuotas(entity, alteration)])


def _scram() -> Message:
    return scram.AlterUserScramCredentialsRequest(
        [scram.ScramCredentialDeletion("zed", 1)],
        [scram.ScramCredentialUpsertion("stranger", 1, 4096, b"salt", b"p" * 32)],
    )


def _token(version: int) -> Message:
    owner = "" if version < 3 else None
    return delegation_tokens.CreateDelegationTokenRequest(owner, owner, [], -1)


def _isr_change(version: int, ids: Mapping[str, UUID]) -> Message:
    topic = alter_partition.AlterPartitionTopic()
    if version < 2:
        topic.topic_name = OPEN
    else:
        topic.topic_id = ids[OPEN]
    return alter_partition.AlterPartitionRequest(BROKER, 1, [topic])


Cases = dict[ApiKey, dict[str, Message]]


def _of_topics(version: int) -> Cases:
    epoch_rows = [epochs.OffsetForLeaderPartition(0, leader_epoch=0)]
    epoch_topics = [epochs.OffsetForLeaderTopic(name, epoch_rows) for name in NAMES]
    deletions = [delete_records.DeleteRecordsPartition(0, 0)]
    growth = [create_partitions.CreatePartitionsTopic(name, 2, None) for name in NAMES]
    return {
        ApiKey.LIST_OFFSETS: {
            "": list_offsets.ListOffsetsRequest(
                -1,
                topics=[
                    list_offsets.ListOffsetsTopic(
                        name, [list_offsets.ListOffsetsPartition(0, timestamp=-2)]
                    )
                    for name in NAMES
                ],
            )
        },
        ApiKey.CREATE_TOPICS: {"": _create_topics(version)},
        ApiKey.DELETE_RECORDS: {
            "": delete_records.DeleteRecordsRequest(
                [delete_records.DeleteRecordsTopic(name, deletions) for name in NAMES], 1000
            )
        },
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {
            "": epochs.OffsetForLeaderEpochRequest(-2 if version < 3 else -1, epoch_topics)
        },
        ApiKey.DESCRIBE_CONFIGS: {"": _described_configs(version)},
        ApiKey.ALTER_CONFIGS: {"": _altered_configs()},
        ApiKey.CREATE_PARTITIONS: {
            "": create_partitions.CreatePartitionsRequest(growth, 1000, True)
        },
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {"": _incrementally_altered_configs()},
        ApiKey.DESCRIBE_PRODUCERS: {
            "": describe_producers.DescribeProducersRequest(
                [describe_producers.TopicRequest(name, [0]) for name in (*NAMES, "not/valid")]
            )
        },
    }


def _of_groups(version: int) -> Cases:
    return {
        ApiKey.OFFSET_COMMIT: {name: _commit(version, name) for name in (OPEN, SECRET)},
        ApiKey.HEARTBEAT: {n: HeartbeatRequest(n, 1, "nobody") for n in (OPEN, SECRET)},
        ApiKey.JOIN_GROUP: {name: _join(version, name) for name in (OPEN, SECRET)},
        ApiKey.SYNC_GROUP: {name: _sync(version, name) for name in (OPEN, SECRET)},
        ApiKey.LEAVE_GROUP: {name: _leave(version, name) for name in (OPEN, SECRET)},
        ApiKey.DESCRIBE_GROUPS: {"": DescribeGroupsRequest([*NAMES], version >= 3)},
        ApiKey.LIST_GROUPS: {"": ListGroupsRequest()},
        ApiKey.DELETE_GROUPS: {
            "": DeleteGroupsRequest([SECRET, MISSING, OPEN_MISSING]),
        },
        ApiKey.OFFSET_DELETE: {
            name: offset_delete.OffsetDeleteRequest(
                name,
                [
                    offset_delete.OffsetDeleteRequestTopic(
                        topic, [offset_delete.OffsetDeleteRequestPartition(0)]
                    )
                    for topic in NAMES
                ],
            )
            for name in (OPEN, SECRET, OPEN_MISSING)
        },
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {
            "": new_heartbeat.ConsumerGroupHeartbeatRequest(SECRET, "m", 0)
        },
        ApiKey.CONSUMER_GROUP_DESCRIBE: {
            "": new_groups.ConsumerGroupDescribeRequest([SECRET], True)
        },
    }


def _of_transactions(version: int) -> Cases:
    return {
        ApiKey.ADD_OFFSETS_TO_TXN: {
            f"{name} {group}": AddOffsetsToTxnRequest(name, 7, 0, group)
            for name, group in ((OPEN, OPEN), (OPEN, SECRET), (SECRET, OPEN))
        },
        ApiKey.END_TXN: {n: EndTxnRequest(n, 7, 0, True) for n in (OPEN, SECRET)},
        ApiKey.WRITE_TXN_MARKERS: {"": _markers()},
        ApiKey.TXN_OFFSET_COMMIT: {
            f"{name} {group}": _commit_in_transaction(version, name, group)
            for name, group in ((OPEN, OPEN), (OPEN, SECRET), (SECRET, OPEN))
        },
        ApiKey.DESCRIBE_TRANSACTIONS: {"": DescribeTransactionsRequest([*NAMES])},
        ApiKey.LIST_TRANSACTIONS: {"": ListTransactionsRequest()},
    }


def _of_brokers(version: int, ids: Mapping[str, UUID]) -> Cases:
    return {
        ApiKey.LEADER_AND_ISR: {"": LeaderAndIsrRequest(BROKER, controller_epoch=1)},
        ApiKey.STOP_REPLICA: {"": StopReplicaRequest(BROKER, controller_epoch=1)},
        ApiKey.UPDATE_METADATA: {"": UpdateMetadataRequest(BROKER, controller_epoch=1)},
        ApiKey.CONTROLLED_SHUTDOWN: {"": ControlledShutdownRequest(BROKER)},
        ApiKey.ALTER_PARTITION: {"": _isr_change(version, ids)},
        ApiKey.UPDATE_FEATURES: {
            "": update_features.UpdateFeaturesRequest(
                1000, [update_features.FeatureUpdateKey("x", 1)]
            )
        },
        ApiKey.ENVELOPE: {"": EnvelopeRequest(b"", None, b"\x7f\0\0\1")},
        ApiKey.ALLOCATE_PRODUCER_IDS: {"": AllocateProducerIdsRequest(BROKER, 1)},
    }


def _of_placement() -> Cases:
    log_dir_topics = _for_partitions(alter_replica_log_dirs.AlterReplicaLogDirTopic)
    return {
        ApiKey.ALTER_REPLICA_LOG_DIRS: {
            "": alter_replica_log_dirs.AlterReplicaLogDirsRequest(
                [alter_replica_log_dirs.AlterReplicaLogDir("/nowhere", log_dir_topics)]
            )
        },
        ApiKey.DESCRIBE_LOG_DIRS: {
            "": describe_log_dirs.DescribeLogDirsRequest(
                _for_partitions(describe_log_dirs.DescribableLogDirTopic)
            ),
            "all": describe_log_dirs.DescribeLogDirsRequest(None),
        },
        ApiKey.ELECT_LEADERS: {
            "": elect_leaders.ElectLeadersRequest(
                0, _for_partitions(elect_leaders.ElectLeadersTopic), 1000
            ),
            "all": elect_leaders.ElectLeadersRequest(0, None, 1000),
        },
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            "": reassign.AlterPartitionReassignmentsRequest(
                1000,
                topics=[
                    reassign.ReassignableTopic(OPEN, [reassign.ReassignablePartition(0, [BROKER])])
                ],
            )
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {
            "": list_moves.ListPartitionReassignmentsRequest(1000, None)
        },
        ApiKey.DESCRIBE_CLUSTER: {"": DescribeClusterRequest(True)},
    }


def _of_security(version: int) -> Cases:
    owner = delegation_tokens.DescribeDelegationTokenRequest(None)
    return {
        ApiKey.SASL_HANDSHAKE: {"": sasl.SaslHandshakeRequest("PLAIN")},
        ApiKey.DESCRIBE_ACLS: {"": _acl_filter(acl_messages.DescribeAclsRequest)},
        ApiKey.CREATE_ACLS: {"": _new_acl()},
        ApiKey.DELETE_ACLS: {
            "": acl_messages.DeleteAclsRequest([_acl_filter(acl_messages.DeleteAclsFilter)])
        },
        ApiKey.SASL_AUTHENTICATE: {"": sasl.SaslAuthenticateRequest(b"\0a\0b")},
        ApiKey.CREATE_DELEGATION_TOKEN: {"": _token(version)},
        ApiKey.RENEW_DELEGATION_TOKEN: {
            "": delegation_tokens.RenewDelegationTokenRequest(b"hmac", 1)
        },
        ApiKey.EXPIRE_DELEGATION_TOKEN: {
            "": delegation_tokens.ExpireDelegationTokenRequest(b"hmac", 1)
        },
        ApiKey.DESCRIBE_DELEGATION_TOKEN: {"": owner},
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {
            "": quotas.DescribeClientQuotasRequest([quotas.ComponentData("user", 2, None)])
        },
        ApiKey.ALTER_CLIENT_QUOTAS: {"": _quotas()},
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {
            # Kafka never responds to a refused request for all users.
            "": scram.DescribeUserScramCredentialsRequest([scram.UserName("stranger")])
        },
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"": _scram()},
    }


def _cases(api: ApiKey, version: int, ids: Mapping[str, UUID]) -> dict[str, Message]:
    """Return the requests of an API in a version, by case."""
    found: dict[str, Message] = {}
    match api:
        case ApiKey.PRODUCE:
            found = {"": _produce(version), "acks=0": _produce(version, acks=0, names=[SECRET])}
            if version >= 3:
                for name in (OPEN, SECRET, None):
                    found[f"transaction {name}"] = _produce(
                        version, transactional=True, transactional_id=name, names=[SECRET]
                    )
        case ApiKey.FETCH:
            found = {"": _fetch(version, ids), "follower": _fetch(version, ids, follower=True)}
        case ApiKey.METADATA:
            found = {"": _metadata(version, NAMES if version >= 4 else [OPEN, SECRET, MISSING])}
            found["refused"] = _metadata(version, [SECRET])
            found["create"] = _metadata(version, [SEEN, SECRET], create=True)
            found["all"] = _metadata(version, None)
            if version >= 12:
                found["ids"] = _metadata_by_id([ids[OPEN], ids[SECRET], UNKNOWN_ID])
        case ApiKey.OFFSET_FETCH:
            found = {"": _fetch_offsets(version, NAMES)}
            if version >= 2:
                found["all"] = _fetch_offsets(version, None)
        case ApiKey.FIND_COORDINATOR:
            for kind in (0, 1) if version else (0,):
                for request in _coordinator(version, kind):
                    found[f"{kind} {request.key}".strip()] = request
            if version >= 6:
                (found["share"],) = _coordinator(version, 2)
        case ApiKey.API_VERSIONS:
            named = ("client", "1") if version >= 3 else ("", "")
            found = {"": ApiVersionsRequest(*named)}
        case ApiKey.DELETE_TOPICS:
            found = {"": _delete_topics(version)}
            if version >= 6:
                found["ids"] = _delete_topics_by_id(ids)
        case ApiKey.INIT_PRODUCER_ID:
            for name in (OPEN, SECRET, None):
                found[str(name)] = InitProducerIdRequest(name, 0)
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            for name in (OPEN, SECRET):
                found[name] = _add_partitions(version, name)
            if version < 4:
                found["allowed"] = _add_open_partitions([OPEN])
                found["missing"] = _add_open_partitions([OPEN, OPEN_MISSING])
        case _:
            by_api = (
                _of_topics(version)
                | _of_groups(version)
                | _of_transactions(version)
                | _of_brokers(version, ids)
                | _of_placement()
                | _of_security(version)
            )
            found = by_api[api]
    return found


def rows(ids: Mapping[str, UUID]) -> list[Row]:
    """Return all requests of Kafka 3.9. Those that would change something for bob come with
    ``validate_only``, or name what does not exist."""
    return [
        Row(api, case, version, request)
        for api in ApiKey
        if api.max_version_3_9 is not None
        for version in range(api.max_version_3_9 + 1)
        for case, request in _cases(api, version, ids).items()
    ]


# ----------------------------------------------------------------------------------- the responses

# What differs between two clusters, and between two runs.
_MASKED: Final = frozenset(
    {"host", "port", "cluster_id", "producer_id", "transaction_start_time_ms", "controller_id"}
)
_KAFKAS_TEXT: Final = re.compile(r"Request Request\(.*\) is not authorized\.$", re.DOTALL)


@dataclass
class Renderer:
    """Writes responses as text: fields that are not the default, rows in the order of their text,
    ids of topics by their names."""

    ids: Mapping[str, UUID]
    names: dict[UUID, str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {topic_id: f"<{name}>" for name, topic_id in self.ids.items()}

    def text(self, response: Any) -> str:
        return "closed" if response is None else self._text(response)

    def _text(self, value: Any) -> str:
        if isinstance(value, ApiVersion):
            value = as_of_3_9(value)
        if hasattr(value, "group_id") and hasattr(value, "authorized_operations"):
            known = value.authorized_operations
            if known != AUTHORIZED_OPERATIONS_OMITTED:
                known &= GROUP_OPERATIONS_OF_3_9
                value = dataclasses.replace(value, authorized_operations=known)
        if dataclasses.is_dataclass(value):
            fields = [
                f"{each.name}={self._field(each.name, found)}"
                for each in dataclasses.fields(value)
                if not _is_default(each, found := getattr(value, each.name))
            ]
            return f"({', '.join(fields)})"
        if isinstance(value, list | tuple):
            value = [each for each in value if not is_of_kafka_4(each)]
            return f"[{', '.join(sorted(map(self._text, value)))}]"
        if isinstance(value, UUID):
            return self.names.get(value, f"<{value.int}>")
        if isinstance(value, bytes | bytearray | memoryview):
            return "*" if len(value) else "-"
        if isinstance(value, str) and _KAFKAS_TEXT.match(value):
            return repr("Cluster authorization failed.")
        return repr(int(value) if isinstance(value, int) and not isinstance(value, bool) else value)

    def _field(self, name: str, value: Any) -> str:
        return "*" if name in _MASKED and value not in (-1, "") else self._text(value)


# READ, DELETE, DESCRIBE: in Kafka 3.9 groups have no configs.
GROUP_OPERATIONS_OF_3_9: Final = 1 << 3 | 1 << 6 | 1 << 8

_OF_3_9: Final = {int(api_key): api_key.max_version_3_9 for api_key in ApiKey}


def is_of_kafka_4(value: Any) -> bool:
    """Whether the value is the row of an API that 3.9 does not have."""
    return isinstance(value, ApiVersion) and _OF_3_9[value.api_key] is None


def as_of_3_9(row: ApiVersion) -> ApiVersion:
    newest = _OF_3_9[row.api_key]
    assert newest is not None
    return dataclasses.replace(row, max_version=min(row.max_version, newest))


def _is_default(each: dataclasses.Field[Any], value: Any) -> bool:
    if each.default_factory is not dataclasses.MISSING:
        return bool(value == each.default_factory())
    return bool(value == each.default)


_AUDIT: Final = re.compile(
    r"Principal = \S+ is Denied Operation = (\w+) from host = \S+ on resource = (\S+)"
    r" for request = (\w+) with resourceRefCount = (\d+)"
)


def denials(log: Iterable[str]) -> str:
    """Return what the audit log says about one request, without principal and host."""
    found = (match for line in log if (match := _AUDIT.search(line)))
    return ", ".join(sorted(" ".join(match.groups()) for match in found))


class Seen(NamedTuple):
    """The response to a row, and the denials in the audit log, both as text."""

    client: str
    row: Row
    response: str
    denied: str


def table(seen: Iterable[Seen]) -> str:
    """Return three lines for each response, in which neighbouring versions with the same response
    are one: ``bob Metadata(all) 0-3``, the response, the denials."""
    by_case: dict[tuple[str, ApiKey, str], dict[int, tuple[str, str]]] = {}
    for client, row, response, denied in seen:
        by_case.setdefault((client, row.api, row.case), {})[row.version] = (response, denied)
    lines = []
    for (client, api, case), texts in by_case.items():
        start: int | None = None
        for version in sorted(texts):
            start = version if start is None else start
            if texts.get(version + 1) != texts[version]:
                versions = str(version) if start == version else f"{start}-{version}"
                named = f"{api.api_name}({case})" if case else api.api_name
                response, denied = texts[version]
                lines += [f"{client} {named} {versions}", f"  {response}", f"  denied: {denied}"]
                start = None
    return "\n".join(lines) + "\n"
