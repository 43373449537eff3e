"""The reaper of scripts: nothing that a command starts survives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]

# Each line is one write: several processes share the pipe.
# A process in a session of its own that ignores signals, and below it an orphan of the same kind.
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.setsid()
child = os.fork()
if not child and sys.argv[1] == "orphan":
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
if sys.argv[1] == "orphan":
    sys.exit()
os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""
COMMAND = """
import os, subprocess, sys, time
for kind in ("orphan", "child"):
    subprocess.Popen([sys.executable, "-c", sys.argv[1], kind])
os.write(1, b"started\\n")
if sys.argv[2] == "wait":
    time.sleep(600)
sys.exit(3 if sys.stdin.readline() else 4)
"""


def reaper(*options: str, then: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "scripts.lib.reaper", *options),
            *(sys.executable, "-c", COMMAND, STUBBORN, then),
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(process: subprocess.Popen[str]) -> list[int]:
    """Return the pids of the child processes that began a new session."""
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(4)]
    return [int(line) for line in lines if line != "started"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a subreaper")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_process(number: signal.Signals) -> None:
    with reaper(then="wait") as process:
        pids = started(process)
        assert len(pids) == 3
        assert all(psutil.pid_exists(pid) for pid in pids)
        process.send_signal(number)
        assert process.wait(60) != 0
        assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to a subreaper")
def test_a_finished_command_leaves_no_process_and_its_status_is_kept() -> None:
    with reaper(then="end") as process:
        pids = started(process)
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
        assert process.wait(60) == 3
        assert not any(psutil.pid_exists(pid) for pid in pids)
        assert process.stderr is not None
        assert "ending what was left running" in process.stderr.read()


def test_temporary_files_go_with_the_command() -> None:
    make = "import tempfile; print(tempfile.mkdtemp(), flush=True)"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.lib.reaper", "--own-temporary", sys.executable, "-c", make],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    made = Path(done.stdout.strip())
    assert made.parent.parent == Path(tempfile.gettempdir())
    assert not made.parent.exists()
    assert os.environ.get("TMPDIR", "") != str(made.parent)


ORPHAN = """
import os, subprocess, sys, time
code = "import subprocess; print(subprocess.Popen(['sleep', '0.2']).pid)"
parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
orphan = int(parent.stdout)
while True:  # its parent has ended; it ends soon, and must not stay a zombie
    try:
        os.kill(orphan, 0)
    except ProcessLookupError:
        sys.exit(5)
    time.sleep(0.01)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans by a call of Linux")
def test_an_orphan_that_ends_is_no_zombie_while_the_command_runs() -> None:
    command = [sys.executable, "-m", "scripts.lib.reaper", sys.executable, "-c", ORPHAN]
    done = subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 5
