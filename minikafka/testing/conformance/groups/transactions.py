"""Transactions (KIP-98): atomic visibility, fencing, and offsets within a transaction."""

from __future__ import annotations

from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import decode_batch
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.groups.offsets import NO_OFFSET, fetched
from minikafka.testing.conformance.subject import (
    NOT_YET,
    Subject,
    Topic,
    batches_in,
    expect_open,
    pause,
    values_in,
)

TRANSACTIONAL = 1  # the type of coordinator
READ_COMMITTED = 1
LATEST = -1
TIMEOUT_MS = 60_000
# Before clients that are told of TRANSACTION_ABORTABLE, and before KIP-890's second part.
VERSION_1 = {
    ApiKey.PRODUCE: (3, 11),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 3),
    ApiKey.TXN_OFFSET_COMMIT: (0, 3),
    ApiKey.END_TXN: (0, 3),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
}
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


class Transactional:
    """A producer with a transactional id, in the versions before KIP-890's second part."""

    def __init__(self, s: Subject) -> None:
        self.s = s
        self.transactional_id = s.name()
        self.producer_id = self.epoch = -1
        self._sequence = 0

    @classmethod
    async def of(cls, s: Subject) -> Transactional:
        for key, versions in VERSION_1.items():
            s.version(key, versions)
        producer = cls(s)
        await producer.begin()
        return producer

    async def begin(self, **fields: Any) -> Any:
        """Send InitProducerId, and take the producer id and the epoch over."""
        response = accepted(await self.try_begin(**fields))
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self._sequence = 0
        return response

    async def try_begin(self, **fields: Any) -> Any:
        request = {"transaction_timeout_ms": TIMEOUT_MS, **fields}
        request["transactional_id"] = self.transactional_id
        return await self.ask(ApiKey.INIT_PRODUCER_ID, **request)

    async def ask(self, key: ApiKey, **fields: Any) -> Any:
        of = self.transactional_id
        return await self.s.ask_coordinator(key, VERSION_1[key], of, TRANSACTIONAL, **fields)

    def identity(self, prefix: str = "") -> dict[str, Any]:
        return {
            f"{prefix}transactional_id": self.transactional_id,
            f"{prefix}producer_id": self.producer_id,
            f"{prefix}producer_epoch": self.epoch,
        }

    async def try_add(self, *topics: str) -> dict[str, int]:
        """Add partition 0 of each topic, again while the last transaction ends. Return the errors
        by topic."""
        prefix = "v3_and_below_"
        rows = [{"name": name, "partitions": [0]} for name in topics]
        while True:
            fields = {**self.identity(prefix), f"{prefix}topics": rows}
            response = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, **fields)
            found = {
                row.name: row.results_by_partition[0].partition_error_code
                for row in response.results_by_topic_v3_and_below
            }
            if not set(found.values()) & set(NOT_YET):
                return found
            await pause()

    async def try_write(self, topic: Topic, *values: bytes, **options: Any) -> Any:
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, **options}
        return await self.s.try_produce(
            topic,
            *values,
            versions=VERSION_1[ApiKey.PRODUCE],
            transactional_id=self.transactional_id,
            transactional=True,
            base_sequence=self._sequence,
            **fields,
        )

    async def write(self, topic: Topic, *values: bytes) -> int:
        """Add the partition and append the values. Return the base offset."""
        expect("the errors of AddPartitionsToTxn", await self.try_add(topic.name), {topic.name: 0})
        result = accepted(await self.try_write(topic, *values))
        self._sequence += len(values)
        return int(result.base_offset)

    async def try_end(self, committed: bool, **fields: Any) -> int:
        identity = {**self.identity(), **fields}
        response = await self.ask(ApiKey.END_TXN, committed=committed, **identity)
        return int(response.error_code)

    async def end(self, committed: bool, *topics: Topic) -> None:
        """End the transaction, and wait for the markers in the topics."""
        expect_error(await self.try_end(committed), ErrorCode.NONE)
        for topic in topics:
            await until_stable(self.s, topic)


async def until_stable(s: Subject, topic: Topic) -> None:
    """Wait until no transaction holds the last stable offset."""
    while (partition := await read(s, topic)).last_stable_offset < partition.high_watermark:
        await pause()


