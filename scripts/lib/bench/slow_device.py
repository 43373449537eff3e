"""A block device whose writes and reads are bounded, for log directories on a slow disk.

It is a file system on a loop device. The kernel bounds what reaches the device (``blkio`` of
cgroup v1, whose root bounds the writes of the page cache as well), and how much of it the page
cache may hold back (the limit of a backing device, as on a machine with little memory). So a write
waits where it waits on a real disk: in the system call, while the page cache writes back.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

DEVICE_BYTES = 4 << 30
PAGE_CACHE_BYTES = 64 << 20  # of writes that are held back
BYTES_PER_S = 10 << 20
UNBOUNDED, STILL = 0, 1
THROTTLES = Path("/sys/fs/cgroup/blkio")


class NoSlowDevice(Exception):
    """This machine cannot bound a device; the message says what is missing."""


class SlowDevice:
    """A context: ``path`` is a file system on a device of ``BYTES_PER_S``.

    Raises NoSlowDevice without root, loop devices, mkfs.ext4, the throttles of cgroup v1, or
    Linux 6.2."""

    def __init__(self, directory: Path) -> None:
        self._image, self.path = directory / "device", directory / "slow"
        self._stack = ExitStack()

    def __enter__(self) -> SlowDevice:
        with ExitStack() as stack:
            try:
                self._make(stack)
            except (OSError, subprocess.CalledProcessError) as error:
                needed = "root, Linux 6.2, loop devices, mkfs.ext4 and blkio of cgroup v1"
                raise NoSlowDevice(
                    f"no slow device can be made ({error}); needed: {needed}"
                ) from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make(self, stack: ExitStack) -> None:
        with self._image.open("wb") as image:
            image.truncate(DEVICE_BYTES)
        loop = output("losetup", "--find", "--show", "--direct-io=on", self._image)
        stack.callback(output, "losetup", "--detach", loop)
        output("mkfs.ext4", "-q", "-E", "lazy_itable_init=1", loop)
        self.path.mkdir()
        output("mount", loop, self.path)
        stack.callback(output, "umount", self.path)
        self._number = Path(f"/sys/block/{Path(loop).name}/dev").read_text().strip()
        self._bound(BYTES_PER_S)
        stack.callback(self._bound, UNBOUNDED)
        held_back = Path(f"/sys/class/bdi/{self._number}")
        (held_back / "strict_limit").write_text("1")
        stack.callback((held_back / "strict_limit").write_text, "0")
        (held_back / "max_bytes").write_text(str(PAGE_CACHE_BYTES))
        stack.callback((held_back / "max_ratio").write_text, "100")

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing reaches the device meanwhile."""
        self._bound(STILL)
        try:
            yield
        finally:
            self._bound(BYTES_PER_S)

    def drain(self) -> None:
        """Write back what the page cache holds, at the speed of the machine."""
        self._bound(UNBOUNDED)
        output("sync", "--file-system", self.path)
        self._bound(BYTES_PER_S)

    def forget(self) -> None:
        """Drop from the page cache what is on the disk of logs."""
        for log in self.path.rglob("*.log"):
            with log.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _bound(self, bytes_per_s: int) -> None:
        for what in ("write", "read"):
            throttle = THROTTLES / f"blkio.throttle.{what}_bps_device"
            throttle.write_text(f"{self._number} {bytes_per_s}")


def output(*command: object) -> str:
    """Return what a command prints. Raises CalledProcessError if it fails."""
    words = list(map(str, command))
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
