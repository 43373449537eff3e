"""The interfaces of a node to the outside, and the World that bundles them. ``kernel.kerberos``
has that to Kerberos.

A port is a typing Protocol. ``world.real`` and ``world.sim`` implement each of them; the same
contract tests run against both. All times are integer milliseconds, all sizes are bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar

from minikafka.kernel.kerberos import Kerberos, NoKerberos
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.tls import TlsSettings
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity, ZnodeAcl

T = TypeVar("T")

Buffer: TypeAlias = bytes | bytearray | memoryview

# --------------------------------------------------------------------------------------- Clock


class TimerHandle(Protocol):
    """A pending call; ``cancel`` is idempotent."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic and wall time, and timers on the running loop."""

    def monotonic_ms(self) -> int:
        """Return monotonic milliseconds, for time-outs and lag."""
        ...

    def monotonic_ns(self) -> int:
        """Return the same time in nanoseconds, for how long the loop runs a handler."""
        ...

    def wall_ms(self) -> int:
        """Return Unix time in milliseconds, for timestamps that are stored or shown."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle: ...

    async def sleep(self, delay_ms: int) -> None: ...


# ------------------------------------------------------------------------------------- Network

ProtocolFactory: TypeAlias = Callable[[], asyncio.BufferedProtocol]


class TlsOfListener(Protocol):
    """The TLS settings of a listener, which may change for connections to come."""

    @property
    def settings(self) -> TlsSettings: ...

    def handshake_failed(self, host: str, error: OSError) -> None:
        """Called when a client's handshake has failed, or has taken too long."""
        ...


class Listener(Protocol):
    """A bound server socket."""

    @property
    def port(self) -> int:
        """The bound port; for port 0 the one that the system chose."""
        ...

    def close(self) -> None:
        """Stop accepting; accepted connections stay open."""
        ...


class OutgoingLogin(Protocol):
    """The login of one connection to another node, and its repetitions. Frames that are sent have
    their sizes, those that are received do not."""

    @property
    def in_progress(self) -> bool:
        """Whether the next frame belongs to the login."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether the session ends soon: log in again before the next request."""
        ...

    def preparation(self, host: str) -> Coroutine[Any, Any, None] | None:
        """Return what has to be awaited before each ``begin`` (it may wait for a ticket of
        Kerberos, and raises KafkaError if there is none), or None. ``host`` is the peer's."""
        ...

    def begin(self) -> Buffer:
        """Start a login, and return the frame to send."""
        ...

    def receive(self, frame: Buffer) -> Buffer:
        """Process a frame, and return the next one to send; an empty one if the login has
        succeeded. Raises KafkaError if it has failed."""
        ...


class Network(Protocol):
    """TCP, as asyncio transports and ``BufferedProtocol`` objects.

    Raises ``OSError`` (address in use, connection refused, ...) as asyncio does.
    """

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = ...,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        """``accept_failed`` is called when connections cannot be accepted for lack of descriptors:
        they are closed, or tried again after a pause. With ``tls`` the protocol sees a connection
        when its handshake has succeeded."""
        ...

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]: ...

    def new_login(self) -> OutgoingLogin | None:
        """Return the login that a new connection to another node begins with, or None."""
        ...

    def check_tls(self, settings: TlsSettings, of_listener: bool) -> None:
        """Raise TlsError if the settings cannot be used."""
        ...

    def check_handshake(self, server: TlsSettings, client: TlsSettings) -> None:
        """Raise TlsError if a client with these settings could not connect to a server with those.
        Host names are not compared."""
        ...

    def descriptor_limit(self) -> int:
        """Return how many files and connections the process may have open at a time."""
        ...

    async def addresses(self, host: str) -> list[str]:
        """Return the IP addresses of a host. Raises OSError for an unknown host."""
        ...

    async def resolves(self, host: str) -> bool:
        """Return whether ``host`` is an IP address or a name that resolves to one."""
        ...


# --------------------------------------------------------------------------------------- Files


