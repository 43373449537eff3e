"""The verb `quotas` against a simulated cluster, and its options."""

from __future__ import annotations

import argparse
import json

import pytest

from minikafka.cli.cluster import quotas as verb
from minikafka.cli.main import main
from minikafka.client import Admin
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster


@pytest.mark.mission("SEC-196")
def test_limits_are_set_described_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await verb.alter(admin, {"user": "alice"}, [("producer_byte_rate", 1024.0)])
            pair = {"user": "alice", "client-id": None}
            await verb.alter(admin, pair, [("request_percentage", 12.5), ("consumer_byte_rate", 9)])
            await verb.alter(admin, {"client-id": "app"}, [("producer_byte_rate", 5)])
            await verb.alter(admin, {"ip": None}, [("connection_creation_rate", 50)])
            assert len(capsys.readouterr().out.splitlines()) == 4

            await verb.describe(admin, {}, as_json=False)
            assert capsys.readouterr().out.splitlines() == [
                "user\tclient-id\tip\tlimit\tvalue",
                "alice\t\t\tproducer_byte_rate\t1024",
                "alice\t<default>\t\tconsumer_byte_rate\t9",
                "alice\t<default>\t\trequest_percentage\t12.5",
                "\tapp\t\tproducer_byte_rate\t5",
                "\t\t<default>\tconnection_creation_rate\t50",
            ]
            await verb.describe(admin, {"user": "alice"}, as_json=True)
            rows = json.loads(capsys.readouterr().out)
            assert [row["value"] for row in rows] == [1024, 9, 12.5]

            await verb.remove(admin, pair, ["request_percentage"])
            await verb.remove(admin, {"user": "alice"}, [])
            with pytest.raises(ConfigError, match="user alice has no limits"):
                await verb.remove(admin, {"user": "alice"}, [])
            with pytest.raises(ConfigError, match="has no request_percentage"):
                await verb.remove(admin, pair, ["request_percentage"])
            with pytest.raises(KafkaError) as caught:
                await verb.alter(admin, {"ip": None}, [("producer_byte_rate", 1.0)])
            assert caught.value.code is ErrorCode.INVALID_REQUEST
            capsys.readouterr()
            await verb.describe(admin, {"user": "alice"}, as_json=True)
            assert [row["limit"] for row in json.loads(capsys.readouterr().out)] == [
                "consumer_byte_rate"
            ]

    SimCluster(1, broker_ids=(1,)).run(scenario)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("set --producer-byte-rate 10M", "name a user, a client or an address"),
        ("set --user alice", "name a limit: --producer-byte-rate"),
        ("set --user alice --ip 10.0.0.1 --request-percentage 5", "cannot be combined"),
        ("remove", "name a user, a client or an address"),
    ],
)
def test_wrong_options_are_named(
    words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quotas", *words.split(), "--bootstrap-server", "x:1"]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "rate"), [("1000", 1000), ("1.5k", 1536), ("10M", 10 * 2**20), ("1G", 2**30)]
)
def test_byte_rates_have_units(text: str, rate: float) -> None:
    assert verb.byte_rate(text) == rate


@pytest.mark.parametrize("text", ["", "-1", "10MB", "M", "nan"])
def test_other_byte_rates_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="bytes a second"):
        verb.byte_rate(text)
