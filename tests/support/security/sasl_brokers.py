"""Settings of brokers with SASL listeners, and of clients that log in there."""

from __future__ import annotations

from pathlib import Path

from minikafka.core.security.sasl.oauthbearer import unsecured_token
from tests.support.security.certificates import Identity

LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
_MODULES = "org.apache.kafka.common.security"
PLAIN = f"{_MODULES}.plain.PlainLoginModule"
SCRAM = f"{_MODULES}.scram.ScramLoginModule"
OAUTHBEARER = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
SCRAM_USER, SCRAM_PASSWORD = "bob", "bob-secret"
# SCRAM and the name of the znode escape it. kafka-python does not.
ESCAPED_USER = "b,o=b%"
PLAIN_USER, PLAIN_PASSWORD = "alice", "alice-secret"
TOKEN_USER = "carol"
SERVER_ENTRIES = {
    "PLAIN": f'{PLAIN} required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
    "SCRAM-SHA-256": f"{SCRAM} required;",
    "SCRAM-SHA-512": f"{SCRAM} required;",
    "OAUTHBEARER": f'{OAUTHBEARER} required unsecuredLoginStringClaim_sub="broker";',
}


def sasl_properties() -> dict[str, object]:
    """The properties of a broker with both SASL listeners and all mechanisms. Brokers use the
    listener PLAINTEXT among themselves."""
    entries = {
        f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": entry
        for listener in LISTENERS
        for mechanism, entry in SERVER_ENTRIES.items()
    }
    return {"sasl.enabled.mechanisms": ",".join(SERVER_ENTRIES), **entries}


def tls_properties(home: Path, identity: Identity) -> dict[str, object]:
    """Write a broker's key store and its trusted certificates, and return their properties."""
    home.mkdir(exist_ok=True)
    (home / "keys.p12").write_bytes(identity.pkcs12("store-secret"))
    (home / "ca.pem").write_bytes(identity.authority_pem)
    return {
        "ssl.keystore.location": home / "keys.p12",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "store-secret",
        "ssl.key.password": "store-secret",
        "ssl.truststore.location": home / "ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "required",  # does not count for SASL listeners
    }


def credentials(mechanism: str) -> tuple[str, str]:
    """The user name and the password for a mechanism."""
    if mechanism == "PLAIN":
        return PLAIN_USER, PLAIN_PASSWORD
    return SCRAM_USER, SCRAM_PASSWORD


def client_entry(mechanism: str, password: str | None = None) -> str:
    """The JAAS entry of a Java client."""
    if mechanism == "OAUTHBEARER":
        return f'{OAUTHBEARER} required unsecuredLoginStringClaim_sub="{TOKEN_USER}";'
    user, correct = credentials(mechanism)
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return f'{module} required username="{user}" password="{password or correct}";'


def bearer_token(wall_ms: int) -> str:
    """An unsecured token of ``TOKEN_USER``, valid for an hour."""
    token = unsecured_token({"unsecuredLoginStringClaim_sub": TOKEN_USER}, wall_ms)
    assert token is not None
    return token
