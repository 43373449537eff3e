"""The disks that the processes of `minikafka up` write to: which are full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Final

# A broker appends as long as anything fits, and then refuses records.
FULL_BYTES: Final = 1 << 20
ROOM_BYTES: Final = 8 << 20


class FullDisks:
    """Reports each full disk once, and once when it has room again."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._full: set[str] = set()

    def look(self, free: Mapping[str, int]) -> None:
        """``free`` has the bytes that can be written, by the path of a directory on each disk."""
        for path, free_bytes in free.items():
            if free_bytes < FULL_BYTES and path not in self._full:
                self._full.add(path)
                self._report(
                    f"the disk of {path} is full: brokers refuse records, and may end, until "
                    "there is room"
                )
            elif free_bytes >= ROOM_BYTES and path in self._full:
                self._full.remove(path)
                self._report(f"the disk of {path} has room again")


def free_bytes(paths: Iterable[str]) -> dict[str, int]:
    """Return the free bytes of each disk, by the first of its paths that exists."""
    found: dict[int, tuple[str, int]] = {}
    for path in paths:
        try:
            found.setdefault(os.stat(path).st_dev, (path, shutil.disk_usage(path).free))
        except OSError:
            continue  # not created as yet, or the disk does not respond
    return dict(found.values())
