"""Producer ids, epochs and sequences (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import NOT_YET, Subject, Topic, pause

LAST_SEQUENCE = 2**31 - 1
KEPT_BATCHES = 5


class Producer:
    """An idempotent producer of one partition that keeps no count of its sequences."""

    def __init__(self, s: Subject, topic: Topic, producer_id: int, epoch: int = 0) -> None:
        self._s, self._topic = s, topic
        self.producer_id, self.epoch = producer_id, epoch

    async def send(self, sequence: int, count: int = 1, epoch: int | None = None) -> Any:
        return await self._s.try_produce(
            self._topic,
            *[b"v"] * count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )

    async def sent(self, *sequences: int) -> list[int]:
        """Send batches of one record, and return their offsets."""
        return [accepted(await self.send(each)).base_offset for each in sequences]


async def new_id(s: Subject) -> Any:
    request = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    while (response := await s.ask(ApiKey.INIT_PRODUCER_ID, **request)).error_code in NOT_YET:
        await pause()
    return accepted(response)


async def _producer(s: Subject) -> Producer:
    made = await new_id(s)
    return Producer(s, await s.topic(), made.producer_id, made.producer_epoch)


@check("KIP-98")
async def every_producer_gets_another_id(s: Subject) -> None:
    """The records of one producer would be dropped as duplicates of another one's."""
    made = [await new_id(s) for _ in range(3)]
    ids = {each.producer_id for each in made}
    expect("the number of different ids", len(ids), 3)
    expect_true(min(ids) >= 0, "an id is negative")
    expect("the epochs", {each.producer_epoch for each in made}, {0})


@check("KIP-98")
async def sequences_in_order_are_appended(s: Subject) -> None:
    """An idempotent producer could not write."""
    expect("the offsets", await (await _producer(s)).sent(0, 1, 2), [0, 1, 2])


@check("KIP-98")
async def a_batch_that_is_sent_again_is_stored_once(s: Subject) -> None:
    """A producer that has lost a response would write its records twice."""
    topic = await s.topic()
    producer = Producer(s, topic, (await new_id(s)).producer_id)
    expect("the offsets", await producer.sent(0, 1, 1, 1), [0, 1, 1, 1])
    expect("the log end", await s.end_offset(topic), 2)


@check("KIP-98, ProducerStateEntry.NUM_BATCHES_TO_RETAIN")
async def the_last_five_batches_are_known(s: Subject) -> None:
    """A producer with five requests in flight would fail after a lost connection."""
    producer = await _producer(s)
    sequences = list(range(KEPT_BATCHES))
    expect("the offsets", await producer.sent(*sequences, *sequences), sequences * 2)


@check("ProducerAppendInfo.checkSequence")
async def a_batch_before_the_last_five_is_refused(s: Subject) -> None:
    """An old batch would be appended behind newer ones."""
    producer = await _producer(s)
    await producer.sent(*range(KEPT_BATCHES + 1))
    found = (await producer.send(0)).error_code
    expect_error(found, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@check("KIP-98")
async def a_gap_is_refused(s: Subject) -> None:
    """A batch would overtake the one before it, which was lost."""
    producer = await _producer(s)
    await producer.sent(0)
    found = (await producer.send(2)).error_code
    expect_error(found, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


@check("KIP-98")
async def a_gap_that_was_refused_can_be_filled(s: Subject) -> None:
    """A producer could not go on after batches in flight arrived in a wrong order."""
    producer = await _producer(s)
    await producer.sent(0)
    await producer.send(2)
    expect("the offsets", await producer.sent(1, 2), [1, 2])


@check("KIP-98")
async def an_old_epoch_is_fenced(s: Subject) -> None:
    """A zombie would write beside the producer that replaced it."""
    producer = await _producer(s)
    accepted(await producer.send(0, epoch=1))
    found = (await producer.send(1, epoch=0)).error_code
    expect_error(found, ErrorCode.INVALID_PRODUCER_EPOCH)


@check("KIP-360")
async def a_new_epoch_begins_with_sequence_0(s: Subject) -> None:
    """Batches of a new epoch could be lost without a sign."""
    producer = await _producer(s)
    await producer.sent(0)
    found = (await producer.send(1, epoch=1)).error_code
    expect_error(found, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    accepted(await producer.send(0, epoch=1))


@check("DefaultRecordBatch.incrementSequence")
async def sequences_wrap_around(s: Subject) -> None:
    """A producer would fail after two billion records."""
    s.version(ApiKey.INIT_PRODUCER_ID, 3)  # KIP-360: a first sequence may be any
    producer = await _producer(s)
    expect("the offsets", await producer.sent(LAST_SEQUENCE, 0), [0, 1])


@check("KIP-360")
async def a_first_sequence_may_be_any(s: Subject) -> None:
    """A producer would fail when the broker has forgotten it, with its records expired."""
    s.version(ApiKey.INIT_PRODUCER_ID, 3)
    expect("the offsets", await (await _producer(s)).sent(7, 8), [0, 1])


@check("KIP-98")
async def producers_do_not_disturb_each_other(s: Subject) -> None:
    """Two producers could not write to one partition."""
    topic = await s.topic()
    first = Producer(s, topic, (await new_id(s)).producer_id)
    second = Producer(s, topic, (await new_id(s)).producer_id)
    found = [
        *await first.sent(0),
        *await second.sent(0),
        *await first.sent(1),
        *await second.sent(1),
    ]
    expect("the offsets", found, [0, 1, 2, 3])


@check("KIP-98")
async def a_duplicate_is_of_the_whole_batch(s: Subject) -> None:
    """A producer that packs its records into other batches would lose some or write some twice."""
    producer = await _producer(s)
    accepted(await producer.send(0, 3))
    found = (await producer.send(0, 2)).error_code
    expect_error(found, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@check("KIP-98, RecordBatch")
async def a_batch_keeps_producer_and_sequence(s: Subject) -> None:
    """A new leader would not know the producer, and append duplicates."""
    topic = await s.topic()
    made = await new_id(s)
    await Producer(s, topic, made.producer_id).sent(0, 1)
    found = [(b.producer_id, b.producer_epoch, b.base_sequence) for b in await s.batches(topic)]
    expect("producers and sequences", found, [(made.producer_id, 0, 0), (made.producer_id, 0, 1)])


@check("KIP-664")
async def the_state_of_producers_can_be_described(s: Subject) -> None:
    """An operator could not find a producer that holds a partition up."""
    s.version(ApiKey.DESCRIBE_PRODUCERS)
    topic = await s.topic()
    made = await new_id(s)
    await Producer(s, topic, made.producer_id).sent(0, 1)
    rows = [{"name": topic.name, "partition_indexes": [0]}]
    response = await s.ask(ApiKey.DESCRIBE_PRODUCERS, 0, await s.leader(topic), topics=rows)
    (state,) = accepted(response).topics[0].partitions[0].active_producers
    found = (state.producer_id, state.producer_epoch, state.last_sequence)
    expect("the state", found, (made.producer_id, 0, 1))
    expect("the start of its transaction", state.current_txn_start_offset, -1)
