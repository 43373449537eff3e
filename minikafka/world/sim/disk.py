"""A simulated disk: the page cache, and the part of it that would survive a power loss."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from minikafka.kernel.ports import Buffer
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.trace import Trace

TEAR_PROBABILITY = 0.5
ZERO_FILL_PROBABILITY = 0.25
WRITE_BACK_BYTES = 4 << 20  # of changes to one file; the kernel writes older ones to the disk

MESSAGES = {
    errno.ENOENT: "No such file or directory",
    errno.EEXIST: "File exists",
    errno.EISDIR: "Is a directory",
    errno.ENOTDIR: "Not a directory",
    errno.ENOTEMPTY: "Directory not empty",
    errno.ENOSPC: "No space left on device",
    errno.EBADF: "Bad file descriptor",
    errno.EAGAIN: "Resource temporarily unavailable",
    errno.EINVAL: "Invalid argument",
    errno.EIO: "Input/output error",
}


def os_error(code: int, path: str) -> OSError:
    """Return the error of a failed file operation. Its class (``FileNotFoundError``, ...) follows
    from the code."""
    return OSError(code, MESSAGES[code], path)


@dataclass(frozen=True, slots=True)
class FileWrite:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FileTruncation:
    length: int


Change: TypeAlias = FileWrite | FileTruncation


def apply(image: bytearray, change: Change) -> None:
    if isinstance(change, FileTruncation):
        del image[change.length :]
        image.extend(bytes(change.length - len(image)))
        return
    if change.offset > len(image):
        image.extend(bytes(change.offset - len(image)))
    image[change.offset : change.offset + len(change.data)] = change.data


def _weight(change: Change) -> int:
    return len(change.data) if isinstance(change, FileWrite) else 0


@dataclass(eq=False, slots=True)
class Inode:
    """A file. ``data`` is its content in the page cache, ``durable`` the content on the disk.
    ``changes`` applied to ``durable`` give ``data``. ``holders`` counts names and open files."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    changes: deque[Change] = field(default_factory=deque)
    flushed: int = 0  # number of changes made durable so far
    dirty_bytes: int = 0
    holders: int = 0
    modified_ms: int = 0
    lock_owner: object | None = None

    def change(self, change: Change) -> None:
        apply(self.data, change)
        self.changes.append(change)
        self.dirty_bytes += _weight(change)
        while self.dirty_bytes > WRITE_BACK_BYTES:
            self.flush(self.flushed + 1)

    def mark(self) -> int:
        """Return the number of changes made so far, which ``flush`` takes."""
        return self.flushed + len(self.changes)

    def flush(self, mark: int) -> None:
        """Make the first ``mark`` changes durable. Later ones are not flushed."""
        while self.flushed < mark:
            change = self.changes.popleft()
            self.dirty_bytes -= _weight(change)
            apply(self.durable, change)
            self.flushed += 1

    def lose_power(self, entropy: SimEntropy) -> None:
        """Lose a random number of the last changes. The first lost write may be torn: its first
        bytes survive, or only the file's length, with zeros."""
        self.flush(self.flushed + entropy.between(0, len(self.changes)))
        if self.changes and isinstance(torn := self.changes[0], FileWrite):
            if entropy.random() < TEAR_PROBABILITY:
                kept = entropy.between(0, len(torn.data))
                apply(self.durable, FileWrite(torn.offset, torn.data[:kept]))
            if entropy.random() < ZERO_FILL_PROBABILITY:
                missing = torn.offset + len(torn.data) - len(self.durable)
                self.durable.extend(bytes(max(0, missing)))
        self.flushed += len(self.changes)
        self.changes.clear()
        self.dirty_bytes = 0
        self.data = bytearray(self.durable)
        self.lock_owner = None


