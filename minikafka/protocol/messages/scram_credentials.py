"""Describe- and AlterUserScramCredentials (keys 50 and 51, KIP-554).

Mechanisms: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.
"""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE, Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class UserName:
    """A user to describe."""

    name: String = ""


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest(Message):
    """Null, or an empty list, describes every user that has a credential."""

    SPEC = request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, WHOLE, max_elements=LOOK_UPS)

    users: list[UserName] | None = field(default_factory=list)


@dataclass(slots=True)
class CredentialInfo:
    """The public part of a credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse(Message):
    """One result per user."""

    SPEC = response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


@dataclass(slots=True)
class ScramCredentialDeletion:
    """A credential to remove."""

    name: String = ""
    mechanism: Int8 = 0


@dataclass(slots=True)
class ScramCredentialUpsertion:
    """A credential to set. The client has salted the password, by PBKDF2."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@dataclass(slots=True)
class AlterUserScramCredentialsRequest(Message):
    """One bad entry of a user fails all entries of that user."""

    SPEC = request(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        Places((Level("deletions|upsertions", "name", ""),), (Level("results", "user", ""),)),
        max_elements=LOOK_UPS,
    )

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@dataclass(slots=True)
class AlterUserScramCredentialsResult:
    """The outcome for one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class AlterUserScramCredentialsResponse(Message):
    """One result per user."""

    SPEC = response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
