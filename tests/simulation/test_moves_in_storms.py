"""Replicas that move between directories in a storm: a few seeds; many are run by hand."""

from __future__ import annotations

import pytest

from tests.support.simulated.directory_campaign import play

FLUSHED_ON_A_FULL_DISK = 2_714_014  # a truncation was; its directory went offline


@pytest.mark.mission("SAFE-82")
@pytest.mark.parametrize("seed", [1, 2, FLUSHED_ON_A_FULL_DISK])
def test_nothing_is_lost_while_replicas_move(seed: int) -> None:
    """More seeds: ``python -m tests.support.simulated.directory_campaign FIRST END``."""
    counts = play(seed)
    assert counts["log_moved"] > 0
    assert counts["log_directory_failed"] == 0
