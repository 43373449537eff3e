"""Commands in the form of Kafka's own tools."""

from __future__ import annotations

import pytest

from minikafka.cli import main
from minikafka.cli.cluster.topic_text import describe_text, topic_replication_factor
from minikafka.cli.kafka_form import WrongUsage, translate
from minikafka.core.client.cluster_view import PartitionView, TopicView
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition

SERVER = ["--bootstrap-server", "h:1"]


@pytest.mark.mission("OPS-1")
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("--describe --topic T", "describe --matching T"),
        ("--topic=T --describe", "describe --matching=T"),
        ("--list", "list"),
        ("--list --exclude-internal", "list --exclude-internal"),
        ("--create --topic T --partitions 3", "create --topic T --partitions 3"),
        ("--alter --topic T --partitions 3", "alter --matching T --partitions 3"),
        ("--delete --topic T --if-exists", "delete --matching T --if-exists"),
        ("describe --topic T", "describe --topic T"),  # our own form stays as it is
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_an_action_is_an_option_in_kafka_and_a_word_here(given: str, taken: str) -> None:
    assert translate("topics", given.split()) == taken.split()


@pytest.mark.parametrize(
    "given", ["--topic T", "--list --describe", "--list --list", "--partitions 3"]
)
def test_exactly_one_action(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongUsage, match="exactly one action"):
        translate("topics", given.split())
    assert main.main(["topics", *SERVER, *given.split()]) == main.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "minikafka: topics takes exactly one action: --list, --describe, --create, --alter or "
        "--delete\n"
    )


@pytest.mark.mission("OPS-1")
@pytest.mark.parametrize("option", ["--zookeeper localhost:2181", "--zookeeper=localhost:2181"])
@pytest.mark.parametrize(
    "verb", ["topics --describe", "topics list", "configs --describe", "consume"]
)
def test_who_names_zookeeper_is_told_what_to_name_instead(
    verb: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*verb.split(), *option.split(), "--topic", "T"]) == main.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "minikafka: --zookeeper is gone since Kafka 3.0: name brokers instead, "
        "e.g. --bootstrap-server localhost:9092\n"
    )


def test_zookeeper_is_still_an_option_where_it_means_something() -> None:
    words = ["--zookeeper", "z:2181"]
    assert translate("up", words) == words


def test_an_option_of_another_action_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (
        ["--describe", "--partitions", "3"],
        ["--create", "--topic", "T", "--if-exists"],
        ["--list", "--unavailable-partitions"],
        ["--delete"],
        ["--alter", "--topic", "T"],
    ):
        with pytest.raises(SystemExit) as stop:
            main.main(["topics", *SERVER, *wrong])
        assert stop.value.code == main.USAGE
        assert capsys.readouterr().err.startswith("usage: minikafka topics ")


MOVING = TopicView(
    "T",
    partitions={
        0: PartitionView(0, leader=1, replicas=(3, 4, 1, 2), isr=(1, 2)),
        1: PartitionView(1, leader=2, replicas=(2, 1, 3), isr=(2,)),
    },
)


@pytest.mark.mission("OPS-1")
def test_a_partition_on_the_move_shows_what_comes_and_what_goes() -> None:
    moving = {TopicPartition("T", 0): ReplicaAssignment((3, 4, 1, 2), (3, 4), (1,))}
    assert describe_text(MOVING, {}, moving).splitlines() == [
        (
            "Topic: T\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2"
            "\tConfigs: "
        ),
        (
            "\tTopic: T\tPartition: 0\tLeader: 1\tReplicas: 3,4,1,2\tIsr: 1,2"
            "\tAdding Replicas: 3,4\tRemoving Replicas: 1"
        ),
        "\tTopic: T\tPartition: 1\tLeader: 2\tReplicas: 2,1,3\tIsr: 2",
    ]
    assert topic_replication_factor(MOVING, {}) == 4
    assert topic_replication_factor(TopicView("none"), {}) == 0
