"""The stores of TLS listeners change while a broker runs: by new keys, or by new files."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.listeners import listeners
from minikafka.kernel.ports import ProtocolFactory
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.kernel.tls import TlsSettings
from minikafka.server.node.tls import BrokerTls
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import real_world
from tests.support.security.certificates import Authority, Identity

AUTHORITY = Authority()
OTHERS = Authority("others")
PREFIX = "listener.name.external."
pytestmark = pytest.mark.mission("SEC-125")


def broker(authority: Authority = AUTHORITY, name: str = "broker") -> Identity:
    return authority.issue(name)


class Files:
    """A key store and a trust store, in PEM."""

    def __init__(self, home: Path) -> None:
        self.keys, self.trust = home / "keys.pem", home / "trust.pem"
        self._written = 1_000_000_000
        self.write(broker())
        self._put(self.trust, AUTHORITY.pem)

    def write(self, identity: Identity) -> None:
        self._put(self.keys, identity.key_pem() + identity.chain_pem)

    def _put(self, path: Path, data: bytes) -> None:
        """Write a file at another time than before, however quick the test is."""
        path.write_bytes(data)
        self._written += 10
        os.utime(path, (self._written, self._written))

    def config(self, inter_broker: str = "PLAINTEXT", **more: str) -> Config:
        return BROKER_CONFIG.parse(
            {
                "zookeeper.connect": "z:1",
                "listeners": "PLAINTEXT://:1,EXTERNAL://:2",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SSL",
                "inter.broker.listener.name": inter_broker,
                f"{PREFIX}ssl.keystore.location": str(self.keys),
                "ssl.truststore.location": str(self.trust),
                **{name.replace("_", "."): text for name, text in more.items()},
            }
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def tls(config: Config) -> BrokerTls:
    return BrokerTls(config, listeners(config, "me"), real_world())


def test_a_file_that_was_replaced_is_read_at_the_next_alteration(files: Files) -> None:
    config, made = files.config(), tls(files.config())
    before = made.listeners["EXTERNAL"].settings
    made.reload(config)
    assert made.listeners["EXTERNAL"].settings is before, "nothing has changed"
    new = broker()
    files.write(new)
    made.check(config, config)
    assert made.listeners["EXTERNAL"].settings is before, "a check changes nothing"
    made.reload(config)
    assert made.listeners["EXTERNAL"].settings.chain == new.chain_pem
    assert made.listeners["EXTERNAL"].settings.key == new.key_pem()


def test_new_keys_are_applied_when_they_arrive(files: Files, tmp_path: Path) -> None:
    config, made, new = files.config(), tls(files.config()), broker()
    store = tmp_path / "new.p12"
    store.write_bytes(new.pkcs12("pw"))
    given = {
        **config.given,
        f"{PREFIX}ssl.keystore.location": str(store),
        f"{PREFIX}ssl.keystore.password": "pw",
    }
    after = BROKER_CONFIG.parse(given)
    made.check(config, after)
    made.reload(after)
    assert made.listeners["EXTERNAL"].settings.chain != new.chain_pem, "not before ZooKeeper"
    made.change(config, after)
    assert made.listeners["EXTERNAL"].settings.chain == new.chain_pem


REFUSED: dict[str, dict[str, str | None]] = {
    "Cannot remove the SSL keystore": {f"{PREFIX}ssl.keystore.location": None},
    "cannot be read": {f"{PREFIX}ssl.keystore.location": "/no/such/file"},
    "a PEM file has no store password": {f"{PREFIX}ssl.keystore.password": "very-secret"},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_keys_that_cannot_be_used_are_refused(files: Files, reason: str) -> None:
    config, made = files.config(), tls(files.config())
    given: dict[str, str | None] = {**config.given, **REFUSED[reason]}
    after = BROKER_CONFIG.parse({key: text for key, text in given.items() if text is not None})
    before = made.listeners["EXTERNAL"].settings
    with pytest.raises(ConfigError, match=reason) as caught:
        made.check(config, after)
    made.change(config, after)
    assert made.listeners["EXTERNAL"].settings is before
    assert "very-secret" not in str(caught.value)
    assert "EXTERNAL" in str(caught.value)


def test_files_that_may_not_replace_others_are_refused(files: Files) -> None:
    config, made = files.config(), tls(files.config())
    before = made.listeners["EXTERNAL"].settings
    files.write(broker(name="another"))
    with pytest.raises(ConfigError, match="DistinguishedName does not match"):
        made.reload(config)
    files.write(AUTHORITY.issue("broker", ("elsewhere",)))
    with pytest.raises(ConfigError, match="SubjectAltNames do not match"):
        made.reload(config)
    files.keys.write_text("no PEM")
    with pytest.raises(ConfigError, match="neither PEM nor PKCS12"):
        made.reload(config)
    files.keys.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        made.reload(config)
    assert made.listeners["EXTERNAL"].settings is before


def test_changes_of_names_may_be_allowed(files: Files) -> None:
    allowed = {"ssl_allow_dn_changes": "true", "ssl_allow_san_changes": "true"}
    config, made = files.config(**allowed), tls(files.config(**allowed))
    new = AUTHORITY.issue("another", ("elsewhere",))
    files.write(new)
    made.reload(config)
    assert made.listeners["EXTERNAL"].settings.chain == new.chain_pem


def test_no_trust_store_is_added(files: Files) -> None:
    config = files.config()
    without = {k: v for k, v in config.given.items() if "trust" not in k}
    made = tls(BROKER_CONFIG.parse(without))
    with pytest.raises(ConfigError, match="Cannot add SSL truststore"):
        made.check(config, config)


def test_brokers_must_trust_each_other_before_and_after(files: Files) -> None:
    """Kafka's ``SslEngineValidator``."""
    config = files.config("EXTERNAL")
    made = tls(config)
    files.write(broker(OTHERS))
    with pytest.raises(ConfigError, match="brokers could not connect to each other"):
        made.reload(config)
    new = broker()
    files.write(new)
    made.reload(config)
    assert made.listeners["EXTERNAL"].settings.chain == new.chain_pem
    files.write(broker(OTHERS))
    with pytest.raises(ConfigError, match="brokers could not connect to each other"):
        tls(config)  # nor may a broker start so


class Connecting(RealNetwork):
    """A Network that notes with which settings it would connect."""

    def __init__(self) -> None:
        self.used: list[TlsSettings | None] = []

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        self.used.append(tls)
        raise ConnectionRefusedError


async def test_connections_to_other_brokers_have_the_new_store(files: Files) -> None:
    config, network = files.config("EXTERNAL"), Connecting()
    made = BrokerTls(config, listeners(config, "me"), replace(real_world(), network=network))
    outgoing, new = made.network(), broker()
    with pytest.raises(OSError):
        await outgoing.connect(asyncio.BufferedProtocol, "h", 1)
    files.write(new)
    made.reload(config)
    with pytest.raises(OSError):
        await outgoing.connect(asyncio.BufferedProtocol, "h", 1)
    before, after = network.used
    assert before is not None
    assert after is not None
    assert before.chain != after.chain == new.chain_pem


def test_a_listener_that_is_removed_needs_no_store(files: Files) -> None:
    config, made = files.config(), tls(files.config())
    after = BROKER_CONFIG.parse(
        {
            "zookeeper.connect": "z:1",
            "listeners": "PLAINTEXT://:1",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        }
    )
    made.check(config, after)
    made.change(config, after)
