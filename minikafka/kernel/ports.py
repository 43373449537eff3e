"""The five ports through which a node reaches the outside, and the World that bundles them.

A port is a typing Protocol. ``world.real`` and ``world.sim`` implement each of them; the same
contract tests run against both. All times are integer milliseconds, all sizes are bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# --------------------------------------------------------------------------------------- Clock


class TimerHandle(Protocol):
    """A pending call; ``cancel`` is idempotent."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic and wall time, and timers on the running loop."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back: for time-outs, wheels, lag."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970: for timestamps that are stored or shown."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle: ...

    async def sleep(self, delay_ms: int) -> None: ...


# ------------------------------------------------------------------------------------- Network

ProtocolFactory: TypeAlias = Callable[[], asyncio.BufferedProtocol]


class Listener(Protocol):
    """A bound server socket."""

    @property
    def port(self) -> int:
        """The port bound (the real one where 0 was asked for)."""
        ...

    def close(self) -> None:
        """Stop accepting. Connections already accepted live on."""
        ...


class Network(Protocol):
    """TCP, as asyncio transports and ``BufferedProtocol`` objects.

    Raises ``OSError`` (address in use, connection refused, ...) as asyncio does.
    """

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener: ...

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]: ...

    async def resolves(self, host: str) -> bool:
        """Whether ``host`` is an IP address, or a name that has one."""
        ...


# --------------------------------------------------------------------------------------- Files


class File(Protocol):
    """One open file. Reads and writes are synchronous (page cache); ``flush`` reaches the disk."""

    def size(self) -> int: ...

    def write(self, data: Buffer, offset: int) -> None:
        """Write all of ``data`` at ``offset``, or raise ``OSError`` (a part may be written)."""
        ...

    def read(self, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes at ``offset``; shorter only at the end of the file."""
        ...

    async def read_cold(self, length: int, offset: int) -> bytes:
        """As ``read``, without stalling the loop when the bytes are not in the page cache."""
        ...

    def is_cached(self, length: int, offset: int) -> bool:
        """Whether ``read`` would find these bytes in the page cache, judged by samples. True
        where the file system does not say."""
        ...

    def truncate(self, length: int) -> None: ...

    async def flush(self) -> None:
        """Return when everything written before the call would survive a power loss."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Volume:
    """The file system that holds a path; ``usable_bytes`` are what may still be written."""

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
        """Names (not paths) in a directory, sorted."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directories(self, path: str) -> None:
        """Like ``mkdir -p``."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically, replacing ``target`` if it is a file."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file. Nothing happens when it does not exist."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds. Nothing happens when it does not exist."""
        ...

    async def discard(self, path: str) -> None:
        """As ``remove`` of a file or ``remove_tree``, without stalling the loop for large ones."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written to, in wall time."""
        ...

    def volume(self, path: str) -> Volume: ...

    def read_all(self, path: str) -> bytes: ...

    async def replace(self, path: str, data: bytes) -> None:
        """Write a whole file so that after a crash either the old or the new one is there, and
        after return the new one survives a power loss (write aside, fsync, rename, fsync dir)."""
        ...

    def replace_unsynced(self, path: str, data: bytes) -> None:
        """As ``replace`` but without any fsync: atomic against a killed process only."""
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
    """This operation of a failed multi was fine, or was not looked at: another one failed."""


class BadPath(CoordinationError):
    """A path that no ZooKeeper accepts, as a name in it is ``.`` or ``..``; it was not sent."""


class TooLarge(CoordinationError):
    """More bytes than a server takes (``jute.maxbuffer``); they were not sent."""


class ConnectionLost(CoordinationError):
    """The answer is unknown: the operation may or may not have taken place."""


class SessionExpired(CoordinationError):
    """The session is over; its ephemeral nodes are gone or going."""


def require_path(path: str) -> None:
    """Raises BadPath. ZooKeeper knows no relative paths."""
    if "/." in path and not {".", ".."}.isdisjoint(path.split("/")):
        raise BadPath(path)


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
    raise ``ConnectionLost`` or ``SessionExpired``, besides what it names.
    """

    @property
    def session_id(self) -> int: ...

    @property
    def state(self) -> SessionState: ...

    def add_state_listener(self, listener: StateListener) -> None:
        """Called on the loop at every change of ``state``, after it."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        """Raises ``NodeExists``, ``NoNode`` (parent missing)."""
        ...

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """Raises ``NoNode`` (and then leaves no watch)."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """Each as ``get`` without a watch; None where there is no node. By one request, so some
        hundreds at a time; a server before ZooKeeper 3.6 hangs up on the first, and is asked one
        by one from then on."""
        ...

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        """The watch fires on creation, change and deletion."""
        ...

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Sorted names. Raises ``NoNode``."""
        ...

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        """Raises ``NoNode``, ``BadVersion``."""
        ...

    async def delete(self, path: str, version: int = -1) -> None:
        """Raises ``NoNode``, ``BadVersion``, ``NotEmpty``."""
        ...

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        """All or nothing. On failure every place holds an error: the culprit's own, ``RolledBack``
        elsewhere. Only connection and session errors are raised."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes go at once."""
        ...


class Coordination(Protocol):
    """Opens ZooKeeper sessions."""

    async def open(
        self, connect: str, session_timeout_ms: int, connection_timeout_ms: int
    ) -> CoordinationSession:
        """``connect`` is Kafka's ``zookeeper.connect``: ``h1:p1,h2:p2/chroot``; the chroot is made
        when missing. Raises ``ConnectionLost`` when no server answers within the time-out."""
        ...


# ------------------------------------------------------------------------------------- Entropy


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes: ...

    def randrange(self, stop: int) -> int:
        """Uniform over ``0 <= n < stop``."""
        ...

    def random(self) -> float:
        """Uniform over ``0.0 <= x < 1.0``."""
        ...


# --------------------------------------------------------------------------------------- World


@dataclass(frozen=True, slots=True)
class World:
    """Everything of the outside that a node may touch."""

    clock: Clock
    network: Network
    files: Files
    coordination: Coordination
    entropy: Entropy
