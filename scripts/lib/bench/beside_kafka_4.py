"""One broker of ours beside one of official Kafka 4, for what Kafka has only with KRaft."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from scripts.lib.bench.brokers import KAFKA, OURS, Brokers
from scripts.lib.kraft_broker import KAFKA_4, kraft_broker

COLUMNS: Final = (OURS, f"{KAFKA} {KAFKA_4}")
_OF_ONE_BROKER: Final = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}


@contextmanager
def two_brokers(settings: Mapping[str, object] | None = None) -> Iterator[dict[str, str]]:
    """Yield the addresses of new brokers, by column. Raises NoApacheKafka."""
    of_both = {**_OF_ONE_BROKER, **(settings or {})}
    with (
        tempfile.TemporaryDirectory() as directory,
        kraft_broker(Path(directory), of_both) as theirs,
        Brokers(1, of_both) as ours,
    ):
        yield dict(zip(COLUMNS, (ours.bootstrap, theirs), strict=True))


def cpu_s(bootstrap: str) -> float:
    """Return the CPU seconds of the process that listens at an address."""
    port = int(bootstrap.rpartition(":")[2])
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            times = psutil.Process(connection.pid).cpu_times()
            return float(times.user + times.system)
    raise RuntimeError(f"no process listens at {bootstrap}")
