"""The simulated Coordination: ZooKeeper sessions as a client sees them.

The server side, and the messages between the two, are in ``zookeeper.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CoordinationSession,
    CreateOp,
    DeleteOp,
    NodeExists,
    OpResult,
    SessionExpired,
    SessionState,
    SetOp,
    StateListener,
    Watcher,
    WatchEvent,
    WatchKind,
    ZnodeStat,
    ZookeeperLoginFailed,
    require_path,
)
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity, ZnodeAcl
from minikafka.world.sim.process import Process
from minikafka.world.sim.zookeeper import (
    AclWrite,
    CloseSession,
    ConnectionClosed,
    ConnectRequest,
    ConnectResponse,
    LoginIsRefused,
    Message,
    Ping,
    Read,
    ReadKind,
    ReadMany,
    Response,
    SessionIsExpired,
    SimZookeeper,
    ZnodeWrite,
    ZookeeperConnection,
)

FIRST_RETRY_US = 50_000
LAST_RETRY_US = 1_000_000
ATTEMPT_US = 2_000_000


class SimCoordination:
    """The Coordination of one process. It always connects to the simulation's one ensemble,
    whichever servers ``connect`` names."""

    def __init__(self, process: Process, service: SimZookeeper) -> None:
        self._process = process
        self._service = service

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        """Connections are not encrypted, and there are no certificates of clients."""
        self._process.check()
        chroot = connect.partition("/")[2].strip("/")
        session = SimSession(self._process, self._service, session_timeout_ms, security)
        session.start()
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await session.opened()
        except TimeoutError:
            session.abandon()
            raise ConnectionLost(
                f"no ZooKeeper server at {connect} responded within {connection_timeout_ms} ms"
            ) from None
        except asyncio.CancelledError:
            session.abandon()
            raise
        if chroot:
            try:
                await session.enter(f"/{chroot}")
            except BaseException:
                session.abandon()
                raise
        return session


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request without a response so far. ``watch`` is armed when the response arrives."""

    response: asyncio.Future[Any]
    path: str
    watch: tuple[WatchKind, str, Watcher] | None


