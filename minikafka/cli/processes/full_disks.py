"""Reports of full disks to the user of `minikafka up`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Final

# A disk counts as full below the first limit of free bytes, and has room again from the second one
# on: a disk near one limit must not be reported again and again.
FULL_BYTES: Final = 1 << 20
ROOM_BYTES: Final = 8 << 20


class FullDisks:
    """Calls ``report`` once when a disk becomes full, and once when it has room again."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._full: set[str] = set()

    def update(self, free: Mapping[str, int]) -> None:
        """``free`` has the number of free bytes of each disk, by the path of a directory on it."""
        for path, free_bytes in free.items():
            if free_bytes < FULL_BYTES and path not in self._full:
                self._full.add(path)
                self._report(
                    f"the disk of {path} is full: brokers refuse records until there is room, and "
                    "brokers or ZooKeeper may exit"
                )
            elif free_bytes >= ROOM_BYTES and path in self._full:
                self._full.remove(path)
                self._report(f"the disk of {path} has room again; start what has exited")


def free_bytes(paths: Iterable[str]) -> dict[str, int]:
    """Return the free bytes of each disk, by the first of its paths that exists."""
    found: dict[int, tuple[str, int]] = {}
    for path in paths:
        try:
            found.setdefault(os.stat(path).st_dev, (path, shutil.disk_usage(path).free))
        except OSError:
            continue  # not created as yet, or the disk does not respond
    return dict(found.values())
