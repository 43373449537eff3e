"""The order in which the records of Produce requests are appended (``handleProduceAppend``).

In Kafka a connection is muted while its request waits for the transaction coordinator, and a thread
is busy while it validates records. Here the next requests may arrive in the meantime. No append
overtakes an earlier one of the same connection or of the same producer id: an append that cannot
take place at once is parked, and so are those behind it. A parked append has one of these states:

    state                    the append waits for                            next state
    PREPARING_AND_VERIFYING  a worker and the coordinator                    VERIFYING or PREPARING
    PREPARING                a worker, which validates its records           IN_LINE
    VERIFYING                the coordinator, which verifies its partitions  IN_LINE
    IN_LINE                  earlier appends that share a key with it        APPENDED
    APPENDED                 nothing: it has left the queues of its keys
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Final

from minikafka.core.arrival_order import ArrivalOrder
from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import is_transactional, producer_of
from minikafka.server.broker.replication.record_appends import (
    ACKS_NONE,
    AppendReply,
    AppendResult,
    Entries,
    RecordAppends,
)
from minikafka.server.broker.replication.record_preparation import RecordPreparation
from minikafka.server.broker.replication.transaction_verification import (
    Refusals,
    TransactionSupport,
    TransactionVerification,
    refusal_of_producer,
)


class AppendState(Enum):
    """The state of a parked append, see the table above."""

    PREPARING_AND_VERIFYING = "preparing and verifying"
    PREPARING = "preparing"
    VERIFYING = "verifying"
    IN_LINE = "in line"
    APPENDED = "appended"


_BOTH: Final = AppendState.PREPARING_AND_VERIFYING
_PREPARING: Final = AppendState.PREPARING
_VERIFYING: Final = AppendState.VERIFYING
_IN_LINE: Final = AppendState.IN_LINE

# The first state, by whether a worker prepares the records and the coordinator verifies them.
_FIRST: Final = {
    (True, True): _BOTH,
    (True, False): _PREPARING,
    (False, True): _VERIFYING,
    (False, False): _IN_LINE,
}
_WHEN_PREPARED: Final = {_BOTH: _VERIFYING, _PREPARING: _IN_LINE}
_WHEN_VERIFIED: Final = {_BOTH: _PREPARING, _VERIFYING: _IN_LINE}


class ParkedAppend:
    """The append of a Produce request that waits."""

    __slots__ = ("acks", "entries", "keys", "reply", "state", "timeout_ms")

    def __init__(
        self,
        keys: Sequence[Hashable],
        state: AppendState,
        entries: Entries,
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        self.keys = keys
        self.state = state
        self.entries = entries
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.reply = reply


class AppendOrder:
    """Appends the records of Produce requests in the order of their arrival.

    ``connection`` identifies a connection; None stands for a connection without other requests."""

    def __init__(
        self,
        appends: RecordAppends,
        preparation: RecordPreparation,
        verification: TransactionVerification,
    ) -> None:
        self._appends = appends
        self._preparation = preparation
        self._verification = verification
        # Bound: queued_max_requests of each connection.
        self._parked: ArrivalOrder[ParkedAppend] = ArrivalOrder()

    def append(
        self,
        connection: Hashable,
        entries: Entries,
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """Append records without a transaction, and reply as ``RecordAppends.append`` does."""
        is_prepared = self._preparation.prepare(entries)
        keys = (connection,)
        if is_prepared and not self._parked.is_busy(keys):
            self._appends.append(AppendOrigin.CLIENT, entries, acks, timeout_ms, reply)
            return
        state = _FIRST[not is_prepared, False]
        self._park(ParkedAppend(keys, state, entries, acks, timeout_ms, reply))

    def append_in_transaction(
        self,
        connection: Hashable,
        transactional_id: str,
        entries: Entries,
        acks: int,
        timeout_ms: int,
        support: TransactionSupport,
        reply: AppendReply,
    ) -> None:
        """Append batches of a transaction, after its coordinator has verified that their partitions
        belong to it, or has added them, and reply as ``RecordAppends.append`` does.

        Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) for batches of more than one producer."""
        producer, batches = _producer_of(entries)
        keys: tuple[Hashable, ...] = (producer.producer_id, connection)
        if connection is None:
            keys = keys[:1]
        guards = self._verification.begin(producer, batches, support)
        if guards is not None:
            for entry in entries:
                entry.guard = guards.get(entry.topic_partition)
        is_prepared = self._preparation.prepare(entries)
        if is_prepared and not guards and not self._parked.is_busy(keys):
            self._appends.append(AppendOrigin.CLIENT, entries, acks, timeout_ms, reply)
            return
        state = _FIRST[not is_prepared, bool(guards)]
        append = ParkedAppend(keys, state, entries, acks, timeout_ms, reply)
        self._park(append)
        if guards:
            verified = partial(self._verified, append, support)
            self._verification.verify_append(transactional_id, producer, guards, support, verified)

    async def wait_for_earlier(self, connection: Hashable) -> None:
        """Wait until all requests of the connection so far are appended."""
        keys = (connection,)
        if self._parked.is_busy(keys):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._park(ParkedAppend(keys, _IN_LINE, (), ACKS_NONE, 0, partial(_end_wait, turn)))
            await turn

    def _park(self, append: ParkedAppend) -> None:
        for entry in append.entries:
            entry.keep_records()
        self._parked.enter(append, append.keys)
        if append.state in _WHEN_PREPARED:
            self._preparation.prepare_by_worker(append.entries, partial(self._prepared, append))

    def _prepared(self, append: ParkedAppend) -> None:
        append.state = _WHEN_PREPARED[append.state]
        self._proceed(append)

    def _verified(
        self, append: ParkedAppend, support: TransactionSupport, refusals: Refusals
    ) -> None:
        for entry in append.entries:
            error = refusals.get(entry.topic_partition)
            if error is not None:
                entry.refused = AppendResult(
                    entry.topic_partition,
                    refusal_of_producer(error, support),
                    error_message=f"not verified to be part of the transaction: {error.name}",
                )
        append.state = _WHEN_VERIFIED[append.state]
        self._proceed(append)

    def _proceed(self, first: ParkedAppend) -> None:
        """Append the records of a request if it is its turn, and those that waited only for it."""
        candidates = deque([first])
        while candidates:
            append = candidates.popleft()
            if append.state is _IN_LINE and self._parked.may_go(append, append.keys):
                candidates.extend(self._parked.leave(append, append.keys))
                append.state = AppendState.APPENDED
                self._appends.append(
                    AppendOrigin.CLIENT,
                    append.entries,
                    append.acks,
                    append.timeout_ms,
                    append.reply,
                )


def _end_wait(turn: asyncio.Future[None], _: Sequence[AppendResult]) -> None:
    if not turn.done():  # cancelled when the node stops
        turn.set_result(None)


def more_than_one_producer() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one producer")


def _producer_of(
    entries: Entries,
) -> tuple[ProducerIdAndEpoch, Iterable[tuple[TopicPartition, int]]]:
    """Return the producer of the transactional batches, and (partition, base sequence) of each.
    Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) if there is not exactly one producer."""
    producers: set[ProducerIdAndEpoch] = set()
    batches: list[tuple[TopicPartition, int]] = []
    for entry in entries:
        if is_transactional(entry.records):
            producer, sequence = producer_of(entry.records)
            producers.add(producer)
            batches.append((entry.topic_partition, sequence))
    if len(producers) != 1:
        raise more_than_one_producer()
    return producers.pop(), batches