async def read(s: Subject, topic: Topic, isolation_level: int = READ_COMMITTED) -> Any:
    return accepted(await s.fetch(topic, isolation_level=isolation_level))


@check("KIP-98")
async def a_transactional_id_keeps_its_producer_id(s: Subject) -> None:
    """The predecessor of a producer could not be fenced."""
    producer = await Transactional.of(s)
    first = (producer.producer_id, producer.epoch)
    await producer.begin()
    expect(
        "the second id and epoch", (producer.producer_id, producer.epoch), (first[0], first[1] + 1)
    )


@check("transaction.max.timeout.ms")
async def a_time_out_has_limits(s: Subject) -> None:
    """A dead producer could hold up all consumers of committed records for days."""
    producer = await Transactional.of(s)
    for timeout_ms in (2**31 - 1, 0):
        response = await producer.try_begin(transaction_timeout_ms=timeout_ms)
        expect_error(response.error_code, ErrorCode.INVALID_TRANSACTION_TIMEOUT)


@check("TransactionCoordinator.handleInitProducerId")
async def an_empty_transactional_id_is_refused(s: Subject) -> None:
    """All producers without an id would fence each other."""
    producer = await Transactional.of(s)
    request = {"transaction_timeout_ms": TIMEOUT_MS, "transactional_id": ""}
    at = await s.coordinator(producer.transactional_id, TRANSACTIONAL)
    response = await s.ask(ApiKey.INIT_PRODUCER_ID, 0, at, **request)
    expect_error(response.error_code, ErrorCode.INVALID_REQUEST)


@check("KIP-98")
async def records_of_an_open_transaction_are_not_committed(s: Subject) -> None:
    """A consumer would process records that are rolled back later."""
    producer, topic = await Transactional.of(s), await s.topic()
    await s.produce(topic, b"before")
    await producer.write(topic, b"in")
    await s.produce(topic, b"behind")
    partition = await read(s, topic)
    expect("the values", values_in(batches_in(partition)), [b"before"])
    expect("the last stable offset", partition.last_stable_offset, 1)
    expect("the high watermark", partition.high_watermark, 3)
    await producer.end(False, topic)


@check("KIP-98")
async def all_records_can_be_read_uncommitted(s: Subject) -> None:
    """A consumer with isolation.level read_uncommitted would be held up by transactions."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    partition = await read(s, topic, 0)
    expect("the values", values_in(batches_in(partition)), [b"in"])
    await producer.end(False, topic)


@check("KIP-98")
async def committed_records_become_visible(s: Subject) -> None:
    """A consumer would never see the records of a transaction."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"1", b"2")
    await producer.end(True, topic)
    partition = await read(s, topic)
    expect("the values", values_in(batches_in(partition)), [b"1", b"2"])
    expect("the aborted transactions", list(partition.aborted_transactions or []), [])


@check("KIP-98")
async def an_aborted_transaction_is_named(s: Subject) -> None:
    """A consumer of committed records would deliver aborted ones."""
    producer, topic = await Transactional.of(s), await s.topic()
    await s.produce(topic, b"before")
    await producer.write(topic, b"in")
    await producer.end(False, topic)
    partition = await read(s, topic)
    found = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions]
    expect("the aborted transactions", found, [(producer.producer_id, 1)])


