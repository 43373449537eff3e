"""Commands in the form of Kafka's own tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.cli import connect, main
from minikafka.cli.cluster.topics import describe_text, topic_replication_factor
from minikafka.cli.usage import WrongUsage, is_kafka_form, translate
from minikafka.client.config import ClientConfig
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


@pytest.mark.mission("OPS-1")
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("--describe --group G --members", "describe --group G --members"),
        ("--group G --topic T --reset-offsets", "reset-offsets --group G --topic T"),
        ("--delete-offsets --group G --topic T", "delete-offsets --group G --topic T"),
        ("--list", "list"),
        ("describe --group G", "describe --group G"),
        ("timeline --group G log", "timeline --group G log"),
    ],
)
def test_groups_take_the_form_of_kafka_consumer_groups(given: str, taken: str) -> None:
    assert translate("groups", given.split()) == taken.split()


@pytest.mark.mission("OPS-1")
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("--bootstrap-server h:1 describe", "describe --bootstrap-server h:1"),
        (
            "--bootstrap-server h:1 --command-config F upgrade --feature a=1 --dry-run",
            "upgrade --bootstrap-server h:1 --command-config F --feature a=1 --dry-run",
        ),
        ("describe --bootstrap-server h:1", "describe --bootstrap-server h:1"),
        ("--bootstrap-server h:1", "--bootstrap-server h:1"),
        ("", ""),
    ],
)
def test_features_take_the_form_of_kafka_features(given: str, taken: str) -> None:
    assert translate("features", given.split()) == taken.split()


@pytest.mark.mission("GLASS-162")
@pytest.mark.parametrize(
    ("verb", "given", "taken", "kafkas"),
    [
        ("configs", "describe --topic T", "--describe --topic T", False),
        ("configs", "--topic T --describe", "--topic T --describe", True),
        ("configs", "--topic describe --describe", "--topic describe --describe", True),
        ("acls", "list --topic T", "--list --topic T", False),
        ("tokens", "--describe", "--describe", True),
        ("users", "list", "--list", False),
        ("topics", "describe", "describe", False),
        ("topics", "--topic=T --describe", "describe --matching=T", True),
        ("features", "--bootstrap-server h:1 describe", "describe --bootstrap-server h:1", True),
        ("features", "describe --json", "describe --json", False),
        ("quotas", "describe", "describe", False),
    ],
)
def test_an_action_that_is_the_first_word_is_not_kafkas_form(
    verb: str, given: str, taken: str, kafkas: bool
) -> None:
    assert translate(verb, given.split()) == taken.split()
    assert is_kafka_form(verb, given.split()) is kafkas


def test_groups_without_an_action_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["groups", *SERVER, "--group", "G"]) == main.USAGE
    assert capsys.readouterr().err == (
        "minikafka: groups takes exactly one action: --list, --describe, --delete, "
        "--reset-offsets or --delete-offsets\n"
    )


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
    ("verb", "why"),
    [
        ("topics --describe", "kafka-topics removed --zookeeper in Kafka 3.0"),
        ("topics list", "kafka-topics removed --zookeeper in Kafka 3.0"),
        ("reassign", "kafka-reassign-partitions removed --zookeeper in Kafka 3.0"),
        ("consume", "kafka-console-consumer removed --zookeeper in Kafka 2.0"),
        ("groups list", "kafka-consumer-groups removed --zookeeper in Kafka 2.0"),
        (
            "elect-leaders",
            (
                "kafka-leader-election never had --zookeeper, and Kafka 3.0 removed "
                "kafka-preferred-replica-election, which did"
            ),
        ),
        (
            "configs --describe",
            "--zookeeper is deprecated in Kafka 3.9's kafka-configs, and missing here",
        ),
    ],
)
def test_zookeeper_option_is_refused_with_a_hint_at_bootstrap_server(
    verb: str, why: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*verb.split(), *option.split(), "--topic", "T"]) == main.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"minikafka: {why}: name brokers instead, e.g. --bootstrap-server localhost:9092\n"
    )


def test_zookeeper_is_still_an_option_where_it_means_something() -> None:
    words = ["--zookeeper", "z:2181"]
    assert translate("up", words) == words


@pytest.mark.mission("OPS-1")
@pytest.mark.parametrize("form", ["create --topic T", "--create --topic T"])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("--partitions -1", "The partitions must be greater than 0"),
        ("--partitions 0", "The partitions must be greater than 0"),
        (
            "--replication-factor -1",
            "The replication factor must be between 1 and 32767 inclusive",
        ),
        ("--replication-factor 0", "The replication factor must be between 1 and 32767 inclusive"),
        (
            "--replication-factor 32768",
            "The replication factor must be between 1 and 32767 inclusive",
        ),
    ],
)
def test_counts_below_one_are_refused_as_by_kafka(
    form: str, wrong: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["topics", *form.split(), *SERVER, *wrong.split()])
    assert stop.value.code == main.USAGE
    option = wrong.split()[0]
    assert capsys.readouterr().err.endswith(f"error: argument {option}: {why}\n")


@pytest.mark.parametrize("form", ["alter --topic T", "--alter --topic T"])
def test_a_topic_cannot_grow_to_no_partitions(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["topics", *form.split(), *SERVER, "--partitions", "0"])
    assert stop.value.code == main.USAGE
    assert capsys.readouterr().err.endswith("The partitions must be greater than 0\n")


def test_help_names_the_form_with_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["topics", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--create, --list, --describe, --alter and --delete" in shown


@pytest.mark.parametrize("action", ["list", "describe", "delete", "create", "alter"])
def test_client_settings_come_from_a_file(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka, --bootstrap-server wins over the file's bootstrap.servers."""
    seen = []

    class NoAdmin(Exception):
        pass

    def admin(world: object, config: ClientConfig) -> None:
        seen.append(config)
        raise NoAdmin

    monkeypatch.setattr(connect, "Admin", admin)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=other:1\nclient.id=me\nrequest.timeout.ms=77\n")
    more = {"list": "", "describe": "", "alter": "--topic T --partitions 1"}
    rest = more.get(action, "--topic T").split()
    with pytest.raises(NoAdmin):
        main.main(["topics", f"--{action}", *SERVER, "--command-config", str(file), *rest])
    (config,) = seen
    assert (config.bootstrap_servers, config.client_id) == ("h:1", "me")
    assert config.request_timeout_ms == 77


def test_a_client_setting_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.idd=me\n")
    words = ["topics", "--list", *SERVER, "--command-config"]
    assert main.main([*words, str(file)]) == main.USAGE
    assert capsys.readouterr().err == (
        "minikafka: unknown client setting client.idd; did you mean client.id?\n"
    )
    assert main.main([*words, str(tmp_path / "none")]) == main.USAGE
    assert "No such file" in capsys.readouterr().err


@pytest.mark.mission("SEC-173")
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sasl.oauthbearer.scope.claim.name=s", "claim.name: it is not supported: "),
        ("sasl.oauth.token.provider=x", "unknown client setting sasl.oauth.token.provider"),
        ("sasl.kerberos.kinit.cmd=kinit", "names the keytab"),
    ],
)
def test_a_way_to_log_in_that_a_file_cannot_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, error: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    words = ["topics", "--list", *SERVER, "--command-config", str(file)]
    assert main.main(words) == main.USAGE
    assert error in capsys.readouterr().err


def test_a_topic_id_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["topics", "--describe", *SERVER, "--topic-id", "short"])
    assert stop.value.code == main.USAGE
    assert "short is not 16 bytes in base64" in capsys.readouterr().err


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
def test_describe_shows_adding_and_removing_replicas() -> None:
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