class File(Protocol):
    """One open file. Reads and writes are synchronous (page cache); ``flush`` reaches the disk."""

    def size(self) -> int: ...

    def write(self, data: Buffer, offset: int) -> None:
        """Write all of ``data`` at ``offset``, or raise ``OSError`` (a part may be written)."""
        ...

    def write_parts(self, parts: Sequence[Buffer], offset: int) -> None:
        """Write up to 1,024 buffers one after the other from ``offset`` on, in one system call.
        Raises ``OSError``."""
        ...

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes at ``offset``, fewer only at the end of the file."""
        ...

    async def read_cold(self, length: int, offset: int) -> bytes:
        """Read without blocking the event loop if the bytes are not in the page cache."""
        ...

    def view(self, length: int, offset: int) -> Buffer:
        """Return the same as ``read``, in memory that is used again when nothing refers to the
        result any more."""
        ...

    def view_cached(self, length: int, offset: int) -> Buffer | None:
        """Return the same as ``view`` if all of it is in the page cache, or if the file system does
        not tell. Otherwise return None, without waiting for the disk."""
        ...

    def truncate(self, length: int) -> None: ...

    async def flush(self) -> None:
        """Flush all earlier writes to disk; return when they would survive a power loss."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Volume:
    """The file system of a path; ``usable_bytes`` can still be written."""

    total_bytes: int
    usable_bytes: int


class FileLock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are absolute strings; errors are ``OSError`` as Python's own."""

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing. ``FileNotFoundError`` unless it exists or ``create``."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directories(self, path: str) -> None:
        """Create a directory and its parents, as ``mkdir -p`` does."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing ``target`` if it is a file."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file. Nothing happens when it does not exist."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds. Nothing happens when it does not exist."""
        ...

    async def discard(self, path: str) -> None:
        """Remove a file or a directory tree without blocking the event loop for large ones."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return the Unix time in ms of the last write to a file."""
        ...

    def volume(self, path: str) -> Volume: ...

    def read_all(self, path: str) -> bytes: ...

    async def replace(self, path: str, data: bytes) -> None:
        """Replace a whole file atomically and durably: write aside, fsync, rename, fsync directory.

        After a crash either the old or the new contents exist, after return the new ones.
        """
        ...

    def replace_unsynced(self, path: str, data: bytes) -> None:
        """Replace a whole file atomically without fsync: it may not survive a power loss."""
        ...

    async def flush_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock held until released or the process dies.

        Raises ``BlockingIOError`` when another owner holds it."""
        ...


# -------------------------------------------------------------------------------- Coordination


class CoordinationError(Exception):
    """A ZooKeeper operation failed; ``path`` says where."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path


class NoNode(CoordinationError): ...


class NodeExists(CoordinationError): ...


class BadVersion(CoordinationError): ...


class NotEmpty(CoordinationError): ...


class RolledBack(CoordinationError):
    """Another operation of the same multi failed, so this one had no effect."""


class BadPath(CoordinationError):
    """A path that ZooKeeper does not accept, such as one with ``..`` or a control character; it was
    not sent."""


class TooLarge(CoordinationError):
    """A request larger than a server accepts (``jute.maxbuffer``); it was not sent."""


class NoAuth(CoordinationError):
    """The ACL of a znode does not allow the operation."""

    def __str__(self) -> str:
        return (
            f"ZooKeeper denies access to {self.path}: its ACL does not allow it to the identity "
            "(SASL user or certificate) of this client"
        )


class InvalidAcl(CoordinationError):
    """The client creates a znode for itself alone, and ZooKeeper does not know who it is."""

    def __str__(self) -> str:
        return (
            f"ZooKeeper refuses the ACL of {self.path}: it does not know this client, which needs "
            "a SASL user or a certificate that ZooKeeper accepts"
        )


class ZookeeperLoginFailed(CoordinationError):
    """ZooKeeper has refused the SASL login of a session; the message says whose."""


class ConnectionLost(CoordinationError):
    """The connection was lost before the response: the operation may have taken effect."""


class SessionExpired(CoordinationError):
    """The session has expired; its ephemeral nodes are or will be deleted."""


# "/", or names that are not "." or "..", without the characters that ZooKeeper's PathUtils refuses
# (surrogates are among them).
_PATH = re.compile(r"/|(?:/(?!\.\.?(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)+")


def require_path(path: str) -> None:
    """Raise BadPath if a name in the path is empty, ``.`` or ``..``, or has a character that
    ZooKeeper does not accept."""
    if not _PATH.fullmatch(path):
        raise BadPath(path)


