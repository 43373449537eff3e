"""The verb `groups` against brokers: what it shows of a group's life, and what it changes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from minikafka.cli.groups import groups
from minikafka.client import Admin, Producer, ShareConsumer, ShareConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.groups import GROUP, GroupChecker, SimMember
from tests.support.simulated.sim_groups import Reader

TOPIC = "flights"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
RECORDS = 20  # in each partition
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class Shell:
    """Verbs typed one after the other; ``out`` is what the last one printed."""

    def __init__(self, admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
        self.admin = admin
        self._capsys = capsys
        self.out = self.err = ""

    async def __call__(self, line: str) -> int:
        parser = argparse.ArgumentParser()
        groups.add_arguments(parser)
        verb, *words = line.split()
        args = parser.parse_args([verb, "--bootstrap-server", "x:1", *words])
        verbs = {
            "list": groups.list_groups,
            "describe": groups.describe,
            "reset-offsets": groups.reset_offsets,
            "delete": groups.delete,
            "delete-offsets": groups.delete_offsets,
        }
        status = await verbs[verb](self.admin, args)
        self.out, self.err = self._capsys.readouterr()
        return status

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines() if line]


def play(
    capsys: pytest.CaptureFixture[str], scene: Callable[[SimCluster, Shell], Awaitable[None]]
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic(TOPIC, len(PARTITIONS), 1)
            await admin.wait_for_topic(TOPIC, len(PARTITIONS))
            async with Producer(world, config) as producer:
                for partition in PARTITIONS:
                    for n in range(RECORDS):
                        await producer.send(TOPIC, b"%d" % n, partition=partition.partition)
            await scene(cluster, Shell(admin, capsys))

    SimCluster(1, [1], SETTINGS).run(scenario)


async def consumed(cluster: SimCluster, commits: int) -> None:
    """A member comes, commits so often in each partition, and leaves."""
    checker = GroupChecker(PARTITIONS)
    async with SimMember(cluster, checker, "m") as member:
        while checker.commits < commits * len(PARTITIONS):
            await member.consume(1_000)
        await member.leave()


@pytest.mark.mission("HB-7")
def test_a_group_while_it_lives_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(cluster: SimCluster, shell: Shell) -> None:
        checker = GroupChecker(PARTITIONS)
        async with SimMember(cluster, checker, "m") as member:
            while checker.commits < 2 * len(PARTITIONS):
                await member.consume(1_000)
            assert await shell("list") == 0
            assert shell.out == f"{GROUP}\n"
            assert await shell("list --state stable --type") == 0
            assert shell.rows() == [["GROUP", "TYPE", "STATE"], [GROUP, "Classic", "Stable"]]
            assert await shell("list --state Empty") == 0
            assert shell.rows() == [["GROUP", "STATE"]]
            assert await shell(f"describe --group {GROUP}") == 0
            head, *rows = shell.rows()
            assert head == [
                *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
                *("CONSUMER-ID", "HOST", "CLIENT-ID"),
            ]
            done = checker.acknowledged[PARTITIONS[0]]
            who = [rows[0][6], "/client", "minikafka"]
            assert rows[0] == [GROUP, TOPIC, "0", str(done), "20", str(20 - done), *who]
            assert len(rows) == len(PARTITIONS)
            assert await shell("list --json") == 0
            (listed,) = json.loads(shell.out)
            assert (listed["group"], listed["state"]) == (GROUP, "Stable")
            assert await shell(f"describe --group {GROUP} --json") == 0
            (whole,) = json.loads(shell.out)
            (alone,) = whole["members"]
            assert whole["state"] == "Stable"
            assert alone["assignment"] == {TOPIC: [0, 1, 2]}
            assert [offset["partition"] for offset in whole["offsets"]] == [0, 1, 2]
            assert whole["offsets"][0]["currentOffset"] == done
            assert whole["offsets"][0]["memberId"] == alone["memberId"] == rows[0][6]
            assert whole["lag"] == sum(20 - checker.acknowledged[each] for each in PARTITIONS)
            assert await shell(f"describe --group {GROUP} --state --json") == 0
            (state,) = json.loads(shell.out)
            assert state == {key: whole[key] for key in whole if key not in ("lag", "offsets")}
            assert await shell(f"describe --group {GROUP} --members --verbose") == 0
            assert shell.rows()[1][2:] == ["/client", "minikafka", "3", "flights(0,1,2)"]
            assert await shell(f"describe --group {GROUP} --state --verbose") == 0
            assert shell.rows()[1] == [
                *(GROUP, "broker-1:9092", "(1)", "range", "Stable", "1", "(unknown)"),
            ]
            assert await shell(f"reset-offsets --group {GROUP} --all-topics --to-earliest") == 1
            assert "only be reset if the group 'travellers' is inactive" in shell.err
            assert await shell(f"delete --group {GROUP}") == 1
            assert "NON_EMPTY_GROUP" in shell.err
            assert await shell(f"delete-offsets --group {GROUP} --topic {TOPIC}") == 1
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in shell.out
            await member.leave()
        assert await shell("describe --all-groups --state") == 0
        assert "has no active members" in shell.err
        assert shell.rows()[1][-2:] == ["Empty", "0"]
        assert await shell(f"describe --group {GROUP}") == 0
        assert shell.rows()[1][6:] == ["-", "-", "-"]
        assert await shell(f"describe --group {GROUP} --group other") == 1
        assert "Consumer group 'other' does not exist." in shell.err
        assert await shell(f"delete-offsets --group {GROUP} --topic {TOPIC}:0,2") == 0
        assert shell.rows()[2:] == [[TOPIC, "0", "Successful"], [TOPIC, "2", "Successful"]]
        assert await shell(f"describe --group {GROUP}") == 0
        assert [row[2] for row in shell.rows()[1:]] == ["1"]
        assert await shell(f"delete --group {GROUP} --group other") == 1
        assert f"deleted successfully: '{GROUP}'" in shell.out
        assert "* Group 'other' could not be deleted due to: GROUP_ID_NOT_FOUND" in shell.err
        assert await shell("list") == 0
        assert shell.out == ""

    play(capsys, scene)


@pytest.mark.mission("SHR-7")
def test_a_share_group_is_described_by_another_verb(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(cluster: SimCluster, shell: Shell) -> None:
        world, config = cluster.client_host.world, cluster.client_config
        async with ShareConsumer(world, config, ShareConsumerConfig(group_id="s")) as shares:
            shares.subscribe([TOPIC])
            while await shell("list --type share") or not shell.rows()[1:]:
                await shares.poll(timeout_ms=1_000)
            assert await shell("describe --group s") == 1
            other = "`minikafka share-groups describe --group s`"
            assert f"Group 's' is a share group: {other} describes it." in shell.err

    play(capsys, scene)


def test_a_consumer_group_while_it_lives_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(cluster: SimCluster, shell: Shell) -> None:
        await consumed(cluster, 1)
        reader = Reader(cluster, group_id="new", group_protocol="consumer").start(TOPIC)
        await cluster.until("read", lambda: len(reader.records) == RECORDS * len(PARTITIONS))
        assert await shell("list --type --state") == 0
        assert shell.rows()[1:] == [["new", "Consumer", "Stable"], [GROUP, "Classic", "Empty"]]
        assert await shell("list --type consumer --state stable") == 0
        assert shell.rows()[1:] == [["new", "Consumer", "Stable"]]
        assert await shell("list --type classic") == 0
        assert shell.rows()[1:] == [[GROUP, "Classic"]]
        assert await shell("describe --group new --members --verbose") == 0
        epoch = str(reader.consumer.group_metadata.generation)
        assert shell.rows()[1][4:] == ["3", epoch, "flights:0,1,2", epoch, "flights:0,1,2"]
        assert await shell("describe --group new --state --verbose") == 0
        state = ["uniform", "Stable", epoch, epoch, "1", "(unknown)"]
        assert shell.rows()[1][3:] == state
        assert await shell("describe --all-groups --state") == 0
        assert [row[0] for row in shell.rows()] == ["GROUP", "new", "GROUP", GROUP]
        assert await shell("reset-offsets --group new --all-topics --to-earliest") == 1
        assert "current state is Stable" in shell.err
        assert await shell("delete --group new") == 1
        assert "NON_EMPTY_GROUP" in shell.err
        await reader.stop()
        assert await shell("reset-offsets --group new --all-topics --to-earliest --execute") == 0
        assert await shell(f"delete-offsets --group new --topic {TOPIC}:0") == 0
        assert await shell("describe --group new") == 0
        assert "has no active members" in shell.err
        assert [row[2:6] for row in shell.rows()[1:]] == [[n, "0", "20", "20"] for n in "12"]
        assert await shell("delete --group new") == 0
        assert await shell("describe --group new") == 1
        assert "Consumer group 'new' does not exist." in shell.err

    play(capsys, scene)


def test_offsets_are_reset(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    async def scene(cluster: SimCluster, shell: Shell) -> None:
        await consumed(cluster, 2)

        async def reset(how: str, scope: str = "--all-topics") -> list[str]:
            """Run reset-offsets and return the group's committed offsets, by partition."""
            assert await shell(f"reset-offsets --group {GROUP} {scope} {how}") == 0
            promised = [row[3] for row in shell.rows()[1:]]
            assert await shell(f"describe --group {GROUP}") == 0
            has = [row[3] for row in shell.rows()[1:]]
            assert "--execute" not in how or scope != "--all-topics" or has == promised
            return has

        assert await reset("--to-offset 7 --execute") == ["7", "7", "7"]
        assert await reset("--to-latest") == ["7", "7", "7"], "a dry run"
        assert "LAG" in shell.out
        assert await reset("--to-latest --dry-run") == ["7", "7", "7"]
        assert await reset("--shift-by -2 --execute") == ["5", "5", "5"]
        assert await reset("--shift-by 100 --execute", f"--topic {TOPIC}:1") == ["5", "20", "5"]
        assert await reset("--to-current --execute") == ["5", "20", "5"]
        assert await reset("--to-earliest --execute", f"--topic {TOPIC}:1") == ["5", "0", "5"]
        assert await reset("--by-duration PT0S --execute") == ["20", "20", "20"]
        assert await reset("--to-datetime 2000-01-01T00:00:00.000 --execute") == ["0", "0", "0"]
        line = f"reset-offsets --group {GROUP} --topic {TOPIC} --to-offset 9 --export"
        assert await shell(line) == 0
        assert shell.out == "flights,0,9\nflights,1,9\nflights,2,9\n"
        file = tmp_path / "plan.csv"
        file.write_text(shell.out)
        assert await reset(f"--from-file {file} --execute", "") == ["9", "9", "9"]
        file.write_text("new,flights,1,3\n")
        line = f"reset-offsets --group {GROUP} --group new --from-file {file} --execute"
        with pytest.raises(Exception, match="No reset plan for group travellers found"):
            await shell(line)
        assert await shell(f"reset-offsets --group new --from-file {file} --execute") == 0
        assert await shell("describe --group new") == 0
        assert [row[2:6] for row in shell.rows()[1:]] == [["1", "3", "20", "17"]]

    play(capsys, scene)
