"""``ShareStatePersister``: requests to the share coordinators about stored states (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final

from minikafka.core.client.errors import repeated_lookups
from minikafka.core.share.persister import (
    InitialState,
    StateBatch,
    StateSummary,
    StateUpdate,
    StoredState,
    TopicIdPartition,
)
from minikafka.core.share.records import SharePartitionKey
from minikafka.core.share.state_requests import (
    STATE_VERBS,
    StateRequest,
    StateResponse,
    request_of,
    rows_of,
)
from minikafka.core.share.state_shard import MESSAGES
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Entropy
from minikafka.protocol.messages.share_group_state import (
    DeletePartition,
    DeleteShareGroupStateRequest,
    InitializePartition,
    InitializeShareGroupStateRequest,
    ReadPartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    StateBatchRow,
    WritePartition,
    WriteShareGroupStateRequest,
)
from minikafka.protocol.schema import Message

# These cover more than 6 s, as long as an election takes at most with the usual session time-out.
# Kafka makes seven attempts, which cover a minute; the first two are a second apart.
MAX_ATTEMPTS: Final = 20
_BACKOFF: Final = repeated_lookups(100, 1_000)
RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NO_LEADER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class StateItem:
    """The row of a request for one share-partition, on its way to another broker. ``settled`` gets
    the row of the response, or None if there is no response."""

    kind: type[Any]
    key: SharePartitionKey
    row: Any
    settled: asyncio.Future[Any]


def item_key(item: StateItem) -> Hashable:
    """Return the key that is unique within one request: the share-partition."""
    return item.key.where


def item_batch(item: StateItem) -> Hashable:
    """Return the key by which items are batched: the kind of request, and the group."""
    return item.kind, item.key.group_id


def items_request(items: Sequence[StateItem]) -> tuple[Message, int]:
    """Return the request for these items, and its version."""
    kind, group_id = items[0].kind, items[0].key.group_id
    request = request_of(kind, group_id, {item.key.where: item.row for item in items})
    return request, kind.SPEC.versions.last


def complete_items(items: Sequence[StateItem], response: StateResponse | None) -> None:
    rows = {} if response is None else rows_of(response)
    for item in items:
        if not item.settled.done():  # cancelled when the node stops
            item.settled.set_result(rows.get(item.key.where))


class ShareStatePersister:
    """Reaches the share coordinators of share-partitions (a ``SharePersister``).

    ``coordinator_of`` returns the broker that coordinates a share-partition, or None while none is
    known. ``serve`` is that of the share coordinator of this broker, ``put`` queues an item for
    another one. Requests with ``RETRIABLE`` errors are repeated after a back-off. Kafka:
    ``DefaultStatePersister``, ``PersisterStateManager``.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        broker_id: int,
        coordinator_of: Callable[[SharePartitionKey], int | None],
        serve: Callable[[StateRequest], Any],
        put: Callable[[int, StateItem], None],
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._broker_id = broker_id
        self._coordinator_of = coordinator_of
        self._serve = serve
        self._put = put

    async def initialize_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, InitialState]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        rows = {
            where: InitializePartition(where.partition, state.state_epoch, state.start_offset)
            for where, state in partitions.items()
        }
        return _errors(await self._request(InitializeShareGroupStateRequest, group_id, rows))

    async def read_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, StoredState]:
        rows = {where: ReadPartition(where.partition, epoch) for where, epoch in partitions.items()}
        found = await self._request(ReadShareGroupStateRequest, group_id, rows)
        return {
            where: StoredState(
                ErrorCode(row.error_code),
                row.state_epoch,
                row.start_offset,
                tuple(
                    StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                    for b in row.state_batches
                ),
            )
            for where, row in found.items()
        }

    async def write_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, StateUpdate]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        rows = {
            where: WritePartition(
                where.partition,
                update.state_epoch,
                update.leader_epoch,
                update.start_offset,
                update.delivery_complete_count,
                [StateBatchRow(*batch) for batch in update.batches],
            )
            for where, update in partitions.items()
        }
        return _errors(await self._request(WriteShareGroupStateRequest, group_id, rows))

    async def delete_state(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        rows = {where: DeletePartition(where.partition) for where in partitions}
        return _errors(await self._request(DeleteShareGroupStateRequest, group_id, rows))

    async def read_summary(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, StateSummary]:
        rows = {where: ReadPartition(where.partition, _NO_LEADER_EPOCH) for where in partitions}
        found = await self._request(ReadShareGroupStateSummaryRequest, group_id, rows)
        return {
            where: StateSummary(
                ErrorCode(row.error_code),
                row.state_epoch,
                row.leader_epoch,
                row.start_offset,
                row.delivery_complete_count,
            )
            for where, row in found.items()
        }

    # -- attempts

    async def _request(
        self, kind: type[Any], group_id: str, rows: Mapping[TopicIdPartition, Any]
    ) -> dict[TopicIdPartition, Any]:
        """Return the row of the response for each partition, after as many attempts as it takes, or
        ``MAX_ATTEMPTS``."""
        found: dict[TopicIdPartition, Any] = {}
        pending = rows
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await self._clock.sleep(_BACKOFF.delay_ms(attempt - 1, self._entropy.random()))
            found |= await self._attempt(kind, group_id, pending)
            pending = {
                where: row for where, row in pending.items() if found[where].error_code in RETRIABLE
            }
            if not pending:
                break
        return found

    async def _attempt(
        self, kind: type[Any], group_id: str, rows: Mapping[TopicIdPartition, Any]
    ) -> dict[TopicIdPartition, Any]:
        here: dict[TopicIdPartition, Any] = {}
        sent: dict[TopicIdPartition, asyncio.Future[Any] | None] = {}
        for where, row in rows.items():
            key = SharePartitionKey(group_id, where)
            broker_id = self._coordinator_of(key)
            if broker_id == self._broker_id:
                here[where] = row
            elif broker_id is None:
                sent[where] = None
            else:
                settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                sent[where] = settled
                self._put(broker_id, StateItem(kind, key, row, settled))
        found = rows_of(await self._serve(request_of(kind, group_id, here))) if here else {}
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for where, future in sent.items():
            row = None if future is None else await future
            if row is None:
                row_type = STATE_VERBS[kind].row
                row = row_type(where.partition, unavailable, MESSAGES[unavailable])
            found[where] = row
        return found


def _errors(rows: Mapping[TopicIdPartition, Any]) -> dict[TopicIdPartition, ErrorCode]:
    return {where: ErrorCode(row.error_code) for where, row in rows.items()}
