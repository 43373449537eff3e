"""The Produce call, and the calls of transactional producers: to transaction coordinators, and
TxnOffsetCommit (KIP-98, KIP-360, KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from minikafka.core.client.admin.features import FeatureMetadata
from minikafka.core.client.calls import (
    Call,
    CoordinatorCall,
    CoordinatorKey,
    error_of,
    raise_for,
    raise_gravest,
)
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.transaction.transaction import EPOCH_OF_EACH_TRANSACTION
from minikafka.kernel.cluster import CoordinatorType, ProducerIdAndEpoch, TopicPartition, grouped
from minikafka.kernel.features import TRANSACTION_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

# InitProducerId takes a producer id and an epoch to raise from this version on (KIP-360).
EPOCH_BUMP_VERSION: Final = 3

_CLIENTS_VERSION: Final = 3  # of AddPartitionsToTxn; later versions are for brokers
_BEFORE_KIP_890: Final = 4  # of the others; later versions change epochs and errors
_EPOCH_OF_EACH_TRANSACTION: Final = 5  # of EndTxn and TxnOffsetCommit, in version 2
_PRODUCE_BEFORE_VERSION_2: Final = 11
_PRODUCE_BY_NAME: Final = 12  # later versions have ids of topics
_NO_TRANSACTION_TIMEOUT_MS: Final = 60_000  # any: the broker ignores it


NO_PRODUCER: Final = ProducerIdAndEpoch()


class TransactionalProducer(NamedTuple):
    """A transactional id with the producer id and epoch that its coordinator has assigned."""

    transactional_id: str
    producer_id: int
    epoch: int


def uses_version_2(features: FeatureMetadata, served: Mapping[int, tuple[int, int]]) -> bool:
    """Whether transactions are those of version 2 (KIP-890) in a cluster with these features, whose
    coordinator serves these versions of APIs."""
    level = features.finalized.get(TRANSACTION_VERSION, 0)
    last = served.get(ApiKey.END_TXN, (0, 0))[1]
    return level >= EPOCH_OF_EACH_TRANSACTION and last >= _EPOCH_OF_EACH_TRANSACTION


def new_producer_id() -> Call[ProducerIdAndEpoch]:
    """Build InitProducerId for an idempotent producer without transactions. Any broker serves
    it."""
    return Call(InitProducerIdRequest(None, _NO_TRANSACTION_TIMEOUT_MS), _producer_id)


def init_producer_id(
    transactional_id: str, timeout_ms: int, current: ProducerIdAndEpoch
) -> CoordinatorCall[ProducerIdAndEpoch]:
    """Build InitProducerId for a transactional id.

    It begins a new epoch, which fences the previous producer and aborts its open transaction.

    With ``current`` the producer keeps its id and gets the next epoch, unless another producer
    uses the transactional id by now (KIP-360). Pass ``NO_PRODUCER`` for a new producer, and to
    brokers below request version ``EPOCH_BUMP_VERSION``.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms, *current)
    return CoordinatorCall(
        request, _producer_id, _BEFORE_KIP_890, coordinator=_transaction(transactional_id)
    )


def _producer_id(response: InitProducerIdResponse) -> ProducerIdAndEpoch:
    raise_for(response.error_code, "no producer id")
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


def add_partitions_to_txn(
    producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> CoordinatorCall[None]:
    """Build AddPartitionsToTxn, which must succeed before the first Produce to these partitions."""

    def read(response: AddPartitionsToTxnResponse) -> None:
        raise_gravest(
            error_of(row.partition_error_code, f"{topic.name}-{row.partition_index}")
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        )

    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name, numbers)
            for name, numbers in grouped(sorted(partitions)).items()
        ],
    )
    key = _transaction(producer.transactional_id)
    return CoordinatorCall(request, read, _CLIENTS_VERSION, coordinator=key)


def add_offsets_to_txn(producer: TransactionalProducer, group_id: str) -> CoordinatorCall[None]:
    """Build AddOffsetsToTxn, which must succeed before TxnOffsetCommit for the group."""

    def read(response: AddOffsetsToTxnResponse) -> None:
        raise_for(response.error_code, f"adding group {group_id}")

    request = AddOffsetsToTxnRequest(*producer, group_id)
    key = _transaction(producer.transactional_id)
    return CoordinatorCall(request, read, _BEFORE_KIP_890, coordinator=key)


def txn_offset_commit(
    producer: TransactionalProducer,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    version_2: bool = False,
) -> CoordinatorCall[None]:
    """Build TxnOffsetCommit: the offsets take effect when the transaction commits.

    The call goes to the coordinator of the group, not of the transactional id. In version 2 of
    transactions that adds the group, and AddOffsetsToTxn is not sent before.
    """

    def read(response: TxnOffsetCommitResponse) -> None:
        raise_gravest(
            error_of(row.error_code, f"{topic.name}-{row.partition_index}")
            for topic in response.topics
            for row in topic.partitions
        )

    rows = (
        (
            tp.topic,
            TxnOffsetCommitRequestPartition(tp.partition, at.offset, at.leader_epoch, at.metadata),
        )
        for tp, at in sorted(offsets.items())
    )
    request = TxnOffsetCommitRequest(
        producer.transactional_id,
        group.group_id,
        producer.producer_id,
        producer.epoch,
        group.generation,
        group.member_id,
        group.group_instance_id,
        [TxnOffsetCommitRequestTopic(name, found) for name, found in grouped(rows).items()],
    )
    key = CoordinatorKey(CoordinatorType.GROUP, group.group_id)
    version = _EPOCH_OF_EACH_TRANSACTION if version_2 else _BEFORE_KIP_890
    return CoordinatorCall(request, read, version, coordinator=key)


def end_txn(
    producer: TransactionalProducer, committed: bool, version_2: bool = False
) -> CoordinatorCall[ProducerIdAndEpoch]:
    """Build EndTxn, which commits or aborts the transaction. The result is the producer id and
    epoch of the next transaction, which are new in version 2 of transactions."""

    def read(response: EndTxnResponse) -> ProducerIdAndEpoch:
        raise_for(response.error_code, "commit" if committed else "abort")
        if response.producer_id == NO_PRODUCER.producer_id:
            return ProducerIdAndEpoch(producer.producer_id, producer.epoch)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    request = EndTxnRequest(*producer, committed)
    key = _transaction(producer.transactional_id)
    version = _EPOCH_OF_EACH_TRANSACTION if version_2 else _BEFORE_KIP_890
    return CoordinatorCall(request, read, version, coordinator=key)


def _transaction(transactional_id: str) -> CoordinatorKey:
    return CoordinatorKey(CoordinatorType.TRANSACTION, transactional_id)


# The result is the outcome of each partition.
ProduceCall: TypeAlias = Call[dict[TopicPartition, PartitionProduceResponse]]


def produce(
    batches: Iterable[tuple[TopicPartition, Buffer]],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
    version_2: bool = False,
) -> ProduceCall:
    """Build a Produce call to one leader, with one batch for each partition.

    The result is the response row of each partition. The broker sends no response to ``acks`` 0.
    In version 2 of transactions the leader adds the partitions to the transaction.
    """
    topics = grouped((tp.topic, PartitionProduceData(tp.partition, data)) for tp, data in batches)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name, partition_data=rows) for name, rows in topics.items()],
    )
    in_version_1 = transactional_id is not None and not version_2
    return Call(request, _produced, _PRODUCE_BEFORE_VERSION_2 if in_version_1 else _PRODUCE_BY_NAME)


def _produced(response: ProduceResponse) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        TopicPartition(topic.name, row.index): row
        for topic in response.responses
        for row in topic.partition_responses
    }
