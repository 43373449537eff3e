"""A real process that appends and is killed with SIGKILL: nothing acknowledged is lost."""

import subprocess
import sys
from pathlib import Path

from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.appending_process import TP, new_manager
from tests.support.storage.logs import batches_of, values_of

LINES = (1, 30, 170, 260, 400)  # after how many the process is killed


def run_and_kill(directory: Path, lines: int) -> list[str]:
    """What it said before it died; it may have done more."""
    command = [sys.executable, "-m", "tests.support.storage.appending_process", str(directory)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process:
        said = [process.stderr.readline().strip() for _ in range(lines)]
        process.kill()
        rest = process.stderr.read()
    assert process.returncode == -9
    return said + rest.splitlines()


def check(log: UnifiedLog, said: list[str]) -> None:
    end = log.log_end_offset
    if said[-1].startswith("cut"):
        assert end >= int(said[-1].split()[1])
    else:
        assert int(said[-1]) < end <= int(said[-1]) + 2
    assert [int((value or b"").split()[0]) for value in values_of(log)] == list(range(end))
    epochs = [batch.partition_leader_epoch for batch in batches_of(log)]
    assert epochs == sorted(epochs)
    starts = {epoch: epochs.index(epoch) for epoch in set(epochs)}
    assert dict(log.epochs.cache.entries) == starts
    entry = log.producers.states.entry(7)
    assert entry is not None
    assert entry.last_sequence == end - 1


async def test_acknowledged_records_survive_sigkill(tmp_path: Path) -> None:
    for lines in LINES:
        said = run_and_kill(tmp_path, lines)
        manager = new_manager(str(tmp_path))
        await manager.start()
        log = manager.get(TP)
        assert log is not None
        check(log, said)
        manager.close()  # and nothing written, as if we had been killed, too
