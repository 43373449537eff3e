"""The verb `acls`: which ACLs its options name, what it prints, and what it changes."""

from __future__ import annotations

import argparse
import builtins
import json

import pytest

from minikafka.cli.cluster import acls as verb
from minikafka.client import Admin
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args([*words, "--bootstrap-server", "x:1"])


def named(*words: str) -> list[str]:
    """The ACLs that the options name: ``Topic:LITERAL:t Allow Read User:a *``."""
    args = parsed(*words)
    verb.check(args)
    return [
        f"{pattern} {row.permission.pascal_name} {row.operation.pascal_name} {row.principal} "
        f"{row.host}"
        for pattern, rows in verb.bindings_to_add(args).items()
        for row in rows
    ]


@pytest.mark.mission("SEC-156")
@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (
            "--topic t --allow-principal User:a",
            ["Topic:LITERAL:t Allow All User:a *"],
        ),
        (
            (
                "--group g --resource-pattern-type prefixed --operation DESCRIBE --operation read "
                "--deny-principal User:a --deny-host 10.0.0.1"
            ),
            [
                "Group:PREFIXED:g Deny Describe User:a 10.0.0.1",
                "Group:PREFIXED:g Deny Read User:a 10.0.0.1",
            ],
        ),
        (
            (
                "--cluster --operation IdempotentWrite --allow-principal User:a"
                " --allow-principal User:b"
            ),
            [
                "Cluster:LITERAL:kafka-cluster Allow IdempotentWrite User:a *",
                "Cluster:LITERAL:kafka-cluster Allow IdempotentWrite User:b *",
            ],
        ),
        (
            "--user-principal User:x --operation CreateTokens --allow-principal User:a",
            ["User:LITERAL:User:x Allow CreateTokens User:a *"],
        ),
        (
            "--producer --topic t --transactional-id x --idempotent --allow-principal User:a",
            [
                "Topic:LITERAL:t Allow Write User:a *",
                "Topic:LITERAL:t Allow Describe User:a *",
                "Topic:LITERAL:t Allow Create User:a *",
                "TransactionalId:LITERAL:x Allow Write User:a *",
                "TransactionalId:LITERAL:x Allow Describe User:a *",
                "Cluster:LITERAL:kafka-cluster Allow IdempotentWrite User:a *",
            ],
        ),
        (
            "--producer --consumer --topic t --group g --allow-principal User:a",
            [
                "Topic:LITERAL:t Allow Write User:a *",
                "Topic:LITERAL:t Allow Describe User:a *",
                "Topic:LITERAL:t Allow Create User:a *",
                "Topic:LITERAL:t Allow Read User:a *",
                "Group:LITERAL:g Allow Read User:a *",
            ],
        ),
    ],
)
def test_the_acls_that_options_name(words: str, rows: list[str]) -> None:
    assert named("--add", *words.split()) == rows


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--add --topic t", "--add needs"),
        ("--add --allow-principal User:a", "name a resource"),
        ("--add --topic t --allow-principal alice", "'alice' is not Type:name"),
        ("--add --topic t --allow-principal User:a --operation Fly", "--operation Fly"),
        ("--add --group g --allow-principal User:a --operation Write", "GROUP only supports"),
        ("--add --topic t --allow-principal User:a --resource-pattern-type any", "not for --add"),
        ("--add --producer --allow-principal User:a --group g", "--producer needs a --topic"),
        ("--add --consumer --topic t --allow-principal User:a", "--consumer needs"),
        ("--add --consumer --topic t --group g --cluster", "--consumer needs"),
        ("--add --producer --topic t --operation Read", "imply the operations"),
        ("--add --topic t --idempotent", "--idempotent goes with"),
        ("--add --topic t --principal User:a", "--principal goes with --list"),
        ("--list --producer", "--list goes with"),
        ("--remove --topic t --json", "--json goes with"),
    ],
)
def test_options_that_do_not_go_together(words: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        named(*words.split())


@pytest.mark.mission("SEC-156")
def test_acls_are_added_listed_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are those of kafka-acls 3.9."""
    answers = iter(["n", "Y"])
    monkeypatch.setattr(builtins, "input", lambda: next(answers))

    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)

        async def shown(*words: str) -> str:
            args = parsed(*words)
            verb.check(args)
            async with Admin(cluster.client_host.world, cluster.client_config) as admin:
                if args.add:
                    assert await verb.add(admin, verb.bindings_to_add(args)) == 0
                elif args.remove:
                    entries = verb.entries_by_filter(args)
                    assert await verb.remove(admin, entries, args.force) == 0
                else:
                    assert await verb.show(admin, args) == 0
            return capsys.readouterr().out

        resource = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
        row = "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)"
        options = ("--topic", "t", "--allow-principal", "User:a", "--operation", "Read")
        assert await shown("--add", *options) == (
            f"Adding ACLs for resource `{resource}`: \n {row} \n\n"
        )
        listed = f"Current ACLs for resource `{resource}`: \n {row} \n\n"
        assert await shown("--list") == listed
        assert await shown("--list", "--topic", "other") == ""
        assert await shown("--list", "--topic", "t", "--principal", "User:a") == (
            f"ACLs for principal `User:a`\n{listed}"
        )
        assert json.loads(await shown("--list", "--json")) == [
            {
                "resourceType": "TOPIC",
                "name": "t",
                "patternType": "LITERAL",
                "principal": "User:a",
                "host": "*",
                "operation": "READ",
                "permissionType": "ALLOW",
            }
        ]
        question = (
            f"Are you sure you want to remove ACLs: \n {row} \n from resource filter `{resource}`? "
            "(y/n)\n"
        )
        assert await shown("--remove", *options) == question
        assert await shown("--list") == listed  # "n"
        assert await shown("--remove", *options) == question
        assert await shown("--list") == ""
        await shown("--add", *options)
        assert await shown("--remove", "--topic", "t", "--force") == ""
        assert await shown("--list") == ""

    SimCluster(1, broker_ids=(1,), settings=AUTHORIZER).run(scenario)


@pytest.mark.mission("SEC-142")
def test_without_an_authorizer_there_are_no_acls() -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            added = verb.bindings_to_add(parsed("--add", "--topic=t", "--allow-principal=User:a"))
            for work in (verb.show(admin, parsed("--list")), verb.add(admin, added)):
                with pytest.raises(KafkaError) as refused:
                    await work
                assert refused.value.code is ErrorCode.SECURITY_DISABLED

    SimCluster(1, broker_ids=(1,)).run(scenario)
