"""``Consumer.poll_arrow`` against a fake cluster: the records of ``poll``, as columns."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.client import Consumer  # noqa: E402
from minikafka.kernel.cluster import TopicPartition  # noqa: E402
from minikafka.kernel.errors import KafkaError  # noqa: E402
from minikafka.protocol.records.builder import build_batch  # noqa: E402
from tests.support.client.scenes import consuming, fill  # noqa: E402
from tests.support.world.client_world import jumping  # noqa: E402

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def rows(consumer: Consumer, count: int, **more: Any) -> list[tuple[int, int]]:
    """Partition and offset of the next records; their value is the offset, as ``fill`` makes it."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        table = await consumer.poll_arrow(10_000, **more)
        assert table.num_rows, found
        for row in table.to_pylist():
            assert row["value"] == b"%d" % row["offset"]
            assert row["timestamp"].timestamp() == row["offset"]
            assert row["topic"] == "t"
            found.append((row["partition"], row["offset"]))
    return found


@jumping
@pytest.mark.mission("ARW-1")
async def test_it_returns_the_columns_of_sparks_connector() -> None:
    async with consuming(value_deserializer=int) as (consumer, cluster):
        content: Any = [(5, b"k", None, [("h", b"x"), ("n", None)]), (7, None, b"v", [])]
        cluster.partitions[T1].append(build_batch(content))
        await consumer.assign_topics("t")
        table = await consumer.poll_arrow(10_000)
        assert table.schema.names == [
            "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
        ]  # fmt: skip
        first, second = table.drop_columns("timestamp").to_pylist()
        assert first == {
            "key": b"k", "value": None, "topic": "t", "partition": 1, "offset": 0,
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"x"}, {"key": "n", "value": None}],
        }  # fmt: skip
        assert (second["key"], second["value"], second["headers"]) == (None, b"v", None)
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [5_000, 7_000]
        assert await consumer.position(T1) == 2
        assert consumer.metrics()["records-consumed-total"] == 2
        empty = await consumer.poll_arrow(100)
        assert (empty.num_rows, empty.schema) == (0, table.schema)


@jumping
async def test_seek_pause_and_bounds_are_those_of_poll() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 5)
        fill(cluster, T1, 0, 2)
        consumer.assign([T0, T1])
        consumer.pause(T1)
        consumer.seek(T0, 3)
        assert await rows(consumer, 2, max_records=2) == [(0, 3), (0, 4)]
        assert await consumer.position(T0) == 5
        assert await rows(consumer, 1, max_bytes=1) == [(0, 5)]
        assert await rows(consumer, 4) == [(0, n) for n in range(6, 10)]
        consumer.resume(T1)
        assert await rows(consumer, 4) == [(1, n) for n in range(4)]


@jumping
async def test_poll_iteration_and_poll_arrow_may_take_turns() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 10)
        consumer.assign([T0])
        assert [record.offset for record in await consumer.poll(10_000, 3)] == [0, 1, 2]
        assert await rows(consumer, 2, max_records=2) == [(0, 3), (0, 4)]
        assert (await anext(consumer)).offset == 5
        assert (await anext(consumer)).offset == 6
        assert await rows(consumer, 13) == [(0, n) for n in range(7, 20)]


@jumping
async def test_a_damaged_batch_raises_after_the_records_before_it() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 2)
        bad = bytearray(cluster.partitions[T0].batches[-1])
        bad[-1] ^= 1
        cluster.partitions[T0].batches[-1] = bytes(bad)
        consumer.assign([T0])
        assert await rows(consumer, 2) == [(0, 0), (0, 1)]
        for _ in range(2):
            with pytest.raises(KafkaError, match="CRC"):
                await consumer.poll_arrow(10_000)
            assert await consumer.position(T0) == 2


@jumping
@pytest.mark.mission("ARW-8")
async def test_poll_many_returns_batches_whose_records_are_those_of_poll() -> None:
    async with consuming() as (consumer, cluster):
        content: Any = [(5, b"k", None, [("h", b"x")]), (7, None, b"v", []), (6, b"", b"", [])]
        cluster.partitions[T1].append(build_batch(content))
        cluster.partitions[T1].append(build_batch(content))
        consumer.assign([T1])
        plain = await consumer.poll(10_000)
        consumer.seek(T1, 1)
        first, second = await consumer.poll_many(10_000)
        assert (first.topic, first.partition, len(first), len(second)) == ("t", 1, 2, 3)
        assert [*first, *second] == plain[1:]
        assert (first[0], first[-1], second[1:]) == (plain[1], plain[2], plain[4:])
        assert (first.values, first.keys) == ([b"v", b""], [None, b""])
        assert (list(first.offsets), first.timestamps) == ([1, 2], [7, 6])
        assert await consumer.position(T1) == 6
        assert consumer.metrics()["records-consumed-total"] == 6 + 5
        assert await consumer.poll_many(100) == []
        consumer.seek(T1, 1)
        found = [len(batch) for _ in range(3) for batch in await consumer.poll_many(max_records=2)]
        assert found == [2, 2, 1]


@jumping
@pytest.mark.mission("ARW-1")
async def test_a_timestamp_beyond_the_range_of_the_column_loses_nothing() -> None:
    """The error comes when all records before it are returned; ``poll`` reads the record."""
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        cluster.partitions[T1].append(build_batch([(1_700_000_000_000_000_000, None, b"x", [])]))
        await consumer.assign_topics("t")
        assert await rows(consumer, 2) == [(0, 0), (0, 1)]
        for _ in range(2):
            with pytest.raises(KafkaError, match="INVALID_TIMESTAMP: t-1 at offset 0"):
                await consumer.poll_arrow(10_000)
        (record,) = await consumer.poll(10_000)
        assert record.value == b"x"
