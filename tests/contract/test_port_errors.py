"""The real network and files raise OSError, and the simulated ones too, whatever they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minikafka.kernel.ports import CoordinationError, World
from minikafka.world.real.files import OffLoop, RealFiles
from minikafka.world.real.zookeeper import RealCoordination
from tests.support.network.wire_end import WireEnd

if TYPE_CHECKING:
    from tests.contract.conftest import Play

HOSTS = ("h" * 249, "h" * 5000, "a\0b", "\ud800", "\u00fc" * 80, "x..y", ".", "a b", "10.0.0.999")
PORTS = (65536, 70_000, -1, 2**40)
CONNECTS = (
    "", ",", ":", "/", "zk:abc", "zk:70000", "zk:-5", "h" * 249 + ":1", "[::1", "h:" + "9" * 5000,
    "h:1/..", "h:1/\ud800", "x..y:1",
)  # fmt: skip


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("host", HOSTS, ids=ascii)
def test_an_impossible_host_is_an_os_error(play: Play, host: str) -> None:
    async def body(world: World, _: str) -> None:
        with pytest.raises(OSError):
            await world.network.connect(WireEnd, host, 9)
        with pytest.raises(OSError):
            await world.network.listen(WireEnd, host, 0)
        assert await world.network.resolves(host) is False

    play(body)


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("port", PORTS)
def test_an_impossible_port_is_an_os_error(play: Play, port: int) -> None:
    async def body(world: World, _: str) -> None:
        with pytest.raises(OSError):
            await world.network.connect(WireEnd, "127.0.0.1", port)
        with pytest.raises(OSError):
            await world.network.listen(WireEnd, "127.0.0.1", port)

    play(body)


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 300, "p/" * 5000], ids=ascii)
def test_an_impossible_path_is_an_os_error(play_real: Play, name: str) -> None:
    async def body(world: World, directory: str) -> None:
        files, path = world.files, f"{directory}/{name}"
        calls: list[Callable[[], Any]] = [
            lambda: files.open(path, create=True),
            lambda: files.size(path),
            lambda: files.list(path),
            lambda: files.make_directories(path),
            lambda: files.rename(path, f"{directory}/x"),
            lambda: files.rename(f"{directory}/x", path),
            lambda: files.modified_ms(path),
            lambda: files.volume(path),
            lambda: files.read_all(path),
            lambda: files.replace_unsynced(path, b""),
            lambda: files.lock(path),
        ]
        for call in calls:
            if name.startswith("p/") and call is calls[3]:
                continue  # Python makes the first ones of 5,000 directories
            with pytest.raises(OSError):
                call()
        for waiting in (files.replace(path, b""), files.flush_directory(path)):
            with pytest.raises(OSError):
                await waiting
        for remove in (files.remove, files.remove_tree):
            try:
                remove(path)
            except OSError:
                continue
        assert not files.exists(path)
        assert not files.is_directory(path)

    play_real(body)


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("offset", [-1, 2**63, 2**80])
def test_an_impossible_offset_is_an_os_error(play_real: Play, offset: int) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"abc", 0)
        with pytest.raises(OSError):
            file.write(b"x", offset)
        with pytest.raises(OSError):
            file.read(1, offset)
        if offset > 0:  # -1 means the current position in this system call
            with pytest.raises(OSError):
                await file.read_cold(1, offset)
        with pytest.raises(OSError):
            file.truncate(offset)
        with pytest.raises(OSError):
            file.read(2**62, 0)
        assert file.read(10, 0) == b"abc"
        file.close()

    play_real(body)


@pytest.mark.mission("DOOR-2")
async def test_a_thread_that_cannot_start_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    files = RealFiles()
    file = files.open(str(tmp_path / "f"), create=True)
    off_loop: OffLoop = files._off_loop
    monkeypatch.setattr(off_loop._threads, "submit", no_thread)
    with pytest.raises(OSError, match="new thread"):
        await file.flush()
    with pytest.raises(OSError, match="new thread"):
        await files.replace(str(tmp_path / "g"), b"")
    file.close()


@pytest.mark.mission("DOOR-2")
@pytest.mark.parametrize("connect", CONNECTS, ids=lambda text: ascii(text[:20]))
async def test_an_impossible_zookeeper_address_is_an_error_of_the_port(connect: str) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(CoordinationError):
            await RealCoordination().open(connect, 1000, 10_000)
