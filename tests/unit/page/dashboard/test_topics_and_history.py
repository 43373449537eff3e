"""What belongs to a topic, sorted lists and the history, over a cluster inside this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.client import OffsetAndMetadata, Producer
from minikafka.client.config import ClientConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.history.ring import HistorySeries
from minikafka.page.dashboard.history.sampler import Sampler
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.world import real_world
from tests.support.page_server import PageServer, page_server

TP = TopicPartition("orders", 0)
WITHIN_S = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(2, debug_ports=[0, 0]) as cluster:
        cluster.create_topic(TP.topic, 2, replication_factor=2)
        cluster.create_topic("bills", 1)
        cluster.call(produce(cluster, 7))
        cluster.call(commit(cluster, 4))
        yield cluster


async def produce(cluster: InsideCluster, count: int) -> None:
    async with Producer(*cluster.client()) as producer:
        for _ in range(count):
            await producer.send_and_wait(TP.topic, b"value" * 20, partition=TP.partition)


async def commit(cluster: InsideCluster, offset: int) -> None:
    async with cluster.admin() as admin:
        await admin.alter_group_offsets("billing", {TP: OffsetAndMetadata(offset)})


@pytest.fixture(scope="module")
def page(cluster: InsideCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    file = str(tmp_path_factory.mktemp("page") / "history")
    with page_server(ClientConfig(cluster.bootstrap), history=file) as page:
        yield page
    assert Path(file).stat().st_size > 0


def until(read: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not holds(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


@pytest.mark.mission("GLASS-142", "GLASS-143")
def test_two_looks_at_a_cluster_say_what_happens(cluster: InsideCluster) -> None:
    async def looks() -> Sampler:
        async with cluster.admin() as admin:
            world = real_world()
            sampler = Sampler(world, ClusterReader(admin), lambda _: world.network, lambda: True)
            before = await sampler.read()
            sampler.add(before)
            await produce(cluster, 10)
            sample = await sampler.read()
            sampler.add(sample._replace(at_ms=before.at_ms + 10_000))
            return sampler

    now = cluster.call(looks()).now
    assert now.topics[TP.topic].records_per_s == 1.0
    assert now.topics[TP.topic].size_bytes > 700  # type: ignore[operator]
    assert now.groups["billing"].lag == 13
    assert now.values[HistorySeries("cluster", "", "bytes_in")] > 0
    assert sum(now.values[HistorySeries("broker", id, "messages_in")] for id in "12") == 1.0
    assert sum(now.values[HistorySeries("broker", id, "requests")] for id in "12") > 0


@pytest.mark.mission("GLASS-142", "GLASS-145")
def test_the_page_serves_the_history_and_lists_with_rates(page: PageServer) -> None:
    def history() -> Any:
        return page.get("/api/history?of=group&name=billing&minutes=10").json

    found = until(history, lambda shown: shown["at"])
    assert found["step_ms"] == 10_000
    lines = {line["what"]: line["values"] for line in found["lines"]}
    assert lines["lag"][-1] >= 3
    (listed,) = page.get("/api/groups?search=bill&sort=lag&descending=1").json["groups"]
    assert listed["lag"] >= 3
    assert listed["lag_ms"] is not None
    group = page.get("/api/groups/billing").json
    assert (group["offsets"][0]["lag_exact"], group["lag_exact"]) == (False, False)
    topics = page.get("/api/topics?sort=size_bytes&descending=1&search=s").json["topics"]
    sizes = [row["size_bytes"] for row in topics if row["name"] in ("orders", "bills")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 700
    assert page.get("/api/topics?sort=shape").status == 400
    assert page.get("/api/history?of=planet").status == 400
    assert page.get("/api/history?of=topic&minutes=0").status == 400


@pytest.mark.mission("GLASS-146")
def test_a_topic_has_its_sizes_groups_and_acls(page: PageServer) -> None:
    def read() -> Any:
        return page.get("/api/topic-use/orders").json

    found = until(read, lambda facts: facts["groups"])
    assert found["sizes"].keys() == {"0", "1"}
    assert found["sizes"]["0"].keys() == {"1", "2"}
    assert found["sizes"]["0"]["1"] > 700
    (row,) = found["groups"]
    assert (row["group"], row["partitions"]) == ("billing", 1)
    assert row["lag"] >= 3
    assert found["acls"] is None
    assert "no authorizer" in found["no_acls"]
    assert found["has_registry"] is False
    assert page.get("/api/topic-use/absent").status == 404


@pytest.mark.mission("GLASS-146")
def test_a_topic_is_emptied(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("emptied", 3)

    async def fill() -> None:
        async with Producer(*cluster.client()) as producer:
            for number in range(6):
                await producer.send_and_wait("emptied", b"value", partition=number % 3)

    cluster.call(fill())
    done = page.post(
        "/api/do/topics-empty",
        {"arguments": {"topic": "emptied", "partitions": 3}},
        X_Minikafka_Token=page.token,
        Content_Type="application/json",
    ).json
    assert done["status"] == 0
    assert "minikafka delete-records" in done["command"]

    def starts() -> Any:
        rows = page.get("/api/topics/emptied").json["partitions"]
        return [(row["log_start_offset"], row["high_watermark"]) for row in rows]

    until(starts, lambda found: found == [(2, 2)] * 3)


@pytest.mark.mission("GLASS-145")
def test_sick_topics_only(cluster: InsideCluster, page: PageServer) -> None:
    assert page.get("/api/topics?sick=1").json["topics"] == []
    cluster.kill_broker(2)

    def sick() -> Any:
        return page.get("/api/topics?sick=1").json["topics"]

    rows = until(sick, lambda rows: rows)
    assert TP.topic in [row["name"] for row in rows]
    cluster.start_broker(2)
