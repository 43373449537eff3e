"""Strays in log directories: what has a name of ours, and is no such file or directory."""

from __future__ import annotations

from typing import Final

from minikafka.core.log.names import (
    APART_SUFFIX,
    CLEANED_SUFFIX,
    DELETE_DIR_SUFFIX,
    DELETED_SUFFIX,
    FUTURE_DIR_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    STRAY_DIR_SUFFIX,
    offset_of,
    parse_directory_name,
)
from minikafka.core.log.small_files import LEADER_EPOCH, PARTITION_METADATA
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Files

_SUFFIXES: Final = (
    LOG_SUFFIX,
    *INDEX_SUFFIXES,
    SNAPSHOT_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    ".swap",
    ".tmp",
)
_OTHER_DIRECTORIES: Final = (DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)
_NAMES: Final = (LEADER_EPOCH, PARTITION_METADATA)


def put_directories_apart(files: Files, directory: str, events: EventLog) -> None:
    """Rename the directories in a log's directory that have names of files. Raises OSError.

    Their names may be needed later, e.g. by the next segment, so it is not enough to skip them."""
    for name in files.list(directory):
        if not name.endswith(_SUFFIXES) and name not in _NAMES:
            continue
        path = f"{directory}/{name}"
        if files.is_directory(path):
            _put_apart(files, path, events)
        elif name.endswith(LOG_SUFFIX) and offset_of(name, LOG_SUFFIX) is None:
            events.warning("stray_file_skipped", path=ascii(path))


def put_files_apart(files: Files, directory: str, events: EventLog) -> None:
    """Rename the files in a log directory that have the name of a log's directory. Directories that
    belong to no log are left alone. Raises OSError."""
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if parse_directory_name(name) is None:
            if not name.endswith(_OTHER_DIRECTORIES) and files.is_directory(path):
                events.warning("stray_directory_skipped", path=ascii(path))
        elif not files.is_directory(path):
            _put_apart(files, path, events)


def _put_apart(files: Files, path: str, events: EventLog) -> None:
    target = path + APART_SUFFIX
    while files.exists(target):
        target += APART_SUFFIX
    files.rename(path, target)
    events.warning("stray_renamed", path=ascii(path), target=ascii(target))
