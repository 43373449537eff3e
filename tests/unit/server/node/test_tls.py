"""A broker's TLS comes from its configuration; what cannot be used stops the start, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.listeners import listeners
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.kernel.tls import ClientAuth
from minikafka.network.login_networks import TlsNetwork
from minikafka.server.node.tls import BrokerTls
from minikafka.world.real.world import real_world
from tests.support.security.certificates import Authority

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker")
ALICE = AUTHORITY.issue("alice")
GIVEN = {
    "zookeeper.connect": "z:1",
    "listeners": "PLAINTEXT://:1,EXTERNAL://:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SSL",
}
INLINE = {
    "ssl.keystore.key": BROKER.key_pem().decode(),
    "ssl.keystore.certificate.chain": BROKER.chain_pem.decode(),
    "ssl.truststore.certificates": AUTHORITY.pem.decode(),
}


def tls(given: dict[str, str]) -> BrokerTls:
    found = BROKER_CONFIG.parse(GIVEN | given)
    return BrokerTls(found, listeners(found, "me"), real_world())


@pytest.mark.mission("SEC-122")
def test_a_key_for_one_listener_wins_over_that_for_all(tmp_path: Path) -> None:
    store = tmp_path / "keys.p12"
    store.write_bytes(BROKER.pkcs12("pw"))
    own = {
        "listener.name.external.ssl.keystore.location": str(store),
        "listener.name.external.ssl.keystore.password": "pw",
        "listener.name.external.ssl.client.auth": "required",
        "ssl.client.auth": "none",
        "ssl.truststore.certificates": AUTHORITY.pem.decode(),
    }
    made = tls(own)
    assert list(made.listeners) == ["EXTERNAL"]
    settings = made.listeners["EXTERNAL"].settings
    assert settings.key == BROKER.key_pem()
    assert (settings.client_auth, settings.trusted) == (ClientAuth.REQUIRED, AUTHORITY.pem)
    with pytest.raises(ConfigError, match="needs a key"):
        tls({key.replace("external", "other"): text for key, text in own.items()})


@pytest.mark.mission("SEC-126")
def test_brokers_connect_with_the_settings_of_their_listener() -> None:
    assert not isinstance(tls(INLINE).network(), TlsNetwork)
    made = tls(INLINE | {"inter.broker.listener.name": "EXTERNAL"})
    assert isinstance(made.network(), TlsNetwork)


@pytest.mark.mission("SEC-123")
def test_the_rules_of_a_listener_name_its_clients() -> None:
    rules = {"listener.name.external.ssl.principal.mapping.rules": "RULE:CN=([a-z]+)/$1/U"}
    name_of = tls(INLINE | rules).listeners["EXTERNAL"]._name_of
    assert name_of(ALICE.der) == "ALICE"


WRONG = {
    "needs a key": {key: INLINE[key] for key in INLINE if "trust" in key},
    "go together": INLINE | {"ssl.keystore.certificate.chain": ""},
    "exclude each other": INLINE | {"ssl.keystore.location": "/x"},
    "ssl.keystore.location=/no/such/file cannot be read": {
        "ssl.keystore.location": "/no/such/file"
    },
    "ssl.keystore.password needs ssl.keystore.location": INLINE | {"ssl.keystore.password": "pw"},
    "ssl.truststore.password needs": INLINE | {"ssl.truststore.password": "pw"},
    "needs trusted certificates": {k: v for k, v in INLINE.items() if "trust" not in k}
    | {"ssl.client.auth": "required"},
    "RC4 is no cipher suite": INLINE | {"ssl.cipher.suites": "RC4"},
    "SSLv3 is no TLS version": INLINE | {"ssl.enabled.protocols": "SSLv3"},
    "Invalid rule": INLINE | {"ssl.principal.mapping.rules": "nonsense"},
    "must be https or empty": INLINE | {"ssl.endpoint.identification.algorithm": "ldaps"},
    "not that of the private key": INLINE
    | {"ssl.keystore.certificate.chain": ALICE.chain_pem.decode()},
}


@pytest.mark.mission("SEC-122")
@pytest.mark.parametrize("reason", WRONG)
def test_settings_that_cannot_be_used_stop_the_start(reason: str) -> None:
    given = {key: text for key, text in WRONG[reason].items() if text}
    with pytest.raises(ConfigError, match=reason) as caught:
        tls(given)
    assert "PRIVATE KEY" not in str(caught.value)
    assert "EXTERNAL" in str(caught.value)


@pytest.mark.mission("SEC-122")
def test_without_a_tls_listener_the_keys_change_nothing() -> None:
    found = BROKER_CONFIG.parse({"zookeeper.connect": "z:1"} | INLINE)
    assert found.without_effect == ()
    assert BrokerTls(found, listeners(found, "me"), real_world()).listeners == {}
