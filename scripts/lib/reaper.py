"""Run a command, and end every process that it leaves behind, however it ends.

Usage: python -m scripts.lib.reaper [--own-temporary] COMMAND [ARGUMENT ...]

Tests and the demo start brokers, ZooKeepers and JVMs, some of them in sessions of their own, which
a Ctrl-C does not reach. On Linux this process becomes their "child subreaper": the kernel makes it
the parent of every orphan below it, so none can escape. Elsewhere it knows those that it saw below
the command when a signal arrived.

With ``--own-temporary`` the command and its JVMs keep their temporary files in one directory, which
is deleted at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, Linux
GRACE_S = 30.0  # for the command, after the first signal
POLL_S = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def adopt_orphans() -> None:
    """Become the parent of every process below whose own parent has ended. Linux only."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def on_terminal() -> bool:
    """Whether we are a terminal's foreground job: then Ctrl-C reaches the command by itself."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


class Reaper:
    """One run of a command."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(command, env=environment)
        self._seen: dict[int, psutil.Process] = {}
        self._signals = 0
        self._give_up_at = float("inf")
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        self._give_up_at = time.monotonic() + (GRACE_S if self._signals == 1 else 0)
        self._look()
        if self._signals == 1 and not (number == signal.SIGINT and on_terminal()):
            self._process.send_signal(number)

    def _look(self) -> list[psutil.Process]:
        """Every live process below this one, and those below the command that were seen before."""
        for each in psutil.Process().children(recursive=True):
            self._seen[each.pid] = each
        return [each for each in self._seen.values() if each.is_running()]

    def run(self) -> int:
        """The command's exit status, or 128 and the number of the signal that ended it."""
        while self._process.poll() is None and time.monotonic() < self._give_up_at:
            self._collect_orphans()
            time.sleep(POLL_S)
        finished = self._process.poll()
        self._end_the_rest()
        if finished is None:
            return 128 + signal.SIGKILL
        return finished if finished >= 0 else 128 - finished

    def _end_the_rest(self) -> None:
        reported = False
        while left := self._look():
            dying = [each for each in left if each.status() != psutil.STATUS_ZOMBIE]
            if dying and not reported:
                reported = True
                names = ", ".join(f"{each.name()} ({each.pid})" for each in dying)
                print(f"minikafka: ending what was left running: {names}", file=sys.stderr)
            for each in dying:
                each.kill()
            for each in left:
                self._collect(each.pid)
            time.sleep(POLL_S)

    def _collect_orphans(self) -> None:
        """Take the exit status of adopted processes that have ended: tests which wait for the end
        of an orphan would see a zombie for ever. The status of the command is left to Popen."""
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == self._process.pid:
                return
            self._collect(ended.si_pid)

    def _collect(self, pid: int) -> None:
        """Take the exit status of a child that has ended, so that it is no zombie."""
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return  # it is another process's child


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="reaper", description="Run a command and end every process that it leaves."
    )
    parser.add_argument("--own-temporary", action="store_true", help="delete temporary files")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    adopt_orphans()
    if not args.own_temporary:
        return Reaper(args.command, dict(os.environ)).run()
    directory = Path(tempfile.mkdtemp(prefix="minikafka-"))
    java = f"-Djava.io.tmpdir={directory} -XX:-UsePerfData"
    environment = os.environ | {
        "TMPDIR": str(directory),
        "JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {java}".strip(),
    }
    try:
        return Reaper(args.command, environment).run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
