"""Mutated batches through appends, mutated files through recovery: only Kafka's errors come out.

MINIKAFKA_FUZZ_SECONDS=60 goes on with new seeds for half of that long, as CI does; the other half
is for the attack on a live cluster.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from tests.support.storage.log_fuzz import fuzz_appends, fuzz_files

SECONDS = float(os.environ.get("MINIKAFKA_FUZZ_SECONDS", "0"))
SEEDS = 200
HANG_S = 20


@pytest.fixture
def watch() -> Iterator[None]:
    """A case that takes this long hangs."""

    def hangs(signum: int, frame: FrameType | None) -> None:
        raise RuntimeError(f"no end after {HANG_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("watch")
@pytest.mark.parametrize("case", [fuzz_appends, fuzz_files])
def test_only_kafkas_errors(case: Callable[[int], None]) -> None:
    until = time.monotonic() + SECONDS / 4
    seed = 0
    while seed < SEEDS or time.monotonic() < until:
        signal.alarm(HANG_S)
        try:
            case(seed)
        except Exception as error:
            raise AssertionError(f"{case.__name__}({seed})") from error
        seed += 1


@pytest.mark.parametrize("seed", [724])
def test_appends_that_once_failed(seed: int) -> None:
    """724: a coordinator's batch, damaged but with a right CRC, whose offsets are not dense."""
    fuzz_appends(seed)


@pytest.mark.parametrize("seed", [2553, 5815, 103515, 119669])
def test_files_that_once_failed(seed: int) -> None:
    """2553: a batch whose offset, which no CRC covers, is that of an earlier segment. 5815: a batch
    that is smaller than a header, at the end of a read. 103515: a last batch that ends before it
    begins, in a log that was not looked at. 119669: a batch with a damaged offset and the largest
    timestamp before a truncation."""
    fuzz_files(seed)
