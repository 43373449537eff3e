"""A listener's logins in memory: users, mechanisms, and frames to and from ``ServerLogin``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from minikafka.core.security.sasl.exchange import Send
from minikafka.core.security.sasl.oauthbearer import (
    OAuthBearerServer,
    UnsecuredValidator,
    unsecured_token,
)
from minikafka.core.security.sasl.plain import PlainServer
from minikafka.core.security.sasl.scram import ScramServer
from minikafka.core.security.sasl.server_login import (
    Action,
    EnabledMechanism,
    ServerLogin,
    ServerLoginConfig,
)
from minikafka.core.security.scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    Mechanism,
    ScramCredential,
    TokenCredential,
    credential_of,
    salted_password,
)
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.schema import Message

M = TypeVar("M", bound=Message)

PASSWORDS: Mapping[str, str] = {"alice": "secret", "bob": "builder"}
SEED = b"a seed of 16 bytes and more"
# Some time in 2026, and a monotonic time that is clearly another one.
WALL_MS = 1_795_349_436_000
NOW_MS = 5_000
SERVED = (
    ApiVersion(ApiKey.METADATA, 0, 12),
    ApiVersion(ApiKey.SASL_HANDSHAKE, 0, 1),
    ApiVersion(ApiKey.API_VERSIONS, 0, 4),
    ApiVersion(ApiKey.SASL_AUTHENTICATE, 0, 2),
)


def _credential(mechanism: Mechanism, password: str) -> ScramCredential:
    salted = salted_password(mechanism, password, b"salt", 4096)
    return credential_of(mechanism, b"salt", salted, 4096)


SCRAM_256 = {user: _credential(SCRAM_SHA_256, word) for user, word in PASSWORDS.items()}
SCRAM_512 = {user: _credential(SCRAM_SHA_512, word) for user, word in PASSWORDS.items()}
TOKENS = {
    "token-1": TokenCredential("alice", _credential(SCRAM_SHA_256, "hmac"), WALL_MS + 60_000),
    "expired": TokenCredential("alice", _credential(SCRAM_SHA_256, "hmac"), WALL_MS - 1),
}


def login_config(max_reauth_ms: int = 0, **more: EnabledMechanism) -> ServerLoginConfig:
    """A listener with PLAIN and both SCRAM mechanisms, and ``more``."""

    def scram_256(nonce: str) -> ScramServer:
        return ScramServer(SCRAM_SHA_256, nonce, SCRAM_256.get, TOKENS.get)

    def scram_512(nonce: str) -> ScramServer:
        return ScramServer(SCRAM_SHA_512, nonce, SCRAM_512.get)

    return ServerLoginConfig(
        {
            "PLAIN": EnabledMechanism(lambda nonce: PlainServer(PASSWORDS.get), max_reauth_ms),
            "SCRAM-SHA-256": EnabledMechanism(scram_256, max_reauth_ms),
            "SCRAM-SHA-512": EnabledMechanism(scram_512, max_reauth_ms),
            **more,
        },
        lambda _: ApiVersionsResponse(api_keys=list(SERVED)),
    )


def oauthbearer(max_reauth_ms: int = 0) -> EnabledMechanism:
    """OAUTHBEARER with unsecured tokens."""
    validator = UnsecuredValidator(required_scope=("kafka",))
    return EnabledMechanism(lambda nonce: OAuthBearerServer(validator.validate), max_reauth_ms)


def unsecured(user: str, seconds: int, scope: str = "kafka") -> str:
    """An unsecured token that expires so many seconds after ``WALL_MS``."""
    options = {
        "unsecuredLoginStringClaim_sub": user,
        "unsecuredLoginStringClaim_scope": scope,
        "unsecuredLoginLifetimeSeconds": str(3600 + seconds),
    }
    token = unsecured_token(options, WALL_MS - 3_600_000)
    assert token is not None
    return token


def server_login(max_reauth_ms: int = 0, **more: EnabledMechanism) -> ServerLogin:
    return ServerLogin(login_config(max_reauth_ms, **more), SEED)


def request_frame(message: Message, version: int, correlation_id: int = 7) -> bytes:
    """The frame of a request, without its size."""
    api_key = message.SPEC.api_key
    assert api_key is not None
    return encode_request(RequestHeader(api_key, version, correlation_id, "test"), message)[4:]


def response_of(frame: bytes, kind: type[M], version: int) -> M:
    """Decode a whole frame, whose size must be right."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, message = decode_response(kind, version, memoryview(frame)[4:])
    assert correlation_id == 7
    return message


def sent(actions: Sequence[Action]) -> bytes:
    """The bytes of the only action, which is a Send."""
    (action,) = actions
    assert isinstance(action, Send)
    return action.frame
