"""What the verb `transactions` shows of a cluster, and how it ends a transaction that hangs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikafka.cli.groups import transactions as verb
from minikafka.client import Admin
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.transactor import SimTransactor

WHERE = TopicPartition("flights", 0)
SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "1",
}


def lone(scenario: Callable[[SimCluster, Admin], Awaitable[None]]) -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(WHERE.topic, 1, 1)
            await admin.wait_for_topic(WHERE.topic)
            await scenario(cluster, admin)

    SimCluster(1, broker_ids=(1,), settings=SETTINGS).run(play)


async def shown(
    capsys: pytest.CaptureFixture[str], cluster: SimCluster, admin: Admin, *words: str
) -> Any:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    args = parser.parse_args([*words, "--bootstrap-server", "x:1", "--json"])
    actions: dict[str, Any] = {
        "list": verb.list_transactions,
        "describe": verb.describe,
        "describe-producers": verb.describe_producers,
        "abort": verb.abort,
        "find-hanging": verb.find_hanging,
    }
    capsys.readouterr()
    clock = cluster.client_host.world.clock
    assert await actions[args.action](admin, args, clock.wall_ms) == 0
    out = capsys.readouterr().out
    return json.loads(out) if out else None


def test_list_and_describe(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        async with SimTransactor(cluster, "tx", 60_000) as transactor:
            await transactor.begin()
            await transactor.send(WHERE, b"v")
            (listed,) = await shown(capsys, cluster, admin, "list")
            assert listed == {
                "TransactionalId": "tx",
                "Coordinator": 1,
                "ProducerId": 0,
                "TransactionState": "Ongoing",
            }
            assert await shown(capsys, cluster, admin, "list", "--duration-filter", "9999") == []
            words = ("describe", "--transactional-id", "tx")
            (told,) = await shown(capsys, cluster, admin, *words)
            assert (told["TransactionState"], told["TransactionTimeoutMs"]) == ("Ongoing", 60_000)
            assert told["TopicPartitions"] == ["flights-0"]
            assert told["TransactionDurationMs"] is not None
            await transactor.end(True)
            (told,) = await shown(capsys, cluster, admin, *words)
            assert told["CurrentTransactionStartTimeMs"] is None
            with pytest.raises(KafkaError) as error:
                await shown(capsys, cluster, admin, "describe", "--transactional-id", "none")
            assert error.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    lone(scenario)


def test_a_transaction_that_hangs_is_found_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """Without verification a producer may write where its coordinator knows nothing of it."""

    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        clock = cluster.client_host.world.clock
        replica = cluster.replicas(WHERE)[1]
        where = ("--topic", WHERE.topic, "--partition", "0")
        async with SimTransactor(cluster, "tx", 60_000) as transactor:
            await transactor.begin()
            transactor.pretend_added(WHERE)
            await transactor.send(WHERE, b"v")
            assert await shown(capsys, cluster, admin, "find-hanging", *where) == []
            await clock.sleep(16 * 60_000)
            (found,) = await shown(capsys, cluster, admin, "find-hanging", "--broker-id", "1")
            assert (found["Topic"], found["Partition"], found["StartOffset"]) == ("flights", 0, 0)
            assert (found["ProducerId"], found["Duration(min)"]) == (0, 16)
            assert await shown(capsys, cluster, admin, "find-hanging", "--broker-id", "2") == []
            (producer,) = await shown(capsys, cluster, admin, "describe-producers", *where)
            assert producer["CurrentTransactionStartOffset"] == 0
            assert (replica.last_stable_offset, replica.high_watermark) == (0, 1)
            with pytest.raises(ConfigError):
                await shown(capsys, cluster, admin, "abort", *where, "--start-offset", "7")
            await shown(capsys, cluster, admin, "abort", *where, "--start-offset", "0")
            assert replica.last_stable_offset == replica.high_watermark == 2
            (producer,) = await shown(capsys, cluster, admin, "describe-producers", *where)
            assert producer["CurrentTransactionStartOffset"] is None
            assert await shown(capsys, cluster, admin, "find-hanging", *where) == []

    lone(scenario)


@pytest.mark.parametrize("action", ["describe-producers", "find-hanging"])
def test_a_topic_that_does_not_exist_is_not_created(
    capsys: pytest.CaptureFixture[str], action: str
) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        before_ms = cluster.client_host.world.clock.monotonic_ms()
        with pytest.raises(KafkaError) as error:
            await shown(capsys, cluster, admin, action, "--topic", "misspelled", "--partition", "0")
        assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.client_host.world.clock.monotonic_ms() - before_ms < 5000  # simulated
        assert [topic.name for topic in await admin.list_topics()] == [WHERE.topic]

    lone(scenario)


def test_looking_for_offsets_creates_no_topic() -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        with pytest.raises(KafkaError):
            await admin.list_offsets({TopicPartition("misspelled", 0): -1}, timeout_ms=5000)
        assert [topic.name for topic in await admin.list_topics()] == [WHERE.topic]

    lone(scenario)


def test_long_transactions_that_the_coordinator_knows_do_not_hang(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        async with SimTransactor(cluster, "tx", 600_000) as transactor:
            await transactor.begin()
            await transactor.send(WHERE, b"v")
            await cluster.client_host.world.clock.sleep(61_000)
            words = ("--topic", WHERE.topic, "--max-transaction-timeout", "1")
            assert await shown(capsys, cluster, admin, "find-hanging", *words) == []

    lone(scenario)


def test_verification_is_switched_on_while_the_broker_runs() -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        await admin.alter_configs(
            ResourceType.BROKER, "1", {"transaction.partition.verification.enable": "true"}
        )
        transactions = cluster.nodes()[1]._parts.transactions
        await cluster.until("it is on", lambda: transactions.verification.enabled)
        async with SimTransactor(cluster, "tx", 60_000) as transactor:
            await transactor.begin()
            transactor.pretend_added(WHERE)
            with pytest.raises(KafkaError) as error:
                await transactor.send(WHERE, b"v")
            assert error.value.code is ErrorCode.TRANSACTION_ABORTABLE
        assert cluster.replicas(WHERE)[1].log.log_end_offset == 0

    lone(scenario)


def test_abort_without_all_its_arguments_is_refused() -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    words = ["--bootstrap-server", "h:1"]
    abort = ["abort", *words, "--topic", "t", "--partition", "0", "--producer-id", "1"]
    with pytest.raises(ConfigError, match="abort needs"):
        verb.run(parser.parse_args(abort))
