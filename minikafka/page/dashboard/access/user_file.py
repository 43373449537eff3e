"""The file of the page's users, which is read again once it has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from minikafka.kernel.config import ConfigError
from minikafka.kernel.events import event_log
from minikafka.page.dashboard.access.accounts import PageAccount, parse_users


class _FileVersion(NamedTuple):
    """What differs once a file was written, or another one was put in its place."""

    modified_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _FileVersion | None:
        """Return the present version, None without a file."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


class UserFile(Mapping[str, PageAccount]):
    """The users of a file by name. Each use looks whether the file has changed.

    While it cannot be read, or has a wrong line, the users are those that it had before: a file
    that is being edited shuts nobody out. The event ``page_users_not_read`` says why."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError, OSError, UnicodeDecodeError."""
        self._path = Path(path)
        self._log = event_log("page")
        self._version = _FileVersion.of(self._path)
        self._users = self._read()

    def __getitem__(self, name: str) -> PageAccount:
        return self._present()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())

    def _present(self) -> Mapping[str, PageAccount]:
        version = _FileVersion.of(self._path)
        if version != self._version:
            self._version = version  # of before the file is read: a later change is seen, too
            try:
                self._users = self._read()
            except (ConfigError, OSError, UnicodeDecodeError) as error:
                self._log.error("page_users_not_read", file=str(self._path), error=str(error))
        return self._users

    def _read(self) -> Mapping[str, PageAccount]:
        return parse_users(self._path.read_text(encoding="utf-8"), str(self._path))
