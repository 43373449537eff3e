"""A broker's ZooKeeper session: opened at the start, and opened again after each expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import (
    Clock,
    ConnectionLost,
    Coordination,
    CoordinationSession,
    SessionExpired,
    SessionState,
    ZookeeperLoginFailed,
)
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.server.zookeeper.measured_requests import MeasuredRequests
from minikafka.server.zookeeper.store import ZkStore

FIRST_BACKOFF_MS = 100
MAX_BACKOFF_MS = 5000
MAX_FORMER_SESSIONS = 16  # whose ids are kept, to recognise ephemeral znodes that they left behind

NewSessionListener: TypeAlias = Callable[[ZkStore], Awaitable[None]]
SessionLostListener: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ZkSessionConfig:
    """``zookeeper.connect``, ``zookeeper.session.timeout.ms``,
    ``zookeeper.connection.timeout.ms`` (None means the session time-out), and the settings of
    ``kernel/security_settings``."""

    connect: str
    session_timeout_ms: int = 18000
    connection_timeout_ms: int | None = None
    security: CoordinationSecurity = UNSECURED

    @property
    def open_timeout_ms(self) -> int:
        return self.connection_timeout_ms or self.session_timeout_ms


class ZkSession:
    """The current ZooKeeper session of a broker, and the listeners of its expiry and renewal.

    While ZooKeeper cannot be reached, requests wait. The events ``zookeeper_connection_lost`` and
    ``zookeeper_reconnected`` are logged at the two ends of an outage. After the session has
    expired,

    1. the ``on_session_lost`` listeners are awaited in order (the controller resigns in one),
    2. a new session is opened, without a limit of attempts, also if ZooKeeper refuses the login,
       as in Kafka: the user may be known there a moment later,
    3. the ``on_new_session`` listeners are awaited in order (they register the broker again and arm
       the watches again).

    A listener may raise ``SessionExpired`` or ``ConnectionLost`` if the new session is lost, too.
    Any other error of a listener is a bug and stops the node.
    """

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        config: ZkSessionConfig,
        broker_id: int,
        metrics: Metrics | None = None,
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self._config = config
        self._log = event_log("zookeeper", broker=broker_id)
        self._new_session_listeners: list[NewSessionListener] = []
        self._session_lost_listeners: list[SessionLostListener] = []
        self._store: ZkStore | None = None
        self._former_sessions: list[int] = []
        self._expired = asyncio.Event()
        self._suspended_at_ms: int | None = None
        self.disconnected = asyncio.Event()  # set while ZooKeeper does not respond
        # By Kafka's names of the metrics of its ``SessionExpireListener``.
        self.counts = {
            "ZooKeeperSyncConnectsPerSec": 0,
            "ZooKeeperDisconnectsPerSec": 0,
            "ZooKeeperExpiresPerSec": 0,
            "ZooKeeperAuthFailuresPerSec": 0,
        }
        self.measured = MeasuredRequests(clock.monotonic_ns, clock.wall_ms, metrics)
        self._closing = False
        self._keeper: asyncio.Task[None] | None = None

    def on_new_session(self, listener: NewSessionListener) -> None:
        """Call ``listener`` for every session after the first one."""
        self._new_session_listeners.append(listener)

    def on_session_lost(self, listener: SessionLostListener) -> None:
        """Call ``listener`` after every expiry."""
        self._session_lost_listeners.append(listener)

    @property
    def store(self) -> ZkStore:
        """The store on the current session. Between an expiry and the next session it is still the
        store on the expired one."""
        assert self._store is not None, "call start() before using the store"
        return self._store

    @property
    def session(self) -> CoordinationSession:
        return self.store.session

    @property
    def connected(self) -> bool:
        return self._store is not None and self._store.session.state is SessionState.CONNECTED

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Open the first session. Raises ``ConnectionLost`` if no server responds in time, and
        ``ZookeeperLoginFailed``."""
        await self._open()
        self._keeper = tasks.create_task(self._keep(), name="zookeeper-session-keeper")

    async def close(self) -> None:
        """Close the session. ZooKeeper deletes its ephemeral znodes at once."""
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._store is not None:
            await self._store.session.close()

    # ---------------------------------------------------------------------------------- keeper

    async def _open(self) -> None:
        session = await self._coordination.open(
            self._config.connect,
            self._config.session_timeout_ms,
            self._config.open_timeout_ms,
            self._config.security,
        )
        self.counts["ZooKeeperSyncConnectsPerSec"] += 1
        self._expired.clear()
        self.disconnected.clear()
        self._store = ZkStore(session, tuple(self._former_sessions), self.measured)
        session.add_state_listener(lambda state: self._on_state(session, state))
        self._log.info("session_opened", session=f"0x{session.session_id:x}")
        if session.state is not SessionState.CONNECTED:  # it may have changed before this line
            self._on_state(session, session.state)

    def _on_state(self, session: CoordinationSession, state: SessionState) -> None:
        if self._closing or session is not self.session:
            return
        if state is SessionState.CONNECTED:
            self.disconnected.clear()
        else:
            self.disconnected.set()
        if state is SessionState.SUSPENDED:
            self.counts["ZooKeeperDisconnectsPerSec"] += 1
            self._suspended_at_ms = self._clock.monotonic_ms()
            self._log.warning("zookeeper_connection_lost", connect=self._config.connect)
        elif state is SessionState.CONNECTED:
            self.counts["ZooKeeperSyncConnectsPerSec"] += 1
            self._log.info("zookeeper_reconnected", after_ms=self._suspended_ms())
        else:
            self.counts["ZooKeeperExpiresPerSec"] += 1
            self._log.warning("session_expired", session=f"0x{session.session_id:x}")
            self._expired.set()

    def _suspended_ms(self) -> int:
        since = self._suspended_at_ms
        self._suspended_at_ms = None
        return 0 if since is None else self._clock.monotonic_ms() - since

    async def _keep(self) -> None:
        while True:
            await self._expired.wait()
            for on_lost in self._session_lost_listeners:
                await on_lost()
            self._former_sessions.append(self.session.session_id)
            del self._former_sessions[:-MAX_FORMER_SESSIONS]
            await self.session.close()
            await self._open_again()
            await self._call_new_session_listeners()

    async def _call_new_session_listeners(self) -> None:
        """Call the listeners until all have succeeded, or until the new session has expired, too:
        ``_keep`` then opens the next one."""
        while not self._expired.is_set():
            try:
                for on_new in self._new_session_listeners:
                    await on_new(self.store)
            except SessionExpired:
                await self._expired.wait()
            except ConnectionLost:
                await self._clock.sleep(FIRST_BACKOFF_MS)
            else:
                return

    async def _open_again(self) -> None:
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            try:
                return await self._open()
            except (ConnectionLost, ZookeeperLoginFailed) as error:
                if isinstance(error, ZookeeperLoginFailed):
                    self.counts["ZooKeeperAuthFailuresPerSec"] += 1
                if backoff_ms == FIRST_BACKOFF_MS:
                    self._log.warning(
                        "session_open_failed", connect=self._config.connect, error=str(error)
                    )
                await self._clock.sleep(backoff_ms)
                backoff_ms = min(backoff_ms * 2, MAX_BACKOFF_MS)
