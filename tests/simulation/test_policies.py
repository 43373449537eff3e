"""Policies of the user's refuse topics and configurations, and may fail."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from minikafka.client import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.core.policies import ConfigProposal, PolicyViolation, TopicProposal
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster

CREATE, ALTER = "create.topic.policy.class.name", "alter.config.policy.class.name"
SETTINGS = {
    CREATE: "users_policies:Names",
    ALTER: "users_policies.Retention",
    "create.topic.policy.prefix": "team-",
    "num.partitions": "3",
}
SEEN: list[TopicProposal | ConfigProposal] = []


class Names:
    def __init__(self, settings: Mapping[str, str]) -> None:
        self._prefix = settings["create.topic.policy.prefix"]

    def validate(self, topic: TopicProposal) -> None:
        SEEN.append(topic)
        if topic.name == "broken":
            raise RuntimeError("a bug of the policy")
        if not topic.name.startswith(self._prefix):
            raise PolicyViolation(f"names begin with {self._prefix}")


class Retention:
    def __init__(self, _: Mapping[str, str]) -> None: ...

    def validate(self, alteration: ConfigProposal) -> None:
        SEEN.append(alteration)
        if alteration.configs.get("retention.ms") == "1":
            raise PolicyViolation("keep it longer")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("users_policies")
    found.__dict__.update(Names=Names, Retention=Retention, Nothing=object)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    SEEN.clear()


def play(scenario: Any) -> None:
    async def run(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await scenario(admin)

    SimCluster(1, (1,), SETTINGS).run(run)


@pytest.mark.mission("SEC-154")
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_policy_refuses_topics(validate_only: bool) -> None:
    async def scenario(admin: Admin) -> None:
        wanted = [
            NewTopic("team-a", configs={"retention.ms": "7"}),
            NewTopic("other"),
            NewTopic("broken"),
            NewTopic("team-b", assignments={0: [1], 1: [1]}),
        ]
        outcomes = await admin.create_topics(wanted, validate_only=validate_only)
        refused, broken = outcomes["other"], outcomes["broken"]
        assert isinstance(refused, KafkaError)
        assert (refused.code, refused.message) == (
            ErrorCode.POLICY_VIOLATION,
            "names begin with team-",
        )
        assert isinstance(broken, KafkaError)
        assert broken.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not isinstance(outcomes["team-a"], KafkaError)
        assert not isinstance(outcomes["team-b"], KafkaError)
        assert [
            TopicProposal("team-a", 3, 1, None, {"retention.ms": "7"}),
            TopicProposal("other", 3, 1, None, {}),
            TopicProposal("broken", 3, 1, None, {}),
            TopicProposal("team-b", None, None, {0: (1,), 1: (1,)}, {}),
        ] == SEEN
        if not validate_only:
            assert [view.name for view in await admin.list_topics()] == ["team-a", "team-b"]

    play(scenario)


@pytest.mark.mission("SEC-154")
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_policy_refuses_configurations(validate_only: bool) -> None:
    async def scenario(admin: Admin) -> None:
        await admin.create_topic("team-a", 1, 1)
        await admin.wait_for_topic("team-a")
        SEEN.clear()
        topic, retention = ResourceType.TOPIC, {"retention.ms": "1"}
        for refusal in (
            admin.alter_configs(topic, "team-a", retention, validate_only=validate_only),
            admin.incremental_alter_configs(
                topic,
                "team-a",
                [ConfigAlteration("retention.ms", "1")],
                validate_only=validate_only,
            ),
        ):
            with pytest.raises(KafkaError, match="keep it longer") as refused:
                await refusal
            assert refused.value.code is ErrorCode.POLICY_VIOLATION
        changes = [
            ConfigAlteration("retention.ms", "2"),
            ConfigAlteration("cleanup.policy", None, AlterOperation.DELETE),
        ]
        await admin.incremental_alter_configs(topic, "team-a", changes, validate_only=validate_only)
        assert SEEN[-1] == ConfigProposal(
            topic, "team-a", {"retention.ms": "2", "cleanup.policy": None}
        )
        await admin.incremental_alter_configs(
            ResourceType.BROKER,
            "",
            [ConfigAlteration("log.retention.ms", "1")],
            validate_only=validate_only,
        )
        assert SEEN[-1] == ConfigProposal(ResourceType.BROKER, "", {"log.retention.ms": "1"})

    play(scenario)


@pytest.mark.mission("SEC-154")
@pytest.mark.parametrize("key", [CREATE, ALTER])
@pytest.mark.parametrize("name", ["users_policies:Missing", "users_policies:Nothing", "P"])
def test_a_policy_that_cannot_be_used_ends_the_start(key: str, name: str) -> None:
    async def run(cluster: SimCluster) -> BaseException | None:
        cluster.start()
        return await cluster.end_of(1)

    error = SimCluster(1, (1,), SETTINGS | {key: name}).run(run)
    assert isinstance(error, ConfigError)
    assert key in str(error)
