"""Transactional batches and their markers, as a producer and a coordinator write them."""

from __future__ import annotations

from typing import Any

from minikafka.core.log.append import AppendOrigin, LogAppendInfo
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.server.broker.replication.append_order import AppendOrder
from minikafka.server.broker.replication.record_preparation import RecordPreparation
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.broker.replication.transaction_verification import TransactionVerification
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.logs import NOW


def unverified_appends(replicas: ReplicaManager, preparation: RecordPreparation) -> AppendOrder:
    """Return appends without verification, as with
    ``transaction.partition.verification.enable=false``."""
    unused: Any = None
    off = TransactionVerification(
        lambda: False, unused, replicas.hosted, unused, unused, unused, Metrics()
    )
    return AppendOrder(replicas.appends, preparation, off)


class TxnProducer:
    """One transactional producer of one log."""

    def __init__(self, producer_id: int, epoch: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0
        self.in_transaction = False

    def send(
        self,
        log: UnifiedLog,
        *pairs: tuple[bytes | None, bytes | None],
        at_ms: int = NOW,
        transactional: bool = True,
        **fields: Any,
    ) -> LogAppendInfo:
        """Append one batch of keys and values."""
        data = build_batch(
            [(at_ms, key, value, []) for key, value in pairs],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=transactional,
            **fields,
        )
        info = log.append_as_leader(data, 0, at_ms)
        self.sequence += len(pairs)
        self.in_transaction |= transactional
        return info

    def end(self, log: UnifiedLog, commit: bool, at_ms: int = NOW) -> LogAppendInfo:
        self.in_transaction = False
        data = marker(self.producer_id, self.epoch, commit, at_ms)
        return log.append_as_leader(data, 0, at_ms, AppendOrigin.COORDINATOR)


def marker(producer_id: int, epoch: int, commit: bool, at_ms: int = NOW, **fields: Any) -> bytes:
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    key, value = encode_end_txn_marker(EndTxnMarker(kind, 0))
    return build_batch(
        [(at_ms, key, value, [])],
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
        **fields,
    )