@check("FetchResponse.abortedTransactions")
async def aborted_transactions_are_for_committed_reads_only(s: Subject) -> None:
    """A consumer of all records would leave some out."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    await producer.end(False, topic)
    partition = await read(s, topic, 0)
    expect("the aborted transactions", list(partition.aborted_transactions or []), [])


async def _marker(s: Subject, committed: bool) -> None:
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    await producer.end(committed, topic)
    batch = (await s.batches(topic))[-1]
    expect("the end of the log", batch.next_offset, 2)
    expect_true(batch.is_control and batch.is_transactional, "the last batch is no marker")
    found = (batch.producer_id, batch.producer_epoch)
    expect("its producer", found, (producer.producer_id, producer.epoch))
    (record,) = decode_batch(batch)
    marker = decode_end_txn_marker(record)
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    expect_true(marker is not None and marker.type == kind, "the marker has another type")


@check("KIP-98, EndTransactionMarker")
async def a_commit_is_a_marker_in_the_log(s: Subject) -> None:
    """A consumer could not tell where the transaction ends."""
    await _marker(s, True)


@check("KIP-98, EndTransactionMarker")
async def an_abort_is_a_marker_in_the_log(s: Subject) -> None:
    """A consumer could not tell where an aborted transaction ends, and would drop later records."""
    await _marker(s, False)


@check("KIP-98, ListOffsetsRequest")
async def the_latest_committed_offset_is_the_last_stable_one(s: Subject) -> None:
    """A consumer that begins at the end would skip the records of an open transaction."""
    s.version(ApiKey.LIST_OFFSETS, 2)
    producer, topic = await Transactional.of(s), await s.topic()
    await s.produce(topic, b"before")
    await producer.write(topic, b"in")
    found = [
        (await s.list_offset(topic, LATEST, 2, isolation_level=level)).offset for level in (0, 1)
    ]
    expect("the offsets uncommitted and committed", found, [2, 1])
    await producer.end(False, topic)


@check("KIP-98")
async def several_partitions_are_committed_together(s: Subject) -> None:
    """A reader of two topics would see half of a transaction."""
    producer, first, second = await Transactional.of(s), await s.topic(), await s.topic()
    await producer.write(first, b"1")
    producer._sequence = 0
    await producer.write(second, b"2")
    await producer.end(True, first, second)
    for topic, value in ((first, b"1"), (second, b"2")):
        expect("the values", values_in(batches_in(await read(s, topic))), [value])


@check("KIP-98")
async def an_old_epoch_cannot_end_a_transaction(s: Subject) -> None:
    """A zombie would commit the records of its successor."""
    producer, topic = await Transactional.of(s), await s.topic()
    old = producer.epoch
    await producer.begin()
    await producer.write(topic, b"in")
    expect_error(await producer.try_end(True, producer_epoch=old), *FENCED)
    await producer.end(False, topic)


@check("KIP-98, ProducerAppendInfo.checkProducerEpoch")
async def an_old_epoch_cannot_write(s: Subject) -> None:
    """A zombie would write into the transaction of its successor."""
    producer, topic = await Transactional.of(s), await s.topic()
    old = producer.epoch
    await producer.begin()
    await producer.write(topic, b"in")
    result = await producer.try_write(topic, b"old", producer_epoch=old)
    expect_error(result.error_code, *FENCED)
    await producer.end(False, topic)


@check("KIP-98")
async def a_new_producer_aborts_what_its_predecessor_left(s: Subject) -> None:
    """Consumers of committed records would be stuck after a crash of the producer."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"left")
    await producer.begin()
    await until_stable(s, topic)
    partition = await read(s, topic)
    found = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions]
    expect("the aborted transactions", found, [(producer.producer_id, 0)])


@check("KIP-360")
async def a_producer_raises_its_own_epoch(s: Subject) -> None:
    """A producer could not recover from an error without a new transactional id."""
    s.version(ApiKey.INIT_PRODUCER_ID, (3, 4))
    producer = await Transactional.of(s)
    before = producer.epoch
    await producer.begin(producer_id=producer.producer_id, producer_epoch=before)
    expect_true(producer.epoch > before, f"the epoch is {producer.epoch}")


@check("KIP-360")
async def a_zombie_cannot_raise_its_epoch(s: Subject) -> None:
    """Two producers with one transactional id would fence each other in turn."""
    s.version(ApiKey.INIT_PRODUCER_ID, (3, 4))
    producer = await Transactional.of(s)
    old = producer.epoch
    await producer.begin()
    await producer.begin()
    response = await producer.try_begin(producer_id=producer.producer_id, producer_epoch=old)
    expect_error(response.error_code, *FENCED)


@check("TransactionMetadata")
async def nothing_can_be_ended_before_it_began(s: Subject) -> None:
    """A producer with a fault would believe that it has committed something."""
    producer = await Transactional.of(s)
    expect_error(await producer.try_end(True), ErrorCode.INVALID_TXN_STATE)


