"""The simulated ZooKeeper ensemble: sessions and their expiry, watches, and the znode tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, Literal, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    SetOp,
    WatchEvent,
    WatchKind,
    require_path,
)
from minikafka.kernel.zookeeper_security import DigestLogin, ZnodeAcl
from minikafka.world.memory.znode_tree import ANYBODY, TRIGGERED_WATCHES, Author, ZnodeTree
from minikafka.world.sim.clock import universal_ms
from minikafka.world.sim.links import Lane, Links
from minikafka.world.sim.process import Process

ZOOKEEPER_HOST = "zookeeper"
FIRST_SESSION_ID = 0x1_0000_0000_0000


ReadKind: TypeAlias = Literal["get", "exists", "children", "acl"]

# ------------------------------------------------------------------------- messages to the server


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """The first message on a connection. ``session_id`` 0 requests a new session."""

    session_id: int
    timeout_ms: int
    login: DigestLogin | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Keeps the session alive while the client has no other requests."""


@dataclass(frozen=True, slots=True)
class Read:
    """A request for one znode; ``watch`` also sets a watch on it. The response has the request's
    ``number``, as for the other requests."""

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
    """Operations to carry out as one transaction; ``acls`` of the znodes that they create, by the
    position of the operation."""

    number: int
    ops: Sequence[CoordinationOp]
    acls: Mapping[int, ZnodeAcl]


@dataclass(frozen=True, slots=True)
class AclWrite:
    """A request to replace the ACL of a znode."""

    number: int
    path: str
    acl: ZnodeAcl


@dataclass(frozen=True, slots=True)
class CloseSession:
    """A request to end the session."""

    number: int


# ------------------------------------------------------------------------- messages to the client


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """The response to a ConnectRequest: the connection belongs to this session now."""

    session_id: int


@dataclass(frozen=True, slots=True)
class LoginIsRefused:
    """The response to a ConnectRequest with an unknown user or a wrong password."""


@dataclass(frozen=True, slots=True)
class SessionIsExpired:
    """The response to a ConnectRequest for a session that has expired."""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The server has closed the connection, or no server runs."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The response to a Ping."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a read or write. The ``value`` of a write has the results of its
    ``Outcome``; if it creates a single znode, the path and the stat of that."""

    number: int
    value: Any


Message: TypeAlias = (
    ConnectRequest
    | Ping
    | Read
    | ReadMany
    | ZnodeWrite
    | AclWrite
    | CloseSession
    | ConnectResponse
    | LoginIsRefused
    | SessionIsExpired
    | ConnectionClosed
    | Pong
    | Response
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
        self.identities: tuple[tuple[str, str], ...] = (ANYBODY,)
        self.watches: dict[tuple[WatchKind, str], None] = {}
        self._service = service
        self._process = process
        self._receive = receive
        links = service.links
        self._to_server: Lane[Message] = Lane(
            links,
            process.host,
            ZOOKEEPER_HOST,
            self._on_server_side,
            stopped=lambda passing: self._note_stopped(self._to_server, passing),
        )
        self._to_client: Lane[Message] = Lane(
            links,
            ZOOKEEPER_HOST,
            process.host,
            self._on_client_side,
            stopped=lambda passing: self._note_stopped(self._to_client, passing),
        )
        self._context: Context = process.context()
        self._closed = False

    def send(self, message: Message) -> None:
        """Send a message to the server."""
        self._send(self._to_server, message)

    def reply(self, message: Message) -> None:
        """Send a message to the client."""
        self._send(self._to_client, message)

    def _send(self, lane: Lane[Message], message: Message) -> None:
        wiretap = self._service.links.wiretap
        if wiretap is not None and not self._closed:
            wiretap.message_sent(lane, message)
        lane.send(message)

    def _note_arrived(self, lane: Lane[Message]) -> None:
        if (wiretap := self._service.links.wiretap) is not None:
            wiretap.message_arrived(lane)

    def _note_stopped(self, lane: Lane[Message], passing: Sequence[Message] | None) -> None:
        if (wiretap := self._service.links.wiretap) is not None:
            wiretap.messages_stopped(lane, None if passing is None else len(passing))

    def _note_lost(self) -> None:
        if (wiretap := self._service.links.wiretap) is not None:
            wiretap.messages_lost(self._to_server)
            wiretap.messages_lost(self._to_client)

    def _on_server_side(self, message: Message) -> None:
        self._note_arrived(self._to_server)
        self._service.on_message(self, message)

    def _on_client_side(self, message: Message) -> None:
        self._note_arrived(self._to_client)
        self._process.loop.call_soon(self._deliver, message, context=self._context)

    def _deliver(self, message: Message) -> None:
        if self._process.alive and not self._closed:
            self._receive(self, message)

    def close_by_server(self) -> None:
        """Close the connection from the server's side. Messages in flight are lost."""
        self._note_lost()
        self._to_server.drop()
        self._to_client.drop()
        self.reply(ConnectionClosed())

    def close(self) -> None:
        """Close the connection from the client's side. The messages that are in flight to the
        server all arrive or are all lost, at random."""
        if self._closed:
            return
        self._closed = True
        if self._service.links.entropy.randrange(2):
            self._to_server.deliver_all()
        self._note_lost()
        self._to_server.close()
        self._to_client.close()
        self._service.forget(self)


