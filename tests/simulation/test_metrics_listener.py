"""What Prometheus reads from a broker."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from minikafka.cli.processes.broker import register_disk_bytes, register_process
from minikafka.client import Admin, Consumer, ConsumerConfig, Producer
from minikafka.core.prometheus import Names, TextFormat, exposition
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import run_at_once
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.world.real import process_io
from tests.support.network.http_lab import Response, get, responses
from tests.support.network.wire_end import WireEnd

PORT = 9404
SETTINGS = {"metrics.listener": f"HTTP://127.0.0.1:{PORT}"}
TP = TopicPartition("seen", 0)
LIMITS = [("producer_byte_rate", 1e6), ("consumer_byte_rate", 1e6), ("request_percentage", 100.0)]
DASHBOARDS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "dashboards.md"
HEADING = re.compile(r"(.+): (\d+) of (\d+) panels, (\d+) of (\d+) queries")
# What Strimzi's, Grafana's and jmx_exporter's dashboards and alert rules query, of a broker in
# ZooKeeper mode; without the prefix.
QUERIED = """
server_brokertopicmetrics_messagesin_total server_brokertopicmetrics_bytesin_total
server_brokertopicmetrics_bytesout_total server_brokertopicmetrics_totalproducerequests_total
server_brokertopicmetrics_totalfetchrequests_total
server_brokertopicmetrics_failedproducerequests_total
server_brokertopicmetrics_failedfetchrequests_total
server_replicamanager_partitioncount server_replicamanager_leadercount
server_replicamanager_underreplicatedpartitions server_replicamanager_underminisrpartitioncount
server_replicamanager_atminisrpartitioncount server_replicamanager_offlinereplicacount
server_replicamanager_isrshrinks_total server_replicamanager_isrexpands_total
server_replicafetchermanager_maxlag server_kafkaserver_brokerstate
server_kafkarequesthandlerpool_requesthandleravgidle_percent
network_socketserver_networkprocessoravgidle_percent
network_socketserver_networkprocessoravgidlepercent
network_requestchannel_requestqueuesize network_requestchannel_responsequeuesize
network_requestmetrics_requests_total network_requestmetrics_totaltimems
network_requestmetrics_requestqueuetimems network_requestmetrics_localtimems
network_requestmetrics_remotetimems network_requestmetrics_responsequeuetimems
network_requestmetrics_responsesendtimems network_requestmetrics_throttletimems
controller_kafkacontroller_activecontrollercount
controller_kafkacontroller_offlinepartitionscount
controller_kafkacontroller_preferredreplicaimbalancecount
controller_kafkacontroller_globaltopiccount controller_kafkacontroller_globalpartitioncount
controller_controllerstats_uncleanleaderelections_total
controller_controllerstats_leaderelectionrateandtimems
controller_controllereventmanager_eventqueuesize
controller_controllereventmanager_eventqueuetimems
cluster_partition_underreplicated cluster_partition_underminisr cluster_partition_atminisr
cluster_partition_replicascount cluster_partition_insyncreplicascount
log_log_size log_log_logendoffset log_log_logstartoffset log_log_numlogsegments
log_logmanager_offlinelogdirectorycount
coordinator_group_groupmetadatamanager_numgroups
coordinator_group_groupmetadatamanager_numgroupsstable
coordinator_group_groupmetadatamanager_numgroupspreparingrebalance
server_fetchsessioncache_numincrementalfetchsessions
server_delayedoperationpurgatory_purgatorysize
server_delayedoperationpurgatory_numdelayedoperations
server_sessionexpirelistener_zookeeperdisconnects_total
server_sessionexpirelistener_zookeeperexpires_total
server_sessionexpirelistener_zookeepersyncconnects_total
server_socket_server_metrics_connection_count
server_socket_server_metrics_connection_creation_rate
server_socket_server_metrics_connection_close_rate
server_replicafetchermanager_minfetchrate network_acceptor_acceptorblockedpercent
server_zookeeperclientmetrics_zookeeperrequestlatencyms
server_brokertopicmetrics_producemessageconversions_total
server_brokertopicmetrics_fetchmessageconversions_total
log_logflushstats_logflushrateandtimems
"""


async def scrape(cluster: SimCluster, broker_id: int, query: str = "", *headers: str) -> Response:
    """As Prometheus on that broker's host."""
    network = cluster.host(broker_id).world.network
    _, end = await network.connect(lambda: WireEnd(half_open=True), "127.0.0.1", PORT)
    assert isinstance(end, WireEnd)
    end.transport.write(get(f"/metrics{query}", "Connection: close", *headers))
    await end.eof.wait()
    end.transport.close()
    (response,) = responses(end.seen)
    return response


