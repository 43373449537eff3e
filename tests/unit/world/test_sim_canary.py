"""The canary of determinism: one seed, several hash seeds and processes, the same trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.simulated.sim_workload import trace_of

ROOT = Path(__file__).resolve().parents[3]
HASH_SEEDS = ("0", "1", "2")


def start(seed: int, hash_seed: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.simulated.sim_workload", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
    )


def test_one_seed_is_one_trace_whatever_the_hashes() -> None:
    running = [start(5, hash_seed) for hash_seed in HASH_SEEDS]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert outputs[0] == outputs[1] == outputs[2] == "\n".join(trace_of(5)).encode()
    assert len(outputs[0].splitlines()) > 100


def test_another_seed_is_another_trace() -> None:
    assert trace_of(1) == trace_of(1) != trace_of(2)
