"""What a connection holds while it is quiet, and what others may then use."""

from collections.abc import Callable

import pytest

from minikafka.server.listeners.server import Server
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab, framed

FRAME_BYTES = 1_000


class Deferring:
    """Defers each frame that begins with ``w`` until there are no unanswered requests, parks those
    with ``p`` until ``release``, echoes the others."""

    release: Callable[[], None]

    def __call__(self, connection: ServerConnection, frame: memoryview) -> bool:
        body = bytes(frame)
        if body[:1] == b"w" and connection.unanswered:
            return True
        slot = connection.open_slot(len(body))
        if body[:1] == b"p":
            self.release = lambda: slot.send(framed(body))
        else:
            slot.send(framed(body))
        return False


def buffers_of(server: Server) -> list[object]:
    """Return the receive buffers that connections have now."""
    views = [c._reader._view for c in server._connections.values()]
    return [view.obj for view in views if view]


@pytest.mark.mission("CON-1")
async def test_idle_connections_have_no_receive_buffer(lab: Lab) -> None:
    server = await lab.serve(Deferring())
    peers = [await lab.connect(server) for _ in range(20)]
    for number, peer in enumerate(peers):
        body = str(number).encode() * FRAME_BYTES
        peer.send(body, body)
        assert [await peer.receive(), await peer.receive()] == [body, body]
    assert not buffers_of(server)
    peers[0].writer.write(framed(b"whole") + framed(b"half")[:6])
    assert await peers[0].receive() == b"whole"
    assert len(buffers_of(server)) == 1
    peers[0].writer.write(b"lf")
    assert await peers[0].receive() == b"half"
    assert not buffers_of(server)


@pytest.mark.mission("CON-1")
async def test_frames_that_wait_are_not_overwritten_by_other_connections(lab: Lab) -> None:
    handler = Deferring()
    server = await lab.serve(handler)
    waiting, other = await lab.connect(server), await lab.connect(server)
    sent = [b"p" * FRAME_BYTES, b"w" * FRAME_BYTES, b"a" * FRAME_BYTES]
    waiting.send(*sent)
    await lab.until(lambda: bool(buffers_of(server)))
    for _ in range(3):
        other.send(b"x" * 3 * FRAME_BYTES)
        assert await other.receive() == b"x" * 3 * FRAME_BYTES
    handler.release()
    assert [await waiting.receive() for _ in sent] == sent
    assert not buffers_of(server)
