"""The security APIs answer as Kafka 3.9.1 does without an authorizer and a SASL listener."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.api_keys import Release
from minikafka.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotas,
    ComponentData,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
)
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.simulated.raw_wire import exchange

RECORDED = Path(__file__).parents[1] / "support" / "protocol" / "kafka_3_9_security.json"


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


def config_tree(cluster: SimCluster, path: str) -> dict[str, str]:
    """Every znode below ``path`` with its text."""
    tree = cluster.simulation.zookeeper.tree
    found: dict[str, str] = {}
    pending = [path]
    while pending:
        node = pending.pop()
        for child in tree.children(node):
            pending.append(f"{node}/{child}")
            found[f"{node}/{child}"] = tree.get(f"{node}/{child}")[0].decode()
    return found


@pytest.mark.mission("SEC-1", "SEC-2", "SEC-3")
def test_the_bytes_are_those_that_kafka_3_9_1_sent() -> None:
    """Requests and responses were recorded from Apache Kafka 3.9.1 in ZooKeeper mode, in this
    order, starting from empty ``/config/users``, ``/config/clients`` and ``/config/ips``."""
    rows = json.loads(RECORDED.read_text())
    cluster = SimCluster(1, (0,))

    async def scenario(cluster: SimCluster) -> list[tuple[str, str, str | None]]:
        await up(cluster)
        seen = []
        for name, request, _ in rows:
            response = await exchange(cluster, 0, bytes.fromhex(request))
            seen.append((name, request, None if response is None else response.hex()))
        return seen

    seen = cluster.run(scenario)
    assert len(seen) == 287
    assert seen == [tuple(row) for row in rows]


async def request(cluster: SimCluster, broker_id: int, message: Any, version: int) -> Any:
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), PORT, "tool", ChannelConfig()
    )
    try:
        return await channel.request(message, version, 10_000)
    finally:
        channel.close()


def quota(key: str, value: float | None, **entity: str | None) -> AlteredQuotas:
    parts = [QuotaEntity(kind.replace("_", "-"), name) for kind, name in entity.items()]
    return AlteredQuotas(parts, [QuotaAlteration(key, value or 0.0, value is None)])


@pytest.mark.mission("SEC-2")
def test_quotas_lie_in_zookeeper_as_kafka_has_them() -> None:
    rows = [
        quota("producer_byte_rate", 2048, user="a b,=*/%"),
        quota("request_percentage", 25.5, user="a b,=*/%"),
        quota("consumer_byte_rate", 1e6, user="bob", client_id="c/1"),
        quota("controller_mutation_rate", 2, user=None, client_id=None),
        quota("connection_creation_rate", 50, ip="10.1.2.3"),
        quota("producer_byte_rate", 7, client_id=None),
    ]
    user = "/config/users/a%20b%2C%3D%2A%2F%25"
    stored = {
        user: '{"version":1,"config":{"producer_byte_rate":"2048","request_percentage":"25.5"}}',
        "/config/users/bob": "",
        "/config/users/bob/clients": "",
        "/config/users/bob/clients/c%2F1": (
            '{"version":1,"config":{"consumer_byte_rate":"1000000"}}'
        ),
        "/config/users/<default>": "",
        "/config/users/<default>/clients": "",
        "/config/users/<default>/clients/<default>": (
            '{"version":1,"config":{"controller_mutation_rate":"2.0"}}'
        ),
        "/config/ips/10.1.2.3": '{"version":1,"config":{"connection_creation_rate":"50"}}',
        "/config/clients/<default>": '{"version":1,"config":{"producer_byte_rate":"7"}}',
    }

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)

        def entities() -> dict[str, object]:
            roots = ("users", "clients", "ips")
            found = [config_tree(cluster, f"/config/{root}") for root in roots]
            return {
                path: text and json.loads(text) for each in found for path, text in each.items()
            }

        for row in rows:
            response = await request(cluster, 1, AlterClientQuotasRequest([row]), 1)
            assert [entry.error_code for entry in response.entries] == [0]
        assert entities() == {path: text and json.loads(text) for path, text in stored.items()}
        notices = config_tree(cluster, "/config/changes")
        assert [json.loads(text) for _, text in sorted(notices.items())] == [
            {"version": 2, "entity_path": path}
            for path in (
                user.removeprefix("/config/"),
                user.removeprefix("/config/"),
                "users/bob/clients/c%2F1",
                "users/<default>/clients/<default>",
                "ips/10.1.2.3",
                "clients/<default>",
            )
        ]
        for row in rows:
            removal = AlteredQuotas(row.entity, [QuotaAlteration(row.ops[0].key, 0.0, True)])
            await request(cluster, 1, AlterClientQuotasRequest([removal]), 1)
        assert entities() == {}  # without settings no znode stays, nor an empty parent

    SimCluster(2, (1,)).run(scenario)


@pytest.mark.mission("SEC-2")
def test_a_user_keeps_its_node_while_one_of_its_clients_has_a_quota() -> None:
    both, alone = {"user": "bob", "client_id": "c"}, {"user": "bob"}

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)

        async def alter(value: float | None, entity: dict[str, str]) -> set[str]:
            row = quota("producer_byte_rate", value, **entity)
            await request(cluster, 1, AlterClientQuotasRequest([row]), 1)
            return set(config_tree(cluster, "/config/users"))

        clients = "/config/users/bob/clients"
        whole = {"/config/users/bob", clients, f"{clients}/c"}
        await alter(1, alone)
        assert await alter(2, both) == whole
        assert await alter(None, alone) == whole
        await alter(1, alone)
        await alter(3, both | {"client_id": "d"})
        assert await alter(None, both | {"client_id": "d"}) == whole
        assert await alter(None, both) == {"/config/users/bob"}
        assert await alter(None, alone) == set()

    SimCluster(3, (1,)).run(scenario)


@pytest.mark.mission("SEC-2", "SEC-3")
def test_brokers_that_alter_one_user_at_once_lose_nothing() -> None:
    async def scenario(cluster: SimCluster) -> dict[str, str]:
        await up(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        credential = ScramCredentialUpsertion("bob", 1, 4096, b"salt", b"p" * 32)
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
        await asyncio.gather(
            *(
                request(cluster, i, AlterClientQuotasRequest([quota(key, 5, user="bob")]), 1)
                for i in cluster.broker_ids
                for key in keys
            ),
            request(cluster, controller, AlterUserScramCredentialsRequest([], [credential]), 0),
        )
        text = config_tree(cluster, "/config/users")["/config/users/bob"]
        found: dict[str, str] = json.loads(text)["config"]
        return found

    found = SimCluster(4).run(scenario)
    assert found.keys() == {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "SCRAM-SHA-256",
    }


def bob(mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion("bob", mechanism, iterations, b"salt", b"p" * 32)


NO_CREDENTIAL = "Attempt to describe a user credential that does not exist: al"
TWICE_DESCRIBED = (
    "Cannot describe SCRAM credentials for the same user twice in a single request: carol"
)
ALTERATIONS: list[tuple[list[Any], list[Any], str, int, str]] = [
    ([], [ScramCredentialUpsertion("", 1, 4096, b"s", b"p")], "", 93, "Username must not be empty"),
    ([], [bob(3)], "bob", 33, "Unknown SCRAM mechanism"),
    ([ScramCredentialDeletion("bob", 0)], [], "bob", 33, "Unknown SCRAM mechanism"),
    ([], [bob(1, 4095)], "bob", 93, "Too few iterations"),
    ([], [bob(1, 16385)], "bob", 93, "Too many iterations"),
    (
        [ScramCredentialDeletion("bob", 2)],
        [],
        "bob",
        92,
        "A user credential cannot be altered twice in the same request",
    ),
    (
        [ScramCredentialDeletion("bob", 1)],
        [],
        "bob",
        91,
        "Attempt to delete a user credential that does not exist",
    ),
]


@pytest.mark.mission("SEC-114")
def test_one_bad_entry_leaves_its_user_as_it_was_and_others_are_altered() -> None:
    """Each request has a good entry of bob's besides, and one of carol's."""

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        for number, (deletions, upsertions, user, code, message) in enumerate(ALTERATIONS):
            carol = ScramCredentialUpsertion("carol", 1, 5000 + number, b"salt", b"p" * 32)
            good = [bob(2), carol]
            alter = AlterUserScramCredentialsRequest(deletions, [*upsertions, *good])
            done = await request(cluster, controller, alter, 0)
            found = {row.user: (row.error_code, row.error_message or None) for row in done.results}
            assert found.pop(user) == (code, message)
            assert found.pop("carol") == (0, None)
            assert found == ({"bob": (0, None)} if user == "" else {})
            users = config_tree(cluster, "/config/users")
            if user == "":
                clean = AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", 2)], [])
                await request(cluster, controller, clean, 0)
            else:
                assert (
                    "/config/users/bob" not in users or '"config":{}' in users["/config/users/bob"]
                )
            assert f"iterations={5000 + number}" in users["/config/users/carol"]
        for broker_id in cluster.broker_ids:
            for names, wanted in (
                ([""], [("", 91, "Username must not be empty")]),
                (["al"], [("al", 91, NO_CREDENTIAL)]),
                (["carol"] * 2, [("carol", 92, TWICE_DESCRIBED)]),
                ([], [("carol", 0, None)]),
            ):
                describe = DescribeUserScramCredentialsRequest([UserName(name) for name in names])
                response = await request(cluster, broker_id, describe, 0)
                assert response.error_code == 0
                rows = [(r.user, r.error_code, r.error_message or None) for r in response.results]
                assert rows == wanted

    SimCluster(6).run(scenario)


@pytest.mark.mission("SEC-3", "SEC-114")
def test_only_the_controller_alters_credentials_and_every_broker_describes_them() -> None:
    """Brokers that serve clients as Kafka 3.9 forward nothing."""
    credential = ScramCredentialUpsertion("bob", 2, 8192, b"salt", b"p" * 64)
    deletion = ScramCredentialDeletion("al", 1)

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        alter = AlterUserScramCredentialsRequest([deletion], [credential])
        for node in cluster.nodes().values():
            node.serve_clients_as(Release.KAFKA_3_9)
        for broker_id in set(cluster.broker_ids) - {controller}:
            refused = await request(cluster, broker_id, alter, 0)
            assert refused.results == [
                AlterUserScramCredentialsResult("al", 41, None),
                AlterUserScramCredentialsResult("bob", 41, None),
            ]
        done = await request(cluster, controller, alter, 0)
        assert {row.user: row.error_code for row in done.results} == {"bob": 0, "al": 91}
        for broker_id in cluster.broker_ids:
            found = await request(cluster, broker_id, DescribeUserScramCredentialsRequest(None), 0)
            assert [(row.user, row.error_code) for row in found.results] == [("bob", 0)]
            assert [(i.mechanism, i.iterations) for i in found.results[0].credential_infos] == [
                (2, 8192)
            ]
        assert [
            json.loads(text)["entity_path"]
            for text in config_tree(cluster, "/config/changes").values()
        ] == ["users/bob"]

    SimCluster(5).run(scenario)


@pytest.mark.mission("SEC-2", "SEC-3")
@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_no_znode_can_have_are_refused(name: str) -> None:
    """A relative path is an error of the request, and the broker serves on."""

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        entries = [
            quota("producer_byte_rate", 1.0, user=name),
            quota("x", None, user="u", client_id=name),
        ]
        for validate_only in (False, True):
            altered = await request(
                cluster, controller, AlterClientQuotasRequest(entries, validate_only), 0
            )
            assert altered.entries[0].error_code == -1
        component = ComponentData("user", 0, name)
        described = await request(
            cluster, controller, DescribeClientQuotasRequest([component], False), 0
        )
        assert described.error_code == -1
        upsertion = ScramCredentialUpsertion(name, 1, 4096, b"salt", b"p")
        for alter in (
            AlterUserScramCredentialsRequest([], [upsertion]),
            AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, 1)], []),
        ):
            done = await request(cluster, controller, alter, 0)
            assert [row.error_code for row in done.results] == [-1]
        ordinary = await request(
            cluster,
            controller,
            AlterClientQuotasRequest([quota("producer_byte_rate", 1.0, user="u")], False),
            0,
        )
        assert [row.error_code for row in ordinary.entries] == [0]

    SimCluster(6).run(scenario)
