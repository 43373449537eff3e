"""The states of share-partitions in one partition of ``__share_group_state``, as a coordinator
shard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from minikafka.core.coordinator_shard import CoordinatorAppend, CoordinatorResult, CoordinatorShard
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.share import records
from minikafka.core.share.persister import UNINITIALIZED_START_OFFSET, StateBatch
from minikafka.core.share.records import (
    SharePartitionKey,
    ShareRecord,
    ShareSnapshot,
    ShareState,
    ShareUpdate,
)
from minikafka.core.share.state_batches import combined
from minikafka.core.transaction.shard import transaction_append_error
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.share_group_state import (
    DeletePartition,
    InitializePartition,
    ReadPartition,
    StateBatchRow,
    StatePartitionResult,
    StateReadResult,
    SummaryResult,
    WritePartition,
)

NO_EPOCH: Final = -1
UNKNOWN_COUNT: Final = -1
# Kafka's messages of the errors that responses name.
MESSAGES: Final = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR: (
            "The server experienced an unexpected error when processing the request."
        ),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
            "The coordinator is loading and hence can't process requests."
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
        ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
        ErrorCode.FENCED_LEADER_EPOCH: (
            "The leader epoch in the request is older than the epoch on the broker."
        ),
        ErrorCode.FENCED_STATE_EPOCH: (
            "The share coordinator rejected the request because the share-group state epoch did "
            "not match."
        ),
    }
)
NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
_UNINITIALIZED: Final = "{} operation on uninitialized share partition not allowed."


@dataclass(frozen=True, slots=True)
class ShareStateConfig:
    """The keys ``share.coordinator.*`` that the shard reads; times in milliseconds."""

    snapshot_update_records_per_snapshot: int = 500
    cold_partition_snapshot_interval_ms: int = 5 * 60 * 1000


@dataclass(slots=True)
class _SharePartition:
    """A state, and what fences requests about it. ``updates`` counts as Kafka does: the first
    update of a state does not count. ``offset`` is that of the last snapshot."""

    state: ShareState
    leader_epoch: int
    state_epoch: int
    updates: int | None = None
    offset: int = 0


# Called once, now or later, with the row of one partition in the response.
Respond: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class ShareStateAppend:
    """The purpose of an append: one request about a share-partition. Without a request the append
    is the shard's own. ``response`` is the row after a success."""

    key: SharePartitionKey
    request: ShareStateRequest | None
    response: Any

    def event_facts(self) -> dict[str, Any]:
        return {"share_partition": self.key.coordinator_key}


ShareStateResult: TypeAlias = CoordinatorResult[None, ShareRecord, ShareStateAppend, None]


@dataclass(frozen=True, slots=True)
class ShareStateRequest:
    """A request about one share-partition. ``row_type`` makes the row of the response from the
    partition, an error and its message."""

    key: SharePartitionKey
    row: Any
    image: MetadataImage
    respond: Respond
    row_type: type[StatePartitionResult | StateReadResult | SummaryResult] = StatePartitionResult

    def fail(self, result: ShareStateResult, error: ErrorCode, message: str | None) -> None:
        row = self.row_type(self.key.where.partition, error, message)
        result.reply(self.respond, row)

    def require_partition(self) -> None:
        """Raise INVALID_REQUEST for a negative partition."""
        if self.key.where.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)

    def require_topic(self) -> None:
        """Raise UNKNOWN_TOPIC_OR_PARTITION unless the metadata have the partition."""
        name = self.image.topic_names.get(self.key.where.topic_id)
        if name is None or self.key.where.partition >= len(self.image.topics.get(name, ())):
            raise _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# Decides a request when all earlier records of its share-partition are settled. Raises KafkaError.
Decide: TypeAlias = "Callable[[ShareStateShard, ShareStateRequest, ShareStateResult, int], None]"


