"""SCRAM credentials against the example of RFC 7677, and what Kafka refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from minikafka.core.security.scram_credentials import (
    MECHANISMS,
    Deletion,
    ScramRefusal,
    Upsertion,
    altered,
    credential_text,
    iterations_of,
    refusals,
)
from minikafka.kernel.errors import ErrorCode

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
# The exchange of RFC 7677, section 3.
AUTH_MESSAGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SERVER_SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.mission("SEC-3")
def test_the_stored_keys_verify_the_exchange_of_the_rfc() -> None:
    text = credential_text(MECHANISMS[1], SALT, SALTED, 4096)
    fields = dict(part.split("=", 1) for part in text.split(","))
    assert list(fields) == ["salt", "stored_key", "server_key", "iterations"]
    assert fields["salt"] == "W22ZaJ0SNY7soEsUEjb6gQ=="
    assert fields["iterations"] == "4096"
    stored_key, server_key = (base64.b64decode(fields[k]) for k in ("stored_key", "server_key"))
    client_signature = hmac.digest(stored_key, AUTH_MESSAGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(PROOF, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == stored_key
    assert hmac.digest(server_key, AUTH_MESSAGE, "sha256") == SERVER_SIGNATURE
    assert iterations_of(text) == 4096


def test_sha_512_has_keys_of_64_bytes() -> None:
    text = credential_text(MECHANISMS[2], b"salt", b"p" * 64, 5000)
    keys = [base64.b64decode(part.split("=", 1)[1]) for part in text.split(",")[1:3]]
    assert [len(key) for key in keys] == [64, 64]


GOOD = credential_text(MECHANISMS[1], b"s", b"p", 4096)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt",
        "=x",
        "salt" + GOOD[GOOD.index(",") :],
        GOOD.rpartition(",")[0],
        GOOD + ",more=1",
        GOOD.replace("4096", "many"),
        GOOD.replace("salt=", "salt=!"),
    ],
)
def test_a_text_that_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        iterations_of(text)


def up(user: str = "u", mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", b"p")


NO_NAME = ScramRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
NO_MECHANISM = ScramRefusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
TWICE = ScramRefusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


@pytest.mark.mission("SEC-3")
@pytest.mark.parametrize(
    ("deletions", "upsertions", "refused"),
    [
        ([], [up(), up("v"), up(mechanism=2, iterations=16384)], {}),
        ([Deletion("", 1)], [up("")], {"": NO_NAME}),
        ([Deletion("u", 0)], [up("v", 3)], {"u": NO_MECHANISM, "v": NO_MECHANISM}),
        (
            [],
            [up(iterations=4095), up("v", iterations=16385)],
            {
                "u": ScramRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
                "v": ScramRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
            },
        ),
        ([], [up()._replace(salt=bytes(65_535))], {}),
        (
            [],
            [up()._replace(salt=bytes(65_536)), up("v")],
            {
                "u": ScramRefusal(
                    ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt has 65536 bytes, more than 65535"
                )
            },
        ),
        ([Deletion("u", 1)], [up()], {"u": TWICE}),
        ([Deletion("u", 2), Deletion("v", 2)] * 2, [up()], {"u": TWICE, "v": TWICE}),
    ],
)
def test_a_bad_entry_refuses_the_user(
    deletions: list[Deletion], upsertions: list[Upsertion], refused: dict[str, ScramRefusal]
) -> None:
    assert refusals(deletions, upsertions) == refused


@pytest.mark.mission("SEC-3")
def test_credentials_are_set_and_deleted_beside_a_users_quotas() -> None:
    config = {"producer_byte_rate": "5", "SCRAM-SHA-256": "old"}
    after = altered(config, [Deletion("u", 1)], [up(mechanism=2)])
    assert isinstance(after, dict)
    assert after.keys() == {"producer_byte_rate", "SCRAM-SHA-512"}
    assert config["SCRAM-SHA-256"] == "old"
    assert altered(config, [Deletion("u", 2)], []) == ScramRefusal(
        ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    )
