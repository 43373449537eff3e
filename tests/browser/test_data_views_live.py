"""The views of the data over live clusters: what is clicked happens in the brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Locator, Page, expect

from minikafka.client.config import ClientConfig
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.processes import ClusterProcesses
from tests.support.browser import OpenPage
from tests.support.cluster.cluster_state import until
from tests.support.page_server import page_server


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(3) as cluster:
        yield cluster


@pytest.fixture
def live(cluster: InsideCluster, open_page: OpenPage) -> Iterator[Page]:
    with page_server(ClientConfig(cluster.bootstrap)) as server:
        # A page that shows a topic which was deleted reads it once more, perhaps.
        refused = ("status of 404", "status of 400")
        found = open_page(f"{server.url}/?token={server.token}", errors=refused)
        yield found
        found.close()  # before the server ends


def go(tab: Page, view: str) -> None:
    tab.evaluate("view => { location.hash = `#/${view}` }", view)


def execute(tab: Page, confirm: str | None = None) -> Locator:
    """Carry out the act whose dialog is open, after a dry run if there is one."""
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator(".command code")).to_contain_text("minikafka ")
    dry = dialog.get_by_role("button", name="Dry run")
    if dry.count():
        dry.click()
        expect(dialog.get_by_role("status")).to_contain_text("nothing has changed yet")
    if confirm is not None:
        dialog.locator("[name=confirm]").fill(confirm)
    dialog.get_by_role("button", name="Execute").click()
    return dialog


def done(dialog: Locator) -> None:
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    dialog.get_by_role("button", name="Close").last.click()


def create_topic(tab: Page, name: str) -> None:
    go(tab, "topics")
    tab.get_by_role("button", name="Create topic…").click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=topic]").fill(name)
    dialog.locator("[name=partitions]").fill("3")
    dialog.locator("[name=replication_factor]").fill("3")
    done(execute(tab))


def produce(cluster: InsideCluster, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, f'{{"order":{number}}}', f"key-{number}", partition=number % 3)
    assert producer.flush(60) == 0


def consume(cluster: InsideCluster, topic: str, group: str, count: int) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(count, 60)) == count
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.mission("GLASS-76")
def test_a_topic_is_created_changed_and_deleted(cluster: InsideCluster, live: Page) -> None:
    create_topic(live, "invoices")
    live.wait_for_url("**/topics/invoices")
    expect(live.get_by_role("heading", name="3 partitions")).to_be_visible()
    live.get_by_role("button", name="Change settings…").click()
    hint = live.get_by_role("dialog").locator(".hint", has_text="name settings to add or to delete")
    expect(hint).to_be_visible()  # and no request has failed
    live.get_by_role("dialog").locator("[name=add]").fill("retention.ms=3600000")
    done(execute(live))
    live.get_by_label("only changed ones").check()
    expect(live.get_by_role("region", name="Settings of invoices")).to_contain_text("(1 h)")
    live.get_by_role("button", name="Add partitions…").click()
    done(execute(live))
    expect(live.get_by_role("heading", name="4 partitions")).to_be_visible()
    live.get_by_role("button", name="Delete topic…").click()
    done(execute(live, confirm="invoices"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    until(lambda: "invoices" not in admin.list_topics(timeout=60).topics, "every broker knows")


@pytest.mark.mission("GLASS-74")
def test_offsets_of_a_group_are_exactly_those_that_were_written(
    cluster: InsideCluster, live: Page
) -> None:
    create_topic(live, "payments")
    produce(cluster, "payments", 90)
    consume(cluster, "payments", "accounting", 90)
    go(live, "groups/accounting")
    expect(live.get_by_text(re.compile("The group (is|has been) Empty"))).to_be_visible()
    live.get_by_label("New offset of payments:1").fill("17")
    live.get_by_role("button", name="Reset 1 offset…").click()
    done(execute(live, confirm="accounting"))
    row = live.get_by_role("region", name="Committed offsets of the group").locator("tbody tr")
    expect(row.nth(1)).to_contain_text("13")  # 30 - 17 records behind
    topic_partition = confluent_kafka.TopicPartition("payments", 1)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "accounting"}
    )
    committed = consumer.committed([topic_partition], timeout=60)
    consumer.close()
    assert committed[0].offset == 17


@pytest.mark.mission("GLASS-77")
@pytest.mark.mission("GLASS-79")
def test_records_are_browsed_tailed_written_again_and_exported(
    cluster: InsideCluster, live: Page
) -> None:
    create_topic(live, "orders")
    produce(cluster, "orders", 300)
    go(live, "records?topic=orders")
    rows = live.locator("tr[data-record]")
    expect(rows).to_have_count(100)  # the newest ones of all partitions
    live.get_by_role("button", name="Read older").click()
    expect(rows).to_have_count(200)
    live.locator("[name=filter]").fill('"order":123}')
    live.locator("[name=start]").select_option("earliest")
    live.get_by_role("button", name="Browse").click()
    expect(rows).to_have_count(1)
    with live.expect_download() as download:
        live.get_by_role("link", name="Export JSON").click()
    (line,) = Path(download.value.path()).read_text().splitlines()
    assert json.loads(line)["value"] == '{"order":123}'
    live.locator("[name=filter]").fill("")
    live.locator("[name=start]").select_option("latest")
    live.get_by_role("button", name="Tail").click()
    expect(live.get_by_text("waiting for more")).to_be_visible()
    live.get_by_role("button", name="Produce…").click()
    form = live.get_by_role("form", name="Produce a record")
    form.locator("[name=produce-value]").fill("first")
    form.locator("[name=produce-partition]").fill("2")
    form.get_by_role("button", name="Add a header").click()
    form.get_by_label("Name of header 1").fill("trace")
    form.get_by_label("Value of header 1").fill("t-1")
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(form.get_by_role("status")).to_contain_text("partition 2 at offset 100")
    expect(rows).to_have_count(1)
    live.get_by_role("button", name="Stop").click()
    live.get_by_role("button", name="Record 2:100").click()
    live.get_by_role("button", name="Edit and replay").click()
    form.locator("[name=produce-value]").fill("second")
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(form.get_by_role("status")).to_contain_text("partition 2 at offset 101")
    last = record_at(cluster, "orders", 2, 101)
    assert (last.value(), last.key(), last.headers()) == (b"second", None, [("trace", b"t-1")])


@pytest.mark.mission("GLASS-123")
@pytest.mark.mission("GLASS-124")
def test_records_are_searched_and_decoded(cluster: InsideCluster, live: Page) -> None:
    create_topic(live, "clicks")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(300):
        producer.produce(
            *("clicks", f'{{"click":{{"id":{number}}}}}', number.to_bytes(8)),
            partition=number % 3,
            headers={"page": f"p-{number % 10}"},
        )
    assert producer.flush(60) == 0
    go(live, "records?topic=clicks&from=earliest&where=$.click.id>=297 and $.click.id != 298")
    rows = live.locator("tr[data-record]")
    expect(rows).to_have_count(2)
    expect(live.get_by_text("2 found; looked at 300 of 300 records")).to_be_visible()
    expect(rows.first).to_contain_text("int64 297?")
    live.locator("[name=key_as]").select_option("int64")
    expect(rows.first.locator(".tag", has_text="int64")).to_be_visible()
    live.locator("[name=where]").fill("$.click.id >")
    live.get_by_role("button", name="Browse").click()
    expect(live.get_by_role("alert")).to_contain_text("at character 13")
    live.locator("[name=where]").fill("")
    live.locator("[name=header]").fill("page=p-7")
    live.locator("[name=key]").fill("297")
    live.get_by_role("button", name="Browse").click()
    expect(rows).to_have_count(1)


def record_at(
    cluster: InsideCluster, topic: str, partition: int, offset: int
) -> confluent_kafka.Message:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader"}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        (found,) = consumer.consume(1, 60)
    finally:
        consumer.close()
    return found


@pytest.mark.cluster
@pytest.mark.mission("GLASS-70")
def test_a_broker_is_killed_and_started_by_a_click(tmp_path: Path, open_page: OpenPage) -> None:
    with ClusterProcesses(tmp_path, brokers=3, page=True) as cluster:
        assert cluster.page is not None
        tab = open_page(cluster.page)
        go(tab, "cluster")
        pid = cluster.home / "broker-3" / "pid"
        tab.locator("[data-act=broker-kill]").nth(2).click()
        expect(tab.get_by_role("dialog").locator(".command code")).to_contain_text("kill -9")
        dialog = tab.get_by_role("dialog")
        dialog.locator("[name=confirm]").fill("3")
        dialog.get_by_role("button", name="Execute").click()
        done(dialog)
        expect(tab.locator("[data-act=broker-start]:not([aria-disabled])")).to_be_visible()
        assert not pid.exists()
        tab.locator("[data-act=broker-start]:not([aria-disabled])").first.click()
        dialog.get_by_role("button", name="Execute").click()
        done(dialog)
        expect(tab.locator("[data-act=broker-kill]")).to_have_count(3)
        tab.close()
        assert pid.exists()
