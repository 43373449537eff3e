"""The verb `migrate` against simulated brokers and ZooKeeper: the facts, a plan, the controller."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.cluster import migrate, migration_facts
from minikafka.cli.cluster.migration_facts import gather, read_zookeeper
from minikafka.cli.cluster.reassign import parse_reassignment
from minikafka.client import Admin
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.migration.facts import ClusterFacts, Goal, Kind, Way
from minikafka.core.migration.steps import Action, Step, next_step
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.features import GROUP_VERSION, FeatureUpdate, UpgradeType
from minikafka.kernel.ports import CreateOp
from minikafka.testing.simulator.cluster import SimCluster, host_name

ZOOKEEPER = "zookeeper:2181"
T = TopicPartition("t", 0)


async def facts_of(cluster: SimCluster, admin: Admin) -> ClusterFacts:
    return await gather(admin, cluster.client_host.world.coordination, ZOOKEEPER)


def play(scene: Callable[[SimCluster, Admin], Awaitable[None]], seed: int = 1) -> None:
    async def run(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("t", 1, 3, {"min.insync.replicas": "2"})
            await cluster.until_whole(T)
            await scene(cluster, admin)

    SimCluster(seed).run(run)


def levels(cluster: SimCluster) -> set[int]:
    """Return the levels of group.version that are in force at brokers."""
    found = {node._features.level(GROUP_VERSION) for node in cluster.nodes().values()}
    return found - {0}


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    migrate.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.mission("MIX-35")
def test_the_facts_of_a_cluster() -> None:
    async def scene(cluster: SimCluster, admin: Admin) -> None:
        facts = await facts_of(cluster, admin)
        assert facts.of_kind(Kind.MINIKAFKA) == [1, 2, 3]
        assert facts.controller == cluster.controller_id()
        assert set(facts.partitions[T].isr) == {1, 2, 3}
        assert facts.min_isr("t") == 2
        assert facts.reassigning == frozenset()
        broker = facts.brokers[1]
        assert broker.protocol() == (3, 9)
        assert (broker.offline_dirs, broker.silence) == ((), "")
        assert broker.usable_bytes
        assert T in broker.replica_bytes
        assert broker.in_file["broker.id"] == "1"
        assert "inter.broker.protocol.version" not in broker.given
        await cluster.stop(2)
        await cluster.until("2 is away", lambda: 2 not in cluster.nodes())
        for _ in range(50):
            facts = await facts_of(cluster, admin)
            if facts.away():
                break
        assert next_step(facts, Goal(Kind.KAFKA, Way.IN_PLACE)) == Step(Action.START, (2,))

    play(scene)


@pytest.mark.mission("MIX-35")
def test_zookeeper_shows_changes_under_way() -> None:
    nodes = {
        "/migration": b"",
        "/admin/reassign_partitions": b"{}",
    }

    async def scene(cluster: SimCluster, admin: Admin) -> None:
        before = (await facts_of(cluster, admin)).zookeeper
        assert before is not None
        assert (before.kraft_migration, before.reassignment) == (False, False)
        # The controller would carry out the reassignment at once, so it is gone.
        await cluster.stop(1)
        await cluster.stop(2)
        await cluster.stop(3)
        world = cluster.client_host.world
        session = await world.coordination.open(ZOOKEEPER, 10_000, 10_000)
        await session.multi([CreateOp(path, data) for path, data in nodes.items()])
        await session.close()
        found = await read_zookeeper(world.coordination, ZOOKEEPER)
        assert (found.kraft_migration, found.reassignment) == (True, True)

    play(scene)


@pytest.mark.mission("MIX-34")
def test_a_reassignment_that_ends_between_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition has old and new replicas then, for which brokers would seem to be missing."""
    moved = TopicPartition("moved", 0)
    read_partitions = migration_facts._partitions

    async def scene(cluster: SimCluster, admin: Admin) -> None:
        # The controller still reaches the target when the leader does not.
        leader, target = set(cluster.broker_ids) - {cluster.controller_id()}
        await admin.create_topics([NewTopic("moved", assignments={0: [leader]})])
        await admin.wait_for_topic("moved", 1)
        cluster.simulation.partition(host_name(leader), host_name(target))

        async def read_slowly(*args: Any) -> Any:
            found = await read_partitions(*args)
            cluster.simulation.heal()
            await cluster.until("moved", lambda: cluster.leader(moved) == target)
            await asyncio.sleep(1)
            assert await admin.list_partition_reassignments() == {}
            return found

        assert await admin.alter_partition_reassignments({moved: [target]}) == {moved: None}
        monkeypatch.setattr(migration_facts, "_partitions", read_slowly)
        facts = await facts_of(cluster, admin)
        assert facts.reassigning == frozenset({moved})
        assert set(facts.partitions[moved].replicas) == {leader, target}

    play(scene)


