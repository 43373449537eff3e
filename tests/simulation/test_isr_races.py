"""Leaders and ISRs that change all the time: a few seeds; the campaign of many is run by hand."""

from __future__ import annotations

import pytest

from tests.support.simulated.replication_campaign import play


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_while_isrs_change(seed: int) -> None:
    counts = play(seed)
    assert counts["faults"] > 0
    assert counts["replica_became_leader"] > 3
