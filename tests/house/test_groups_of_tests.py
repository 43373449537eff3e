"""Tests of one xdist_group run on one worker."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("house")
def test_a_worker_knows_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    """pytest-xdist distributes by the end of the node id. Without it, tests that share a cluster
    would run on several workers, and those that read what others wrote would fail or hang."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@house")
