"""The users of `up --secure` in ZooKeeper."""

from __future__ import annotations

import random
from typing import cast

import pytest

from minikafka.cli.secured.users import APP_RESOURCES, set_up_users
from minikafka.core.security.acls import NO_ACLS, AclResourceType, PatternType, ResourcePattern
from minikafka.core.security.scram_credentials import (
    SCRAM_SHA_512,
    credential_of,
    parse_credential,
    salted_password,
)
from minikafka.kernel.ports import World
from minikafka.server.zookeeper.store import ZkStore
from minikafka.spark.write.exactly_once import Task
from tests.support.zookeeper.direct import DirectZookeeper

PASSWORDS = {"app": "of-app", "admin": "of-admin", "broker": "of-broker"}
TOPICS = ResourcePattern(AclResourceType.TOPIC, "app-", PatternType.PREFIXED)


class Entropy:
    def __init__(self) -> None:
        self._dice = random.Random(1)

    def random_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)


class Machine:
    """The parts of a World that are used."""

    def __init__(self) -> None:
        self.coordination = DirectZookeeper()
        self.entropy = Entropy()

    async def set_up(self, passwords: dict[str, str]) -> bool:
        return await set_up_users(cast(World, self), "zookeeper", passwords)

    async def store(self) -> ZkStore:
        return ZkStore(await self.coordination.open("", 0, 0))


async def logs_in(store: ZkStore, user: str, password: str) -> bool:
    text = (await store.entity_config("users", user))[SCRAM_SHA_512.kafka_name]
    stored = parse_credential(text)
    salted = salted_password(SCRAM_SHA_512, password, stored.salt, stored.iterations)
    return credential_of(SCRAM_SHA_512, stored.salt, salted, stored.iterations) == stored


@pytest.mark.mission("SEC-194")
async def test_users_and_acls_are_written_into_an_empty_zookeeper_once() -> None:
    machine = Machine()
    assert await machine.set_up(PASSWORDS)
    store = await machine.store()
    for user, password in PASSWORDS.items():
        assert await logs_in(store, user, password)
        assert not await logs_in(store, user, "not-it")
    (found,) = await store.acls([TOPICS])
    assert found is not None
    assert [entry.principal for entry in found.entries] == ["User:app"]
    assert not await machine.set_up(PASSWORDS)


@pytest.mark.mission("SEC-191")
async def test_the_user_of_applications_may_use_ids_of_spark_sinks() -> None:
    machine = Machine()
    await machine.set_up(PASSWORDS)
    store = await machine.store()
    task = Task(query="q", batch=1, partition=0)
    for name in (task.name, task.whole):
        prefix = next(prefix for _, prefix in APP_RESOURCES if name.startswith(prefix))
        for kind in (AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID):
            (found,) = await store.acls([ResourcePattern(kind, prefix, PatternType.PREFIXED)])
            assert found is not None
            assert [entry.principal for entry in found.entries] == ["User:app"]


@pytest.mark.mission("SEC-194")
async def test_changes_of_an_administrator_are_kept() -> None:
    machine = Machine()
    await machine.set_up(PASSWORDS)
    store = await machine.store()
    await store.change_entity_config("users", "app", {"producer_byte_rate": "1000"})
    (found,) = await store.acls([TOPICS])
    assert found is not None
    await store.change_acls(TOPICS, found._replace(entries=frozenset()), True)
    assert not await machine.set_up(PASSWORDS)
    assert await store.entity_config("users", "app") == {"producer_byte_rate": "1000"}
    assert await store.acls([TOPICS]) == [NO_ACLS]


@pytest.mark.mission("SEC-194")
async def test_new_passwords_are_written_beside_quotas_and_acls() -> None:
    machine = Machine()
    await machine.set_up(PASSWORDS)
    store = await machine.store()
    config = await store.entity_config("users", "app")
    await store.change_entity_config("users", "app", config | {"producer_byte_rate": "1000"})
    assert await machine.set_up({user: f"new-{user}" for user in PASSWORDS})
    assert (await store.entity_config("users", "app"))["producer_byte_rate"] == "1000"
    assert await logs_in(store, "app", "new-app")
    assert await logs_in(store, "broker", "new-broker")
    (found,) = await store.acls([TOPICS])
    assert found is not None
    assert len(found.entries) == 1
