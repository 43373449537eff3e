"""The simulated ZooKeeper ensemble: sessions and their expiry, watches, one tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from minikafka.kernel.ports import (
    CoordinationError,
    CoordinationOp,
    CreateOp,
    WatchEvent,
    WatchKind,
)
from minikafka.world.sim.clock import universal_ms
from minikafka.world.sim.links import Lane, Links
from minikafka.world.sim.process import Process
from minikafka.world.sim.znode_tree import ZnodeTree

ZOOKEEPER_HOST = "zookeeper"
FIRST_SESSION_ID = 0x1_0000_0000_0000


ReadKind: TypeAlias = Literal["get", "exists", "children"]

# ------------------------------------------------------------------------- messages to the server


@dataclass(frozen=True, slots=True)
class Hello:
    """``session_id`` 0 asks for a new session."""

    session_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Read:
    number: int
    kind: ReadKind
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class ReadMany:
    """Data of many nodes; no watches."""

    number: int
    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class ZnodeWrite:
    number: int
    ops: Sequence[CoordinationOp]


@dataclass(frozen=True, slots=True)
class Bye:
    number: int


# ------------------------------------------------------------------------- messages to the client


@dataclass(frozen=True, slots=True)
class Welcome:
    session_id: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The session asked for is over."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The server has closed the connection, or there is no server."""


@dataclass(frozen=True, slots=True)
class Pong:
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """``value`` of a write: ``Outcome`` results; of a creation alone its stat comes along."""

    number: int
    value: Any


Message: TypeAlias = (
    Hello
    | Ping
    | Read
    | ReadMany
    | ZnodeWrite
    | Bye
    | Welcome
    | Expired
    | Closed
    | Pong
    | Answer
    | WatchEvent
)


class ZookeeperConnection:
    """Between one client and the ensemble. ``receive`` runs in the client's process."""

    def __init__(
        self,
        service: SimZookeeper,
        process: Process,
        receive: Callable[[ZookeeperConnection, Message], None],
    ) -> None:
        self.session_id = 0
        self.watches: dict[tuple[WatchKind, str], None] = {}
        self._service = service
        self._process = process
        self._receive = receive
        links = service.links
        self._to_server: Lane[Message] = Lane(links, process.host, ZOOKEEPER_HOST, self._at_server)
        self._to_client: Lane[Message] = Lane(links, ZOOKEEPER_HOST, process.host, self._at_client)
        self._context: Context = process.context()
        self._closed = False

    def send(self, message: Message) -> None:
        """To the server."""
        self._to_server.send(message)

    def reply(self, message: Message) -> None:
        """To the client."""
        self._to_client.send(message)

    def _at_server(self, message: Message) -> None:
        self._service.on_message(self, message)

    def _at_client(self, message: Message) -> None:
        self._process.loop.call_soon(self._hand_over, message, context=self._context)

    def _hand_over(self, message: Message) -> None:
        if self._process.alive and not self._closed:
            self._receive(self, message)

    def break_by_server(self) -> None:
        """What was under way is lost; the client hears of it."""
        self._to_server.drop()
        self._to_client.drop()
        self._to_client.send(Closed())

    def close(self) -> None:
        """By the client. Whether what it has just sent still arrives, the dice say."""
        if self._closed:
            return
        self._closed = True
        if self._service.links.entropy.randrange(2):
            self._to_server.rush()
        self._to_server.close()
        self._to_client.close()
        self._service.forget(self)


@dataclass(slots=True)
class SessionRecord:
    """What the ensemble knows of a session."""

    session_id: int
    timeout_us: int
    heard_us: int
    connection: ZookeeperConnection | None = None
    timer: asyncio.TimerHandle | None = None


