"""A file system in memory: directories, names, contents, and a capacity."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Buffer

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


@dataclass(eq=False, slots=True)
class Inode:
    """A file. ``holders`` counts names and open files."""

    data: bytearray = field(default_factory=bytearray)
    holders: int = 0
    modified_ms: int = 0
    lock_owner: object | None = None

    def write(self, data: Buffer, offset: int) -> None:
        write_into(self.data, data, offset)

    def truncate(self, length: int) -> None:
        truncate_to(self.data, length)

    def mark(self) -> int:
        """Return the number of changes made so far, which ``flush`` takes."""
        return 0

    def flush(self, mark: int) -> None:
        """Make the first ``mark`` changes survive a loss of power."""


def write_into(image: bytearray, data: Buffer, offset: int) -> None:
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def truncate_to(image: bytearray, length: int) -> None:
    del image[length:]
    image.extend(bytes(length - len(image)))


@dataclass(eq=False, slots=True)
class Directory:
    """The names in a directory, with their nodes."""

    entries: dict[str, Node] = field(default_factory=dict)

    def change(self, change: dict[str, Node | None]) -> None:
        """Set names to new nodes (None: remove them), all at once."""
        enter(self.entries, change)

    def flush(self) -> None:
        """Make the names survive a loss of power."""


Node: TypeAlias = Inode | Directory


def enter(entries: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class DiskTrouble(Enum):
    """Why a file operation failed or took long."""

    FULL = "full"
    BROKEN = "broken"
    SLOW = "slow"


class FileTree:
    """The file system of one host.

    ``capacity_bytes`` limits the sum of all file sizes (None: no limit). A write beyond it writes
    the bytes that fit and then fails with ENOSPC. Operations below a path in ``broken`` fail with
    EIO. Flushes and reads take ``latency_s``; writes do not, as where the system has memory left
    for them. ``troubled`` is called with each operation that meets one of these.
    """

    def __init__(self) -> None:
        self.capacity_bytes: int | None = None
        self.broken: list[str] = []
        self.latency_s = 0.0
        self.troubled: Callable[[DiskTrouble], object] = lambda trouble: None
        self.used_bytes = 0
        self.root: Directory = self.new_directory()

    def new_file(self) -> Inode:
        return Inode()

    def new_directory(self) -> Directory:
        return Directory()

    # -------------------------------------------------------------------------------- looking up

    def resolve(self, path: str) -> Node:
        """Return the node at ``path``. Raises ``FileNotFoundError``, or ``NotADirectoryError`` if
        a name before the last one is a file."""
        node: Node = self.root
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
                self.troubled(DiskTrouble.BROKEN)
                raise os_error(errno.EIO, path)

    # ------------------------------------------------------------------------------------- names

    def create(self, path: str) -> Inode:
        directory, name = self.parent(path)
        inode = self.new_file()
        inode.holders = 1
        directory.change({name: inode})
        return inode

    def make_directories(self, path: str) -> None:
        names = _names(path)
        for depth in range(1, len(names) + 1):
            here = "/" + "/".join(names[:depth])
            node = self.find(here)
            if node is None:
                directory, name = self.parent(here)
                directory.change({name: self.new_directory()})
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
            before = len(inode.data)
            inode.write(memoryview(data).cast("B")[:fits], offset)
            self.used_bytes += len(inode.data) - before
        if fits < length:
            self.troubled(DiskTrouble.FULL)
            raise os_error(errno.ENOSPC, path)

    def truncate(self, inode: Inode, length: int, path: str) -> None:
        growth = length - len(inode.data)
        if (
            growth > 0
            and self.capacity_bytes is not None
            and self.used_bytes + growth > self.capacity_bytes
        ):
            self.troubled(DiskTrouble.FULL)
            raise os_error(errno.ENOSPC, path)
        if growth:
            inode.truncate(length)
            self.used_bytes += growth

    def release(self, inode: Inode) -> None:
        """Count one name or open file less; the last one frees the bytes."""
        inode.holders -= 1
        if inode.holders == 0:
            self.used_bytes -= len(inode.data)


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
