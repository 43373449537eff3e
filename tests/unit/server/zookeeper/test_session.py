"""The session keeper: the next session after expiry, its listeners, its log events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from minikafka.kernel.ports import ConnectionLost, SessionExpired, SessionState
from minikafka.server.zookeeper.session import MAX_BACKOFF_MS, ZkSession, ZkSessionConfig
from minikafka.server.zookeeper.store import ZkStore
from tests.support.zookeeper.direct import DirectZookeeper


class FakeClock:
    """Time passes only in ``sleep``, and at once."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept_ms: list[int] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback)

    async def sleep(self, delay_ms: int) -> None:
        self.slept_ms.append(delay_ms)
        self.now_ms += delay_ms
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def keeper(zookeeper: DirectZookeeper, clock: FakeClock) -> AsyncIterator[ZkSession]:
    keeper = ZkSession(zookeeper, clock, ZkSessionConfig("zk:2181"), 1)
    async with asyncio.TaskGroup() as tasks:
        await keeper.start(tasks)
        yield keeper
        await keeper.close()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def run_until_error(keeper: ZkSession, zookeeper: DirectZookeeper) -> None:
    async with asyncio.TaskGroup() as tasks:
        await keeper.start(tasks)
        zookeeper.expire(zookeeper.sessions[0])
        await asyncio.Event().wait()


async def test_the_first_session_must_open() -> None:
    zookeeper = DirectZookeeper()
    zookeeper.refuse = 1
    keeper = ZkSession(zookeeper, FakeClock(), ZkSessionConfig("zk:2181"), 1)
    with pytest.raises(ExceptionGroup) as raised:
        await run_until_error(keeper, zookeeper)
    assert raised.group_contains(ConnectionLost, match="zk:2181")
    assert not keeper.connected
    await keeper.close()


async def test_a_new_session_follows_an_expired_one(
    zookeeper: DirectZookeeper, keeper: ZkSession
) -> None:
    told: list[str] = []

    async def lost() -> None:
        told.append("lost")

    async def renewed(store: ZkStore) -> None:
        told.append(f"new {store.session.session_id}")

    keeper.on_session_lost(lost)
    keeper.on_new_session(renewed)
    first = keeper.store
    assert keeper.connected
    zookeeper.expire(zookeeper.sessions[0])
    assert not keeper.connected
    await settle()
    assert told == ["lost", "new 2"]
    assert keeper.connected
    assert keeper.store is not first
    assert keeper.session is zookeeper.sessions[1]
    with pytest.raises(SessionExpired):
        await first.topics()
    assert await keeper.store.topics() == []
    zookeeper.expire(zookeeper.sessions[1])
    await settle()
    assert told == ["lost", "new 2", "lost", "new 3"]


async def test_it_tries_for_ever_with_growing_pauses(
    zookeeper: DirectZookeeper, keeper: ZkSession, clock: FakeClock
) -> None:
    zookeeper.refuse = 9
    with structlog.testing.capture_logs() as logs:
        zookeeper.expire(zookeeper.sessions[0])
        await settle()
    assert keeper.connected
    assert clock.slept_ms == [100, 200, 400, 800, 1600, 3200, 5000, 5000, MAX_BACKOFF_MS]
    assert [line["event"] for line in logs] == [
        "session_expired",
        "session_open_failed",
        "session_opened",
    ]


async def test_an_outage_is_logged_once_at_each_end(
    zookeeper: DirectZookeeper, keeper: ZkSession, clock: FakeClock
) -> None:
    session = zookeeper.sessions[0]
    with structlog.testing.capture_logs() as logs:
        session.change(SessionState.SUSPENDED)
        waiting = asyncio.ensure_future(keeper.store.topics())
        await settle()
        clock.now_ms += 1500
        session.change(SessionState.CONNECTED)
        assert await waiting == []
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("zookeeper_connection_lost", "warning"),
        ("zookeeper_reconnected", "info"),
    ]
    assert logs[0]["connect"] == "zk:2181"
    assert logs[1]["after_ms"] == 1500
    assert keeper.session is session


async def test_a_session_that_expires_while_it_is_introduced_is_replaced(
    zookeeper: DirectZookeeper, keeper: ZkSession
) -> None:
    told: list[int] = []

    async def renewed(store: ZkStore) -> None:
        told.append(store.session.session_id)
        if len(told) == 1:
            zookeeper.expire(zookeeper.sessions[-1])
        await store.topics()

    keeper.on_new_session(renewed)
    zookeeper.expire(zookeeper.sessions[0])
    await settle()
    assert told == [2, 3]
    assert keeper.connected


async def test_session_listeners_run_again_after_a_connection_loss(
    zookeeper: DirectZookeeper, keeper: ZkSession
) -> None:
    told: list[int] = []

    async def renewed(store: ZkStore) -> None:
        told.append(store.session.session_id)
        if len(told) == 1:
            raise ConnectionLost

    keeper.on_new_session(renewed)
    zookeeper.expire(zookeeper.sessions[0])
    await settle()
    assert told == [2, 2]


async def test_a_bug_in_a_listener_stops_the_node(zookeeper: DirectZookeeper) -> None:
    async def buggy() -> None:
        raise RuntimeError("bug")

    keeper = ZkSession(zookeeper, FakeClock(), ZkSessionConfig("zk:2181"), 1)
    keeper.on_session_lost(buggy)
    with pytest.raises(ExceptionGroup) as raised:
        await run_until_error(keeper, zookeeper)
    assert raised.group_contains(RuntimeError, match="bug")


async def test_closing_is_no_expiry(zookeeper: DirectZookeeper) -> None:
    keeper = ZkSession(zookeeper, FakeClock(), ZkSessionConfig("zk:2181"), 1)
    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            await keeper.start(tasks)
            await keeper.close()
    assert [line["event"] for line in logs] == ["session_opened"]
    assert len(zookeeper.sessions) == 1
    assert zookeeper.sessions[0].state is SessionState.EXPIRED


async def test_nodes_of_former_sessions_are_recognised_as_own(
    zookeeper: DirectZookeeper, keeper: ZkSession
) -> None:
    former = zookeeper.sessions[0].session_id
    zookeeper.expire(zookeeper.sessions[0])
    await settle()
    assert former in keeper.store._former_sessions


def test_the_connection_time_out_defaults_to_the_sessions() -> None:
    assert ZkSessionConfig("zk").open_timeout_ms == 18000
    assert ZkSessionConfig("zk", 6000, 500).open_timeout_ms == 500
