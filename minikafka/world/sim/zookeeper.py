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
    """A request for the data of many znodes, without watches."""

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
    """The response to a Hello whose session has expired."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The server has closed the connection, or there is no server."""


@dataclass(frozen=True, slots=True)
class Pong:
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. ``value`` of a write: the ``Outcome`` results; of one creation also its stat."""

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
    """A connection of a client to the ensemble. ``receive`` runs in the client's process."""

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
        """Send a message to the server."""
        self._to_server.send(message)

    def reply(self, message: Message) -> None:
        """Send a message to the client."""
        self._to_client.send(message)

    def _at_server(self, message: Message) -> None:
        self._service.on_message(self, message)

    def _at_client(self, message: Message) -> None:
        self._process.loop.call_soon(self._hand_over, message, context=self._context)

    def _hand_over(self, message: Message) -> None:
        if self._process.alive and not self._closed:
            self._receive(self, message)

    def break_by_server(self) -> None:
        """Close by the server: messages under way are lost, and the client is notified."""
        self._to_server.drop()
        self._to_client.drop()
        self._to_client.send(Closed())

    def close(self) -> None:
        """Close by the client; at random, messages under way to the server still arrive."""
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
    """A session on the server side; ``heard_us`` is the time of its last message."""

    session_id: int
    timeout_us: int
    heard_us: int
    connection: ZookeeperConnection | None = None
    timer: asyncio.TimerHandle | None = None


class SimZookeeper:
    """The ensemble, simulated as one host named ``zookeeper``.

    The tree and the sessions survive ``stop``. After ``start`` each session has its whole time-out
    again, as after the election of a ZooKeeper leader.
    """

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
        """Expire a session now, as if its time-out had passed."""
        record = self.sessions.get(session_id)
        if record is not None:
            self._expire(record)

    # ------------------------------------------------------------------------------ the service

    def on_message(self, connection: ZookeeperConnection, message: Message) -> None:
        """Handle a message that has arrived from a client."""
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
        """Remove a closed connection and its watches; its session remains."""
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
