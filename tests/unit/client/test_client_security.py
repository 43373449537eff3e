"""Which connections a client makes by its configuration, and what is wrong with one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minikafka.aio import Admin, Consumer, Producer
from minikafka.client import ClientConfig
from minikafka.client.security import secured_network
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.kerberos import NoKerberos
from minikafka.network.login_networks import KerberosNetwork, SaslNetwork, TlsNetwork
from minikafka.world.real.world import real_world
from tests.support.security.certificates import Authority
from tests.support.security.fake_kerberos import FakeKerberos
from tests.support.security.sasl_brokers import OAUTHBEARER
from tests.support.security.token_server import CLIENT_ID, TokenServer

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "of-alice"}
AUTHORITY = Authority().issue("client").authority_pem.decode()


def network(**fields: Any) -> Any:
    return secured_network(real_world(), ClientConfig(**fields))


@pytest.mark.mission("SEC-158")
async def test_each_protocol_has_its_network() -> None:
    assert network().new_login() is None
    trust = {"ssl_truststore_certificates": AUTHORITY}
    assert isinstance(network(security_protocol="SSL", **trust), TlsNetwork)
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL", "sasl_ssl"):
        found = network(security_protocol=protocol, **LOGIN, **trust)
        assert isinstance(found, SaslNetwork)
        assert found.new_login() is not None
    jaas = f'{PLAIN} username="alice" password="of-alice";'
    assert network(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
    ).new_login()


@pytest.mark.mission("SEC-158")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"security_protocol": "TLS"}, "security.protocol=TLS"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl.mechanism=GSSAPI needs sasl.jaas.config"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "NTLM"},
            "sasl.mechanism=NTLM is not supported",
        ),
        ({"security_protocol": "SASL_SSL", **LOGIN, "sasl_password": None}, "has no password"),
        (
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_jaas_config": f'{PLAIN} username="alice" password="of-alice";',
            },
            "sasl.jaas.config: SCRAM-SHA-256 needs",
        ),
        (
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": f"{PLAIN} username",
            },
            "sasl.jaas.config: ",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/no/such/file"},
            "ssl.truststore.location=/no/such/file cannot be read",
        ),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "SSLv3"}, "security.protocol=SSL"),
        ({"security_protocol": "SSL", "ssl_truststore_type": "BKS"}, "ssl.truststore.type=BKS"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "no sasl.oauthbearer.token.endpoint.url and no sasl_oauth_token_provider",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_oauth_token_provider": print},
            "sasl_oauth_token_provider needs sasl.mechanism=OAUTHBEARER",
        ),
    ],
)
async def test_settings_that_cannot_be_used_are_named(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        network(**fields)
    assert error in str(raised.value)
    assert "of-alice" not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    config = ClientConfig(sasl_password="of-alice", ssl_key_password="of-key", sasl_jaas_config="j")
    assert "of-" not in repr(config)


KERBEROS = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/alice.keytab" principal="alice";'
)


@pytest.mark.mission("SEC-160")
async def test_a_client_logs_in_with_kerberos_if_the_library_is_there() -> None:
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT",
        sasl_jaas_config=KERBEROS,
        sasl_kerberos_service_name="kafka",
    )
    world = replace(real_world(), kerberos=FakeKerberos())
    assert isinstance(secured_network(world, config), KerberosNetwork)
    with pytest.raises(ConfigError, match=r"sasl\.mechanism=GSSAPI: GSSAPI needs the extra gssapi"):
        secured_network(replace(world, kerberos=NoKerberos()), config)
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: no name of the service"):
        secured_network(world, replace(config, sasl_kerberos_service_name=None))


@pytest.mark.mission("SPF-7")
async def test_a_wrong_secret_for_the_token_endpoint_fails_the_calls_of_each_client() -> None:
    """At once: after their time-outs the calls would fail with another error."""
    with TokenServer("alice") as endpoint:
        keys: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": endpoint.url,
            "sasl_jaas_config": f'{OAUTHBEARER} required clientId="{CLIENT_ID}" '
            'clientSecret="hush-wrong";',
        }
        nobody = "127.0.0.1:1"
        async with (
            Admin(nobody, **keys) as admin,
            Consumer(nobody, group_id="g", topics=["orders"], **keys) as consumer,
            Producer(nobody, **keys) as producer,
        ):
            for call in (
                admin.describe_cluster(),
                consumer.poll(60_000),
                producer.send_and_wait("orders", b"an apple"),
            ):
                with pytest.raises(KafkaError, match="with the status 401: check") as refused:
                    await call
                assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                assert "hush" not in str(refused.value)
