"""Where the brokers of tests of clients are: inside the process of the test, or in their own."""

from __future__ import annotations

from typing import Protocol

import pytest

INSIDE = "inside"
PROCESSES = "processes"


class Cluster(Protocol):
    """A cluster as clients see it."""

    @property
    def bootstrap(self) -> str: ...


# A test runs inside unless it says more: one pass of each client library is made on real processes.
# All tests on processes are in one group, so that these start once.
ON_PROCESSES = pytest.param(PROCESSES, marks=pytest.mark.xdist_group("compat"))
on_processes = pytest.mark.parametrize("cluster", [ON_PROCESSES], indirect=True)
in_both_places = pytest.mark.parametrize("cluster", [INSIDE, ON_PROCESSES], indirect=True)