class SimZookeeper:
    """The ensemble, as one host named ``zookeeper``. ``stop`` and ``start`` it as a whole: the
    tree and the sessions survive, and sessions get their whole time-out anew, as after the
    election of a leader."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.tree = ZnodeTree()
        self.running = True
        self.sessions: dict[int, SessionRecord] = {}
        self._connections: dict[ZookeeperConnection, None] = {}
        self._watchers: dict[tuple[WatchKind, str], dict[ZookeeperConnection, None]] = {}
        self._next_session_id = FIRST_SESSION_ID

    # ------------------------------------------------------------------------------- the faults

    def stop(self) -> None:
        if not self.running:
            return
        self.running = False
        self.links.trace.add("zookeeper-stop")
        self._watchers.clear()
        for connection in list(self._connections):
            connection.break_by_server()
            self.forget(connection)
        for record in self.sessions.values():
            if record.timer is not None:
                record.timer.cancel()
                record.timer = None

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        self.links.trace.add("zookeeper-start")
        for record in self.sessions.values():
            record.heard_us = self.links.loop.now_us
            self._watch_over(record)

    def expire(self, session_id: int) -> None:
        """End a session as if nothing had been heard of it for too long."""
        record = self.sessions.get(session_id)
        if record is not None:
            self._expire(record)

    # ------------------------------------------------------------------------------ the service

    def on_message(self, connection: ZookeeperConnection, message: Message) -> None:
        """From a client's wire."""
        if not self.running:
            connection.reply(Closed())
            return
        if isinstance(message, Hello):
            self._on_hello(connection, message)
            return
        record = self.sessions.get(connection.session_id)
        if record is None or record.connection is not connection:
            connection.reply(Closed())
            return
        record.heard_us = self.links.loop.now_us
        match message:
            case Ping():
                connection.reply(Pong())
            case Read():
                connection.reply(Answer(message.number, self._read(connection, message)))
            case ReadMany():
                found = [self.tree.get(p) if self.tree.exists(p) else None for p in message.paths]
                connection.reply(Answer(message.number, found))
            case ZnodeWrite():
                connection.reply(Answer(message.number, self._write(record, message.ops)))
            case Bye():
                self._end(record, "closed")
                connection.reply(Answer(message.number, None))

    def forget(self, connection: ZookeeperConnection) -> None:
        """The connection is no more; its session may outlive it."""
        self._connections.pop(connection, None)
        for key in connection.watches:
            waiting = self._watchers.get(key)
            if waiting is not None:
                waiting.pop(connection, None)
                if not waiting:
                    del self._watchers[key]
        connection.watches.clear()
        record = self.sessions.get(connection.session_id)
        if record is not None and record.connection is connection:
            record.connection = None

    def _on_hello(self, connection: ZookeeperConnection, hello: Hello) -> None:
        now_us = self.links.loop.now_us
        if hello.session_id:
            record = self.sessions.get(hello.session_id)
            if record is None:
                connection.reply(Expired())
                return
            if record.connection is not None:
                self.forget(record.connection)
        else:
            self.tree.new_session()
            record = SessionRecord(self._next_session_id, hello.timeout_ms * 1000, now_us)
            self._next_session_id += 1
            self.sessions[record.session_id] = record
            self._watch_over(record)
        record.heard_us = now_us
        record.connection = connection
        connection.session_id = record.session_id
        self._connections[connection] = None
        self.links.trace.add("zookeeper-session", id=hex(record.session_id))
        connection.reply(Welcome(record.session_id))

    # ------------------------------------------------------------------------ reading and writing

    def _read(self, connection: ZookeeperConnection, read: Read) -> Any:
        try:
            value: Any
            match read.kind:
                case "get":
                    value = self.tree.get(read.path)
                case "exists":
                    value = self.tree.exists(read.path)
                case "children":
                    value = self.tree.children(read.path)
        except CoordinationError as error:
            return error
        if read.watch:
            kind = WatchKind.CHILDREN if read.kind == "children" else WatchKind.CHANGED
            key = (kind, read.path)
            connection.watches[key] = None
            self._watchers.setdefault(key, {})[connection] = None
        return value

    def _write(self, record: SessionRecord, ops: Sequence[CoordinationOp]) -> Any:
        outcome = self.tree.apply(ops, record.session_id, universal_ms(self.links.loop.now_us))
        for op in ops:
            facts = {"session": hex(record.session_id), "path": op.path}
            error = outcome.error
            failed = {} if error is None else {"error": type(error).__name__}
            self.links.trace.add(f"zookeeper-{type(op).__name__}", **facts, **failed)
            self.links.trace.stir("data", getattr(op, "data", b""))
        self._tell(outcome.events)
        only = ops[0] if len(ops) == 1 else None
        created = outcome.results[0] if ops else None
        if isinstance(only, CreateOp) and isinstance(created, str):
            return [created, self.tree.exists(created)]
        return outcome.results

    def _tell(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            told: dict[ZookeeperConnection, None] = {}
            for kind in TRIGGERED_WATCHES[event.kind]:
                told.update(self._watchers.pop((kind, event.path), {}))
            for connection in told:
                for kind in TRIGGERED_WATCHES[event.kind]:
                    connection.watches.pop((kind, event.path), None)
                connection.reply(event)

    # ---------------------------------------------------------------------------------- expiry

    def _watch_over(self, record: SessionRecord) -> None:
        record.timer = self.links.loop.call_at_us(
            record.heard_us + record.timeout_us, self._look_at, record, context=self.links.context
        )

    def _look_at(self, record: SessionRecord) -> None:
        record.timer = None
        if record.session_id not in self.sessions or not self.running:
            return
        if record.heard_us + record.timeout_us > self.links.loop.now_us:
            self._watch_over(record)
        else:
            self._expire(record)

    def _expire(self, record: SessionRecord) -> None:
        connection = record.connection
        self._end(record, "expired")
        if connection is not None:
            self.forget(connection)
            connection.break_by_server()

    def _end(self, record: SessionRecord, why: str) -> None:
        self.links.trace.add(f"zookeeper-session-{why}", id=hex(record.session_id))
        del self.sessions[record.session_id]
        if record.timer is not None:
            record.timer.cancel()
            record.timer = None
        self._tell(self.tree.end_session(record.session_id))


# Which watches an event triggers: those on data and existence, those on children.
TRIGGERED_WATCHES: Mapping[WatchKind, tuple[WatchKind, ...]] = {
    WatchKind.CREATED: (WatchKind.CHANGED,),
    WatchKind.CHANGED: (WatchKind.CHANGED,),
    WatchKind.DELETED: (WatchKind.CHANGED, WatchKind.CHILDREN),
    WatchKind.CHILDREN: (WatchKind.CHILDREN,),
}
