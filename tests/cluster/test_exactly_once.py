"""Consume, transform, produce in transactions, while the application and brokers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.exactly_once import ExactlyOnce
from tests.support.cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


@pytest.mark.mission("DOP-5")
def test_nothing_is_lost_and_nothing_doubled(whole: RealCluster, tmp_path: Path) -> None:
    """In turn: the application, the coordinator's broker, the leader of what is written, and the
    controller are killed while records are on their way; half a second after these were sent, so
    that some of them are in a transaction, mostly."""
    with ExactlyOnce(whole, tmp_path / "application.log") as run:
        for victim in ("application", "coordinator", "leader", "application", "controller"):
            run.kill(victim, 0.5)
        run.check()
        assert run.application.starts > 2
