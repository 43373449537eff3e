"""The embedded ZooKeeper as a process: ready, refused, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from minikafka.cli.processes.embedded_zookeeper import (
    SMALLEST_HEAP_MB,
    EmbeddedZookeeper,
    ZookeeperError,
    ZookeeperOptions,
    last_words,
    server_status,
)
from minikafka.kernel.ports import ConnectionLost
from minikafka.world.real.zookeeper import RealCoordination
from scripts.lib.cluster import free_ports

pytestmark = pytest.mark.cluster

PROGRAM = """
import asyncio, sys
from minikafka.cli.processes.embedded_zookeeper import ZookeeperOptions, run_foreground
sys.exit(asyncio.run(run_foreground(ZookeeperOptions(sys.argv[1], int(sys.argv[2])))))
"""


@pytest.fixture
def options(tmp_path: Path) -> ZookeeperOptions:
    return ZookeeperOptions(str(tmp_path / "zookeeper"), free_ports(1)[0])


async def test_it_serves_when_start_returns_and_keeps_its_data(options: ZookeeperOptions) -> None:
    server = EmbeddedZookeeper(options)
    await server.start()
    assert "Mode: standalone" in await server_status(options.host, options.port)
    session = await RealCoordination().open(server.connect, 18_000, 5000)
    await session.create("/kept", b"1")
    await session.close()
    await server.stop()
    assert await server_status(options.host, options.port) == ""
    again = EmbeddedZookeeper(options)
    await again.start()
    session = await RealCoordination().open(again.connect, 18_000, 5000)
    assert (await session.get("/kept"))[0] == b"1"
    await session.close()
    await again.stop()


async def test_a_directory_or_port_in_use_is_refused(options: ZookeeperOptions) -> None:
    server = EmbeddedZookeeper(options)
    await server.start()
    with pytest.raises(ZookeeperError, match="in use by another ZooKeeper"):
        await EmbeddedZookeeper(options).start()
    elsewhere = replace(options, data_dir=f"{options.data_dir}-2")
    with pytest.raises(ZookeeperError, match=f"{options.port}: Address already in use"):
        await EmbeddedZookeeper(elsewhere).start()
    await server.stop()


async def test_a_server_that_never_serves_is_reported(
    options: ZookeeperOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = Path(options.data_dir).with_name("bin") / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(
        ZookeeperError, match="ended at once, with exit status 3: it printed nothing"
    ):
        await EmbeddedZookeeper(options).start()
    java.write_text("#!/bin/sh\necho what a day >&2\nexit 3\n")
    with pytest.raises(ZookeeperError, match=r"exit status 3: what a day \(more in .*\.out\)"):
        await EmbeddedZookeeper(options).start()
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    server = EmbeddedZookeeper(replace(options, start_timeout_ms=200))
    with pytest.raises(ZookeeperError, match="does not serve after 200 ms"):
        await server.start()
    assert server.pid is not None
    assert not psutil.pid_exists(server.pid)


@pytest.mark.mission("SCALE-6")
async def test_a_server_without_memory_ends_and_says_so(options: ZookeeperOptions) -> None:
    small = replace(options, heap_mb=SMALLEST_HEAP_MB)
    server = EmbeddedZookeeper(small)
    await server.start()
    ended = asyncio.ensure_future(server.wait())
    session = await RealCoordination().open(server.connect, 18_000, 5000)
    for number in range(2 * SMALLEST_HEAP_MB):
        if ended.done():
            break
        with contextlib.suppress(ConnectionLost):
            await session.create(f"/{number}", bytes(1_000_000))
    assert await ended != 0
    assert last_words(small).startswith(f"its heap of {SMALLEST_HEAP_MB} MB is used up; --heap")
    await session.close()
    await server.stop()


Foreground = tuple[asyncio.subprocess.Process, int]


@pytest.fixture
async def foreground(options: ZookeeperOptions) -> AsyncIterator[Foreground]:
    """The verb's process and the server's pid."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        options.data_dir,
        str(options.port),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        line = (await process.stdout.readline()).decode()
    assert line.startswith(f"ready zookeeper=127.0.0.1:{options.port} pid=")
    yield process, int(line.split("pid=")[1])
    if process.returncode is None:
        process.kill()
        await process.wait()


def wait_until_gone(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_in_order_on_request(foreground: Foreground, number: signal.Signals) -> None:
    process, server = foreground
    process.send_signal(number)
    assert await process.wait() == 0
    assert not psutil.pid_exists(server)


async def test_a_killed_parent_leaves_no_server_behind(
    foreground: Foreground, options: ZookeeperOptions
) -> None:
    process, server = foreground
    process.kill()
    await process.wait()
    await asyncio.to_thread(wait_until_gone, server)
    again = EmbeddedZookeeper(options)
    await again.start()
    await again.stop()


async def test_a_dead_server_ends_the_verb(
    foreground: Foreground,
) -> None:
    process, server = foreground
    os.kill(server, signal.SIGKILL)
    assert await process.wait() == 1
