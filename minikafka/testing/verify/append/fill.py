"""A producer that fills the topic of a workload."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from minikafka.client.session import ClusterSession
from minikafka.testing.verify.append.history import Written
from minikafka.testing.verify.append.writer import Writer, WriterConfig
from minikafka.testing.verify.workload import Scene


async def fill(
    scene: Scene, topic: str, written: Written, records_per_s: int, idempotent: bool = True
) -> None:
    """Write to all partitions until the run's load ends and each record is acknowledged or given
    up."""
    config = scene.config
    writer_config = WriterConfig(
        run=scene.run.encode(),
        topic=topic,
        records_per_s=records_per_s,
        value_bytes=config.value_bytes,
        idempotent=idempotent,
        request_timeout_ms=config.request_timeout_ms,
        delivery_timeout_ms=config.delivery_timeout_ms,
    )
    session = ClusterSession(scene.world, scene.client)
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
        session.start(tasks)
        stack.push_async_callback(session.close)
        writer = Writer(session, written, writer_config)
        await writer.run(config.partitions, scene.began_ms, scene.stop)


def ends_of_acknowledged(written: Written, partitions: int) -> dict[int, int]:
    """Return the offset after the last acknowledged record of each partition."""
    ends = dict.fromkeys(range(partitions), 0)
    for sent in written:
        ends[sent.partition] = max(ends[sent.partition], sent.offset + 1)
    return ends
