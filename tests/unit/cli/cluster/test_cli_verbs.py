"""The command line without a cluster: usage, configuration, texts."""

import argparse
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.cli import main, output
from minikafka.cli.cluster.topics import describe_text, parse_replica_assignment, topic_facts
from minikafka.cli.processes import broker
from minikafka.cli.records import perf
from minikafka.core.client.cluster_view import PartitionView, TopicView
from minikafka.kernel.config import ConfigError
from scripts.lib.cluster import free_ports


def test_no_verb_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    assert "usage: minikafka" in capsys.readouterr().err


def test_an_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["topic"]) == 2
    assert "did you mean topics" in capsys.readouterr().err


def test_a_wrong_flag_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        main.main(["topics", "list", "--nonsense"])
    assert stop.value.code == 2


@pytest.mark.parametrize("verb", sorted(main.VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main.main([verb, "--help"])
    assert stop.value.code == 0
    assert verb in capsys.readouterr().out


def test_a_missing_config_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["broker", "--config", "/not/there"]) == 1
    assert capsys.readouterr().err == "minikafka: No such file or directory: /not/there\n"


def test_a_bad_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["topics", "list", "--bootstrap-server", "nonsense:port"]) == main.USAGE
    assert "not host:port" in capsys.readouterr().err


def test_broker_configuration_is_file_then_environment_then_override(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=z:1\nnum.partitions=1\nbroker.id=1\nlog.dirs=/a\n")
    environment = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_BROKER_ID": "2"}
    config = broker.load_config(str(file), environment, ["broker.id=3"])
    assert config.integer("num.partitions") == 2
    assert config.integer("broker.id") == 3
    assert config.list("log.dirs") == ("/a",)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        broker.load_config(str(file), {}, ["broker.id"])


TOPIC = TopicView(
    "T",
    partitions={
        0: PartitionView(0, leader=3, leader_epoch=4, replicas=(3, 1, 2), isr=(3, 1)),
        1: PartitionView(1, leader=-1, replicas=(1, 2, 3)),
    },
)


@pytest.mark.mission("OPS-1")
def test_a_reader_that_has_enough_is_no_error() -> None:
    """As in ``| head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "minikafka.cli.main", "doctor"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=120)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_refused_cluster_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "data"
    base = free_ports(1)[0]
    ports = ["--base-port", str(base), "--zookeeper-port", str(base), "--brokers", "1"]
    assert main.main(["up", "--data-dir", str(home), *ports]) == 2
    assert f"port needed twice: {base}" in capsys.readouterr().err
    wrong = ["--zookeeper", "z:1", "--override", "num.partitions=none"]
    wrong += ["--base-port", str(free_ports(1)[0]), "--brokers", "1"]
    assert main.main(["up", "--data-dir", str(home), *wrong]) == 1
    assert "num.partitions" in capsys.readouterr().err
    assert not home.exists()


def test_a_number_below_its_minimum_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    client = ["--bootstrap-server", "h:1", "--topic", "t"]
    for wrong in (
        ["consume", *client, "--max-messages", "-1"],
        ["consume", *client, "--max-messages", "0"],
        ["consume", *client, "--timeout-ms", "-1"],
        ["perf", "produce", *client, "--num-records", "0"],
        ["up", "--brokers", "0"],
    ):
        with pytest.raises(SystemExit) as stop:
            main.main(wrong)
        assert stop.value.code == 2
        assert "must be at least" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [("consume",), ("perf", "consume", "--messages", "1")])
def test_nothing_read_without_a_broker_is_a_failure(
    verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        patience = ["--timeout-ms" if verb == ("consume",) else "--timeout", "300"]
        words = [*verb, "--bootstrap-server", server, "--topic", "t", "--group", "g", *patience]
        assert main.main(words) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"minikafka: {server}: Connection refused; trying on"
    assert told[-1] == f"minikafka: no broker answered at {server}"


def test_describe_prints_kafkas_shape() -> None:
    assert describe_text(TOPIC, {"segment.bytes": "1", "a": "b"}) == (
        "Topic: T\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 3"
        "\tConfigs: a=b,segment.bytes=1\n"
        "\tTopic: T\tPartition: 0\tLeader: 3\tReplicas: 3,1,2\tIsr: 3,1\n"
        "\tTopic: T\tPartition: 1\tLeader: none\tReplicas: 1,2,3\tIsr: "
    )
    assert topic_facts(TOPIC, {})["partitions"][0]["isr"] == [3, 1]


def test_replica_assignment() -> None:
    assert parse_replica_assignment("3:1:2,1:2:3") == {0: [3, 1, 2], 1: [1, 2, 3]}
    for wrong in ("1:1", "1:2,3", "a"):
        with pytest.raises(ConfigError):
            parse_replica_assignment(wrong)


def test_rows_are_tab_separated_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", stream := io.StringIO())
    output.show(("name", "n"), [("a", 1), ("b", None)], as_json=False)
    assert stream.getvalue() == "name\tn\na\t1\nb\t\n"
    stream.truncate(0)
    stream.seek(0)
    output.show(("name",), [("a",)], as_json=True)
    assert json.loads(stream.getvalue()) == [{"name": "a"}]


@pytest.mark.parametrize("option", ["--num-records", "--messages"])
def test_perf_e2e_takes_the_count_by_either_name(option: str) -> None:
    parser = argparse.ArgumentParser()
    perf.add_arguments(parser)
    args = parser.parse_args(["e2e", "--bootstrap-server", "h:1", "--topic", "t", option, "7"])
    assert args.messages == 7
