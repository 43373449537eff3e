"""Keys of TLS at run time: for one listener at one broker, passwords encrypted in ZooKeeper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.dynamic_settings import is_password
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.node.passwords import StoredPasswords
from minikafka.server.zookeeper.store import ZkStore
from minikafka.world.real.world import RealEntropy
from tests.support.broker.config_lab import BROKER, DELETE, SET, Lab, fate
from tests.support.zookeeper.direct import DirectZookeeper

LOCATION = "listener.name.external.ssl.keystore.location"
PASSWORD = "listener.name.external.ssl.keystore.password"
ONLY_PER_LISTENER = (
    "These security configs can be dynamically updated only per-listener using the listener prefix"
)
ONLY_PER_BROKER = (
    "Cannot update these configs at default cluster level, broker id must be specified"
)


def passwords(secret: str = "s3cret", old: str = "") -> StoredPasswords:
    given = {"zookeeper.connect": "z:1", "password.encoder.secret": secret}
    if old:
        given["password.encoder.old.secret"] = old
    return StoredPasswords(BROKER_CONFIG.parse(given), RealEntropy())


@pytest.fixture
async def lab() -> Lab:
    store = ZkStore(await DirectZookeeper().open("", 0, 0))
    await store.create_persistent_paths()
    return Lab(store, passwords())


async def stored(lab: Lab) -> dict[str, str]:
    found: dict[str, str] = json.loads(await lab.written("/config/brokers/1"))["config"]
    return found


@pytest.mark.mission("SEC-105")
@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("1", "ssl.keystore.password", ONLY_PER_LISTENER),
        ("", "ssl.keystore.password", ONLY_PER_LISTENER),
        ("1", "ssl.truststore.location", ONLY_PER_LISTENER),
        ("", LOCATION, ONLY_PER_BROKER),
        ("", PASSWORD, ONLY_PER_BROKER),
        ("", "listener.name.external.sasl.enabled.mechanisms", ONLY_PER_BROKER),
        ("", "listeners", ONLY_PER_BROKER),
        ("", "listener.security.protocol.map", ONLY_PER_BROKER),
        ("1", "ssl.client.auth", "Cannot update these configs dynamically"),
        ("1", "listener.name.external.log.dirs", "Cannot update these configs dynamically"),
    ],
)
async def test_keys_in_the_wrong_place_are_refused(
    lab: Lab, name: str, key: str, message: str
) -> None:
    await lab.alter((BROKER, "1", {"log.retention.ms": "5"}))
    for results in (
        await lab.alter((BROKER, name, {key: "value"})),
        await lab.increment((BROKER, name, [(key, SET, "value")])),
    ):
        scala_set = "HashSet" if message == ONLY_PER_LISTENER else "Set"
        assert fate(results) == [(ErrorCode.INVALID_REQUEST, f"{message}: {scala_set}({key})")]
    assert await stored(lab) == {"log.retention.ms": "5"}
    assert len(await lab.store.config_changes()) == 1


@pytest.mark.mission("SEC-181")
async def test_passwords_are_encrypted_in_zookeeper_and_hidden(lab: Lab) -> None:
    results = await lab.alter((BROKER, "1", {LOCATION: "/keys.p12", PASSWORD: "store-pw"}))
    assert fate(results) == [(ErrorCode.NONE, None)]
    raw = await stored(lab)
    assert raw[LOCATION] == "/keys.p12"
    assert "store-pw" not in raw[PASSWORD]
    assert passwords().decrypted(raw)[PASSWORD] == "store-pw"
    lab.dynamic.update({}, raw)
    assert lab.dynamic.current.of_listener("EXTERNAL").string("ssl.keystore.password") == "store-pw"
    entry = (await lab.describe(BROKER, "1"))[PASSWORD]
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, False)
    assert [s.value for s in entry.synonyms] == [None]
    location = (await lab.describe(BROKER, "1"))[LOCATION]
    assert (location.value, location.config_source, location.read_only) == ("/keys.p12", 2, False)
    # A later change of another key keeps the password.
    await lab.increment((BROKER, "1", [("log.retention.ms", SET, "7"), (LOCATION, DELETE, None)]))
    assert passwords().decrypted(await stored(lab)) == {
        "log.retention.ms": "7",
        PASSWORD: "store-pw",
    }


@pytest.mark.mission("SEC-181")
async def test_without_a_secret_no_password_is_altered(lab: Lab) -> None:
    without = Lab(lab.store)
    ((code, message),) = fate(await without.alter((BROKER, "1", {PASSWORD: "store-pw"})))
    assert code is ErrorCode.INVALID_CONFIG
    assert str(message).endswith("Password encoder secret not configured")
    assert fate(await without.alter((BROKER, "1", {LOCATION: "/x"}))) == [(ErrorCode.NONE, None)]


@pytest.mark.mission("SEC-181")
async def test_a_password_of_another_secret_is_left_out(lab: Lab) -> None:
    raw = passwords("another").encrypted({PASSWORD: "pw", LOCATION: "/x"})
    lab.dynamic.update({}, raw)
    assert dict(lab.dynamic.own) == {LOCATION: "/x"}
    assert passwords().decrypted({PASSWORD: "not encrypted"}) == {}


@pytest.mark.mission("SEC-181")
def test_passwords_of_the_old_secret_are_encrypted_again() -> None:
    old = passwords("old").encrypted({PASSWORD: "pw", LOCATION: "/x"})
    new = passwords("new", old="old")
    written = new.rewritten(old)
    assert written is not None
    assert passwords("new").decrypted(written) == {PASSWORD: "pw", LOCATION: "/x"}
    assert new.rewritten(written) is None, "once only"
    assert passwords("new").rewritten(old) is None
    assert new.rewritten({LOCATION: "/x"}) is None


def test_which_keys_are_passwords() -> None:
    names = (
        "listener.name.x.ssl.key.password",
        "listener.name.x.ssl.keystore.key",
        "listener.name.x.ssl.truststore.certificates",
        "listener.name.x.plain.sasl.jaas.config",
    )
    assert all(map(is_password, names))
    assert not any(map(is_password, (LOCATION, "log.dirs", "ssl.keystore.type")))


@pytest.mark.mission("SEC-125")
async def test_stores_are_checked_before_and_read_again_with_any_alteration(lab: Lab) -> None:
    calls: list[Any] = []

    def check(before: Config, after: Config) -> None:
        calls.append("check")
        if after.integer("log.segment.bytes") == 999:
            raise ConfigError("no such store")

    def reload(after: Config) -> None:
        calls.append(("reload", after.integer("log.segment.bytes")))
        if after.integer("log.segment.bytes") == 777:
            raise ConfigError("bad file")

    lab.dynamic.on_check(check)
    lab.dynamic.on_reload(reload)
    results = await lab.alter((BROKER, "1", {"log.segment.bytes": "999"}))
    assert fate(results) == [(ErrorCode.INVALID_REQUEST, "no such store")]
    ((code, _),) = fate(await lab.alter((BROKER, "1", {"log.segment.bytes": "777"})))
    assert code is ErrorCode.INVALID_CONFIG
    assert await lab.store.config_changes() == []
    calls.clear()
    await lab.alter((BROKER, "1", {"log.segment.bytes": "1000"}), validate_only=True)
    await lab.alter((BROKER, "", {"log.segment.bytes": "1000"}))
    assert calls == ["check", "check"], "neither a validation nor other brokers read files"
    await lab.alter((BROKER, "1", {"log.segment.bytes": "1000"}))
    assert calls[2:] == ["check", ("reload", 1000)]


@pytest.mark.mission("SEC-125")
def test_settings_that_cannot_be_applied_leave_the_broker_as_it_is() -> None:
    dynamic = DynamicBrokerConfig(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"}))

    def refuse(before: Config, after: Config) -> None:
        raise ConfigError("no")

    dynamic.update({}, {"log.segment.bytes": "1000"})
    dynamic.on_check(refuse)
    dynamic.update({}, {"log.segment.bytes": "2000"})
    assert dynamic.current.integer("log.segment.bytes") == 1000
    assert dict(dynamic.own) == {"log.segment.bytes": "2000"}
