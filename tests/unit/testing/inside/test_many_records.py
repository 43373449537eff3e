"""Arrow tables through brokers inside the process: what ``poll_arrow`` returns is what was sent."""

from __future__ import annotations

import random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.aio import Consumer, Producer  # noqa: E402
from minikafka.protocol.records.compression import Compression  # noqa: E402
from minikafka.testing import running  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def a_table(dice: random.Random, rows: int) -> Any:
    """Rows with nulls everywhere, keys that repeat and headers; each has a timestamp."""

    def content() -> bytes | None:
        return None if dice.random() < 0.2 else dice.randbytes(dice.choice((0, 3, 60, 64, 300)))

    def headers() -> list[dict[str, Any]] | None:
        if dice.random() < 0.7:
            return None
        return [{"key": f"h{n}", "value": content()} for n in range(dice.randrange(1, 3))]

    keys = [content() for _ in range(7)]
    return pa.table(
        {
            "key": pa.array([dice.choice(keys) for _ in range(rows)], pa.binary()),
            "value": pa.array([content() for _ in range(rows)], pa.binary()),
            "headers": pa.array([headers() for _ in range(rows)], HEADERS),
            "timestamp": pa.array([dice.randrange(1 << 41) for _ in range(rows)], "int64"),
        }
    )


def of_table(table: Any) -> list[tuple[Any, ...]]:
    return [
        (row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or ()],
         row["timestamp"])
        for row in table.to_pylist()
    ]  # fmt: skip


def settings_of(kafka: Any) -> dict[str, Any]:
    return dict(kafka.config("minikafka"))


async def both_ways(keys: dict[str, Any], topic: str) -> tuple[list[Any], list[Any]]:
    """Read the topic with ``poll``, and with ``poll_arrow``: partition, offset and content."""
    settings: dict[str, Any] = {**keys, "topics": [topic], "auto_offset_reset": "earliest"}
    settings["isolation_level"] = "read_committed"
    async with Consumer(**settings) as consumer:
        plain = [
            (r.partition, r.offset, (r.key, r.value, list(r.headers), r.timestamp))
            async for r in consumer.read_to()
        ]
        last = {tp: await consumer.position(tp) for tp in consumer.assignment}
    columns: list[Any] = []
    async with Consumer(**settings) as consumer:
        ends = await consumer.end_offsets()
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            table = await consumer.poll_arrow(max_records=97)
            milliseconds = table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            at = table.schema.get_field_index("timestamp")
            content = of_table(table.set_column(at, "timestamp", milliseconds))
            where = zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
            columns += [(*place, row) for place, row in zip(where, content, strict=True)]
        assert {tp: await consumer.position(tp) for tp in consumer.assignment} == last
    return sorted(plain), sorted(columns)


@pytest.mark.mission("ARW-6")
async def test_tables_of_committed_transactions_come_back_and_aborted_ones_do_not() -> None:
    async with running(brokers=1) as kafka:
        topic, keys = await kafka.aio.topic(partitions=3), settings_of(kafka)
        dice, expected = random.Random(5), []
        for codec in Compression:
            name = f"writer-{codec}"
            async with Producer(**keys, compression=codec, transactional_id=name) as producer:
                await producer.init_transactions()
                for aborted in (False, True, False):
                    table = a_table(dice, 150)
                    producer.begin_transaction()
                    await producer.send_arrow(topic, table)
                    if aborted:
                        await producer.flush()
                        await producer.abort_transaction()
                    else:
                        expected += of_table(table)
                        await producer.commit_transaction()
        plain, columns = await both_ways(keys, topic)
        assert columns == plain
        assert sorted(map(repr, expected)) == sorted(repr(row) for _, _, row in columns)


@pytest.mark.mission("ARW-7")
async def test_a_group_reads_tables_once_while_a_broker_dies() -> None:
    async with running(brokers=3) as kafka:
        topic, keys = await kafka.aio.topic(partitions=4, replicas=3), settings_of(kafka)
        settings: dict[str, Any] = {
            **keys,
            "topics": [topic],
            "group_id": "g",
            "auto_offset_reset": "earliest",
        }
        seen: list[bytes] = []
        async with Producer(**keys) as producer:
            for part in range(6):
                values = [b"%d" % n for n in range(part * 500, part * 500 + 500)]
                writing = await producer.send_arrow(topic, pa.table({"value": values}))
                if part == 2:
                    await kafka.aio.broker(await kafka.aio.leader(topic)).kill()
                await writing
                async with Consumer(**settings) as consumer:  # a new member continues at the commit
                    table = await consumer.poll_arrow(30_000, max_records=200)
                    seen += table["value"].to_pylist()
                    await consumer.commit()
        async with Consumer(**settings) as consumer:
            while len(seen) < 3_000:
                table = await consumer.poll_arrow(30_000)
                assert table.num_rows, f"{len(seen)} records"
                seen += table["value"].to_pylist()
        assert sorted(map(int, seen)) == list(range(3_000))
