"""Wall clocks of single processes that tests can set; needs a C compiler.

libfaketime is no substitute: with a true monotonic clock, its ``clock_nanosleep`` fails with EINVAL
(0.9.10), so ``time.sleep`` raises, and kazoo's thread ends at its first reconnection.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

COMPILER = shutil.which("cc")


def compile_wall_clock(directory: Path) -> Path:
    """The shared library for ``LD_PRELOAD``. Raises CalledProcessError."""
    library = directory / "wall_clock.so"
    source = Path(__file__).with_suffix(".c")
    command = [COMPILER or "cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True)
    return library


class WallClock:
    """How far one process's wall clock is off."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        file.write_bytes(bytes(8))

    def environment(self) -> dict[str, str]:
        """The variables a process must be started with."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_OFFSET": str(self._file)}

    def set_offset(self, seconds: int) -> None:
        """Written in place: the process has the file mapped."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))