def families(response: Response) -> dict[str, Metric]:
    assert response.status == 200, response.body
    return {f.name: f for f in text_string_to_metric_families(response.body.decode())}


class Panel(NamedTuple):
    """A row of docs/reference/dashboards.md: the metrics that a panel of a dashboard queries."""

    shows: list[str]
    lacks: list[str]


class Dashboard(NamedTuple):
    title: str
    figures: tuple[int, ...]  # full panels, panels, queries with results, queries
    panels: list[Panel]


def dashboards() -> Iterator[Dashboard]:
    """Read the dashboards that docs/reference/dashboards.md lists."""
    for section in DASHBOARDS.read_text().split("\n## ")[1:]:
        lines = section.splitlines()
        heading = HEADING.fullmatch(lines[0])
        assert heading is not None, lines[0]
        rows = [line.split("|")[2:4] for line in lines if line.startswith("| ")][1:]
        panels = [Panel(*(re.findall(r"`(\w+)`", cell) for cell in row)) for row in rows]
        yield Dashboard(heading[1], tuple(map(int, heading.groups()[1:])), panels)


def names_of_process(names: Names) -> set[str]:
    """Return the series that a broker's process adds to those of the simulated broker."""
    metrics = Metrics()
    register_disk_bytes(metrics)
    register_process(metrics)
    text = run_at_once(exposition(metrics.samples(), names, TextFormat.PROMETHEUS)).decode()
    found = text_string_to_metric_families(text)
    return {sample.name for family in found for sample in family.samples}


def value(found: Mapping[str, Metric], name: str, **labels: str) -> float:
    family = found[name.removesuffix("_total").removesuffix("_count")]
    (number,) = [s.value for s in family.samples if s.name == name and s.labels == labels]
    return number


async def work(cluster: SimCluster) -> None:
    """Produce to a replicated topic and consume from it in a group, below limits."""
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
    world, config = cluster.client_host.world, cluster.client_config
    async with Admin(world, config) as admin:
        await admin.alter_client_quotas({"client-id": None}, LIMITS)
        await admin.create_topic(TP.topic, 1, 3)
        await admin.wait_for_topic(TP.topic)
    async with Producer(world, config) as producer:
        for _ in range(3):
            await producer.send_and_wait(TP.topic, b"value", partition=0)
    grouped = ConsumerConfig(group_id="readers", auto_offset_reset="earliest")
    async with Consumer(world, config, grouped) as consumer:
        consumer.subscribe([TP.topic])
        await consumer.poll()


@pytest.mark.mission("GLASS-5")
def test_every_series_that_dashboards_query_exists() -> None:
    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        found: dict[str, Metric] = {}
        for broker_id in cluster.broker_ids:
            found |= families(await scrape(cluster, broker_id))
        shown = {sample.name for family in found.values() for sample in family.samples}
        assert {f"kafka_{name}" for name in QUERIED.split()} - shown == set()

    SimCluster(1, settings=SETTINGS).run(play)


def test_the_figures_of_each_listed_dashboard_are_those_of_its_rows() -> None:
    listed = list(dashboards())
    assert listed
    for title, figures, panels in listed:
        full = sum(not panel.lacks for panel in panels)
        shown = sum(len(panel.shows) for panel in panels)
        lacking = sum(len(panel.lacks) for panel in panels)
        assert figures == (full, len(panels), shown, shown + lacking), title


