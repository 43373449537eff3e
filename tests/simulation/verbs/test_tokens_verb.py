"""The verb `tokens`: which options go together, and what it prints and changes."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace

import pytest

from minikafka.cli.cluster import tokens as verb
from minikafka.client import Admin, ClientConfig
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster, host_name
from tests.simulation.test_delegation_tokens import SETTINGS
from tests.simulation.test_sasl import JAAS, SASL_PORT


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args([*words, "--bootstrap-server", "x:1"])


@pytest.mark.mission("SEC-171")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--create", "--create needs --max-life-time-period"),
        ("--renew --hmac aGk=", "--renew needs --renew-time-period"),
        ("--expire --expiry-time-period -1", "--expire needs --hmac or --token-id"),
        ("--renew --hmac aGk= --token-id x --renew-time-period 1", "needs --hmac or --token-id"),
        ("--describe --token-id x", "--describe takes no --token-id"),
        ("--create --max-life-time-period 1 --hmac aGk=", "--create takes no --hmac"),
        ("--renew --hmac aGk= --renew-time-period 1 --owner-principal User:a", "takes no --owner"),
        ("--describe --renewer-principal User:a", "--describe takes no --renewer-principal"),
        ("--describe --max-life-time-period 1", "--describe takes no --max-life-time-period"),
        ("--describe --owner-principal alice", "'alice' is not Type:name"),
        ("--expire --hmac ä --expiry-time-period 1", "--hmac is not base64"),
        ("--expire --hmac aGk= --expiry-time-period 1 --json", "--json goes with"),
        (
            "--create --max-life-time-period 1 --owner-principal User:a --owner-principal User:b",
            "a token has one owner",
        ),
    ],
)
def test_options_of_tokens_that_do_not_go_together(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        verb.action_of(parsed(*words.split()))


USER = ClientConfig(
    bootstrap_servers=f"{host_name(1)}:{SASL_PORT}",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password="alice",
)


CREATED = (
    r"^Calling create token operation with renewers :\[User:bob\] , "
    r"max-life-time-period :-1\n"
    r"Created delegation token with tokenId : (\S{22})\n\n"
    r"TOKENID         HMAC                           OWNER           REQUESTER       "
    r"RENEWERS                  ISSUEDATE       EXPIRYDATE      MAXDATE        \n\n"
    r"\1 (\S{88}) User:alice      User:alice      \[User:bob\]                "
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d ?){3}\n$"
)


@pytest.mark.mission("SEC-171", "SEC-158")
def test_tokens_are_created_used_renewed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines are those of kafka-delegation-tokens 3.9, except that the last one ends."""

    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)

        async def shown(*words: str, config: ClientConfig = USER) -> str:
            args = parsed(*words)
            async with Admin(cluster.client_host.world, config) as admin:
                assert await verb.action_of(args)(admin, args) == 0
            return capsys.readouterr().out

        made = await shown(
            "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
        )
        match = re.search(CREATED, made)
        assert match is not None, made
        token_id, secret = match[1], match[2]
        rows = json.loads(await shown("--describe", "--json"))
        assert [(row["tokenId"], row["hmac"], row["renewers"]) for row in rows] == [
            (token_id, secret, ["User:bob"])
        ]
        described = await shown("--describe", "--owner-principal", "User:alice")
        head = "Calling describe token operation for owners: [User:alice]\n"
        assert described.startswith(f"{head}Total number of tokens : 1\nTOKENID ")
        assert described.endswith(made[made.index(f"\n{token_id}") :])
        # Our client logs in with the token, and gets no further tokens.
        entry = (
            f'{JAAS}.scram.ScramLoginModule required username="{token_id}" password="{secret}" '
            'tokenauth="true";'
        )
        by_token = replace(
            USER,
            sasl_mechanism="SCRAM-SHA-512",
            sasl_jaas_config=entry,
            sasl_username=None,
            sasl_password=None,
        )
        async with Admin(cluster.client_host.world, by_token) as admin:
            assert (await admin.describe_cluster()).cluster_id
        with pytest.raises(KafkaError) as refused:
            await shown("--describe", config=by_token)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        capsys.readouterr()
        bob = replace(USER, sasl_username="bob", sasl_password="bob")
        renewed = await shown(
            "--renew", "--hmac", secret, "--renew-time-period", "60000", config=bob
        )
        assert re.fullmatch(
            f"Calling renew token operation with hmac :{re.escape(secret)} , "
            r"renew-time-period :60000\nCompleted renew operation. New expiry date : \S{16}\n",
            renewed,
        )
        with pytest.raises(KafkaError, match="no token has the id other"):
            await shown("--expire", "--token-id", "other", "--expiry-time-period", "-1")
        capsys.readouterr()
        removed = await shown("--expire", "--token-id", token_id, "--expiry-time-period", "-1")
        assert re.fullmatch(
            f"Calling expire token operation with tokenId :{re.escape(token_id)} , "
            r"expire-time-period :-1\nCompleted expire operation. New expiry date : \S{16}\n",
            removed,
        )
        assert (await shown("--describe")).startswith(
            "Calling describe token operation for current user.\nTotal number of tokens : 0\n"
        )

    SimCluster(1, broker_ids=(1,), settings=SETTINGS).run(scenario)