@check("TransactionMetadata")
async def a_commit_can_be_repeated(s: Subject) -> None:
    """A producer that has lost the response would not know how its transaction ended."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    await producer.end(True, topic)
    expect_error(await producer.try_end(True), ErrorCode.NONE)


@check("TransactionMetadata")
async def a_commit_cannot_be_aborted(s: Subject) -> None:
    """A producer would believe that records are rolled back which consumers have seen."""
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    await producer.end(True, topic)
    expect_error(await producer.try_end(False), ErrorCode.INVALID_TXN_STATE)


@check("TransactionCoordinator")
async def an_unknown_transactional_id_is_refused(s: Subject) -> None:
    """A producer whose id has expired would believe that it has committed."""
    producer = await Transactional.of(s)
    other = Transactional(s)
    other.producer_id, other.epoch = producer.producer_id, producer.epoch
    expect_error(await other.try_end(True), ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@check("TransactionCoordinator")
async def a_foreign_producer_id_is_refused(s: Subject) -> None:
    """A producer would end the transaction of another one."""
    producer = await Transactional.of(s)
    found = await producer.try_end(True, producer_id=producer.producer_id + 1000)
    expect_error(found, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@check("KafkaApis.handleAddPartitionsToTxnRequest")
async def one_unknown_topic_adds_none(s: Subject) -> None:
    """A producer would not know which partitions are in its transaction."""
    producer, topic, unknown = await Transactional.of(s), await s.topic(), s.name()
    found = await producer.try_add(topic.name, unknown)
    expected = {
        topic.name: ErrorCode.OPERATION_NOT_ATTEMPTED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    expect("the errors", found, expected)


@check("KIP-890")
async def a_partition_that_was_not_added_takes_no_records(s: Subject) -> None:
    """A late batch would begin a transaction that nobody ends, and hold up all consumers."""
    s.version(ApiKey.INIT_PRODUCER_ID, 5)
    producer, topic = await Transactional.of(s), await s.topic()
    result = await producer.try_write(topic, b"late")
    expected = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
    expect_error(result.error_code, *expected)


async def _commit_offset(producer: Transactional, topic: Topic, group: str, offset: int) -> int:
    """Commit an offset within the transaction, and return the error."""
    s = producer.s
    response = await producer.ask(ApiKey.ADD_OFFSETS_TO_TXN, **producer.identity(), group_id=group)
    expect_error(response.error_code, ErrorCode.NONE)
    row = {"partition_index": 0, "committed_offset": offset}
    versions = VERSION_1[ApiKey.TXN_OFFSET_COMMIT]
    fields = {"group_id": group, "topics": [{"name": topic.name, "partitions": [row]}]}
    while True:
        response = await s.ask_coordinator(
            ApiKey.TXN_OFFSET_COMMIT, versions, group, **producer.identity(), **fields
        )
        code = int(response.topics[0].partitions[0].error_code)
        if code not in NOT_YET:
            return code
        await pause()


@check("KIP-98, TxnOffsetCommit")
async def offsets_of_an_open_transaction_are_not_committed(s: Subject) -> None:
    """A consumer would begin behind records whose results are rolled back."""
    producer, topic, group = await Transactional.of(s), await s.topic(), s.group()
    expect_error(await _commit_offset(producer, topic, group, 7), ErrorCode.NONE)
    expect("the offset", (await fetched(s, group, topic)).committed_offset, NO_OFFSET)
    await producer.end(False)


@check("KIP-98, TxnOffsetCommit")
async def a_commit_commits_its_offsets(s: Subject) -> None:
    """A stream processor would process its input twice."""
    producer, topic, group = await Transactional.of(s), await s.topic(), s.group()
    expect_error(await _commit_offset(producer, topic, group, 7), ErrorCode.NONE)
    await producer.end(True)
    while (row := await fetched(s, group, topic)).committed_offset == NO_OFFSET:
        await pause()
    expect("the offset", row.committed_offset, 7)


@check("KIP-447")
async def pending_offsets_can_be_waited_for(s: Subject) -> None:
    """A stream processor that takes a partition over would process records twice."""
    s.version(ApiKey.OFFSET_FETCH, 7)
    producer, topic, group = await Transactional.of(s), await s.topic(), s.group()
    expect_error(await _commit_offset(producer, topic, group, 7), ErrorCode.NONE)
    row = await fetched(s, group, topic, require_stable=True)
    expect_error(row.error_code, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    await producer.end(False)
    while (row := await fetched(s, group, topic, require_stable=True)).error_code:
        expect_error(row.error_code, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await pause()
    expect("the offset after the abort", row.committed_offset, NO_OFFSET)


@check("KIP-447")
async def a_wrong_generation_cannot_commit_in_a_transaction(s: Subject) -> None:
    """A stream processor that lost its partitions would commit for their new owner."""
    s.version(ApiKey.TXN_OFFSET_COMMIT, (3, 3))
    producer, topic, group = await Transactional.of(s), await s.topic(), s.group()
    accepted(await producer.ask(ApiKey.ADD_OFFSETS_TO_TXN, **producer.identity(), group_id=group))
    row = {"partition_index": 0, "committed_offset": 1}
    fields = {"generation_id": 5, "member_id": "nobody"}
    response = await s.ask_coordinator(
        ApiKey.TXN_OFFSET_COMMIT, (3, 3), group, **producer.identity(), **fields, group_id=group,
        topics=[{"name": topic.name, "partitions": [row]}],
    )  # fmt: skip
    found = response.topics[0].partitions[0].error_code
    expect_error(found, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
    await producer.end(False)


async def _described(producer: Transactional) -> Any:
    of = producer.transactional_id
    response = await producer.s.ask_coordinator(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, of, TRANSACTIONAL, transactional_ids=[of]
    )
    return response.transaction_states[0]


@check("KIP-664")
async def a_transaction_can_be_described(s: Subject) -> None:
    """An operator could not find a transaction that holds consumers up."""
    s.version(ApiKey.DESCRIBE_TRANSACTIONS)
    producer, topic = await Transactional.of(s), await s.topic()
    await producer.write(topic, b"in")
    found = accepted(await _described(producer))
    expect("the state", found.transaction_state, "Ongoing")
    state = (found.producer_id, found.producer_epoch, found.transaction_timeout_ms)
    expect("producer and time-out", state, (producer.producer_id, producer.epoch, TIMEOUT_MS))
    partitions = [(each.topic, each.partitions) for each in found.topics]
    expect("its partitions", partitions, [(topic.name, [0])])
    await producer.end(False, topic)


@check("KIP-664")
async def an_unknown_transactional_id_cannot_be_described(s: Subject) -> None:
    """An operator would not notice a misspelled id."""
    producer = Transactional(s)
    found = await _described(producer)
    expect_error(found.error_code, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


@check("KIP-664")
async def transactions_are_listed(s: Subject) -> None:
    """An operator could not find the producers of a cluster."""
    s.version(ApiKey.LIST_TRANSACTIONS)
    producer = await Transactional.of(s)
    at = await s.coordinator(producer.transactional_id, TRANSACTIONAL)
    response = accepted(await s.ask(ApiKey.LIST_TRANSACTIONS, 0, at))
    found = {each.transactional_id: each.producer_id for each in response.transaction_states}
    expect("the producer id", found.get(producer.transactional_id), producer.producer_id)


async def _version_2(s: Subject) -> tuple[Transactional, Topic]:
    s.version(ApiKey.PRODUCE, 12)
    s.version(ApiKey.END_TXN, 5)
    expect_open(s.cluster.features.get("transaction.version", 0) >= 2, "transaction.version 2")
    return await Transactional.of(s), await s.topic()


@check("KIP-890, transaction.version 2")
async def a_batch_adds_its_partition_itself(s: Subject) -> None:
    """A producer of Kafka 4 could not write in a transaction."""
    producer, topic = await _version_2(s)
    result = await s.try_produce(
        topic, b"in", versions=12, transactional_id=producer.transactional_id, transactional=True,
        producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0,
    )  # fmt: skip
    accepted(result)
    expect("the last stable offset", (await read(s, topic)).last_stable_offset, 0)
    await producer.end(False)


@check("KIP-890, transaction.version 2")
async def the_end_of_a_transaction_raises_the_epoch(s: Subject) -> None:
    """A late batch of one transaction could get into the next one."""
    producer, topic = await _version_2(s)
    await producer.write(topic, b"in")
    at = await s.coordinator(producer.transactional_id, TRANSACTIONAL)
    response = accepted(await s.ask(ApiKey.END_TXN, 5, at, **producer.identity(), committed=True))
    expected = (producer.producer_id, producer.epoch + 1)
    expect("producer id and epoch", (response.producer_id, response.producer_epoch), expected)
