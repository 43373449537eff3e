"""The simulated Coordination: a client's end of ZooKeeper sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    require_path,
)
from minikafka.world.sim.process import Process
from minikafka.world.sim.zookeeper import (
    Answer,
    Bye,
    Closed,
    Expired,
    Hello,
    Message,
    Ping,
    Read,
    ReadKind,
    ReadMany,
    SimZookeeper,
    Welcome,
    ZnodeWrite,
    ZookeeperConnection,
)

FIRST_RETRY_US = 50_000
LAST_RETRY_US = 1_000_000
ATTEMPT_US = 2_000_000


class SimCoordination:
    """The Coordination of one process. Any servers named in ``connect`` are the one ensemble."""

    def __init__(self, process: Process, service: SimZookeeper) -> None:
        self._process = process
        self._service = service

    async def open(
        self, connect: str, session_timeout_ms: int, connection_timeout_ms: int
    ) -> CoordinationSession:
        self._process.check()
        chroot = connect.partition("/")[2].strip("/")
        session = SimSession(self._process, self._service, session_timeout_ms)
        session.start()
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await session.connected()
        except TimeoutError:
            session.abandon()
            raise ConnectionLost(
                f"no ZooKeeper server at {connect} answered within {connection_timeout_ms} ms"
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
    answer: asyncio.Future[Any]
    path: str
    watch: tuple[WatchKind, str, Watcher] | None


class SimSession:
    """See ``kernel.ports.CoordinationSession``.

    As with the real client: while suspended every call fails at once; a connection that is silent
    for two thirds of the time-out is given up; watches are lost with the connection, and their
    watchers called, as a hint, once there is a new one; that the session is over is learnt from a
    server only.
    """

    def __init__(self, process: Process, service: SimZookeeper, timeout_ms: int) -> None:
        self._process = process
        self._service = service
        self._timeout_ms = timeout_ms
        self._chroot = ""
        self._session_id = 0
        self._state = SessionState.SUSPENDED
        self._connection: ZookeeperConnection | None = None
        self._first_connection = asyncio.Event()
        self._listeners: list[StateListener] = []
        self._pending: dict[int, _Pending] = {}
        self._next_number = 0
        self._watchers: dict[tuple[WatchKind, str], dict[Watcher, None]] = {}
        self._lost_watches: list[tuple[Watcher, WatchEvent]] = []
        self._heard_us = 0
        self._retry_us = FIRST_RETRY_US
        self._over = False

    def start(self) -> None:
        self._process.at_death(self._die)
        self._connect()
        self._tick_later()

    async def connected(self) -> None:
        """Returns after the first connection."""
        await self._first_connection.wait()

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
        return self._inside(created), stat

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        value: tuple[bytes, ZnodeStat] = await self._read("get", path, watcher)
        return value

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        if not paths:
            return []
        outside = [self._outside(path) for path in paths]
        found: list[tuple[bytes, ZnodeStat] | None] = await self._ask(
            paths[0], ReadMany(self._number(), outside)
        )
        return found

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

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        if not ops:
            return []
        results = await self._ask(ops[0].path, self._write_message(ops))
        if len(ops) == 1:
            results = results[:1]  # a creation alone brings its stat
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    def _result(self, op: CoordinationOp, result: OpResult) -> OpResult:
        if isinstance(result, CoordinationError):
            return type(result)(op.path)
        return self._inside(result) if isinstance(result, str) else result

    async def _write(self, op: CoordinationOp) -> list[Any]:
        results: list[Any] = await self._ask(op.path, self._write_message([op]))
        if isinstance(results[0], CoordinationError):
            raise type(results[0])(op.path)
        return results

    def _write_message(self, ops: Sequence[CoordinationOp]) -> ZnodeWrite:
        outside = [replace(op, path=self._outside(op.path)) for op in ops]
        return ZnodeWrite(self._number(), outside)

    async def _read(self, kind: ReadKind, path: str, watcher: Watcher | None) -> Any:
        watch = None
        if watcher is not None:
            armed = WatchKind.CHILDREN if kind == "children" else WatchKind.CHANGED
            watch = (armed, path, watcher)
        message = Read(self._number(), kind, self._outside(path), watch is not None)
        value = await self._ask(path, message, watch)
        if isinstance(value, CoordinationError):
            raise type(value)(path)
        return value

    def _ask(
        self,
        path: str,
        message: Read | ReadMany | ZnodeWrite | Bye,
        watch: tuple[WatchKind, str, Watcher] | None = None,
    ) -> asyncio.Future[Any]:
        self._process.check()
        if self._state is SessionState.EXPIRED:
            raise SessionExpired(path)
        if self._state is SessionState.SUSPENDED or self._connection is None:
            raise ConnectionLost(path)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[message.number] = _Pending(answer, path, watch)
        self._connection.send(message)
        return answer

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _outside(self, path: str) -> str:
        """The path with the chroot. Raises BadPath."""
        require_path(path)
        if path == "/":
            return self._chroot or "/"
        return self._chroot + path

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._chroot) or "/"

    # ------------------------------------------------------------------------- from the ensemble

    def _on_message(self, connection: ZookeeperConnection, message: Message) -> None:
        if connection is not self._connection or self._over:
            return
        self._heard_us = self._process.loop.now_us
        match message:
            case Welcome():
                self._on_welcome(message)
            case Expired():
                self._expire()
            case Closed():
                self._disconnect()
            case Answer():
                self._on_answer(message)
            case WatchEvent():
                self._on_event(message)

    def _on_welcome(self, message: Welcome) -> None:
        self._session_id = message.session_id
        self._retry_us = FIRST_RETRY_US
        self._first_connection.set()
        self._change_state(SessionState.CONNECTED)
        lost, self._lost_watches = self._lost_watches, []
        for watcher, hint in lost:
            watcher(hint)

    def _on_answer(self, message: Answer) -> None:
        pending = self._pending.pop(message.number, None)
        if pending is None:
            return
        if pending.watch is not None and not isinstance(message.value, CoordinationError):
            kind, path, watcher = pending.watch
            self._watchers.setdefault((kind, path), {})[watcher] = None
        if not pending.answer.done():
            pending.answer.set_result(message.value)

    def _on_event(self, message: WatchEvent) -> None:
        event = WatchEvent(message.kind, self._inside(message.path))
        kinds = [WatchKind.CHILDREN if event.kind is WatchKind.CHILDREN else WatchKind.CHANGED]
        if event.kind is WatchKind.DELETED:
            kinds.append(WatchKind.CHILDREN)
        for kind in kinds:
            for watcher in self._watchers.pop((kind, event.path), {}):
                watcher(event)

    # -------------------------------------------------------------------------------- connection

    def _connect(self) -> None:
        if self._over or self._connection is not None:
            return
        connection = ZookeeperConnection(self._service, self._process, self._on_message)
        self._connection = connection
        self._heard_us = self._process.loop.now_us
        connection.send(Hello(self._session_id, self._timeout_ms))
        self._process.call_later_us(ATTEMPT_US, lambda: self._give_up(connection))

    def _give_up(self, connection: ZookeeperConnection) -> None:
        """Drop a connection attempt that has had no response."""
        if connection is self._connection and self._state is SessionState.SUSPENDED:
            self._disconnect()

    def _tick_later(self) -> None:
        self._process.call_later_us(self._timeout_ms * 1000 // 3, self._tick)

    def _tick(self) -> None:
        if self._over:
            return
        self._tick_later()
        if self._connection is None or self._state is not SessionState.CONNECTED:
            return
        silent_us = self._process.loop.now_us - self._heard_us
        if silent_us >= self._timeout_ms * 1000 * 2 // 3:
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
        self._over = True
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
            if not entry.answer.done():
                entry.answer.set_exception(error(entry.path))

    def _change_state(self, state: SessionState) -> None:
        if state is self._state or self._state is SessionState.EXPIRED:
            return
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    # ------------------------------------------------------------------------------------ ending

    async def close(self) -> None:
        """End the session; wait for the response at most as long as the session would live."""
        self._process.check()
        if self._state is SessionState.CONNECTED:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await self._ask("/", Bye(self._number()))
            except (TimeoutError, ConnectionLost, SessionExpired):
                self._process.check()
        self._expire()

    def abandon(self) -> None:
        """Drop the connection without ending the session."""
        self._over = True
        self._drop_connection()

    def _die(self) -> None:
        self.abandon()