@pytest.mark.mission("GLASS-5")
@pytest.mark.skipif(not process_io.IO.exists(), reason="no /proc/self/io")
def test_listed_panels_show_and_lack_the_listed_metrics() -> None:
    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        for query, names, owner in (
            ("", Names.JMX, "Strimzi's"),
            ("?names=confluent", Names.CONFLUENT, "Confluent's"),
        ):
            series = names_of_process(names)
            for broker_id in cluster.broker_ids:
                found = families(await scrape(cluster, broker_id, query))
                series |= {sample.name for family in found.values() for sample in family.samples}
            listed = [d.panels for d in dashboards() if d.title.startswith(owner)]
            panels = [panel for each in listed for panel in each]
            assert {name for panel in panels for name in panel.shows} - series == set()
            assert {name for panel in panels for name in panel.lacks} & series == set()

    SimCluster(6, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-5")
def test_values_are_those_of_the_broker() -> None:
    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        leader = cluster.leader(TP)
        found = families(await scrape(cluster, leader))
        topic = "kafka_server_brokertopicmetrics"
        assert value(found, f"{topic}_messagesin_total", topic=TP.topic) == 3
        of_partition = {"topic": TP.topic, "partition": "0"}
        assert value(found, "kafka_log_log_logendoffset", **of_partition) == 3
        assert value(found, "kafka_cluster_partition_insyncreplicascount", **of_partition) == 3
        assert value(found, "kafka_server_kafkaserver_brokerstate") == 3
        produces = [
            sample.value
            for sample in found["kafka_network_requestmetrics_requests"].samples
            if sample.labels["request"] == "Produce"
        ]
        count = "kafka_network_requestmetrics_totaltimems_count"
        assert value(found, count, request="Produce") == sum(produces) >= 3
        assert value(found, count, request="FetchFollower") > 0
        latency = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count"
        assert value(found, latency) > 0
        idle = value(found, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")
        assert 0 < idle <= 1
        follower = next(i for i in cluster.broker_ids if i != leader)
        lags = families(await scrape(cluster, follower))[
            "kafka_server_fetcherlagmetrics_consumerlag"
        ]
        assert {s.value for s in lags.samples if s.labels["topic"] == TP.topic} == {0}

    SimCluster(2, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-5")
def test_no_series_is_there_twice_and_open_metrics_has_the_same() -> None:
    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        plain = await scrape(cluster, 1)
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = [each.rpartition(" ")[0] for each in plain.body.decode().splitlines()]
        assert [line for line, times in Counter(lines).items() if times > 1] == []
        other = await scrape(cluster, 1, "", "Accept: application/openmetrics-text; version=1.0.0")
        assert other.headers["content-type"].startswith("application/openmetrics-text")
        parse: Any = open_metrics.text_string_to_metric_families
        parsed = {family.name for family in parse(other.body.decode())}
        assert parsed >= {name.removesuffix("_total") for name in families(plain)}

    SimCluster(3, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-5")
def test_parameters_choose_names_and_partitions() -> None:
    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        confluent = families(await scrape(cluster, cluster.leader(TP), "?names=confluent"))
        assert "kafka_server_brokertopicmetrics_messagesinpersec" in confluent
        assert "kafka_log_log_size" in confluent
        without = families(await scrape(cluster, 1, "?partitions=0"))
        assert "kafka_log_log_size" not in without
        assert "kafka_server_replicamanager_leadercount" in without
        for query in ("?names=other", "?partitions=2"):
            assert (await scrape(cluster, 1, query)).status == 400
        assert (await scrape(cluster, 1, "/more")).status == 404

    SimCluster(4, settings=SETTINGS).run(play)


@pytest.mark.mission("GLASS-6")
def test_partitions_are_left_out_by_default_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minikafka.server.node.metrics_listener.MAX_PARTITIONS", 0)

    async def play(cluster: SimCluster) -> None:
        await work(cluster)
        assert "kafka_log_log_size" not in families(await scrape(cluster, 1))
        assert "kafka_log_log_size" in families(await scrape(cluster, 1, "?partitions=1"))

    SimCluster(5, settings=SETTINGS).run(play)
