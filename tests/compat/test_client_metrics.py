"""Clients of librdkafka and of Java push their metrics, and Kafka's tools say which."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.cli.main import main
from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.cluster import free_ports
from scripts.lib.kraft_broker import KAFKA_4
from tests.compat.test_java_client import run
from tests.support.cluster.cluster_state import until

pytestmark = [pytest.mark.compat, pytest.mark.kafka]

INTERVAL_MS = 300
TIMEOUT_S = 20


class Scraped:
    """A broker, and what its metrics listener shows."""

    def __init__(self, cluster: InsideCluster, port: int) -> None:
        self.cluster = cluster
        self._port = port

    def series(self, *parts: str) -> dict[str, float]:
        """Return the values of the lines that have all of ``parts``."""
        with urlopen(f"http://127.0.0.1:{self._port}/metrics") as response:
            lines = response.read().decode().splitlines()
        lines = [line for line in lines if not line.startswith("#")]
        found = [line.rpartition(" ") for line in lines if all(part in line for part in parts)]
        return {name: float(value) for name, _, value in found}


@pytest.fixture(scope="module")
def scraped() -> Iterator[Scraped]:
    (port,) = free_ports(1)
    with InsideCluster(1, {"metrics.listener": f"HTTP://127.0.0.1:{port}"}) as cluster:
        yield Scraped(cluster, port)


def verb(*words: str) -> None:
    assert main([*words]) == 0


@pytest.mark.mission("TEL-2")
def test_clients_of_librdkafka_push_what_a_resource_says(scraped: Scraped) -> None:
    at = ("--bootstrap-server", scraped.cluster.bootstrap)
    metrics = ("--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.")
    match = ("--match", "client_id=watched.*,client_software_name=confluent-kafka-python")
    interval = ("--interval", str(INTERVAL_MS))
    verb("client-metrics", *at, "--alter", "--name", "watched", *metrics, *match, *interval)
    scraped.cluster.create_topic("t")
    common = {"bootstrap.servers": scraped.cluster.bootstrap, "log_level": 0}
    producer = Producer({**common, "client.id": "watched-producer"})
    other = Producer({**common, "client.id": "other"})
    consumer = Consumer({**common, "client.id": "watched-consumer", "group.id": "g"})
    consumer.subscribe(["t"])

    def push(*parts: str) -> bool:
        for each in (producer, other):
            each.produce("t", b"value")
            each.poll(0)
        consumer.poll(0.02)
        return bool(scraped.series(*parts))

    until(lambda: push("org_apache_kafka_producer_", "watched-producer"), "a producer pushes")
    until(lambda: push("org_apache_kafka_consumer_", "watched-consumer"), "a consumer pushes")
    assert scraped.series("org_apache_kafka_producer_request_latency_max{", "node_id") == {}
    assert scraped.series("org_apache_kafka_producer_node_request_latency_max{", 'node_id="1"')
    assert scraped.series("org_apache_kafka_producer_connection_creation_total{")
    assert scraped.series("org_apache", "other") == {}
    (count,) = scraped.series("kafka_server_client_metrics_instance_count").values()
    assert count == 3
    consumer.close()
    assert producer.flush(TIMEOUT_S) == other.flush(TIMEOUT_S) == 0
    verb("client-metrics", *at, "--delete", "--name", "watched")


@pytest.mark.mission("TEL-3")
def test_kafkas_tools_and_the_java_client(
    scraped: Scraped, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", scraped.cluster.bootstrap)
    name = ("--name", "of-java")
    values = ("--metrics", "*", "--interval", str(INTERVAL_MS))
    match = ("--match", "client_software_name=apache-kafka-java")
    run("client-metrics", *at, "--alter", *name, *values, *match, version=KAFKA_4)
    described = run("client-metrics", *at, "--describe", version=KAFKA_4)
    capsys.readouterr()
    verb("client-metrics", *at, "--describe")
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(described)
    run(
        *("verifiable-producer", *at, "--topic", "java", "--max-messages", "60"),
        *("--throughput", "30", "--acks", "-1"),
        version=KAFKA_4,
    )
    sent = scraped.series("org_apache_kafka_producer_record_send_total{", "apache-kafka-java")
    assert [0 < value <= 60 for value in sent.values()] == [True]  # the sum of its pushes
    verb("configs", *at, "--alter", "--client-metrics", "of-java", "--delete-config", "match")


@pytest.mark.mission("TEL-4")
def test_java_describes_topics_page_by_page(scraped: Scraped) -> None:
    scraped.cluster.create_topic("wide", partitions=2_100)  # more than are in one response
    at = ("--bootstrap-server", scraped.cluster.bootstrap)
    shown = run("topics", *at, "--describe", "--topic", "wide", version=KAFKA_4)
    partitions = [line.split("Partition: ")[1].split("\t")[0] for line in shown[1:]]
    assert partitions == [str(number) for number in range(2_100)]
    assert len(scraped.cluster.requests("DescribeTopicPartitions")) == 2
