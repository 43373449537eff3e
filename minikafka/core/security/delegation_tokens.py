"""Delegation tokens (KIP-48): their secrets, their lifetimes, and who may change or see them.

The secret of a token is the HMAC of its id with a key that all brokers share, so it is stored
nowhere. A client logs in by SCRAM with the id as user name and the HMAC in base64 as password, and
is the token's owner from then on. The same HMAC names the token when it is renewed or expired.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Collection
from dataclasses import field, replace
from typing import Final, TypeAlias

from minikafka.core.security.scram_credentials import (
    MIN_ITERATIONS,
    Mechanism,
    ScramCredential,
    credential_of,
    salted_password,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import USER, Principal

ID_BYTES: Final = 16
HMAC_DIGEST: Final = "sha512"
MAX_TIMESTAMP_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The broker's ``delegation.token.*`` keys. Without a ``secret_key`` there are no tokens."""

    secret_key: str = field(repr=False)
    max_lifetime_ms: int
    expiry_time_ms: int
    expiry_check_interval_ms: int

    @property
    def enabled(self) -> bool:
        return bool(self.secret_key)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token without its secret. All times are wall-clock times in ms.

    ``requester`` is who created the token, which may be somebody else than the ``owner``. The token
    can be renewed until ``max_ms``, and is valid until ``expiry_ms``."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    def may_be_changed_by(self, principal: Principal) -> bool:
        """Whether a principal may renew and expire the token. As in Kafka, the requester of a token
        of somebody else may not."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principals: Collection[Principal]) -> bool:
        """Whether one of the principals is the owner, the requester or a renewer."""
        return any(one in principals for one in (self.owner, self.requester, *self.renewers))


@dataclass(frozen=True, slots=True)
class TokenRemoval:
    """What ``changed_expiry`` returns for a token that must be removed at once."""

    at_ms: int


ChangedExpiry: TypeAlias = DelegationToken | TokenRemoval | ErrorCode


def new_token_id(entropy: bytes) -> str:
    """Return the id made of ``ID_BYTES`` random bytes: a random UUID in base64, without padding."""
    random_uuid = uuid.UUID(bytes=entropy, version=4)
    return base64.urlsafe_b64encode(random_uuid.bytes).rstrip(b"=").decode()


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the secret of a token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), HMAC_DIGEST)


def token_credential(
    mechanism: Mechanism, secret_key: str, token_id: str, salt: bytes
) -> ScramCredential:
    """Return the SCRAM credential of a token. It takes some milliseconds (PBKDF2)."""
    password = base64.b64encode(token_hmac(secret_key, token_id)).decode()
    salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
    return credential_of(mechanism, salt, salted, MIN_ITERATIONS)


def lookup_key(secret: bytes) -> bytes:
    """Return the key under which a token is found by its HMAC. It is a hash, so that the time of a
    look-up does not depend on how much of the HMAC is right."""
    return hashlib.sha256(secret).digest()


def renewers_error(renewers: Collection[Principal]) -> ErrorCode:
    """Return INVALID_PRINCIPAL_TYPE unless all renewers are users, NONE otherwise."""
    if all(renewer.type == USER for renewer in renewers):
        return ErrorCode.NONE
    return ErrorCode.INVALID_PRINCIPAL_TYPE


def created(
    settings: TokenSettings,
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Collection[Principal],
    lifetime_ms: int,
    now_ms: int,
) -> DelegationToken:
    """Return a new token. A ``lifetime_ms`` that is not positive stands for the longest one."""
    longest_ms = settings.max_lifetime_ms
    max_ms = _later(now_ms, min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms)
    expiry_ms = min(max_ms, _later(now_ms, settings.expiry_time_ms))
    return DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms)


def renewed(
    settings: TokenSettings,
    token: DelegationToken,
    requester: Principal,
    period_ms: int,
    now_ms: int,
) -> DelegationToken | ErrorCode:
    """Return the token with its new expiry, or why it cannot be renewed. A negative period stands
    for ``delegation.token.expiry.time.ms``."""
    if not token.may_be_changed_by(requester):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if token.is_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    period_ms = settings.expiry_time_ms if period_ms < 0 else period_ms
    return replace(token, expiry_ms=min(token.max_ms, _later(now_ms, period_ms)))


def changed_expiry(
    token: DelegationToken, requester: Principal, period_ms: int, now_ms: int
) -> ChangedExpiry:
    """Return the token with its new expiry, or why that cannot be changed. A negative period
    removes the token, also one that has expired."""
    if not token.may_be_changed_by(requester):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if period_ms < 0:
        return TokenRemoval(now_ms)
    if token.is_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    return replace(token, expiry_ms=min(token.max_ms, _later(now_ms, period_ms)))


def _later(now_ms: int, period_ms: int) -> int:
    """Return ``now_ms + period_ms``, as far as it fits Java's long. Kafka's sum overflows."""
    return min(now_ms + period_ms, MAX_TIMESTAMP_MS)
