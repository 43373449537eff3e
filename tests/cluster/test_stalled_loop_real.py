"""A broker whose event loop stands still gives its ZooKeeper session up, and comes back."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from minikafka.client import Admin, ClientConfig
from minikafka.kernel.events import diverted
from minikafka.kernel.ports import SessionExpired, SessionState
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.node.broker import BrokerNode
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from minikafka.world.real.zookeeper import RealCoordination
from tests.support.cluster.cluster_state import until
from tests.support.world.inbox import Inbox
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

SESSION_MS = 3000
PATIENCE_S = 60


@contextmanager
def watcher(connect: str) -> Iterator[Any]:
    client = KazooClient(connect)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def when_gone(client: Any, path: str) -> threading.Event:
    """Set when the znode, which exists, is deleted."""
    gone = threading.Event()
    assert client.exists(path, watch=lambda _: gone.set()) is not None
    return gone


@pytest.mark.mission("SAFE-21")
async def test_a_session_ends_while_the_loop_stands_still(
    shared_zookeeper: ZookeeperProcess,
) -> None:
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    session = await RealCoordination().open(connect, SESSION_MS, 10_000)
    states = Inbox()
    session.add_state_listener(states)
    await session.create("/mine", b"", ephemeral=True)
    with watcher(connect) as other:
        gone = when_gone(other, "/mine")
        assert gone.wait(PATIENCE_S)  # this blocks the loop
    assert session.state is SessionState.CONNECTED  # as far as the loop knows
    with pytest.raises(SessionExpired):  # but nothing is done on that belief
        await session.create("/stale")
    assert await states.get() is SessionState.EXPIRED
    await session.close()


async def test_a_loop_that_runs_keeps_its_session(shared_zookeeper: ZookeeperProcess) -> None:
    """The session outlives two time-outs without any request."""
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    session = await RealCoordination().open(connect, SESSION_MS, 10_000)
    await session.create("/mine", b"", ephemeral=True)
    await asyncio.sleep(2 * SESSION_MS / 1000)
    assert session.state is SessionState.CONNECTED
    assert await session.exists("/mine") is not None
    await session.close()


class ThreadedBroker:
    """A broker with an event loop in a thread."""

    def __init__(self, connect: str, directory: Path, **settings: str) -> None:
        given = {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "log.dirs": str(directory / "logs"),
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self._config = BROKER_CONFIG.parse(given)
        self._started = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE_S)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.node = BrokerNode(real_world(), self._config)
        running = asyncio.ensure_future(self.node.run())
        started = asyncio.ensure_future(self.node.started.wait())
        await asyncio.wait([running, started], return_when=asyncio.FIRST_COMPLETED)
        self._started.set()
        await running

    def block_until(self, event: threading.Event) -> None:
        """Block the event loop until the event, and return then."""
        unblocked = threading.Event()

        def block() -> None:
            event.wait(PATIENCE_S)
            unblocked.set()

        self.loop.call_soon_threadsafe(block)
        assert unblocked.wait(2 * PATIENCE_S)
        assert event.is_set(), "the loop was let go without it"

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.node.request_stop)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def when_there(client: Any, path: str) -> threading.Event:
    """Set when the znode exists; it may exist already."""
    there = threading.Event()
    if client.exists(path, watch=lambda _: there.set()) is not None:
        there.set()
    return there


@pytest.mark.mission("SAFE-21")
def test_a_stalled_broker_is_replaced_and_registers_again(
    shared_zookeeper: ZookeeperProcess, tmp_path: Path
) -> None:
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    broker = ThreadedBroker(connect, tmp_path)
    with watcher(connect) as other:
        assert when_there(other, "/controller").wait(PATIENCE_S)
        epoch = broker.node.broker_epoch
        gone = [when_gone(other, path) for path in ("/brokers/ids/1", "/controller")]
        for event in gone:
            broker.block_until(event)
        assert when_there(other, "/brokers/ids/1").wait(PATIENCE_S)
        assert when_there(other, "/controller").wait(PATIENCE_S)
        assert other.exists("/brokers/ids/1").czxid > epoch
        assert int(other.get("/controller_epoch")[0]) == 2
    longest_ms = broker.node.metrics.snapshot()["minikafka.server:type=EventLoop,name=StallMaxMs"]
    assert longest_ms > SESSION_MS / 2  # it ended only after the session
    broker.stop()


@pytest.mark.mission("SAFE-20")
def test_a_request_that_keeps_the_loop_of_a_broker_is_logged(
    shared_zookeeper: ZookeeperProcess, tmp_path: Path
) -> None:
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    logged: list[dict[str, Any]] = []

    def take(_: str, event: str, facts: dict[str, Any]) -> None:
        if event == "loop_stalled":
            logged.append(facts)

    async def create_topic(port: int) -> None:
        async with Admin(real_world(), ClientConfig(f"127.0.0.1:{port}")) as admin:
            await admin.create_topic("many", 300, 1)

    with diverted(take):
        broker = ThreadedBroker(connect, tmp_path, event_loop_stall_threshold_ms="2")
        run(create_topic(broker.node.ports[0]))
        # The controller sends it to its own broker, which makes 300 logs.
        until(lambda: [row for row in logged if row.get("api") == "LeaderAndIsr"], "a stall")
        broker.stop()
    row = next(row for row in logged if row.get("api") == "LeaderAndIsr")
    assert row["stalled_ms"] >= row["ran_ms"] >= 2
    assert row["request_bytes"] > 300
    assert (row["client"], row["broker"]) == ("127.0.0.1", 1)
    assert row["client_id"] != ""