@pytest.mark.mission("MIX-36")
def test_the_controller_is_moved_to_a_broker() -> None:
    async def scene(cluster: SimCluster, admin: Admin) -> None:
        for broker_id in (1, 2, 3, 3):
            await migrate.move_controller(cluster.client_host.world, ZOOKEEPER, broker_id)
            assert cluster.controller_id() == broker_id
        with pytest.raises(ConfigError, match="broker 9 is not registered"):
            await migrate.move_controller(cluster.client_host.world, ZOOKEEPER, 9)

    play(scene)


@pytest.mark.mission("MIX-35")
def test_plan_and_check_print_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(cluster: SimCluster, admin: Admin) -> None:
        facts = await facts_of(cluster, admin)
        words = ("--bootstrap-server", "h:1", "--to", "kafka")
        args = options("plan", *words)
        goal = migrate.parse_goal(args)
        assert migrate.show_plan(args, facts, goal) == 0
        out = capsys.readouterr().out
        replaced = [line for line in out.splitlines() if "Stop broker" in line]
        assert [line[0] for line in replaced] == ["1", "2", "3"]
        assert f"Stop broker {facts.controller} " in replaced[-1]
        assert "minikafka migrate check --bootstrap-server h:1 --to kafka" in out
        assert migrate.show_plan(options("plan", *words, "--json"), facts, goal) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [row["kind"] for row in shown["brokers"]] == ["minikafka"] * 3
        assert [row["step"] for row in shown["steps"]][:3] == ["replace"] * 3

        args = options("check", *words)
        assert migrate.show_check(args, facts, goal) == 1
        assert "finalized-features\tblocks\tgroup.version=1" in capsys.readouterr().out
        downgrades = [
            FeatureUpdate(name, 0, UpgradeType.SAFE_DOWNGRADE) for name in facts.finalized
        ]
        assert set((await admin.update_features(downgrades)).values()) == {None}
        await cluster.until("no feature is finalized", lambda: not levels(cluster))
        facts = await facts_of(cluster, admin)
        assert facts.finalized == {}
        assert migrate.show_check(args, facts, goal) == 0
        assert "\nsafe: Stop broker" in f"\n{capsys.readouterr().out}"
        assert migrate.show_check(options("check", *words, "--json"), facts, goal) == 0
        assert json.loads(capsys.readouterr().out)["next"]["step"] == "replace"
        await admin.create_topic("lone", 3, 1)  # a partition on each broker
        await admin.wait_for_topic("lone", 3)
        facts = await facts_of(cluster, admin)
        assert migrate.show_check(args, facts, goal) == 1
        assert "under-min-isr\tblocks" in capsys.readouterr().out
        accepted = options("check", *words, "--accept", "under-min-isr")
        assert migrate.show_check(accepted, facts, goal) == 0
        assert "under-min-isr\taccepted" in capsys.readouterr().out

    play(scene)


@pytest.mark.mission("MIX-33")
def test_a_reassignment_is_written_when_it_is_the_next_step(
    tmp_path: Path,
) -> None:
    async def scene(cluster: SimCluster, admin: Admin) -> None:
        facts = await facts_of(cluster, admin)
        with pytest.raises(ConfigError, match="no reassignment is next: Start a broker of kafka"):
            migrate.write_reassignment(str(tmp_path / "r.json"), facts, Goal(Kind.KAFKA, Way.ADD))
        # Broker 3 is the only one of the target's kind, and enough for a topic with one replica.
        goal = Goal(Kind.MINIKAFKA, Way.ADD)
        kinds = {b: replace(row, kind=Kind.KAFKA) for b, row in facts.brokers.items() if b != 3}
        lone = {T: facts.partitions[T]._replace(replicas=(1,), isr=(1,), leader=1)}
        facts = replace(facts, brokers={**facts.brokers, **kinds}, partitions=lone)
        migrate.write_reassignment(str(tmp_path / "r.json"), facts, goal)
        written = parse_reassignment((tmp_path / "r.json").read_text())
        assert written.targets == {T: (3,)}

    play(scene)
