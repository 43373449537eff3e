"""A partition of the fake cluster: batches in a list, and the sequences of its producers."""

from __future__ import annotations

from dataclasses import dataclass, field

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.record import Record, decode_records
from tests.support.storage.stored_batches import stamp


@dataclass
class FakePartition:
    """A partition. ``producers`` has each producer's epoch, next sequence and appended batches. The
    next ``append_and_fail`` batches are appended, but their response is ``failure``."""

    leader: int
    leader_epoch: int = 0
    log_start: int = 0
    batches: list[bytes] = field(default_factory=list)
    producers: dict[int, tuple[int, int, dict[int, int]]] = field(default_factory=dict)
    append_and_fail: int = 0
    failure: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    @property
    def end(self) -> int:
        return parse_batches(self.batches[-1])[-1].next_offset if self.batches else self.log_start

    def append(self, data: bytes | memoryview) -> int:
        base = self.end
        batch = bytearray(data)
        stamp(batch, base, self.leader_epoch)
        self.batches.append(bytes(batch))
        return base

    def produce(self, data: bytes | memoryview) -> tuple[ErrorCode, int]:
        """Append a batch as a leader does: sequences have no gaps, and a duplicate is not
        appended."""
        (batch,) = parse_batches(data)
        if batch.producer_id >= 0:
            code, offset = self._check(batch)
            if code is not ErrorCode.NONE or offset >= 0:
                return code, offset
        base = self.append(data)
        if batch.producer_id >= 0:
            _, _, known = self.producers[batch.producer_id]
            known[batch.base_sequence] = base
            following = batch.base_sequence + batch.record_count
            self.producers[batch.producer_id] = (batch.producer_epoch, following, known)
        if self.append_and_fail:
            self.append_and_fail -= 1
            return self.failure, -1
        return ErrorCode.NONE, base

    def _check(self, batch: RecordBatch) -> tuple[ErrorCode, int]:
        epoch, following, known = self.producers.get(
            batch.producer_id, (batch.producer_epoch, batch.base_sequence, {})
        )
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if batch.producer_epoch > epoch:
            epoch, following, known = batch.producer_epoch, 0, {}
        if batch.base_sequence in known:
            return ErrorCode.NONE, known[batch.base_sequence]
        if batch.base_sequence != following:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self.producers[batch.producer_id] = (epoch, following, known)
        return ErrorCode.NONE, -1

    def read(self, offset: int, max_bytes: int) -> bytes:
        out = b""
        for batch in self.batches:
            if parse_batches(batch)[-1].last_offset >= offset:
                if out and len(out) + len(batch) > max_bytes:
                    break
                out += batch
        return out

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_records(batch)]
