"""A live broker's log directory read without asking the broker."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.lib.cluster import Cluster
from tests.spark.kafka_side import consume, produce, spark_rows
from tests.support.clients.places import PROCESSES

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("cluster", [PROCESSES], indirect=True)
@pytest.mark.mission("SPK-1")
def test_offline_read_equals_the_records_served_by_the_broker(
    spark: Any, cluster: Cluster, topic: str
) -> None:
    from minikafka.spark.options import batch_options
    from minikafka.spark.read.offline import segment_ranges

    messages = [
        {"key": b"%d" % n, "value": b"v" * n, "partition": n % 3, "headers": [("n", b"%d" % n)]}
        for n in range(300)
    ]
    produce(cluster.bootstrap, topic, messages, compression_type="snappy")
    (directory,) = {
        path.parent for path in cluster.directory.rglob(f"{topic}-0") if "broker-1" in path.parts
    }
    options = {"path": str(directory), "subscribe": topic, "includeHeaders": "true"}
    # The broker writes high watermarks down every few seconds.
    while sum(r.end - r.start for r in segment_ranges(directory, batch_options(options))) < 300:
        pass
    frame = spark.read.format("minikafka").options(**options).load()
    assert spark_rows(frame) == consume(cluster.bootstrap, topic, 3, "read_committed")