class ShareStateShard(CoordinatorShard[ShareRecord, ShareStateAppend, None]):
    """The states of share-partitions in one partition of ``__share_group_state``.

    A request about a share-partition whose record is being appended waits for the outcome: a
    snapshot must contain each update before it. Kafka: ``ShareCoordinatorShard``.
    """

    awaits_replication: ClassVar[bool] = False
    keeps_all_records: ClassVar[bool] = True

    def __init__(self, config: ShareStateConfig) -> None:
        self._config = config
        self._partitions: dict[SharePartitionKey, _SharePartition] = {}
        # Requests that wait for an append about the same share-partition.
        self._waiting: dict[SharePartitionKey, deque[tuple[Decide, ShareStateRequest]]] = {}
        self._unloaded = False
        self._last_offset = 0  # of a snapshot or a tombstone

    @property
    def size(self) -> int:
        return len(self._partitions)

    @property
    def redundant_below(self) -> int:
        """The offset below which no record is needed: that of the oldest of all last snapshots, or
        of the last tombstone if there is no state."""
        kept = (known.offset for known in self._partitions.values())
        return min(kept, default=self._last_offset)

    def state(self, key: SharePartitionKey) -> ShareState | None:
        known = self._partitions.get(key)
        return None if known is None else known.state

    # -- requests

    def handle(self, decide: Decide, request: ShareStateRequest, now_ms: int) -> ShareStateResult:
        """Handle a request about one share-partition by one of the methods below."""
        result: ShareStateResult = CoordinatorResult(None)
        waiting = self._waiting.get(request.key)
        if waiting is None:
            self._try(decide, request, result, now_ms)
        else:
            waiting.append((decide, request))
        return result

    def initialize(self, request: ShareStateRequest, result: ShareStateResult, now_ms: int) -> None:
        """Begin a state at a start offset, or begin it again.

        Raises INVALID_REQUEST, FENCED_STATE_EPOCH if a later state epoch is known, and
        UNKNOWN_TOPIC_OR_PARTITION."""
        row: InitializePartition = request.row
        request.require_partition()
        known = self._partitions.get(request.key)
        if known is not None:
            _require_state_epoch(row.state_epoch, known)
        request.require_topic()
        state = ShareState(
            0 if known is None else known.state.snapshot_epoch + 1,
            row.state_epoch,
            0,
            row.start_offset,
            UNKNOWN_COUNT,
            (),
            now_ms,
            now_ms,
        )
        snapshot = ShareSnapshot(request.key, state)
        self._append(result, snapshot, request, StatePartitionResult(row.partition))

    def write(self, request: ShareStateRequest, result: ShareStateResult, now_ms: int) -> None:
        """Change a state. A record of the change is appended, or a snapshot after
        ``snapshot_update_records_per_snapshot`` of those.

        Raises INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH and
        UNKNOWN_TOPIC_OR_PARTITION."""
        row: WritePartition = request.row
        request.require_partition()
        known = self._require(request.key, "Write")
        if row.leader_epoch != NO_EPOCH and known.leader_epoch > row.leader_epoch:
            raise _error(ErrorCode.FENCED_LEADER_EPOCH)
        _require_state_epoch(row.state_epoch, known)
        request.require_topic()
        update = ShareUpdate(
            request.key,
            known.state.snapshot_epoch,
            known.state.leader_epoch,
            row.start_offset,
            row.delivery_complete_count,
            _batches(row.state_batches),
        )
        record = self._record_of(update, known.state, known.updates or 0, now_ms)
        self._append(result, record, request, StatePartitionResult(row.partition))

    def read(self, request: ShareStateRequest, result: ShareStateResult, now_ms: int) -> None:
        """Read a state. A leader epoch that is not known yet is appended before the response, and
        fences the leaders before it.

        Raises INVALID_REQUEST, FENCED_LEADER_EPOCH and UNKNOWN_TOPIC_OR_PARTITION."""
        row: ReadPartition = request.row
        request.require_partition()
        known = self._require(request.key, "Read")
        if known.leader_epoch > row.leader_epoch:
            raise _error(ErrorCode.FENCED_LEADER_EPOCH)
        request.require_topic()
        state = known.state
        response = StateReadResult(
            row.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[StateBatchRow(*batch) for batch in state.batches],
        )
        if row.leader_epoch == known.leader_epoch:
            result.reply(request.respond, response)
            return
        update = ShareUpdate(
            request.key,
            state.snapshot_epoch,
            row.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            (),
        )
        record = self._record_of(update, state, known.updates or 0, now_ms)
        self._append(result, record, request, response)

    def delete(self, request: ShareStateRequest, result: ShareStateResult, now_ms: int) -> None:
        """Forget a state; one that is not known is forgotten already. Raises INVALID_REQUEST and
        UNKNOWN_TOPIC_OR_PARTITION."""
        row: DeletePartition = request.row
        request.require_partition()
        request.require_topic()
        response = StatePartitionResult(row.partition)
        if request.key in self._partitions:
            self._append(result, ShareSnapshot(request.key, None), request, response)
        else:
            result.reply(request.respond, response)

    def summarize(self, request: ShareStateRequest, result: ShareStateResult, now_ms: int) -> None:
        """Read where a share-partition starts: nowhere yet if its state is not known. Raises
        INVALID_REQUEST and UNKNOWN_TOPIC_OR_PARTITION."""
        row: ReadPartition = request.row
        request.require_partition()
        request.require_topic()
        response = SummaryResult(row.partition, start_offset=UNINITIALIZED_START_OFFSET)
        state = self.state(request.key)
        if state is not None:
            response.state_epoch = state.state_epoch
            response.leader_epoch = state.leader_epoch
            response.start_offset = state.start_offset
            response.delivery_complete_count = state.delivery_complete_count
        result.reply(request.respond, response)

    # -- housekeeping

    def snapshot_cold_partitions(self, now_ms: int) -> ShareStateResult:
        """Write snapshots of states without a snapshot for
        ``cold_partition_snapshot_interval_ms``, so that the records before them can be deleted. Do
        nothing if each state is such a snapshot already."""
        result: ShareStateResult = CoordinatorResult(None)
        states = {key: known.state for key, known in self._partitions.items()}
        if all(state.created_ms != state.written_ms for state in states.values()):
            return result
        interval_ms = self._config.cold_partition_snapshot_interval_ms
        for key, state in states.items():
            if now_ms - state.written_ms >= interval_ms and key not in self._waiting:
                epoch = state.snapshot_epoch + 1
                snapshot = replace(state, snapshot_epoch=epoch, written_ms=now_ms)
                self._append(result, ShareSnapshot(key, snapshot))
        return result

    def delete_topics(self, topic_ids: Collection[UUID]) -> ShareStateResult:
        """Forget the states of deleted topics."""
        result: ShareStateResult = CoordinatorResult(None)
        for key in list(self._partitions):
            if key.where.topic_id in topic_ids and key not in self._waiting:
                self._append(result, ShareSnapshot(key, None))
        return result

    # -- the shard

    def encode(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        return records.encode_record(record)

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
        return records.decode_record(key, value)

    def replay(self, record: ShareRecord, offset: int, producer_id: int | None = None) -> None:
        if isinstance(record, ShareUpdate):
            self._replay_update(record)
            return
        self._last_offset = offset
        if record.state is None:
            self._partitions.pop(record.key, None)
        else:
            self._replay_snapshot(record.key, record.state, offset)

    def replay_end_transaction_marker(self, producer_id: int, offset: int, committed: bool) -> None:
        """Do nothing: records of this log never belong to a transaction."""

    def loaded(self, now_ms: int) -> ShareStateResult:
        return CoordinatorResult(None)

    def unloaded(self, now_ms: int) -> ShareStateResult:
        """Drop all states, and refuse the requests that wait."""
        self._unloaded = True
        self._partitions.clear()
        result: ShareStateResult = CoordinatorResult(None)
        error = ErrorCode.NOT_COORDINATOR
        for waiting in self._waiting.values():
            for _, request in waiting:
                request.fail(result, error, MESSAGES[error])
        self._waiting.clear()
        return result

    def settle(
        self,
        append: CoordinatorAppend[ShareRecord, ShareStateAppend],
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> ShareStateResult:
        """Replay the record of a successful append, respond, and decide the requests that waited
        for it, up to the next one that appends a record."""
        result: ShareStateResult = CoordinatorResult(None)
        purpose = append.purpose
        code = ErrorCode.NOT_COORDINATOR if self._unloaded else transaction_append_error(error)
        if code is ErrorCode.NONE:
            for record in append.records:
                self.replay(record, base_offset)
        if purpose.request is not None and code is ErrorCode.NONE:
            result.reply(purpose.request.respond, purpose.response)
        elif purpose.request is not None:
            purpose.request.fail(result, code, MESSAGES.get(code))
        waiting = self._waiting.pop(purpose.key, None)
        while waiting:
            self._try(*waiting.popleft(), result, now_ms)
            if purpose.key in self._waiting:
                self._waiting[purpose.key] = waiting
                break
        return result

    # -- helpers

    def _require(self, key: SharePartitionKey, verb: str) -> _SharePartition:
        known = self._partitions.get(key)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _UNINITIALIZED.format(verb))
        return known

    def _try(
        self, decide: Decide, request: ShareStateRequest, result: ShareStateResult, now_ms: int
    ) -> None:
        try:
            decide(self, request, result, now_ms)
        except KafkaError as error:
            request.fail(result, error.code, error.message)

    def _append(
        self,
        result: ShareStateResult,
        record: ShareRecord,
        request: ShareStateRequest | None = None,
        response: Any = None,
    ) -> None:
        self._waiting[record.key] = deque()
        purpose = ShareStateAppend(record.key, request, response)
        result.appends.append(CoordinatorAppend((record,), purpose))

    def _record_of(
        self, update: ShareUpdate, state: ShareState, updates: int, now_ms: int
    ) -> ShareRecord:
        """Return the record of a change: the update, or the snapshot that is due after it."""
        start_offset = update.start_offset
        if updates < self._config.snapshot_update_records_per_snapshot:
            return replace(update, batches=combined(update.batches, start_offset))
        changed = _merged(state, update)
        return ShareSnapshot(
            update.key,
            replace(
                changed,
                snapshot_epoch=state.snapshot_epoch + 1,
                created_ms=now_ms,
                written_ms=now_ms,
            ),
        )

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareState, offset: int) -> None:
        known = self._partitions.get(key)
        if known is None:
            self._partitions[key] = _SharePartition(
                state, state.leader_epoch, state.state_epoch, None, offset
            )
            return
        known.state = state
        known.leader_epoch = max(known.leader_epoch, state.leader_epoch)
        known.state_epoch = max(known.state_epoch, state.state_epoch)
        known.offset = offset
        limit = self._config.snapshot_update_records_per_snapshot
        if known.updates is not None and known.updates >= limit:
            known.updates = 0

    def _replay_update(self, update: ShareUpdate) -> None:
        """Merge a change into the state. Without a state, that of the change is all there is."""
        known = self._partitions.get(update.key)
        if known is None:
            state = ShareState(
                update.snapshot_epoch,
                0,
                update.leader_epoch,
                update.start_offset,
                update.delivery_complete_count,
                update.batches,
            )
            known = self._partitions[update.key] = _SharePartition(state, update.leader_epoch, 0)
        else:
            known.state = _merged(known.state, update)
            known.leader_epoch = max(known.leader_epoch, update.leader_epoch)
        known.updates = 0 if known.updates is None else known.updates + 1


def _error(code: ErrorCode) -> KafkaError:
    return KafkaError(code, MESSAGES[code])


def _require_state_epoch(state_epoch: int, known: _SharePartition) -> None:
    if state_epoch != NO_EPOCH and known.state_epoch > state_epoch:
        raise _error(ErrorCode.FENCED_STATE_EPOCH)


def _merged(state: ShareState, update: ShareUpdate) -> ShareState:
    """Return the state after a change; -1 in the change keeps the start offset or leader epoch."""
    start_offset, leader_epoch = update.start_offset, update.leader_epoch
    if start_offset == UNINITIALIZED_START_OFFSET:
        start_offset = state.start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combined((*state.batches, *update.batches), start_offset),
    )


def _batches(rows: Iterable[StateBatchRow]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count)
        for row in rows
    )
