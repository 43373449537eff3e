"""``Producer.send_many`` and ``send_arrow`` against a fake cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.client.producer.producer import RecordsMetadata  # noqa: E402
from minikafka.core.client.producer.partitioner import partition_for_key  # noqa: E402
from minikafka.kernel.cluster import TopicPartition  # noqa: E402
from minikafka.kernel.errors import ErrorCode, KafkaError  # noqa: E402
from minikafka.protocol.api_keys import ApiKey  # noqa: E402
from tests.support.client.failures import failure_code  # noqa: E402
from tests.support.client.fake_cluster import HANG_UP, FakeCluster  # noqa: E402
from tests.support.client.scenes import producing  # noqa: E402
from tests.support.world.client_world import jumping  # noqa: E402

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def everything(cluster: FakeCluster) -> list[tuple[int, Any]]:
    return sorted(
        (tp.partition, (record.key, record.value))
        for tp, partition in cluster.partitions.items()
        for record in partition.records()
    )


@jumping
@pytest.mark.mission("ARW-3")
async def test_send_many_writes_in_order_and_says_where() -> None:
    async with producing(linger_ms=60_000) as (producer, cluster):
        values = [b"%d" % n for n in range(50)]
        future = await producer.send_many("t", values, partition=1, timestamp_ms=7)
        assert await future == [RecordsMetadata("t", 1, 0, 50)]
        later = await producer.send("t", b"after", partition=1)
        assert await (await producer.send_many("t", [b"x", None], [None, b"k"], partition=1)) == [
            RecordsMetadata("t", 1, 51, 2)
        ]
        assert (await later).offset == 50  # a run closes the batch before it
        records = cluster.partitions[T1].records()
        assert [record.value for record in records] == [*values, b"after", b"x", None]
        assert {record.timestamp for record in records[:50]} == {7}
        assert records[-1].key == b"k"
        assert producer.metrics()["record-send-total"] == 53


@jumping
@pytest.mark.mission("ARW-4")
async def test_keys_go_where_send_puts_them() -> None:
    keys = [b"key-%d" % n for n in range(40)]
    expected = sorted((partition_for_key(key, 5), (key, b"v")) for key in keys)
    async with producing(partitions=5) as (producer, cluster):
        await (await producer.send_many("t", [b"v"] * 40, keys))
        assert everything(cluster) == expected
    async with producing(partitions=5) as (producer, cluster):
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": ["v"] * 40})
        written = await (await producer.send_arrow("t", table))
        assert everything(cluster) == expected
        assert sum(each.record_count for each in written) == 40


@pytest.mark.parametrize("partitioner", ["round_robin", lambda topic, key, value, n, free: 1])
@jumping
async def test_other_partitioners_choose_for_each_record(partitioner: Any) -> None:
    async with producing(partitioner=partitioner) as (producer, cluster):
        await (await producer.send_many("t", [b"v"] * 4))
        await (await producer.send_arrow("t", pa.table({"value": [b"v"] * 4})))
        counts = [len(cluster.values(tp)) for tp in (T0, T1)]
        assert counts == ([4, 4] if partitioner == "round_robin" else [0, 8])


@jumping
@pytest.mark.mission("ARW-4")
async def test_columns_of_a_table_become_fields_of_records() -> None:
    table = pa.table(
        {
            "key": pa.array([b"k", None, b""], pa.binary()),
            "value": pa.array(["text", None, ""], pa.large_string()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], None, []], HEADERS),
            "partition": pa.array([1, 1, 1], pa.int64()),
            "timestamp": pa.array([3_000_500, None, 1_000], pa.timestamp("us", tz="UTC")),
            "offset": pa.array([9, 9, 9]),
        }
    )
    async with producing() as (producer, cluster):
        await (await producer.send_arrow("t", table.to_batches()[0]))
        first, second, third = cluster.partitions[T1].records()
        assert first[1:] == (3_000, b"k", b"text", [("h", b"x")])
        assert (second.key, second.value, list(second.headers)) == (None, None, [])
        assert second.timestamp > 1_600_000_000_000
        assert third[1:4] == (1, b"", b"")


@jumping
@pytest.mark.mission("ARW-5")
async def test_errors_are_those_of_send() -> None:
    async with producing(max_request_size=1_000, max_block_ms=500) as (producer, cluster):
        for call in (
            producer.send_many("t", [b"small", b"x" * 1_000]),
            producer.send_arrow("t", pa.table({"value": [b"small", b"x" * 1_000]})),
        ):
            assert await failure_code(call) is ErrorCode.MESSAGE_TOO_LARGE
        assert everything(cluster) == []
        assert await failure_code(producer.send_many("t", [b""], partition=7)) is (
            ErrorCode.REQUEST_TIMED_OUT
        )
        far = pa.array([1 << 60], pa.timestamp("s"))  # more milliseconds than 64 bits hold
        for wrong in (
            {"key": [b"k"]},
            {"value": [1.5]},
            {"value": [b""], "partition": [-1]},
            {"value": [b""], "timestamp": far},
        ):
            with pytest.raises(ValueError, match=r"value|partition|column timestamp must be"):
                await producer.send_arrow("t", pa.table(wrong))
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            await producer.send_many("t", [b"", b""], [b"k"])
        with pytest.raises(TypeError):
            await producer.send_many("t", ["text"])
        cluster.fail(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        future = await producer.send_many("t", [b"v"], partition=0)
        with pytest.raises(KafkaError):
            await future
        assert await (await producer.send_many("t", [])) == []


@jumping
@pytest.mark.mission("ARW-5")
async def test_a_full_buffer_holds_the_caller_back_and_retries_double_nothing() -> None:
    async with producing(
        partitions=1, buffer_memory=4_000, batch_size=100, max_request_size=1_000
    ) as (producer, cluster):
        await producer.send_and_wait("t", b"first")
        cluster.freeze(1)
        call = asyncio.ensure_future(
            producer.send_arrow("t", pa.table({"value": [b"%04d" % n for n in range(2_000)]}))
        )
        await asyncio.sleep(1)
        assert not call.done()
        assert producer.metrics()["buffer-available-bytes"] < 1_000
        cluster.fail(ApiKey.PRODUCE, HANG_UP, ErrorCode.NOT_ENOUGH_REPLICAS)
        cluster.frozen.clear()
        cluster.stop_broker(1)
        await cluster.start_broker(1)
        written = await (await call)
        assert cluster.values(T0) == [b"first", *(b"%04d" % n for n in range(2_000))]
        assert sum(each.record_count for each in written) == 2_000
        assert written[0].base_offset == 1


@jumping
async def test_a_batch_that_the_broker_finds_too_large_is_halved() -> None:
    async with producing(partitions=1) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.MESSAGE_TOO_LARGE] * 3)
        values: list[bytes | None] = [b"%d" % n for n in range(11)]
        written = await (await producer.send_many("t", values, partition=0))
        assert cluster.values(T0) == values
        assert sum(each.record_count for each in written) == 11
        assert len(written) > 2
