"""Parts of long lists, and the metrics of lag, without a cluster."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minikafka.core.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from minikafka.core.client.admin.streams_groups import (
    MemberTasks,
    StreamsGroupDescription,
    StreamsMemberDescription,
)
from minikafka.core.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from minikafka.core.client.offsets import OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_api import ListQuery, topic_list
from minikafka.page.dashboard.cluster_facts import (
    MAX_PARTITIONS,
    MAX_TOPICS,
    PartitionOffsets,
    shown_topics,
)
from minikafka.page.dashboard.group_facts import MAX_GROUP_OFFSETS, group_facts
from minikafka.page.dashboard.lag_metrics import Lags, exposition

NODE = Node(1, "host", 9092)
STRANGE = 'a "quoted" \\ group\nin two lines'


def topic(
    name: str, partitions: int = 1, isr: tuple[int, ...] = (1, 2), leader: int = 1
) -> TopicView:
    rows = {n: PartitionView(n, leader, 3, (1, 2), isr) for n in range(partitions)}
    return TopicView(name, partitions=rows)


MANY = {name: topic(name) for name in sorted(f"topic-{number:05}" for number in range(10_000))}


@pytest.mark.mission("GLASS-15")
def test_the_pages_of_a_long_list_have_each_topic_once() -> None:
    seen: list[str] = []
    more, pages = True, 0
    while more:
        page = topic_list(MANY, ListQuery(after=seen[-1] if seen else "", limit=1000))
        assert (page["total"], page["matching"]) == (10_000, 10_000)
        assert len(page["topics"]) <= 1000
        seen += [row["name"] for row in page["topics"]]
        more, pages = page["more"], pages + 1
    assert pages == 10
    assert seen == list(MANY)


@pytest.mark.mission("GLASS-122")
def test_a_page_is_found_by_its_number() -> None:
    page = topic_list(MANY, ListQuery(search="topic-00", limit=100, skip=900))
    assert [row["name"] for row in page["topics"]] == list(MANY)[900:1000]
    assert not page["more"]
    assert topic_list(MANY, ListQuery(skip=20_000))["topics"] == []


@pytest.mark.mission("GLASS-15")
def test_a_search_ignores_the_case_and_counts_all_matches() -> None:
    page = topic_list(MANY, ListQuery(search="PIC-0001", limit=3))
    assert [row["name"] for row in page["topics"]] == [f"topic-0001{n}" for n in range(3)]
    assert (page["matching"], page["more"]) == (10, True)
    assert topic_list(MANY, ListQuery(search="absent"))["topics"] == []


def test_a_row_says_how_a_topic_is() -> None:
    rows = topic_list({"t": topic("t", 3, isr=(1,), leader=-1)}, ListQuery())["topics"]
    assert rows == [
        {
            "name": "t",
            "internal": False,
            "partitions": 3,
            "replication_factor": 2,
            "under_replicated": 3,
            "offline": 3,
            "records_per_s": None,
            "size_bytes": None,
        }
    ]


@pytest.mark.mission("GLASS-19")
def test_only_so_many_topics_are_described_and_the_watched_ones_always() -> None:
    names = [row.name for row in shown_topics(MANY, {"topic-09999", "absent"})]
    assert len(names) == MAX_TOPICS
    assert names == [*(f"topic-{number:05}" for number in range(MAX_TOPICS - 1)), "topic-09999"]


@pytest.mark.mission("GLASS-19")
def test_only_so_many_partitions_are_described() -> None:
    wide = {f"t{number}": topic(f"t{number}", 400) for number in range(5)}
    assert [row.name for row in shown_topics(wide, ())] == ["t0", "t1"]
    assert [row.name for row in shown_topics(wide, {"t4"})] == ["t0", "t4"]
    huge = {"huge": topic("huge", 2 * MAX_PARTITIONS)}
    assert [row.name for row in shown_topics(huge, ())] == ["huge"]  # as far as the bound


@pytest.mark.mission("GLASS-15")
def test_the_lag_of_a_group_counts_partitions_beyond_the_list() -> None:
    listing = GroupListing("g", "consumer", "Stable", "classic")
    count = MAX_GROUP_OFFSETS + 7
    committed = {TopicPartition("t", n): OffsetAndMetadata(4) for n in range(count)}
    ends = dict.fromkeys(committed, 5)
    facts = group_facts(listing, 1, None, committed, ends)
    assert (len(facts["offsets"]), facts["lag"]) == (MAX_GROUP_OFFSETS, count)
    del ends[TopicPartition("t", count - 1)]
    assert group_facts(listing, 1, None, committed, ends)["lag"] is None
    assert group_facts(listing, 1, None, {}, ends)["lag"] == 0
    assert group_facts(listing, 1, None, None, ends)["lag"] is None


@pytest.mark.mission("GLASS-16")
def test_series_have_the_names_and_labels_of_kafka_exporter() -> None:
    tp, beyond = TopicPartition("t", 0), TopicPartition("gone", 1)
    view = ClusterView(nodes={1: NODE}, topics={"t": topic("t", isr=(1,))})
    member = MemberDescription("m", None, "c", "/h", (tp,))
    silent = TopicPartition("u", 0)  # whose leader did not respond
    lags = Lags(
        view,
        {tp: PartitionOffsets(2, 10, 10), silent._replace(partition=1): PartitionOffsets(0, 9)},
        {STRANGE: GroupDescription(STRANGE, "Stable", "consumer", "range", (member,), NODE)},
        {
            STRANGE: {tp: OffsetAndMetadata(7), beyond: OffsetAndMetadata(5)}
            | {silent._replace(partition=n): OffsetAndMetadata(n) for n in (0, 1)}
        },
    )
    found = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(lags))
        for sample in family.samples
    }
    partition = (("topic", "t"), ("partition", "0"))
    group = ("consumergroup", STRANGE)
    assert found == {
        ("kafka_brokers", ()): 1,
        ("kafka_broker_info", (("id", "1"), ("address", "host:9092"))): 1,
        ("kafka_topic_partitions", (("topic", "t"),)): 1,
        ("kafka_topic_partition_leader", partition): 1,
        ("kafka_topic_partition_leader_is_preferred", partition): 1,
        ("kafka_topic_partition_replicas", partition): 2,
        ("kafka_topic_partition_in_sync_replica", partition): 1,
        ("kafka_topic_partition_under_replicated_partition", partition): 1,
        ("kafka_topic_partition_current_offset", partition): 10,
        ("kafka_topic_partition_oldest_offset", partition): 2,
        ("kafka_consumergroup_members", (group,)): 1,
        ("kafka_consumergroup_current_offset", (group, *partition)): 7,
        ("kafka_consumergroup_lag", (group, *partition)): 3,
        (
            "kafka_consumergroup_current_offset",
            (group, ("topic", "gone"), ("partition", "1")),
        ): 5,
        ("kafka_consumergroup_current_offset_sum", (group, ("topic", "t"))): 7,
        ("kafka_consumergroup_lag_sum", (group, ("topic", "t"))): 3,
        ("kafka_consumergroup_current_offset_sum", (group, ("topic", "gone"))): 5,
        ("kafka_consumergroup_current_offset", (group, ("topic", "u"), ("partition", "0"))): 0,
        ("kafka_consumergroup_current_offset", (group, ("topic", "u"), ("partition", "1"))): 1,
        ("kafka_consumergroup_lag", (group, ("topic", "u"), ("partition", "1"))): 8,
        ("kafka_consumergroup_current_offset_sum", (group, ("topic", "u"))): 1,
    }


@pytest.mark.mission("STR-11")
def test_a_streams_group_has_the_tasks_of_its_members() -> None:
    has = MemberTasks({"0": (0, 1)}, {"1": (2,)}, {})
    target = MemberTasks({"0": (0,)}, {}, {"1": (2,)})
    member = StreamsMemberDescription(
        "m", 7, "p", "c", "h", False, has, target, None, 2, ("10.0.0.1", 7070)
    )
    described = StreamsGroupDescription(
        *("s", "Reconciling", 8, 8, 2),
        {"0": ("in",)},
        frozenset({"in"}),
        frozenset({"s-counts-changelog"}),
        (member,),
        NODE,
    )
    listing = GroupListing("s", "streams", "Stable", "streams")
    facts = group_facts(listing, 1, described, {}, {})
    shown = (facts["type"], facts["state"], facts["epoch"], facts["topology_epoch"])
    assert shown == ("streams", "Reconciling", 8, 2)
    assert facts["subtopologies"] == {"0": ["in"]}
    (row,) = facts["members"]
    assert row["tasks"] == {"active": {"0": [0, 1]}, "standby": {"1": [2]}, "warmup": {}}
    assert row["target_tasks"] == {"active": {"0": [0]}, "standby": {}, "warmup": {"1": [2]}}
    assert (row["topology_epoch"], row["endpoint"]) == (2, "10.0.0.1:7070")