class SimSession:
    """See ``kernel.ports.CoordinationSession``.

    It behaves as the real client:

    - While the session is suspended, every call fails at once.
    - The client closes a connection on which nothing has arrived for two thirds of the time-out.
    - A lost connection also loses the watches. When there is a new connection, their watchers are
      called, because the znodes may have changed.
    - Only a server can report that the session has expired.
    """

    def __init__(
        self,
        process: Process,
        service: SimZookeeper,
        timeout_ms: int,
        security: CoordinationSecurity,
    ) -> None:
        self._process = process
        self._service = service
        self._timeout_ms = timeout_ms
        self._security = security
        self._refused = False
        self._chroot = ""
        self._session_id = 0
        self._state = SessionState.SUSPENDED
        self._connection: ZookeeperConnection | None = None
        self._opened = asyncio.Event()
        self._listeners: list[StateListener] = []
        self._pending: dict[int, _Pending] = {}
        self._next_number = 0
        self._watchers: dict[tuple[WatchKind, str], dict[Watcher, None]] = {}
        self._lost_watches: list[tuple[Watcher, WatchEvent]] = []
        self._last_received_us = 0
        self._retry_us = FIRST_RETRY_US
        self._ended = False

    def start(self) -> None:
        self._process.at_death(self._on_death)
        self._connect()
        self._schedule_ping()

    async def opened(self) -> None:
        """Wait until the session is connected for the first time. Raises ZookeeperLoginFailed."""
        await self._opened.wait()
        if self._refused and self._security.login is not None:
            user = self._security.login.username
            raise ZookeeperLoginFailed(f"the SASL login of {user} at ZooKeeper has failed")

    async def enter(self, chroot: str) -> None:
        """Create the chroot if it is missing; later paths are relative to it."""
        if await self.exists(chroot) is None:
            path = ""
            for name in chroot.strip("/").split("/"):
                path = f"{path}/{name}"
                try:
                    await self.create(path)
                except NodeExists:
                    continue
        self._chroot = chroot

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def add_state_listener(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    # ------------------------------------------------------------------------------ operations

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        created, stat = await self._write(CreateOp(path, data, ephemeral, sequential))
        return self._without_chroot(created), stat

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        value: tuple[bytes, ZnodeStat] = await self._read("get", path, watcher)
        return value

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        if not paths:
            return []
        absolute = [self._with_chroot(path) for path in paths]
        found: Any = await self._send(paths[0], ReadMany(self._number(), absolute))
        if isinstance(found, CoordinationError):
            raise type(found)(self._without_chroot(found.path))
        result: list[tuple[bytes, ZnodeStat] | None] = found
        return result

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        value: ZnodeStat | None = await self._read("exists", path, watcher)
        return value

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        value: list[str] = await self._read("children", path, watcher)
        return value

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        value: ZnodeStat = (await self._write(SetOp(path, data, version)))[0]
        return value

    async def delete(self, path: str, version: int = -1) -> None:
        await self._write(DeleteOp(path, version))

    async def get_acl(self, path: str) -> ZnodeAcl:
        acl: ZnodeAcl = await self._read("acl", path, None)
        return acl

    async def set_acl(self, path: str, acl: ZnodeAcl) -> None:
        error = await self._send(path, AclWrite(self._number(), self._with_chroot(path), acl))
        if isinstance(error, CoordinationError):
            raise type(error)(path)

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        if not ops:
            return []
        results = await self._send(ops[0].path, self._write_message(ops))
        if len(ops) == 1:
            results = results[:1]  # a creation alone brings its stat
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    def _result(self, op: CoordinationOp, result: OpResult) -> OpResult:
        if isinstance(result, CoordinationError):
            return type(result)(op.path)
        return self._without_chroot(result) if isinstance(result, str) else result

    async def _write(self, op: CoordinationOp) -> list[Any]:
        results: list[Any] = await self._send(op.path, self._write_message([op]))
        if isinstance(results[0], CoordinationError):
            raise type(results[0])(op.path)
        return results

    def _write_message(self, ops: Sequence[CoordinationOp]) -> ZnodeWrite:
        absolute = [replace(op, path=self._with_chroot(op.path)) for op in ops]
        acl_of = self._security.acl_of
        acls = {at: acl_of(op.path) for at, op in enumerate(ops) if isinstance(op, CreateOp)}
        return ZnodeWrite(self._number(), absolute, acls)

    async def _read(self, kind: ReadKind, path: str, watcher: Watcher | None) -> Any:
        watch = None
        if watcher is not None:
            armed = WatchKind.CHILDREN if kind == "children" else WatchKind.CHANGED
            watch = (armed, path, watcher)
        message = Read(self._number(), kind, self._with_chroot(path), watch is not None)
        value = await self._send(path, message, watch)
        if isinstance(value, CoordinationError):
            raise type(value)(path)
        return value

    def _send(
        self,
        path: str,
        message: Read | ReadMany | ZnodeWrite | AclWrite | CloseSession,
        watch: tuple[WatchKind, str, Watcher] | None = None,
    ) -> asyncio.Future[Any]:
        self._process.check()
        if self._state is SessionState.EXPIRED:
            raise SessionExpired(path)
        if self._state is SessionState.SUSPENDED or self._connection is None:
            raise ConnectionLost(path)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[message.number] = _Pending(response, path, watch)
        self._connection.send(message)
        return response

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _with_chroot(self, path: str) -> str:
        """Return the path with the chroot. Raises ``BadPath``."""
        require_path(path)
        if path == "/":
            return self._chroot or "/"
        return self._chroot + path

    def _without_chroot(self, path: str) -> str:
        return path.removeprefix(self._chroot) or "/"

    # ------------------------------------------------------------------------- from the ensemble

    def _on_message(self, connection: ZookeeperConnection, message: Message) -> None:
        if connection is not self._connection or self._ended:
            return
        self._last_received_us = self._process.loop.now_us
        match message:
            case ConnectResponse():
                self._on_connect_response(message)
            case SessionIsExpired():
                self._expire()
            case LoginIsRefused():
                self._refused = True
                self._expire()
                self._opened.set()
            case ConnectionClosed():
                self._disconnect()
            case Response():
                self._on_response(message)
            case WatchEvent():
                self._on_watch_event(message)

    def _on_connect_response(self, message: ConnectResponse) -> None:
        self._session_id = message.session_id
        self._retry_us = FIRST_RETRY_US
        self._opened.set()
        self._change_state(SessionState.CONNECTED)
        lost, self._lost_watches = self._lost_watches, []
        for watcher, event in lost:
            watcher(event)

    def _on_response(self, message: Response) -> None:
        pending = self._pending.pop(message.number, None)
        if pending is None:
            return
        if pending.watch is not None and not isinstance(message.value, CoordinationError):
            kind, path, watcher = pending.watch
            self._watchers.setdefault((kind, path), {})[watcher] = None
        if not pending.response.done():
            pending.response.set_result(message.value)

    def _on_watch_event(self, message: WatchEvent) -> None:
        event = WatchEvent(message.kind, self._without_chroot(message.path))
        kinds = [WatchKind.CHILDREN if event.kind is WatchKind.CHILDREN else WatchKind.CHANGED]
        if event.kind is WatchKind.DELETED:
            kinds.append(WatchKind.CHILDREN)
        for kind in kinds:
            for watcher in self._watchers.pop((kind, event.path), {}):
                watcher(event)

    # -------------------------------------------------------------------------------- connection

    def _connect(self) -> None:
        if self._ended or self._connection is not None:
            return
        connection = ZookeeperConnection(self._service, self._process, self._on_message)
        self._connection = connection
        self._last_received_us = self._process.loop.now_us
        login = self._security.login
        connection.send(ConnectRequest(self._session_id, self._timeout_ms, login))
        self._process.call_later_us(ATTEMPT_US, lambda: self._abandon_attempt(connection))

    def _abandon_attempt(self, connection: ZookeeperConnection) -> None:
        """Drop a connection attempt to which no server has responded."""
        if connection is self._connection and self._state is SessionState.SUSPENDED:
            self._disconnect()

    def _schedule_ping(self) -> None:
        self._process.call_later_us(self._timeout_ms * 1000 // 3, self._ping_or_disconnect)

    def _ping_or_disconnect(self) -> None:
        if self._ended:
            return
        self._schedule_ping()
        if self._connection is None or self._state is not SessionState.CONNECTED:
            return
        idle_us = self._process.loop.now_us - self._last_received_us
        if idle_us >= self._timeout_ms * 1000 * 2 // 3:
            self._disconnect()
        else:
            self._connection.send(Ping())

    def _disconnect(self) -> None:
        """Drop the connection and reconnect after an exponential backoff."""
        self._drop_connection()
        self._fail_pending(ConnectionLost)
        for (kind, path), watchers in self._watchers.items():
            self._lost_watches += [(watcher, WatchEvent(kind, path)) for watcher in watchers]
        self._watchers.clear()
        delay_us = self._service.links.entropy.between(self._retry_us // 2, self._retry_us)
        self._retry_us = min(2 * self._retry_us, LAST_RETRY_US)
        self._process.call_later_us(delay_us, self._connect)
        self._change_state(SessionState.SUSPENDED)

    def _expire(self) -> None:
        self._ended = True
        self._drop_connection()
        self._watchers.clear()
        self._lost_watches.clear()
        self._fail_pending(SessionExpired)
        self._change_state(SessionState.EXPIRED)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fail_pending(self, error: type[CoordinationError]) -> None:
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            if not entry.response.done():
                entry.response.set_exception(error(entry.path))

    def _change_state(self, state: SessionState) -> None:
        if state is self._state or self._state is SessionState.EXPIRED:
            return
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    # ------------------------------------------------------------------------------------ ending

    async def close(self) -> None:
        """Close the session. Wait for the response for one session time-out at most: after that the
        ensemble expires the session."""
        self._process.check()
        if self._state is SessionState.CONNECTED:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await self._send("/", CloseSession(self._number()))
            except (TimeoutError, ConnectionLost, SessionExpired):
                self._process.check()
        self._expire()

    def abandon(self) -> None:
        """Drop the connection without ending the session."""
        self._ended = True
        self._drop_connection()

    def _on_death(self) -> None:
        self.abandon()
