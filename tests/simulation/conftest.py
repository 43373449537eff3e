"""What holds for simulations: one that fails says how to look at it in learn mode."""

from __future__ import annotations

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.recipe_notes import noting


@pytest.fixture(autouse=True)
def recipe_notes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = noting(SimCluster.run, lambda: tmp_path_factory.mktemp("recipe"))
    monkeypatch.setattr(SimCluster, "run", run)
