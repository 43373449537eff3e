"""A cluster under load moves to the other kind, broker by broker, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.kafka.test_kills import loaded
from tests.support.cluster.mixed_cluster import OURS

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.mark.mission("MIX-52")
def test_a_rolling_migration_there_and_back_loses_nothing(mixed: Mixed, tmp_path: Path) -> None:
    """In place: the same ids, ports and data directories."""
    with mixed(NEWEST, NEWEST, NEWEST) as cluster, loaded(cluster, tmp_path) as load:
        for kind in (OURS, NEWEST):
            for broker_id in cluster.broker_ids:
                load.send()
                cluster.become(broker_id, kind)
                load.until_processed(f"records after broker {broker_id} became {kind}")
            cluster.elect_preferred_leaders()
            load.send()
            load.until_processed(f"records in a cluster of {kind} alone")
        load.finish()
