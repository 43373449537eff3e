"""How long one connection is served before others are."""

from __future__ import annotations

import pytest

from minikafka.server.listeners.server_connection import (
    FRAMES_AT_ONCE,
    SERVED_AT_ONCE_NS,
    ServerConnection,
)
from tests.support.network.network_lab import Lab, framed

SERVED_AT_ONCE_MS = SERVED_AT_ONCE_NS // 1_000_000


@pytest.mark.mission("SAFE-77")
@pytest.mark.parametrize("slow_ms", [0, 1, SERVED_AT_ONCE_MS])
async def test_pipelined_requests_let_other_connections_be_served(lab: Lab, slow_ms: int) -> None:
    served: list[bytes] = []

    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        served.append(bytes(frame))
        lab.clock.advance(slow_ms)
        connection.open_slot(len(frame)).send(framed(served[-1]))

    server = await lab.serve(on_frame)
    many, one = await lab.connect(server), await lab.connect(server)
    await lab.until(lambda: server.connection_count == 2)
    requests = [b"%d" % n for n in range(2_000)]
    many.send(*requests)
    one.send(b"one")
    assert await one.receive() == b"one"
    in_a_turn = FRAMES_AT_ONCE if slow_ms == 0 else -(-SERVED_AT_ONCE_MS // slow_ms)
    assert served.index(b"one") <= 4 * in_a_turn
    assert [await many.receive() for _ in requests] == requests