@dataclass(slots=True)
class SessionRecord:
    """A session as the server knows it. It expires ``timeout_us`` after ``last_received_us``, the
    time of the client's last message."""

    session_id: int
    timeout_us: int
    last_received_us: int
    connection: ZookeeperConnection | None = None
    timer: asyncio.TimerHandle | None = None


class SimZookeeper:
    """The ensemble, simulated as one host named ``zookeeper``.

    The tree and the sessions survive ``stop``. After ``start`` the time-out of each session begins
    again, as after the election of a new ZooKeeper leader.
    """

    def __init__(self, links: Links) -> None:
        self.links = links
        self.tree = ZnodeTree()
        self.users: dict[str, str] = {}  # who may log in, with their passwords
        self.running = True
        self.sessions: dict[int, SessionRecord] = {}
        self._connections: dict[ZookeeperConnection, None] = {}
        self._watchers: dict[tuple[WatchKind, str], dict[ZookeeperConnection, None]] = {}
        self._next_session_id = FIRST_SESSION_ID

    # ------------------------------------------------------------------------------- faults

    def stop(self) -> None:
        if not self.running:
            return
        self.running = False
        self.links.trace.add("zookeeper-stop")
        self._watchers.clear()
        for connection in list(self._connections):
            connection.close_by_server()
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
            record.last_received_us = self.links.loop.now_us
            self._schedule_expiry(record)

    def expire(self, session_id: int) -> None:
        """Expire a session now, as if its time-out had passed."""
        record = self.sessions.get(session_id)
        if record is not None:
            self._expire(record)

    def delete(self, path: str) -> None:
        """Delete a znode as somebody at ZooKeeper's own shell does; watches fire. Raises
        CoordinationError."""
        self._by_hand(DeleteOp(path))

    def put(self, path: str, data: bytes) -> None:
        """Create a znode or replace its data, as ``delete`` does."""
        require_path(path)
        exists = self.tree.exists(path) is not None
        self._by_hand(SetOp(path, data) if exists else CreateOp(path, data))

    def _by_hand(self, op: CoordinationOp) -> None:
        require_path(op.path)
        self.links.trace.add(f"by-hand-{type(op).__name__}", path=op.path)
        outcome = self.tree.apply([op], Author(0), universal_ms(self.links.loop.now_us))
        if outcome.error is not None:
            raise outcome.error
        self._notify_watchers(outcome.events)

    # ------------------------------------------------------------------------------ requests

    def on_message(self, connection: ZookeeperConnection, message: Message) -> None:
        """Handle a message that has arrived from a client."""
        if not self.running:
            connection.reply(ConnectionClosed())
            return
        if isinstance(message, ConnectRequest):
            self._on_connect_request(connection, message)
            return
        record = self.sessions.get(connection.session_id)
        if record is None or record.connection is not connection:
            connection.reply(ConnectionClosed())
            return
        record.last_received_us = self.links.loop.now_us
        match message:
            case Ping():
                connection.reply(Pong())
            case Read():
                connection.reply(Response(message.number, self._read(connection, message)))
            case ReadMany():
                connection.reply(Response(message.number, self._read_many(connection, message)))
            case ZnodeWrite():
                author = Author(record.session_id, connection.identities, message.acls)
                connection.reply(Response(message.number, self._write(author, message.ops)))
            case AclWrite():
                connection.reply(Response(message.number, self._write_acl(connection, message)))
            case CloseSession():
                self._end(record, "closed")
                connection.reply(Response(message.number, None))

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

    def _on_connect_request(self, connection: ZookeeperConnection, request: ConnectRequest) -> None:
        now_us = self.links.loop.now_us
        if request.login is not None:
            if self.users.get(request.login.username) != request.login.password:
                connection.reply(LoginIsRefused())
                return
            connection.identities = (ANYBODY, ("sasl", request.login.username))
        if request.session_id:
            record = self.sessions.get(request.session_id)
            if record is None:
                connection.reply(SessionIsExpired())
                return
            if record.connection is not None:
                self.forget(record.connection)
        else:
            self.tree.new_session()
            record = SessionRecord(self._next_session_id, request.timeout_ms * 1000, now_us)
            self._next_session_id += 1
            self.sessions[record.session_id] = record
            self._schedule_expiry(record)
        record.last_received_us = now_us
        record.connection = connection
        connection.session_id = record.session_id
        self._connections[connection] = None
        self.links.trace.add("zookeeper-session", id=hex(record.session_id))
        connection.reply(ConnectResponse(record.session_id))

    # ------------------------------------------------------------------------ reading and writing

    def _read(self, connection: ZookeeperConnection, read: Read) -> Any:
        try:
            value: Any
            match read.kind:
                case "get":
                    value = self.tree.get(read.path, connection.identities)
                case "exists":
                    value = self.tree.exists(read.path, connection.identities)
                case "children":
                    value = self.tree.children(read.path, connection.identities)
                case "acl":
                    value = self.tree.get_acl(read.path, connection.identities)
        except CoordinationError as error:
            return error
        if read.watch:
            kind = WatchKind.CHILDREN if read.kind == "children" else WatchKind.CHANGED
            key = (kind, read.path)
            connection.watches[key] = None
            self._watchers.setdefault(key, {})[connection] = None
        return value

    def _read_many(self, connection: ZookeeperConnection, read: ReadMany) -> Any:
        try:
            return [
                self.tree.get(path, connection.identities) if self.tree.exists(path) else None
                for path in read.paths
            ]
        except CoordinationError as error:
            return error

    def _write_acl(self, connection: ZookeeperConnection, write: AclWrite) -> Any:
        try:
            self.tree.set_acl(write.path, write.acl, connection.identities)
        except CoordinationError as error:
            return error
        return None

    def _write(self, author: Author, ops: Sequence[CoordinationOp]) -> Any:
        outcome = self.tree.apply(ops, author, universal_ms(self.links.loop.now_us))
        for op in ops:
            facts = {"session": hex(author.session_id), "path": op.path}
            error = outcome.error
            failed = {} if error is None else {"error": type(error).__name__}
            self.links.trace.add(f"zookeeper-{type(op).__name__}", **facts, **failed)
            self.links.trace.add_to_digest("data", getattr(op, "data", b""))
        self._notify_watchers(outcome.events)
        only = ops[0] if len(ops) == 1 else None
        created = outcome.results[0] if ops else None
        if isinstance(only, CreateOp) and isinstance(created, str):
            return [created, self.tree.exists(created)]
        return outcome.results

    def _notify_watchers(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            notified: dict[ZookeeperConnection, None] = {}
            for kind in TRIGGERED_WATCHES[event.kind]:
                notified.update(self._watchers.pop((kind, event.path), {}))
            for connection in notified:
                for kind in TRIGGERED_WATCHES[event.kind]:
                    connection.watches.pop((kind, event.path), None)
                connection.reply(event)

    # ---------------------------------------------------------------------------------- expiry

    def _schedule_expiry(self, record: SessionRecord) -> None:
        record.timer = self.links.loop.call_at_us(
            record.last_received_us + record.timeout_us,
            self._expire_if_silent,
            record,
            context=self.links.context,
        )

    def _expire_if_silent(self, record: SessionRecord) -> None:
        record.timer = None
        if record.session_id not in self.sessions or not self.running:
            return
        if record.last_received_us + record.timeout_us > self.links.loop.now_us:
            self._schedule_expiry(record)
        else:
            self._expire(record)

    def _expire(self, record: SessionRecord) -> None:
        connection = record.connection
        self._end(record, "expired")
        if connection is not None:
            self.forget(connection)
            connection.close_by_server()

    def _end(self, record: SessionRecord, why: str) -> None:
        self.links.trace.add(f"zookeeper-session-{why}", id=hex(record.session_id))
        del self.sessions[record.session_id]
        if record.timer is not None:
            record.timer.cancel()
            record.timer = None
        self._notify_watchers(self.tree.end_session(record.session_id))
