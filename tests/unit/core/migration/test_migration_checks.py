"""What is against a step: each finding by an example that causes it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.migration.checks import NAMES, findings, is_safe
from minikafka.core.migration.facts import (
    BrokerFacts,
    ClusterFacts,
    DirectoryFacts,
    Goal,
    Kind,
    Way,
    ZookeeperFacts,
    kafka_releases,
    parse_version,
    settled,
)
from minikafka.core.migration.steps import Action, Step, next_step
from minikafka.kernel.cluster import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = {
    "inter.broker.protocol.version": "3.9-IV0",
    "listeners": "PLAINTEXT://:9092",
    "log.message.format.version": "3.0-IV1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    "security.inter.broker.protocol": "PLAINTEXT",
    "zookeeper.ssl.client.enable": "false",
    "controlled.shutdown.enable": "true",
    "authorizer.class.name": "",
}
IN_FILE = {"broker.id": "1", "node.id": "1", "zookeeper.connect": "z:2181/k"}
TO_OURS = Goal(Kind.MINIKAFKA, Way.IN_PLACE)
TO_KAFKA = Goal(Kind.KAFKA, Way.IN_PLACE)
ADDING = Goal(Kind.MINIKAFKA, Way.ADD)
PROTOCOLS = "group.coordinator.rebalance.protocols"
IBP = "inter.broker.protocol.version"


def cluster(kind: Kind = Kind.KAFKA) -> ClusterFacts:
    """Three brokers and two partitions, against which there is nothing."""
    return ClusterFacts(
        3,
        {b: BrokerFacts(b, kind, "3.9", "h:1", SETTINGS, {}, IN_FILE) for b in (1, 2, 3)},
        {
            T0: PartitionView(0, 1, 5, (1, 2, 3), (1, 2, 3)),
            T1: PartitionView(1, 2, 5, (2, 3, 1), (1, 2, 3)),
        },
        {"t": {"min.insync.replicas": "2"}},
        zookeeper=ZookeeperFacts(),
    )


def with_broker(
    facts: ClusterFacts,
    broker_id: int,
    settings: Mapping[str, str] = {},
    given: Mapping[str, str] = {},
    in_file: Mapping[str, str | None] = {},
    **more: Any,
) -> ClusterFacts:
    """Change one broker."""
    old = facts.brokers[broker_id]
    new = replace(
        old,
        settings={**old.settings, **settings},
        given={**old.given, **given},
        in_file={**old.in_file, **in_file},
        **more,
    )
    return replace(facts, brokers={**facts.brokers, broker_id: new})


def with_protocol(facts: ClusterFacts, text: str, **given: str) -> ClusterFacts:
    for broker_id in facts.brokers:
        facts = with_broker(facts, broker_id, {IBP: text}, {IBP: text} if given else {})
    return facts


def with_partition(facts: ClusterFacts, **more: Any) -> ClusterFacts:
    changed = facts.partitions[T0]._replace(**more)
    return replace(facts, partitions={**facts.partitions, T0: changed})


def with_zookeeper(facts: ClusterFacts, **more: Any) -> ClusterFacts:
    assert facts.zookeeper is not None
    return replace(facts, zookeeper=replace(facts.zookeeper, **more))


def with_topic(facts: ClusterFacts, **more: str) -> ClusterFacts:
    more = {name.replace("_", "."): value for name, value in more.items()}
    return replace(facts, topic_settings={"t": {**facts.topic_settings["t"], **more}})


def stopped(facts: ClusterFacts, **more: Any) -> ClusterFacts:
    """Broker 1 is stopped, and its directory was looked at."""
    brokers = {b: row for b, row in facts.brokers.items() if b != 1}
    partitions = {tp: view._replace(leader=2, isr=(2, 3)) for tp, view in facts.partitions.items()}
    directory = DirectoryFacts(**{"path": "/d", "exists": True, "clean_shutdown": True, **more})
    return replace(facts, brokers=brokers, partitions=partitions, directories=(directory,))


def moved_to_new(facts: ClusterFacts) -> ClusterFacts:
    """One new broker has come, which is too few."""
    new = BrokerFacts(9, Kind.MINIKAFKA, settings=SETTINGS)
    return replace(facts, brokers={**facts.brokers, 9: new})


Change = Callable[[ClusterFacts], ClusterFacts]
BLOCKING: list[tuple[str, Goal, Change]] = [
    ("kraft", TO_OURS, lambda c: with_broker(c, 2, {"process.roles": "broker"})),
    (
        "kraft",
        TO_OURS,
        lambda c: with_broker(c, 2, {"zookeeper.metadata.migration.enable": "true"}),
    ),
    ("kraft", TO_OURS, lambda c: with_zookeeper(c, kraft_migration=True)),
    ("broker-silent", TO_OURS, lambda c: with_broker(c, 2, silence="no response")),
    ("broker-silent", TO_OURS, lambda c: with_broker(c, 2, kind=Kind.UNKNOWN)),
    ("no-controller", TO_OURS, lambda c: replace(c, controller=-1)),
    ("metadata-differs", TO_OURS, lambda c: replace(c, unsettled=frozenset({T0}))),
    ("metadata-differs", ADDING, lambda c: replace(c, unsettled=frozenset({T0}))),
    ("offline-log-dirs", TO_OURS, lambda c: with_broker(c, 2, offline_dirs=("/d",))),
    (
        "under-replicated",
        TO_OURS,
        lambda c: with_partition(with_topic(c, min_insync_replicas="1"), isr=(1, 2)),
    ),
    ("under-min-isr", TO_OURS, lambda c: with_topic(c, min_insync_replicas="3")),
    ("under-min-isr", TO_OURS, lambda c: with_partition(c, replicas=(1,), isr=(1,))),
    ("reassignment", TO_OURS, lambda c: replace(c, reassigning=frozenset({T0}))),
    ("reassignment", TO_OURS, lambda c: replace(c, reassigning=None)),
    ("reassignment", TO_OURS, lambda c: with_zookeeper(c, reassignment=True)),
    (
        "protocol-too-high",
        Goal(Kind.KAFKA, Way.IN_PLACE, (2, 8)),
        lambda c: with_protocol(c, "3.0-IV1", given="yes"),
    ),
    ("protocol-too-low", TO_OURS, lambda c: with_protocol(c, "1.1-IV0", given="yes")),
    ("protocol-differs", TO_OURS, lambda c: with_broker(c, 2, {IBP: "3.8-IV0"}, {IBP: "3.8-IV0"})),
    ("protocol-unset", TO_OURS, lambda c: with_protocol(c, "2.8-IV1")),
    (
        "authorizer",
        TO_OURS,
        lambda c: with_broker(
            c, 2, {"authorizer.class.name": "A"}, {}, {"authorizer.class.name": "A"}
        ),
    ),
    ("tiered-storage", TO_OURS, lambda c: with_topic(c, remote_storage_enable="true")),
    (
        "tiered-storage",
        TO_OURS,
        lambda c: with_broker(c, 2, {"remote.log.storage.system.enable": "true"}),
    ),
    (
        "setting-refused",
        TO_OURS,
        lambda c: with_broker(c, 2, in_file={"create.topic.policy.class.name": "com.P"}),
    ),
    ("setting-refused", TO_OURS, lambda c: with_broker(c, 2, in_file={"confluent.balancer": None})),
    ("setting-refused", TO_OURS, lambda c: with_broker(c, 2, in_file={"num.partitions": "x"})),
    ("finalized-features", TO_KAFKA, lambda c: replace(c, finalized={"group.version": 1})),
    (
        "finalized-features",
        Goal(Kind.KAFKA, Way.ADD),
        lambda c: replace(c, finalized={"group.version": 1}),
    ),
    (
        "finalized-features",
        TO_KAFKA,
        lambda c: with_broker(c, 2, in_file={PROTOCOLS: "classic,consumer"}),
    ),
    ("no-directory", TO_OURS, lambda c: stopped(c, exists=False)),
    ("unclean-shutdown", TO_OURS, lambda c: stopped(c, clean_shutdown=False)),
    ("old-message-format", TO_OURS, lambda c: stopped(c, old_formats=("t-0/0.log",))),
]
WARNING: list[tuple[str, Goal, Change]] = [
    (
        "zookeeper-security",
        TO_OURS,
        lambda c: with_broker(c, 2, {"zookeeper.ssl.client.enable": "true"}),
    ),
    (
        "zookeeper-security",
        TO_OURS,
        lambda c: with_broker(
            c, 2, {"zookeeper.set.acl": "true"}, {}, {"zookeeper.set.acl": "true"}
        ),
    ),
    (
        "throttle-left",
        TO_OURS,
        lambda c: with_topic(c, leader_replication_throttled_replicas="0:1"),
    ),
    (
        "throttle-left",
        TO_OURS,
        lambda c: with_broker(c, 2, {}, {"follower.replication.throttled.rate": "9"}),
    ),
    (
        "no-controlled-shutdown",
        TO_OURS,
        lambda c: with_broker(c, 1, {"controlled.shutdown.enable": "false"}),
    ),
    ("listeners", TO_OURS, lambda c: with_broker(c, 2, {"listeners": "PLAINTEXT://:1,SSL://:2"})),
    (
        "listeners",
        TO_OURS,
        lambda c: with_broker(
            c, 2, {"listeners": "A://:1", "listener.security.protocol.map": "A:SASL_PLAINTEXT"}
        ),
    ),
    ("listeners", TO_OURS, lambda c: with_broker(c, 2, {"security.inter.broker.protocol": "SSL"})),
    ("protocol-unset", ADDING, lambda c: with_protocol(c, "2.8-IV1")),
]


def names_and_safety(facts: ClusterFacts, goal: Goal) -> tuple[set[str], bool]:
    found = findings(facts, goal, next_step(facts, goal))
    assert all(finding.text for finding in found)
    return {finding.name for finding in found}, is_safe(found)


@pytest.mark.mission("MIX-34")
def test_nothing_is_against_a_healthy_cluster() -> None:
    for goal in (TO_OURS, ADDING):
        assert names_and_safety(cluster(), goal) == (set(), True)
        assert names_and_safety(stopped(cluster()), goal) == (set(), True)
    assert names_and_safety(cluster(Kind.MINIKAFKA), TO_KAFKA) == (set(), True)


@pytest.mark.mission("MIX-34", "SEC-130")
def test_acls_in_zookeeper_go_along() -> None:
    name = "kafka.security.authorizer.AclAuthorizer"
    settings = {"authorizer.class.name": name}
    in_file = {**settings, "super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}
    assert names_and_safety(with_broker(cluster(), 2, settings, {}, in_file), TO_OURS) == (
        set(),
        True,
    )


@pytest.mark.mission("MIX-34")
@pytest.mark.parametrize(("name", "goal", "change"), BLOCKING)
def test_findings_that_block(name: str, goal: Goal, change: Change) -> None:
    facts = change(cluster(goal.source))
    assert names_and_safety(facts, goal) == ({name}, False)
    assert is_safe(findings(facts, goal, next_step(facts, goal)), {name})


@pytest.mark.mission("MIX-34")
@pytest.mark.parametrize(("name", "goal", "change"), WARNING)
def test_findings_that_warn(name: str, goal: Goal, change: Change) -> None:
    assert names_and_safety(change(cluster(goal.source)), goal) == ({name}, True)


@pytest.mark.mission("MIX-34")
def test_features_block_while_a_broker_of_kafka_shall_start() -> None:
    facts = replace(cluster(Kind.MINIKAFKA), finalized={"b": 2, "a": 1})
    (finding,) = findings(facts, TO_KAFKA, next_step(facts, TO_KAFKA))
    assert finding.text == (
        "a=1, b=2: brokers of Kafka end beside them; run `minikafka features downgrade "
        "--feature a=0 --feature b=0`"
    )
    assert names_and_safety(facts, TO_OURS) == (set(), True)
    for change in ({PROTOCOLS: "classic"}, {PROTOCOLS: None}):
        harmless = with_broker(cluster(Kind.MINIKAFKA), 2, in_file=change)
        assert names_and_safety(harmless, TO_KAFKA) == (set(), True)
    listed = with_broker(cluster(Kind.MINIKAFKA), 2, in_file={PROTOCOLS: "classic,consumer"})
    for other in (Goal(Kind.KAFKA, Way.ADD), Goal(Kind.KAFKA, Way.IN_PLACE, (3, 6))):
        names, _ = names_and_safety(listed, other)
        assert "finalized-features" not in names


@pytest.mark.mission("MIX-34")
def test_findings_with_one_cause() -> None:
    leaderless = with_partition(cluster(), leader=-1, isr=(2, 3))
    assert names_and_safety(leaderless, TO_OURS)[0] == {"offline-partitions", "under-replicated"}
    keys = {"delegation.token.secret.key": None}
    assert names_and_safety(with_broker(cluster(), 2, in_file=keys), TO_OURS) == (set(), True)
    old = with_protocol(cluster(), "2.8-IV1", given="yes")
    for broker_id in old.brokers:
        old = with_broker(old, broker_id, {"log.message.format.version": "0.10.2-IV0"})
    assert names_and_safety(old, TO_OURS) == ({"old-message-format"}, False)
    topic = with_topic(
        with_protocol(cluster(), "2.8-IV1", given="y"), message_format_version="0.10.2"
    )
    assert names_and_safety(topic, TO_OURS) == ({"old-message-format"}, False)


@pytest.mark.mission("MIX-34")
def test_features_that_only_one_kind_lacks() -> None:
    """Kafka has all of these, so nothing is against going back."""
    ours = with_broker(cluster(Kind.MINIKAFKA), 2, in_file={"debug.listener": "HTTP://127.0.0.1:1"})
    assert names_and_safety(ours, TO_KAFKA) == (set(), True)


@pytest.mark.mission("MIX-34")
def test_a_broker_is_started_although_replicas_are_out_of_sync() -> None:
    facts = replace(stopped(cluster()), reassigning=frozenset({T0}))
    assert next_step(facts, TO_OURS) == Step(Action.START, (1,))
    assert names_and_safety(facts, TO_OURS) == (set(), True)


@pytest.mark.mission("MIX-34")
def test_too_few_new_brokers() -> None:
    facts = moved_to_new(cluster())
    found = findings(facts, ADDING, Step(Action.REASSIGN, (9,)))
    assert [finding.name for finding in found] == ["too-few-brokers"]
    assert next_step(facts, ADDING).action is Action.ADD


@pytest.mark.mission("MIX-38")
def test_new_brokers_need_the_space_of_their_replicas() -> None:
    """T0 has 3 GiB, and T1 500 bytes, of which broker 5 has 100 already."""

    def found(*usable: int | None) -> list[tuple[str, bool]]:
        facts = cluster()
        for broker_id in facts.brokers:
            facts = with_broker(facts, broker_id, replica_bytes={T0: 3 << 30, T1: 500})
        facts = with_broker(facts, 3, replica_bytes={T0: 1, T1: 400})  # it lags
        new = {
            b: replace(facts.brokers[3], broker_id=b, kind=Kind.MINIKAFKA, replica_bytes=present)
            for b, present in ((4, {}), (5, {T1: 100}), (6, {}))
        }
        facts = replace(facts, brokers={**facts.brokers, **new})
        for broker_id, space in zip(new, usable, strict=True):
            facts = with_broker(facts, broker_id, usable_bytes=space)
        step = next_step(facts, ADDING)
        assert step == Step(Action.REASSIGN, (4, 5, 6))
        against = findings(facts, ADDING, step)
        assert {finding.name for finding in against} <= {"disk-space"}
        return [(finding.text, finding.blocks) for finding in against]

    whole = (3 << 30) + 500
    assert found(whole, whole - 100, whole) == []
    assert found(whole, whole - 101, whole) == [
        (
            (
                "broker 5 has 3,221,225,871 bytes of free disk space, and its new replicas need "
                "3,221,225,872 bytes: 1 bytes are missing"
            ),
            True,
        )
    ]
    assert found(whole, whole, None) == [
        (
            (
                "broker 6 does not tell the free space of its disks; its new replicas need "
                "3,221,225,972 bytes"
            ),
            False,
        )
    ]


@pytest.mark.mission("MIX-38")
def test_a_move_under_way_needs_the_space_of_the_remaining_records() -> None:
    facts = with_partition(cluster(), replicas=(1, 2, 3, 4))
    facts = with_broker(replace(facts, reassigning=frozenset({T0})), 1, replica_bytes={T0: 1000})
    new = replace(facts.brokers[1], broker_id=4, kind=Kind.MINIKAFKA, replica_bytes={T0: 600})
    facts = replace(facts, brokers={**facts.brokers, 4: new})
    for usable, missing in ((400, False), (399, True)):
        found = findings(
            with_broker(facts, 4, usable_bytes=usable), ADDING, next_step(facts, ADDING)
        )
        assert ("disk-space" in {finding.name for finding in found}) == missing


@pytest.mark.mission("MIX-32")
def test_a_partition_counts_as_settled_if_all_brokers_show_it_alike() -> None:
    same = PartitionView(0, 1, 5, (1, 2, 3), (3, 1, 2))
    old = PartitionView(0, 1, 5, (1, 2, 3), (1, 2))
    assert settled([{T0: same}, {T0: same._replace(isr=(1, 2, 3))}])[1] == frozenset()
    views, unsettled = settled([{T0: same, T1: same}, {T0: old, T1: same}, {T0: same}])
    assert unsettled == {T0, T1}  # the last broker knows only a part
    assert (views[T0].isr, views[T1].isr) == ((1, 2), (1, 2, 3))
    assert settled([{T0: same}, {T0: same._replace(leader=2)}])[1] == {T0}
    assert settled([]) == ({}, frozenset())


def test_every_finding_has_an_example() -> None:
    shown = {name for name, *_ in (*BLOCKING, *WARNING)}
    assert set(NAMES) - shown == {"offline-partitions", "too-few-brokers", "disk-space"}


def test_long_lists_are_cut() -> None:
    many = {TopicPartition("t", n): PartitionView(n, 1, 0, (1, 2, 3), (1,)) for n in range(9)}
    facts = replace(cluster(), partitions=many)
    texts = [f.text for f in findings(facts, TO_OURS, next_step(facts, TO_OURS))]
    assert any("t-0, t-1, t-2, t-3, t-4 and 4 more" in text for text in texts)


def test_versions() -> None:
    assert parse_version("2.8-IV1") == (2, 8)
    assert parse_version("0.10.2-IV0") == (0, 10)
    assert parse_version("latest") is None
    assert kafka_releases(17) == "3.9"
    assert kafka_releases(99) == kafka_releases(None) == ""
