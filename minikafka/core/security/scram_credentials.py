"""SCRAM credentials (RFC 5802, KIP-554): derivation, the stored text, and Kafka's checks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
MAX_SALT_BYTES = 65_535  # Kafka has no limit; ZooKeeper refuses znodes over 1 MB
_FIELDS = {"salt", "stored_key", "server_key", "iterations"}

NO_USER_NAME = "Username must not be empty"
UNKNOWN_MECHANISM = "Unknown SCRAM mechanism"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A SCRAM mechanism: its name in Kafka, and its hash function."""

    kafka_name: str
    digest: str


SCRAM_SHA_256 = Mechanism("SCRAM-SHA-256", "sha256")
SCRAM_SHA_512 = Mechanism("SCRAM-SHA-512", "sha512")
# By the code that APIs 50 and 51 use.
MECHANISMS: Mapping[int, Mechanism] = MappingProxyType({1: SCRAM_SHA_256, 2: SCRAM_SHA_512})


class Deletion(NamedTuple):
    """A credential to remove."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to set. The client has salted the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class ScramRefusal(NamedTuple):
    """Why the credentials of a user cannot be altered or described."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password. The password cannot be computed from it."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """The SCRAM credential of a delegation token, and whom the token stands for."""

    owner: str
    credential: ScramCredential
    expires_ms: int


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword by PBKDF2: some milliseconds for 4096 iterations. As in
    Kafka, the password is not normalized (no SASLprep)."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(
    mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.digest)
    return ScramCredential(salt, stored_key, server_key, iterations)


def credential_text(
    mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int
) -> str:
    """Return the credential as it is stored in the user's znode."""
    credential = credential_of(mechanism, salt, salted_password, iterations)
    parts = (credential.salt, credential.stored_key, credential.server_key)
    texts = [base64.b64encode(part).decode() for part in parts]
    return "salt={},stored_key={},server_key={},iterations={}".format(*texts, iterations)


def parse_credential(text: str) -> ScramCredential:
    """Parse a stored credential. Raises ValueError if the text is not a credential, because another
    program wrote it."""
    fields: dict[str, str] = {}
    for token in text.split(","):
        name, separator, value = token.partition("=")
        if not separator:
            raise ValueError("the stored credential is malformed")
        fields[name] = value
    if fields.keys() != _FIELDS:
        raise ValueError("the stored credential does not have its four fields")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True)
            for name in ("salt", "stored_key", "server_key")
        )
    except binascii.Error as error:
        raise ValueError("the stored credential is malformed") from error
    return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))


def iterations_of(text: str) -> int:
    """Return the iterations of a stored credential. Raises ValueError if the text is not a
    credential."""
    return parse_credential(text).iterations


def refusals(
    deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> dict[str, ScramRefusal]:
    """Check a request without the stored credentials; return one refusal for each invalid user."""
    refused: dict[str, ScramRefusal] = {}
    for deletion in deletions:
        problem = _problem(deletion.user, deletion.mechanism)
        if problem is not None:
            refused[deletion.user] = problem
    for upsertion in upsertions:
        problem = (
            _problem(upsertion.user, upsertion.mechanism)
            or _bad_count(upsertion.iterations)
            or _bad_salt(upsertion.salt)
        )
        if problem is not None:
            refused[upsertion.user] = problem
    pairs = [(entry.user, entry.mechanism) for entry in upsertions]
    pairs += [(entry.user, entry.mechanism) for entry in deletions]
    pairs = [pair for pair in pairs if pair[0] not in refused]
    twice = ScramRefusal(
        ErrorCode.DUPLICATE_RESOURCE,
        "A user credential cannot be altered twice in the same request",
    )
    for pair in dict.fromkeys(pairs):
        if pairs.count(pair) > 1:
            refused[pair[0]] = twice
    return refused


def _problem(user: str, mechanism: int) -> ScramRefusal | None:
    if not user:
        return ScramRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_USER_NAME)
    if mechanism not in MECHANISMS:
        return ScramRefusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, UNKNOWN_MECHANISM)
    return None


def _bad_count(iterations: int) -> ScramRefusal | None:
    if MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        return None
    amount = "few" if iterations < MIN_ITERATIONS else "many"
    return ScramRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {amount} iterations")


def _bad_salt(salt: bytes) -> ScramRefusal | None:
    if len(salt) <= MAX_SALT_BYTES:
        return None
    return ScramRefusal(
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        f"The salt has {len(salt)} bytes, more than {MAX_SALT_BYTES}",
    )


def altered(
    config: Mapping[str, str], deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> dict[str, str] | ScramRefusal:
    """Return a user's configuration after these entries, which are all of that user and were
    checked by ``refusals``."""
    after = dict(config)
    for deletion in deletions:
        if after.pop(MECHANISMS[deletion.mechanism].kafka_name, None) is None:
            return ScramRefusal(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    for upsertion in upsertions:
        mechanism = MECHANISMS[upsertion.mechanism]
        after[mechanism.kafka_name] = credential_text(
            mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
        )
    return after
