"""Three real brokers under the standing attacker, with a victim beside it.

MINIKAFKA_FUZZ_SECONDS=60 attacks for half of that long, from a new seed, as CI does.
``python -m tests.support.attack MINUTES`` goes on for hours.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.attack.frames import MAKERS, NAMES, case_of
from tests.support.attack.run import strike_own_cluster
from tests.support.attack.victim import GROUP, TOPIC

SECONDS = float(os.environ.get("MINIKAFKA_FUZZ_SECONDS", "0"))
LEAST_SECONDS = 8.0
SEED = 1


@pytest.mark.cluster
@pytest.mark.xdist_group("attack")
@pytest.mark.mission("SAFE-50")
@pytest.mark.mission("SAFE-51")
def test_a_victim_loses_nothing_while_every_api_is_attacked(tmp_path: Path) -> None:
    """No broker dies, logs an error or swells; the victim's records are stored and consumed once.
    The seeds are printed, and seeds of a failure can be sent again."""
    seed = time.time_ns() % 10**9 if SECONDS else SEED
    strike_own_cluster(max(SECONDS / 2, LEAST_SECONDS), seed, tmp_path)


@pytest.mark.mission("SAFE-52")
def test_a_seed_makes_the_same_case_again() -> None:
    for seed in range(100):
        assert case_of(seed) == case_of(seed)


def test_every_kind_of_case_is_made() -> None:
    made = {case_of(seed).kind.split(" ")[0] for seed in range(1_000)}
    assert len(made) == len(MAKERS)


def test_the_attacker_never_names_the_topic_or_group_of_the_victim() -> None:
    assert not {TOPIC, GROUP} & set(NAMES)
