"""Simulated wires: cuts, clogs, resets, deaths of hosts; nothing is lost, nothing leaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from minikafka.world.sim.links import LinkProfile
from minikafka.world.sim.world import SimWorld
from tests.support.network.wire_end import WireEnd

PORT = 9092
SEEDS = range(1, 11)


class Lab:
    """Two hosts, ``a`` dials, ``b`` listens."""

    def __init__(self, seed: int, profile: LinkProfile | None = None) -> None:
        self.world = SimWorld(seed, profile)
        self.a, self.b = self.world.host("a"), self.world.host("b")
        self._accepted: asyncio.Queue[WireEnd] = asyncio.Queue()

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        result = self.world.run(main())
        assert not self.world.fabric._connections, "connections leak"
        assert not self.world.links._lanes, "lanes leak"
        return result

    async def connect(self) -> tuple[WireEnd, WireEnd]:
        """The ends at ``a`` and ``b``."""
        await self.b.world.network.listen(self._accept, "", PORT)
        end = await self.dial()
        return end, await self._accepted.get()

    async def dial(self) -> WireEnd:
        _, end = await self.a.world.network.connect(WireEnd, "b", PORT)
        assert isinstance(end, WireEnd)
        return end

    def _accept(self) -> WireEnd:
        end = WireEnd()
        self._accepted.put_nowait(end)
        return end

    async def wait(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)

    def seconds(self) -> float:
        return self.world.loop.seconds()


async def end_of(end: WireEnd) -> Exception | None:
    async with asyncio.timeout(2000):
        return await end.lost()


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_cut_and_joined_but_keep_their_order(seed: int) -> None:
    lab = Lab(seed)

    async def main() -> None:
        near, far = await lab.connect()
        sent = b""
        for number in range(300):
            piece = f"message {number};".encode()
            near.transport.write(piece)
            sent += piece
            if number % 20 == 0:
                await lab.wait(0.001)
        assert await far.received(len(sent)) == sent
        assert 16 < len(far.reads) != 300
        near.transport.close()
        await end_of(far)

    lab.run(main)


def test_every_byte_takes_time() -> None:
    lab = Lab(1, LinkProfile(min_delay_us=5000, max_delay_us=9000))

    async def main() -> None:
        near, far = await lab.connect()
        assert 0.010 <= lab.seconds() <= 0.018
        near.transport.write(b"x")
        before = lab.seconds()
        await far.received(1)
        assert 0.005 <= lab.seconds() - before <= 0.009

    lab.run(main)


def test_a_cut_holds_bytes_until_it_is_healed() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        near.transport.write(b"before ")
        await far.received(7)
        lab.world.partition("a", "b")
        near.transport.write(b"during ")
        far.transport.write(b"back")
        await lab.wait(60)
        assert (far.seen, near.seen) == (b"before ", b"")
        lab.world.heal()
        near.transport.write(b"after")
        assert await far.received(19) == b"before during after"
        assert await near.received(4) == b"back"

    lab.run(main)


def test_a_clog_stops_one_direction() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        lab.world.clog("a", "b")
        near.transport.write(b"there")
        far.transport.write(b"back")
        assert await near.received(4) == b"back"
        await lab.wait(60)
        assert far.seen == b""
        lab.world.unclog("a", "b")
        assert await far.received(5) == b"there"

    lab.run(main)


def test_bytes_held_for_too_long_end_the_connection() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        lab.world.partition("a", "b")
        near.transport.write(b"lost")
        assert isinstance(await end_of(near), TimeoutError)
        assert 900 < lab.seconds() < 1000
        far.transport.write(b"who is there?")
        lab.world.heal()
        assert isinstance(await end_of(far), ConnectionResetError)
        assert far.seen == b""

    lab.run(main)


def test_dialling_across_a_cut_waits_for_its_end() -> None:
    lab = Lab(1)

    async def main() -> None:
        await lab.b.world.network.listen(WireEnd, "", PORT)
        lab.world.partition("a", "b")
        dialling = lab.a.spawn(lab.dial())
        await lab.wait(50)
        assert not dialling.done()
        lab.world.heal()
        await dialling
        assert lab.seconds() < 51
        lab.world.partition("a", "b")
        with pytest.raises(TimeoutError):
            await lab.dial()
        assert lab.seconds() > 170

    lab.run(main)


def test_a_dialler_that_gives_up_leaves_nothing_behind() -> None:
    async def give_up_after(lab: Lab, delay_us: int) -> None:
        await lab.b.world.network.listen(lab._accept, "", PORT)
        dialling = lab.a.spawn(lab.dial())
        await asyncio.sleep(delay_us / 1_000_000)
        dialling.cancel()
        await asyncio.wait([dialling])
        if not dialling.cancelled():
            dialling.result().transport.close()
        await lab.wait(1)
        assert not lab.world.fabric._connections
        while not lab._accepted.empty():
            await end_of(lab._accepted.get_nowait())

    for delay_us in range(0, 3000, 150):
        lab = Lab(delay_us)
        lab.run(partial(lambda lab, delay_us: give_up_after(lab, delay_us), lab, delay_us))


def test_unknown_names_and_ports_refuse_connections() -> None:
    lab = Lab(1)

    async def main() -> None:
        network = lab.a.world.network
        with pytest.raises(ConnectionRefusedError):
            await network.connect(WireEnd, "b", PORT)
        with pytest.raises(OSError, match="not known"):
            await network.connect(WireEnd, "c", PORT)
        with pytest.raises(OSError, match="Cannot assign"):
            await network.listen(WireEnd, "b", PORT)
        await lab.b.world.network.listen(WireEnd, "localhost", PORT)
        with pytest.raises(ConnectionRefusedError):  # b listens for itself only
            await network.connect(WireEnd, "b", PORT)
        await lab.b.world.network.connect(WireEnd, "localhost", PORT)

    lab.run(main)


def test_a_reset_is_heard_by_both() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        near.transport.write(b"under way")
        lab.world.reset("a", "b")
        assert isinstance(await end_of(near), ConnectionResetError)
        assert isinstance(await end_of(far), ConnectionResetError)

    lab.run(main)


def test_a_killed_process_is_closed_by_its_kernel() -> None:
    heard: set[str] = set()

    async def main(lab: Lab) -> None:
        near, far = await lab.connect()
        await lab.b.kill()
        error = await end_of(near)
        heard.add(type(error).__name__)
        assert not far._loss.done(), "a dead process was called"
        with pytest.raises(ConnectionRefusedError):
            await lab.dial()
        await lab.b.restart().network.listen(WireEnd, "", PORT)
        await lab.dial()

    for seed in SEEDS:
        lab = Lab(seed)
        lab.run(partial(lambda lab: main(lab), lab))
    assert heard == {"NoneType", "ConnectionResetError"}


def test_a_host_without_power_is_silent_until_it_is_back() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, _ = await lab.connect()
        await lab.b.crash()
        near.transport.write(b"are you there?")
        dialling = lab.a.spawn(lab.dial())
        await lab.wait(30)
        assert not near._loss.done()
        assert not dialling.done()
        lab.b.restart()
        assert isinstance(await end_of(near), ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await dialling

    lab.run(main)


def test_a_paused_reader_notices_a_reset_when_it_reads_or_writes() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        far.transport.pause_reading()
        near.transport.abort()
        await lab.wait(1)
        assert not far._loss.done()
        far.transport.resume_reading()
        assert isinstance(await end_of(far), ConnectionResetError)

    lab.run(main)


def test_closing_with_bytes_unread_resets() -> None:
    lab = Lab(1)

    async def main() -> None:
        near, far = await lab.connect()
        far.transport.pause_reading()
        near.transport.write(b"unread")
        await lab.wait(1)
        far.transport.close()
        assert isinstance(await end_of(near), ConnectionResetError)

    lab.run(main)


def test_a_bug_in_a_protocol_fails_the_run() -> None:
    class Buggy(WireEnd):
        def buffer_updated(self, nbytes: int) -> None:
            raise ZeroDivisionError

    lab = Lab(1)

    async def main() -> None:
        await lab.b.world.network.listen(Buggy, "", PORT)
        end = await lab.dial()
        end.transport.write(b"x")
        await lab.wait(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        lab.run(main)
    assert caught.group_contains(ZeroDivisionError)
