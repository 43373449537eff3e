"""A broker's SASL comes from its configuration; settings that cannot be used stop the start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from minikafka.core.security.kerberos_names import ServiceLogin
from minikafka.core.security.sasl.exchange import Challenge, Failure, Success
from minikafka.core.security.sasl.login_options import LoginOptions
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.core.security.scram_credentials import Mechanism, ScramCredential
from minikafka.kernel.config import ConfigError
from minikafka.kernel.kerberos import Kerberos, KerberosIdentity, NoKerberos
from minikafka.kernel.listeners import listeners
from minikafka.kernel.principals import Principal
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.network.login_networks import KerberosNetwork
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.server.node.sasl import BrokerSasl
from minikafka.world.real.world import real_world
from tests.support.security.fake_kerberos import FakeKerberos
from tests.support.security.logins import SCRAM_256, WALL_MS
from tests.support.security.signed_tokens import EC, claims, key_set, signed

PREFIX = "listener.name.external"
PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="broker-secret" user_alice="secret" user_broker="broker-secret";'
)
SCRAM_JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="broker" password="broker-secret";'
)
OAUTH_JAAS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
GIVEN = {
    "zookeeper.connect": "z:1",
    "listeners": "PLAINTEXT://:1,EXTERNAL://:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    f"{PREFIX}.plain.sasl.jaas.config": PLAIN_JAAS,
}
OTHERS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    f"{PREFIX}.scram-sha-256.sasl.jaas.config": SCRAM_JAAS,
    f"{PREFIX}.oauthbearer.sasl.jaas.config": OAUTH_JAAS,
}


HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
SIGNED = {f"{PREFIX}.oauthbearer.sasl.server.callback.handler.class": HANDLER}


def credential_of(mechanism: Mechanism, user: str) -> ScramCredential | None:
    return SCRAM_256.get(user) if mechanism.kafka_name == "SCRAM-SHA-256" else None


def no_token(mechanism: Mechanism, token_id: str) -> None:
    return None


def sasl(given: dict[str, str], kerberos: Kerberos | None = None) -> BrokerSasl:
    found = BROKER_CONFIG.parse(GIVEN | given)
    world = replace(real_world(), kerberos=kerberos or NoKerberos())
    return BrokerSasl(found, listeners(found, "me"), world, credential_of, no_token)


@pytest.mark.mission("SEC-102")
def test_a_listener_has_the_mechanisms_and_limits_of_its_settings() -> None:
    made = sasl(
        OTHERS
        | {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "connections.max.reauth.ms": "1",
            f"{PREFIX}.connections.max.reauth.ms": "2",
            f"{PREFIX}.plain.connections.max.reauth.ms": "3",
            "sasl.server.max.receive.size": "4",
            f"{PREFIX}.sasl.server.max.receive.size": "5",
            "connection.failed.authentication.delay.ms": "6",
        }
    )
    listener = made.listener("EXTERNAL", ApiVersionsResponse)
    assert listener is not None
    mechanisms = listener.config.mechanisms
    assert {name: row.max_reauth_ms for name, row in mechanisms.items()} == {
        "PLAIN": 3,
        "SCRAM-SHA-256": 2,
        "OAUTHBEARER": 2,
    }
    assert (listener.config.max_receive_bytes, listener.failure_delay_ms) == (5, 6)
    assert made.listener("PLAINTEXT", ApiVersionsResponse) is None
    assert mechanisms["PLAIN"].start("").respond(b"\0alice\0secret", 0) == Success(
        b"", Principal("alice")
    )


WRONG = {
    "sasl.enabled.mechanisms names NTLM; supported are PLAIN": {"sasl.enabled.mechanisms": "NTLM"},
    "names plain": {"sasl.enabled.mechanisms": "plain"},
    "SCRAM-SHA-256 is enabled and needs listener.name.external.scram-sha-256.sasl.jaas.config": {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{PREFIX}.sasl.jaas.config": SCRAM_JAAS,
        "sasl.jaas.config": SCRAM_JAAS,
    },
    "PLAIN needs org.apache.kafka.common.security.plain.PlainLoginModule, not": {
        f"{PREFIX}.plain.sasl.jaas.config": SCRAM_JAAS
    },
    "not terminated by semi-colon": {f"{PREFIX}.plain.sasl.jaas.config": PLAIN_JAAS[:-1]},
    "unsecuredValidatorAllowableClockSkewMs": OTHERS
    | {
        f"{PREFIX}.oauthbearer.sasl.jaas.config": OAUTH_JAAS.replace(
            ";", ' unsecuredValidatorAllowableClockSkewMs="x";'
        )
    },
    "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms": {
        "inter.broker.listener.name": "EXTERNAL"
    },
    "has no password to log in with": {
        "inter.broker.listener.name": "EXTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": PLAIN_JAAS.replace(' password="broker-secret"', ""),
    },
    "has no unsecuredLogin options": OTHERS
    | {
        "inter.broker.listener.name": "EXTERNAL",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{PREFIX}.oauthbearer.sasl.jaas.config": OAUTH_JAAS.partition(" unsecured")[0] + ";",
    },
    "signed tokens need sasl.oauthbearer.jwks.endpoint.url": OTHERS | SIGNED,
    "sasl.oauthbearer.jwks.endpoint.url: it is no address": OTHERS
    | SIGNED
    | {"sasl.oauthbearer.jwks.endpoint.url": "ldap://x"},
    "refresh.ms must be positive": OTHERS
    | SIGNED
    | {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"},
    f"{HANDLER} is for OAUTHBEARER": {
        f"{PREFIX}.plain.sasl.server.callback.handler.class": HANDLER
    },
    "com.example.Handler for configuration": {
        f"{PREFIX}.plain.sasl.server.callback.handler.class": "com.example.Handler"
    },
    "brokers here load no Java class": {f"{PREFIX}.plain.sasl.login.class": "com.example.Login"},
    "should always be less than connections.max.idle.ms=100": {"connections.max.idle.ms": "100"},
}


@pytest.mark.mission("SEC-102")
@pytest.mark.parametrize("reason", WRONG)
def test_settings_that_cannot_be_used_stop_the_start(reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        sasl(WRONG[reason])
    assert "secret" not in str(caught.value)


@pytest.mark.mission("SEC-102")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_brokers_log_in_with_the_entry_of_their_listener(mechanism: str) -> None:
    own = {
        "inter.broker.listener.name": "EXTERNAL",
        "sasl.mechanism.inter.broker.protocol": mechanism,
    }
    made = sasl(OTHERS | own)
    assert isinstance(made.inter_broker, LoginOptions)
    assert "secret" not in repr(made.inter_broker)
    exchange = made.inter_broker.exchange("nonce", 0)
    assert exchange.mechanism == mechanism
    if mechanism == "PLAIN":
        assert exchange.initial_response() == b"\0broker\0broker-secret"
    elif mechanism == "SCRAM-SHA-256":
        assert exchange.initial_response() == b"n,,n=broker,r=nonce"
    else:
        assert exchange.initial_response().startswith(b"n,,\x01auth=Bearer ")


@pytest.mark.mission("SEC-119")
async def test_a_listener_validates_signed_tokens_of_its_settings(tmp_path: Path) -> None:
    keys = tmp_path / "a b.json"
    keys.write_bytes(key_set(EC))
    made = sasl(
        OTHERS
        | SIGNED
        | {
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": "other",
            f"{PREFIX}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka,k",
            "sasl.oauthbearer.expected.issuer": "https://id",
            "sasl.oauthbearer.sub.claim.name": "email",
        }
    )
    async with asyncio.TaskGroup() as tasks:
        await made.start(tasks)
    listener = made.listener("EXTERNAL", ApiVersionsResponse)
    assert listener is not None

    def log_in(**more: str) -> object:
        token = signed(EC, "ES256", claims(email="bob", iss="https://id", **more))
        exchange = listener.config.mechanisms["OAUTHBEARER"].start("")
        return exchange.respond(OAuthBearerClient(token).initial_response(), WALL_MS)

    outcome = log_in(aud="kafka")
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.expires_ms) == (Principal("bob"), WALL_MS + 3_600_000)
    assert isinstance(log_in(aud="other"), Challenge)


@pytest.mark.mission("SEC-120")
async def test_a_broker_does_not_start_without_the_keys_for_tokens(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    for url in ("http://127.0.0.1:1/keys", (tmp_path / "none").as_uri(), bad.as_uri()):
        made = sasl(OTHERS | SIGNED | {"sasl.oauthbearer.jwks.endpoint.url": url})
        async with asyncio.TaskGroup() as tasks:
            with pytest.raises(ConfigError, match=r"EXTERNAL: the keys of .* cannot be loaded"):
                await made.start(tasks)


@pytest.mark.mission("SEC-102")
def test_brokers_do_not_log_in_on_another_listener() -> None:
    assert sasl(OTHERS).inter_broker is None


# -- GSSAPI

KERBEROS_JAAS = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="/kafka.keytab" principal="kafka/localhost@EXAMPLE.COM";'
)
KERBEROS_KEY = f"{PREFIX}.gssapi.sasl.jaas.config"
KERBEROS = {
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    KERBEROS_KEY: KERBEROS_JAAS,
}


@pytest.mark.mission("SEC-160")
async def test_a_listener_makes_short_names_by_its_rules() -> None:
    rules = {
        "sasl.kerberos.principal.to.local.rules": "DEFAULT",
        f"{PREFIX}.sasl.kerberos.principal.to.local.rules": "RULE:[2:$2-$1], DEFAULT",
    }
    listener = sasl(KERBEROS | rules, FakeKerberos()).listener("EXTERNAL", ApiVersionsResponse)
    assert listener is not None

    def log_in(name: str) -> object:
        exchange = listener.config.mechanisms["GSSAPI"].start("")
        for token in (f"ticket of {name}".encode(), b""):
            assert isinstance(exchange.respond(token, 0), Challenge)
        return exchange.respond(b"signed:\x01\x00\x00\x00", 0)

    assert log_in("kafka/h@OTHER.COM") == Success(None, Principal("h-kafka"))
    assert log_in("alice@EXAMPLE.COM") == Success(None, Principal("alice"))
    assert isinstance(log_in("alice@OTHER.COM"), Failure)


@pytest.mark.mission("SEC-160")
async def test_brokers_log_in_with_the_keytab_of_their_listener() -> None:
    own = {
        "inter.broker.listener.name": "EXTERNAL",
        f"{PREFIX}.sasl.kerberos.service.name": "bus",
    }
    made = sasl(KERBEROS | own, FakeKerberos())
    identity = KerberosIdentity("kafka/localhost@EXAMPLE.COM", "/kafka.keytab")
    assert made.inter_broker == ServiceLogin(identity, "bus")
    assert isinstance(made.network(real_world().network), KerberosNetwork)


WITHOUT_THE_LIBRARY = (
    r"listener EXTERNAL: sasl.enabled.mechanisms \(default GSSAPI\) names GSSAPI, which cannot be "
    r"used: GSSAPI needs the extra gssapi: pip install 'gssapi>=1\.8'"
)


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("given", [KERBEROS, {"sasl.enabled.mechanisms": "GSSAPI"}, None])
async def test_without_the_library_gssapi_is_refused_with_the_name_of_the_extra(
    given: dict[str, str] | None,
) -> None:
    """Also where it is only Kafka's default."""
    if given is None:
        without = {key: text for key, text in GIVEN.items() if key != "sasl.enabled.mechanisms"}
        found = BROKER_CONFIG.parse(without)
        world = replace(real_world(), kerberos=NoKerberos())
        with pytest.raises(ConfigError, match=WITHOUT_THE_LIBRARY):
            BrokerSasl(found, listeners(found, "me"), world, credential_of, no_token)
        return
    with pytest.raises(ConfigError, match=WITHOUT_THE_LIBRARY):
        sasl(given)


WRONG_KERBEROS = {
    "GSSAPI is enabled and needs listener.name.external.gssapi": {KERBEROS_KEY: ""},
    "GSSAPI needs com.sun.security.auth.module.Krb5LoginModule, not": {KERBEROS_KEY: PLAIN_JAAS},
    "no name of the service: set sasl.kerberos.service.name": {"sasl.kerberos.service.name": ""},
    "kafka/localhost@EXAMPLE.COM in /missing cannot be used: Key table file": {
        KERBEROS_KEY: KERBEROS_JAAS.replace("/kafka.keytab", "/missing")
    },
    "a broker needs useKeyTab=true, keyTab and principal": {
        KERBEROS_KEY: KERBEROS_JAAS.replace("useKeyTab", "useTicketCache")
    },
    "sasl.kerberos.principal.to.local.rules: Invalid rule: RULE": {
        "sasl.kerberos.principal.to.local.rules": "RULE:[1]"
    },
}


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("reason", WRONG_KERBEROS)
async def test_settings_of_kerberos_that_cannot_be_used_stop_the_start(reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        sasl(KERBEROS | WRONG_KERBEROS[reason], FakeKerberos())
