"""How a configuration secures ZooKeeper sessions, and the ACLs of znodes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from minikafka.cli.processes.zookeeper_security import login_file_text
from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.kernel.zookeeper_security import (
    ANYONE_ALL,
    ANYONE_READ,
    CREATOR_ALL,
    UNSECURED,
    CoordinationSecurity,
    DigestLogin,
    open_acl,
)
from minikafka.server.zookeeper.session_security import session_security
from minikafka.server.zookeeper.znode_acls import secure_acl
from minikafka.world.real.files import RealFiles
from minikafka.world.real.tls import client_context
from tests.support.security.certificates import Authority

LOGIN_FILE = "java.security.auth.login.config"
TLS = {"zookeeper.ssl.client.enable": "true"}


def secured(given: dict[str, str]) -> CoordinationSecurity:
    return session_security(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"} | given), RealFiles())


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    path = tmp_path / "client.jaas"
    path.write_text(login_file_text("kafka", 'se"cret'))
    return path


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/", CREATOR_ALL + ANYONE_READ),
        ("/brokers/ids/1", CREATOR_ALL + ANYONE_READ),
        ("/config", CREATOR_ALL + ANYONE_READ),
        ("/config/topics/t", CREATOR_ALL + ANYONE_READ),
        ("/config/users", CREATOR_ALL),
        ("/config/users/alice", CREATOR_ALL),
        ("/config/brokers/1", CREATOR_ALL),
        ("/delegation_token", CREATOR_ALL + ANYONE_READ),
        ("/delegation_token/tokens/x", CREATOR_ALL),
        ("/kafka-acl/Topic/t", CREATOR_ALL + ANYONE_READ),
        ("/consumers", ANYONE_ALL),
        ("/consumers/group", CREATOR_ALL + ANYONE_READ),
    ],
)
def test_acls_are_those_of_kafka(path: str, acl: object) -> None:
    assert secure_acl(path) == acl


@pytest.mark.mission("SEC-153")
def test_without_keys_a_session_is_not_secured() -> None:
    assert secured({}) == UNSECURED


@pytest.mark.mission("SEC-153")
def test_the_login_is_that_of_the_client_section(jaas: Path) -> None:
    security = secured({LOGIN_FILE: str(jaas)})
    assert security == CoordinationSecurity(login=DigestLogin("kafka", 'se"cret'), acl_of=open_acl)
    assert security.has_identity
    security = secured({LOGIN_FILE: str(jaas), "zookeeper.set.acl": "true"})
    assert security.acl_of is secure_acl
    jaas.write_text(jaas.read_text().replace("Client", "Other"))
    assert secured({LOGIN_FILE: str(jaas)}) == UNSECURED
    other = secured({LOGIN_FILE: str(jaas), "zookeeper.sasl.clientconfig": "Other"})
    assert other.login == DigestLogin("kafka", 'se"cret')


MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        (None, {}, "cannot be read: No such file"),
        ("Client {", {}, "a login module expected"),
        ("Client { };", {}, "the section Client has nothing"),
        (f'Client {{ {MODULE} required username="u"; }};', {}, "needs a username and a password"),
        (
            "Client { com.sun.security.auth.module.Krb5LoginModule required; };",
            {},
            "the section Client has com.sun.security.auth.module.Krb5LoginModule",
        ),
        (
            f'Client {{ {MODULE} required username="u" password="secret"; }};',
            {"zookeeper.sasl.client": "false"},
            "has no effect with zookeeper.sasl.client=false",
        ),
        ("", {"zookeeper.sasl.clientconfig": "Client"}, "there is no section Client"),
        ("", {"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true needs an identity"),
    ],
)
def test_a_login_that_cannot_be_used_is_refused(
    tmp_path: Path, text: str | None, more: dict[str, str], reason: str
) -> None:
    path = tmp_path / "jaas"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=reason) as refused:
        secured({LOGIN_FILE: str(path)} | more)
    assert "secret" not in str(refused.value)


@pytest.mark.mission("SEC-153")
def test_acls_need_an_identity(tmp_path: Path) -> None:
    identity = Authority().issue("broker")
    for without in ({}, TLS):
        with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl=true needs an identity"):
            secured({"zookeeper.set.acl": "true"} | without)
    store = tmp_path / "broker.pem"
    store.write_bytes(identity.key_pem() + identity.chain_pem)
    location = {"zookeeper.ssl.keystore.location": str(store)}
    assert secured({"zookeeper.set.acl": "true"} | TLS | location).acl_of is secure_acl


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize("kind", ["pem", "encrypted pem", "pkcs12"])
def test_stores_are_pem_or_pkcs12(tmp_path: Path, kind: str) -> None:
    identity = Authority().issue("broker")
    key, trust = tmp_path / "key", tmp_path / "trust"
    given = {
        "zookeeper.ssl.keystore.location": str(key),
        "zookeeper.ssl.truststore.location": str(trust),
        "zookeeper.ssl.keystore.type": "JKS",  # as Java, which looks at the file
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    }
    if kind != "pem":
        given["zookeeper.ssl.keystore.password"] = "secret"
    if kind == "pkcs12":
        key.write_bytes(identity.pkcs12("secret"))
        trust.write_bytes(identity.trust_pkcs12("trusted"))
        given["zookeeper.ssl.truststore.password"] = "trusted"
    else:
        password = "secret" if kind == "encrypted pem" else None
        key.write_bytes(identity.key_pem(password) + identity.chain_pem)
        trust.write_bytes(identity.authority_pem)
    tls = secured(TLS | given).tls
    assert tls is not None
    assert (tls.protocols, tls.ciphers, tls.check_host_name) == (("TLSv1.2",), (), True)
    assert (tls.key, tls.trusted) == (identity.key_pem(), identity.authority_pem)
    assert tls.chain == identity.chain_pem
    context = client_context(tls)
    assert context.check_hostname
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.mission("SEC-153")
def test_versions_suites_and_host_names_can_be_set() -> None:
    tls = secured(
        TLS
        | {
            "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
            "zookeeper.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
        }
    ).tls
    assert tls is not None
    assert tls.protocols == ("TLSv1.2", "TLSv1.3")
    assert tls.ciphers == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert not tls.check_host_name


@pytest.mark.mission("SEC-153")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"zookeeper.ssl.keystore.location": "x"},
            r"zookeeper\.ssl\.keystore\.location has no effect without",
        ),
        (
            {"zookeeper.ssl.cipher.suites": "X"},
            r"zookeeper\.ssl\.cipher\.suites has no effect without",
        ),
        (TLS | {"zookeeper.ssl.truststore.location": "/none"}, "cannot be read: No such file"),
        (
            TLS | {"zookeeper.ssl.keystore.password": "secret"},
            r"keystore\.password needs zookeeper\.ssl\.keystore\.location",
        ),
        (TLS | {"zookeeper.ssl.cipher.suites": "X"}, "X is no cipher suite"),
        (
            TLS | {"zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"},
            "must be HTTPS, or empty",
        ),
    ],
)
def test_tls_that_cannot_be_used_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        secured(given)
    assert "secret" not in str(refused.value)


@pytest.mark.mission("SEC-153")
def test_jks_and_wrong_passwords_are_refused(tmp_path: Path) -> None:
    identity = Authority().issue("broker")
    store = tmp_path / "store"
    given = TLS | {
        "zookeeper.ssl.keystore.location": str(store),
        "zookeeper.ssl.keystore.password": "secret",
    }
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        secured(given)
    for data in (identity.pkcs12("other"), identity.key_pem("other") + identity.chain_pem):
        store.write_bytes(data)
        with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location=.*") as refused:
            secured(given)
        assert "secret" not in str(refused.value)
