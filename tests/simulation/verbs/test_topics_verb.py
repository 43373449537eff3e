"""The verb `topics` in the form of kafka-topics, against simulated brokers."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Awaitable, Callable

import pytest

from minikafka.cli.cluster import topics
from minikafka.cli.usage import translate
from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster

ACTIONS = {
    "create": topics.create,
    "list": topics.list_names,
    "describe": topics.describe,
    "alter": topics.alter,
    "delete": topics.delete,
}


class Shell:
    """Lines typed one after the other; ``out`` is what the last one printed."""

    def __init__(
        self, cluster: SimCluster, admin: Admin, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.cluster = cluster
        self.admin = admin
        self._capsys = capsys
        self.out = self.err = ""

    async def __call__(self, line: str) -> int:
        parser = argparse.ArgumentParser()
        topics.add_arguments(parser)
        args = parser.parse_args(translate("topics", ["--bootstrap-server", "x:1", *line.split()]))
        self._capsys.readouterr()
        status = await ACTIONS[args.action](self.admin, args)
        self.out, self.err = self._capsys.readouterr()
        return status


def play(
    capsys: pytest.CaptureFixture[str], scene: Callable[[Shell], Awaitable[None]], seed: int
) -> None:
    async def run(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await scene(Shell(cluster, admin, capsys))

    SimCluster(seed).run(run)


@pytest.mark.mission("OPS-1")
def test_describe_prints_the_format_of_kafka_topics(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(shell: Shell) -> None:
        created = (
            "--create --topic T --replica-assignment 3:1:2,1:2:3,2:3:1 --config segment.bytes=9999"
        )
        assert await shell(created) == 0
        assert shell.out == "Created topic T.\n"
        await shell.cluster.until_whole(*(TopicPartition("T", p) for p in range(3)))
        assert await shell("--describe --topic T") == 0
        by_name = shell.out
        view = (await shell.admin.describe_topics(["T"]))["T"]
        assert not isinstance(view, KafkaError)
        topic_id = base64.urlsafe_b64encode(view.topic_id.bytes).decode().rstrip("=")
        head, *partitions = shell.out.splitlines()
        fields = head.split("\t")
        assert fields[:4] == [
            "Topic: T",
            f"TopicId: {topic_id}",
            "PartitionCount: 3",
            "ReplicationFactor: 3",
        ]
        assert fields[4].startswith("Configs: ")
        assert "segment.bytes=9999" in fields[4].removeprefix("Configs: ").split(",")
        assert len(fields) == 5
        assert partitions == [
            "\tTopic: T\tPartition: 0\tLeader: 3\tReplicas: 3,1,2\tIsr: 3,1,2",
            "\tTopic: T\tPartition: 1\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3",
            "\tTopic: T\tPartition: 2\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1",
        ]
        assert await shell("--create --topic other --partitions 1") == 0
        assert await shell(f"--describe --topic-id {topic_id}") == 0
        assert shell.out == by_name
        unknown = "A" * 22
        with pytest.raises(ConfigError, match=f"TopicId '{unknown}' does not exist as expected"):
            await shell(f"--describe --topic-id {unknown}")
        assert await shell(f"--describe --topic-id {unknown} --if-exists") == 0
        assert shell.out == ""

    play(capsys, scene, 31)


@pytest.mark.mission("OPS-1")
def test_names_are_patterns_for_all_but_create(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(shell: Shell) -> None:
        for name in ("alpha.1", "alpha-2", "beta"):
            assert await shell(f"--create --topic {name} --partitions 1") == 0
        assert await shell("--list") == 0
        assert shell.out == "alpha-2\nalpha.1\nbeta\n"
        assert await shell("--list --topic alpha..") == 0
        assert shell.out == "alpha-2\nalpha.1\n"
        await shell("--alter --topic alpha.* --partitions 2")
        assert await shell("--describe --topic beta,alpha-2") == 0
        heads = [line.split("\t")[:3:2] for line in shell.out.splitlines() if line[0] != "\t"]
        assert heads == [
            ["Topic: alpha-2", "PartitionCount: 2"],
            ["Topic: beta", "PartitionCount: 1"],
        ]
        for action in ("--describe", "--delete", "--alter --partitions 3"):
            with pytest.raises(ConfigError, match="'alph' does not exist as expected"):
                await shell(f"{action} --topic alph")  # the whole name has to match
            assert await shell(f"{action} --topic alph --if-exists") == 0
        with pytest.raises(ConfigError, match="no regular expression"):
            await shell("--list --topic (")
        assert await shell("--delete --topic alpha.*") == 0
        assert shell.out == ""
        assert await shell("--list") == 0
        assert shell.out == "beta\n"

    play(capsys, scene, 32)


@pytest.mark.mission("OPS-1")
def test_reports_show_the_partitions_in_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(shell: Shell) -> None:
        cluster = shell.cluster
        common = "--config min.insync.replicas=2"
        assert await shell(f"--create --topic t --replica-assignment 1:2,2:1,3:1 {common}") == 0
        assert await shell("--create --topic lone --replica-assignment 2") == 0
        await cluster.until("in sync", lambda: in_sync(cluster, 2))
        reports = (
            "--under-replicated-partitions",
            "--unavailable-partitions",
            "--under-min-isr-partitions",
        )
        for report in reports:
            assert await shell(f"--describe {report}") == 0
            assert shell.out == ""
        assert await shell("--describe --at-min-isr-partitions") == 0
        assert partitions(shell.out) == ["lone-0", "t-0", "t-1", "t-2"]
        assert await shell("--describe --topics-with-overrides --topic t") == 0
        assert [line.split("\t")[0] for line in shell.out.splitlines()] == ["Topic: t"]

        await cluster.host(2).kill()
        await cluster.until("left", lambda: in_sync(cluster, 1))
        await cluster.until("lone lost", lambda: cluster.leader(TopicPartition("lone", 0)) == -1)
        await until_reported(shell, "--under-replicated-partitions", ["t-0", "t-1"])
        await until_reported(shell, "--unavailable-partitions", ["lone-0"])
        await until_reported(shell, "--under-min-isr-partitions", ["lone-0", "t-0", "t-1"])
        await until_reported(shell, "--at-min-isr-partitions", ["lone-0", "t-2"])
        await until_reported(shell, f"{reports[0]} {reports[1]} --topic t", ["t-0", "t-1"])
        with pytest.raises(ConfigError, match="topics-with-overrides"):
            await shell(f"--describe {reports[0]} --topics-with-overrides")

    play(capsys, scene, 33)


def in_sync(cluster: SimCluster, count: int) -> bool:
    """Whether so many are in sync in both partitions that brokers 1 and 2 share."""
    return all(
        len(cluster.state(TopicPartition("t", p)).leader_and_isr.isr) == count for p in (0, 1)
    )


def partitions(text: str) -> list[str]:
    rows = [line.removeprefix("\t").split("\t") for line in text.splitlines()]
    return [
        f"{row[0].removeprefix('Topic: ')}-{row[1].removeprefix('Partition: ')}" for row in rows
    ]


async def until_reported(shell: Shell, report: str, expected: list[str]) -> None:
    """Repeat the report: a broker may learn of the controller's decision a little later."""
    seen = ""
    for _ in range(50):
        assert await shell(f"--describe {report}") == 0
        seen = shell.out
        if partitions(seen) == expected:
            return
        await shell.admin.session.world.clock.sleep(100)
    assert partitions(seen) == expected


@pytest.mark.mission("OPS-1")
def test_internal_topics_are_listed_unless_excluded(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(shell: Shell) -> None:
        assert await shell("--create --topic t --partitions 1") == 0
        created = await shell("--create --topic __consumer_offsets --partitions 1")
        assert created == 0
        assert await shell("--list") == 0
        assert shell.out == "__consumer_offsets\nt\n"
        assert await shell("--list --exclude-internal") == 0
        assert shell.out == "t\n"
        assert await shell("--describe --exclude-internal") == 0
        assert "__consumer_offsets" not in shell.out
        with pytest.raises(KafkaError) as refused:
            await shell("--create --topic t --partitions 1")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await shell("--create --topic t --if-not-exists") == 0

    play(capsys, scene, 34)
