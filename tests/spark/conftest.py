"""Three brokers, mostly inside the process, and one Spark session for tests of the data source.

The tests of the group ``spark`` share the session. Those of ``spark-jobs`` start other JVMs, on
another worker of pytest-xdist, since each group takes minutes."""

from __future__ import annotations

import importlib.util
import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.spark.java import JavaError, find_java_home
from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.cluster import Cluster as ClusterOfProcesses
from scripts.lib.cluster import free_ports
from tests.support.clients.places import INSIDE, Cluster

MISSING = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
# A transaction that has timed out is aborted within a second.
SOON_ABORTED = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}


@pytest.fixture(scope="package")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # of all JVMs here
    try:
        return find_java_home(os.environ, tmp_path_factory.mktemp("java"))
    except JavaError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def inside(java_home: Path) -> Iterator[Cluster]:
    with InsideCluster(3, SOON_ABORTED) as running:
        yield running


@pytest.fixture(scope="package")
def processes(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ClusterOfProcesses(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Brokers in the place that the test has as parameter; else inside."""
    found: Cluster = request.getfixturevalue(getattr(request, "param", INSIDE))
    return found


@pytest.fixture(scope="package")
def spark(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from minikafka.spark.session import local_session

    place = tmp_path_factory.mktemp("spark")
    os.environ["JAVA_HOME"] = str(java_home)
    session = local_session(
        "tests",
        "local[2]",
        {
            "spark.ui.enabled": "false",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": str(free_ports(1)[0]),
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
        },
    )
    gateway = session.sparkContext._gateway
    assert gateway is not None
    yield session
    try:
        session.stop()
    except ConnectionRefusedError:  # each test after its death has failed; after the last one
        warnings.warn(
            f"the JVM of Spark ended before it was stopped: {gateway.proc.poll()}", stacklevel=1
        )


@pytest.fixture
def streams(spark: Any) -> Iterator[Any]:
    """The session, rid of the queries that a test left running."""
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def make_topic(cluster: Cluster) -> Callable[..., str]:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def make(partitions: int = 3, name: str = "", **config: str) -> str:
        topic = name or f"t-{uuid.uuid4().hex[:10]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, partitions, 3, config=settings)
        admin.create_topics([new], operation_timeout=60)[topic].result(60)
        return topic

    make.admin = admin  # type: ignore[attr-defined]
    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic()