def require_version(path: str, version: int) -> None:
    """Raise BadVersion for a number that is the version of no znode: it is not an int of Java."""
    if not -(2**31) <= version < 2**31:
        raise BadVersion(path)


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no server reachable; the session may still live
    EXPIRED = "expired"  # final for this session object


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    kind: WatchKind
    path: str


@dataclass(frozen=True, slots=True)
class ZnodeStat:
    """``version`` counts data changes; ``czxid`` is the id of the creating transaction (Kafka's
    broker epoch); ``ephemeral_owner`` is a session id, or 0."""

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    num_children: int


@dataclass(frozen=True, slots=True)
class CreateOp:
    path: str
    data: bytes
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetOp:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class DeleteOp:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class CheckOp:
    path: str
    version: int


CoordinationOp: TypeAlias = CreateOp | SetOp | DeleteOp | CheckOp
# create -> the path made (with its sequence number), set -> the new stat, delete/check -> None
OpResult: TypeAlias = str | ZnodeStat | CoordinationError | None
Watcher: TypeAlias = Callable[[WatchEvent], None]
StateListener: TypeAlias = Callable[[SessionState], None]


class CoordinationSession(Protocol):
    """One ZooKeeper session. Paths are relative to the chroot. Watchers fire once, on the loop.

    A watcher is a hint: re-read and re-arm. Watches do not outlive the session. Any call may
    raise ``ConnectionLost``, ``SessionExpired`` or ``NoAuth``, besides what it names.
    """

    @property
    def session_id(self) -> int: ...

    @property
    def state(self) -> SessionState: ...

    def add_state_listener(self, listener: StateListener) -> None:
        """Add a function that is called on the loop after every change of ``state``."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        """Create a znode with the ACL that the session's security has for it. Raises
        ``NodeExists``, and ``NoNode`` if the parent is missing."""
        ...

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """Read a znode. Raises ``NoNode``, and then sets no watch."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """Read several znodes in one request, without watches; None for each missing one.

        Pass some hundreds at most. A server before ZooKeeper 3.6 closes the connection after the
        first such request; from then on znodes are read one by one.
        """
        ...

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        """Return the stat of a znode; None if it is missing.

        The watch fires on creation, change and deletion.
        """
        ...

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Return the sorted names of the children. Raises ``NoNode``."""
        ...

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        """Set the data of a znode. Raises ``NoNode``, ``BadVersion``."""
        ...

    async def delete(self, path: str, version: int = -1) -> None:
        """Delete a znode. Raises ``NoNode``, ``BadVersion``, ``NotEmpty``."""
        ...

    async def get_acl(self, path: str) -> ZnodeAcl:
        """Return the ACL of a znode. Raises ``NoNode``."""
        ...

    async def set_acl(self, path: str, acl: ZnodeAcl) -> None:
        """Replace the ACL of a znode. Raises ``NoNode``, ``InvalidAcl``."""
        ...

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        """Apply all operations or none; return a result for each.

        After a failure each result is an error: that of the failed operation, ``RolledBack`` for
        the others. Only connection and session errors are raised.
        """
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes are deleted at once."""
        ...


class Coordination(Protocol):
    """Opens ZooKeeper sessions."""

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        """Open a session; create the chroot if it is missing.

        ``connect`` is Kafka's ``zookeeper.connect``: ``h1:p1,h2:p2/chroot``. Raises
        ``ConnectionLost`` if no server responds within the time-out, and ``ZookeeperLoginFailed``.
        """
        ...


# ------------------------------------------------------------------------------------- Entropy


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes: ...

    def randrange(self, stop: int) -> int:
        """Return a uniform random integer, ``0 <= n < stop``."""
        ...

    def random(self) -> float:
        """Return a uniform random number, ``0.0 <= x < 1.0``."""
        ...


# ------------------------------------------------------------------------------------- Workers


class Workers(Protocol):
    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call ``work(*args)`` outside of the event loop, and return or raise what it does. It must
        be a pure function: it may run in a thread. Only so many calls run at a time; others wait.
        """
        ...


# --------------------------------------------------------------------------------------- World


@dataclass(frozen=True, slots=True)
class World:
    """All interfaces of a node to the outside."""

    clock: Clock
    network: Network
    files: Files
    coordination: Coordination
    entropy: Entropy
    workers: Workers
    kerberos: Kerberos = field(default_factory=NoKerberos)
