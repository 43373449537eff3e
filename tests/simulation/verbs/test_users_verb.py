"""The verb `users`: which options go together, where passwords come from, and what it changes."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import pytest

from minikafka.cli.cluster import users as verb
from minikafka.client import Admin, ClientConfig
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.testing.simulator.cluster import SimCluster, host_name
from tests.simulation.test_sasl import SASL_PORT, SETTINGS

pytestmark = pytest.mark.mission("SEC-172")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args([*words, "--bootstrap-server", "x:1"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--create", "--create needs a --user"),
        ("--delete", "--delete needs a --user"),
        ("--list --user a", "--describe takes a --user"),
        ("--describe --password-env P", "go with --create only"),
        ("--delete --user a --iterations 8192", "go with --create only"),
        ("--list --mechanism SCRAM-SHA-256", "--mechanism goes with"),
        ("--create --user a --json", "--json goes with"),
    ],
)
def test_options_of_users_that_do_not_go_together(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        verb.check(parsed(*words.split()))


def test_a_password_comes_from_a_prompt_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*words: str, answers: tuple[str, ...] = ()) -> str:
        replies = iter(answers)
        args = parsed("--create", "--user", "a", *words)
        return verb.read_password(args, {"P": "of env"}, lambda question: next(replies))

    file = tmp_path / "password"
    file.write_text("of file\nmore\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("of input\n"))
    assert read("--password-file", str(file)) == "of file"
    assert read("--password-file", "-") == "of input"
    assert read("--password-env", "P") == "of env"
    assert read(answers=("typed", "typed")) == "typed"
    with pytest.raises(ConfigError, match="differ"):
        read(answers=("typed", "mistyped"))
    file.write_text("")
    for words in (("--password-file", str(file)), ("--password-env", "Q")):
        with pytest.raises(ConfigError, match="the password is empty"):
            read(*words)
    assert capsys.readouterr().out == ""


def config(mechanism: str, password: str) -> ClientConfig:
    return ClientConfig(
        bootstrap_servers=f"{host_name(2)}:{SASL_PORT}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="a,b",
        sasl_password=password,
    )


async def until_logged_in(world: World, settings: ClientConfig) -> None:
    for _ in range(100):
        try:
            async with Admin(world, settings) as admin:
                await admin.describe_cluster()
        except KafkaError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            await world.clock.sleep(20)
        else:
            return
    pytest.fail("no login")


def test_users_are_created_described_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are those of kafka-configs 3.9."""

    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 3)
        world = cluster.client_host.world

        async def shown(*words: str, password: str = "") -> str:
            args = parsed(*words)
            verb.check(args)
            async with Admin(world, cluster.client_config) as admin:
                if args.create:
                    assert await verb.create(admin, args, password) == 0
                elif args.delete:
                    assert await verb.delete(admin, args) == 0
                else:
                    show = verb.list_users if args.list else verb.describe
                    assert await show(admin, args) == 0
            return capsys.readouterr().out

        done = "Completed updating config for user a,b.\n"
        assert await shown("--create", "--user", "a,b", password="one") == done
        await until_logged_in(world, config("SCRAM-SHA-256", "one"))
        await until_logged_in(world, config("SCRAM-SHA-512", "one"))
        stronger = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192")
        assert await shown("--create", "--user", "a,b", *stronger, password="two") == done
        await until_logged_in(world, config("SCRAM-SHA-512", "two"))
        await until_logged_in(world, config("SCRAM-SHA-256", "one"))
        line = (
            "SCRAM credential configs for user-principal 'a,b' are "
            "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=8192\n"
        )
        assert await shown("--describe") == await shown("--describe", "--user", "a,b") == line
        assert await shown("--list") == "a,b\n"
        assert json.loads(await shown("--describe", "--json")) == [
            {"user": "a,b", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}}
        ]
        one = ("--mechanism", "SCRAM-SHA-256")
        assert await shown("--delete", "--user", "a,b", *one) == done
        assert "SHA-256" not in await shown("--describe")
        assert await shown("--delete", "--user", "a,b") == done
        assert await shown("--list") == ""
        for words in (("--delete",), ("--delete", *one), ("--describe",)):
            with pytest.raises(KafkaError) as refused:
                await shown(*words, "--user", "a,b")
            assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
        with pytest.raises(ConfigError, match="--iterations must be 4096 to 16384"):
            await shown("--create", "--user", "c", "--iterations", "1", password="x")

    SimCluster(1, settings=SETTINGS).run(scenario)