@dataclass(eq=False, slots=True)
class Directory:
    """The names in a directory. Each element of ``changes`` is atomic; it maps names to their new
    nodes (None: removed). As in POSIX, flushing a file does not make its name durable."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node | None]] = field(default_factory=list)

    def change(self, change: dict[str, Node | None]) -> None:
        _enter(self.entries, change)
        self.changes.append(change)

    def flush(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def lose_power(self, entropy: SimEntropy) -> None:
        """Lose a random number of the last changes, here and in the nodes below."""
        for change in self.changes[: entropy.between(0, len(self.changes))]:
            _enter(self.durable, change)
        self.entries = dict(self.durable)
        self.changes.clear()
        for name in sorted(self.entries):
            self.entries[name].lose_power(entropy)


Node: TypeAlias = Inode | Directory


def _enter(entries: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Disk:
    """The file system of one host. It outlives the host's processes.

    ``capacity_bytes`` limits the sum of all file sizes (None: no limit). A write beyond it writes
    the bytes that fit and then fails with ENOSPC. Operations below a path in ``broken`` fail with
    EIO.
    """

    def __init__(self, entropy: SimEntropy, trace: Trace) -> None:
        self.entropy = entropy
        self.capacity_bytes: int | None = None
        self.broken: list[str] = []
        self.used_bytes = 0
        self._trace = trace
        self._root = Directory()

    # -------------------------------------------------------------------------------- looking up

    def resolve(self, path: str) -> Node:
        """Return the node at ``path``. Raises ``FileNotFoundError``, or ``NotADirectoryError`` if
        a name before the last one is a file."""
        node: Node = self._root
        for name in _names(path):
            if isinstance(node, Inode):
                raise os_error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise os_error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def find(self, path: str) -> Node | None:
        try:
            return self.resolve(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def directory(self, path: str) -> Directory:
        """Return a directory. Raises ``FileNotFoundError``, ``NotADirectoryError``."""
        node = self.resolve(path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> Inode:
        """Return the file at ``path``. Raises ``FileNotFoundError``, ``NotADirectoryError``,
        ``IsADirectoryError``."""
        node = self.resolve(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """Return the directory that contains ``path``, and the name in it."""
        names = _names(path)
        if not names:
            raise os_error(errno.EINVAL, path)
        return self.directory("/" + "/".join(names[:-1])), names[-1]

    def check(self, path: str) -> None:
        """Raise ``OSError`` (EIO) if ``path`` is on a broken part of the disk."""
        for broken in self.broken:
            if path == broken or path.startswith(f"{broken.rstrip('/')}/"):
                raise os_error(errno.EIO, path)

    # ------------------------------------------------------------------------------------- names

    def create(self, path: str) -> Inode:
        directory, name = self.parent(path)
        inode = Inode(holders=1)
        directory.change({name: inode})
        return inode

    def make_directories(self, path: str) -> None:
        names = _names(path)
        for depth in range(1, len(names) + 1):
            here = "/" + "/".join(names[:depth])
            node = self.find(here)
            if node is None:
                directory, name = self.parent(here)
                directory.change({name: Directory()})
            elif isinstance(node, Inode):
                raise os_error(errno.EEXIST if depth == len(names) else errno.ENOTDIR, here)

    def rename(self, source: str, target: str) -> None:
        """Rename atomically. A rename between two directories also makes all changes in both
        durable."""
        from_directory, from_name = self.parent(source)
        to_directory, to_name = self.parent(target)
        moved = from_directory.entries.get(from_name)
        if moved is None:
            raise os_error(errno.ENOENT, source)
        if _is_below(target, source):
            raise os_error(errno.EINVAL, target)
        if _is_below(source, target):
            raise os_error(errno.ENOTEMPTY, target)
        replaced = to_directory.entries.get(to_name)
        if replaced is moved:
            return
        if isinstance(replaced, Directory):
            if isinstance(moved, Inode):
                raise os_error(errno.EISDIR, target)
            if replaced.entries:
                raise os_error(errno.ENOTEMPTY, target)
        elif isinstance(replaced, Inode) and isinstance(moved, Directory):
            raise os_error(errno.ENOTDIR, target)
        if from_directory is to_directory:
            from_directory.change({from_name: None, to_name: moved})
        else:
            to_directory.change({to_name: moved})
            from_directory.change({from_name: None})
            to_directory.flush()
            from_directory.flush()
        if isinstance(replaced, Inode):
            self.release(replaced)

    def remove(self, path: str) -> None:
        """Remove a file. Raises ``FileNotFoundError``, ``IsADirectoryError``."""
        inode = self.file(path)
        directory, name = self.parent(path)
        directory.change({name: None})
        self.release(inode)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content. Raises ``FileNotFoundError``,
        ``NotADirectoryError``."""
        self._empty(self.directory(path))
        directory, name = self.parent(path)
        directory.change({name: None})

    def _empty(self, directory: Directory) -> None:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, Directory):
                self._empty(node)
            else:
                self.release(node)
            directory.change({name: None})

    # ----------------------------------------------------------------------------------- content

    def write(self, inode: Inode, data: Buffer, offset: int, path: str) -> None:
        length = memoryview(data).nbytes
        fits = length
        if self.capacity_bytes is not None:
            end_limit = len(inode.data) + max(0, self.capacity_bytes - self.used_bytes)
            fits = max(0, min(length, end_limit - offset))
        if fits:
            self._resize(inode, FileWrite(offset, bytes(memoryview(data).cast("B")[:fits])))
        if fits < length:
            raise os_error(errno.ENOSPC, path)

    def truncate(self, inode: Inode, length: int, path: str) -> None:
        growth = length - len(inode.data)
        if (
            growth > 0
            and self.capacity_bytes is not None
            and self.used_bytes + growth > self.capacity_bytes
        ):
            raise os_error(errno.ENOSPC, path)
        if growth:
            self._resize(inode, FileTruncation(length))

    def _resize(self, inode: Inode, change: Change) -> None:
        before = len(inode.data)
        inode.change(change)
        self.used_bytes += len(inode.data) - before

    def release(self, inode: Inode) -> None:
        """Count one name or open file less; the last one frees the bytes."""
        inode.holders -= 1
        if inode.holders == 0:
            self.used_bytes -= len(inode.data)

    # -------------------------------------------------------------------------------- power loss

    def crash(self) -> None:
        """Lose power: changes that were not flushed survive, are torn or are lost, at random. No
        process may have files open."""
        self._root.lose_power(self.entropy)
        self.used_bytes = 0
        self._count(self._root, "")

    def _count(self, directory: Directory, path: str) -> None:
        for name, node in sorted(directory.entries.items()):
            if isinstance(node, Directory):
                self._count(node, f"{path}/{name}")
            else:
                node.holders = 1
                self.used_bytes += len(node.data)
                self._trace.add("left", path=f"{path}/{name}", bytes=len(node.data))


def _names(path: str) -> list[str]:
    """Split an absolute path. Raises ``OSError`` for a relative one."""
    if not path.startswith("/"):
        raise os_error(errno.EINVAL, path)
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


def _is_below(path: str, directory: str) -> bool:
    inner, outer = _names(path), _names(directory)
    return len(inner) > len(outer) and inner[: len(outer)] == outer
