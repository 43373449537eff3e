"""Raw request and response frames of a simulated broker, without the codec under test."""

from __future__ import annotations

import asyncio
import struct

from minikafka.testing.simulator.cluster import CLIENT, PORT, SimCluster, host_name
from tests.support.network.wire_end import WireEnd


async def exchange(
    cluster: SimCluster, broker_id: int, frame: bytes, host: str = CLIENT
) -> bytes | None:
    """The response to ``frame`` (both without their size) on a new connection from ``host``; None
    if the broker closes the connection instead."""
    network = cluster.simulation.host(host).world.network
    transport, end = await network.connect(WireEnd, host_name(broker_id), PORT)
    assert isinstance(end, WireEnd)
    transport.write(struct.pack(">i", len(frame)) + frame)
    reading = asyncio.ensure_future(_frame(end))
    losing = asyncio.ensure_future(end.lost())
    await asyncio.wait([reading, losing], return_when=asyncio.FIRST_COMPLETED)
    losing.cancel()
    transport.close()
    if reading.done():
        return reading.result()
    reading.cancel()
    return None


async def _frame(end: WireEnd) -> bytes:
    (size,) = struct.unpack(">i", (await end.received(4))[:4])
    return (await end.received(4 + size))[4 : 4 + size]
