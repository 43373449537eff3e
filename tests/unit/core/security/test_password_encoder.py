"""Passwords in /config/brokers/<id> are encrypted as by Kafka's ``PasswordEncoder``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minikafka.core.security.password_encoder import RANDOM_BYTES, PasswordEncoder, PasswordError

# Written by Apache Kafka 3.9.1.
OF_KAFKA = (
    "initializationVector:Z1BcV7R/5A+/xTTkKjIplw==,keyLength:128,salt:tbVhW93ELdZAxJEy0eVvOXW"
    "j1t/4fx7PkD9s2EkUT9sdTkhOi/3ZeK+QCcv18u5hVbei4oP3k2KESN0jwvwwCVEQbhTQ/xSpPkJyrxFz/4rwxGk"
    "3R/zYWK6z2umBn148rcEV2d8zcihfQCkPQUqx48KNeeZ+ORPGZZnwQeTRqrKzbM34GeZlNs3QcS41JJDVHjF+/1p"
    "Wc1tRvDHmzC++U4v6Vs8k7mq4bSkm7Wt56yiTL7D12V9AtTfe9SRS9mgEbj5NsrKs73BGwZLacYflBJaDF0tLmqe"
    "B75HMYyy64VuH8T46qKvVwm5UPTSxKGU7kGUJX6LD6xwA5z38T1uJog==,keyFactoryAlgorithm:PBKDF2With"
    "HmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:6,encrypt"
    "edPassword:eYAufvckUFvNmEzoivkeGw=="
)
OF_KAFKA_WITH_GCM = (
    "initializationVector:kIp17SfmuEA83fns,keyLength:256,salt:HPQ+gl1nA+CoYIVeNuToUeNgSZqHpkp"
    "qDYHYKd0314XvhzDF2Y5gXo51mzOo1dFVtUHVGxNKMBgjvNS6yHXQZ3tYy8ux5m1gfNBtAYkxAPx9dGfgYRAsmOZ"
    "guQBVaH/LssCoNeeRshW3GMZi9nNl+7wFlzKY7CNigIvSKCKdXBlCIj11S+mRMd9nFJN8BmXlSs2qP53M/o/DhF2"
    "9OVXikgoLDFW097DL9DccwdzTeVcC+WD0zradFXa/GR8lS2Wag1hlwNQOYSr3tYlxGnGRqbljN/si3rbD49PRi/M"
    "Vu1kfGuNTWLPjRPuTANdbndgPwbofPvS+hRUdFUQWcVTatA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA1"
    ",cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128,iterations:1024,passwordL"
    "ength:5,encryptedPassword:/uOZDopOEtH0CDyipWzV9CKF0Poc"
)
GCM = "AES/GCM/NoPadding"
ENCODER = PasswordEncoder("secret")
RANDOM = bytes(range(256)) + bytes(range(16))


@pytest.mark.mission("SEC-181")
def test_passwords_of_kafka_are_decrypted() -> None:
    assert ENCODER.decode(OF_KAFKA) == "pä😀ss"
    assert ENCODER.decode(OF_KAFKA_WITH_GCM) == "other"
    reversed_order = ",".join(reversed(OF_KAFKA.split(",")))
    assert ENCODER.decode(reversed_order) == "pä😀ss"


@pytest.mark.mission("SEC-181")
@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", GCM])
@pytest.mark.parametrize("bits", [128, 192, 256])
def test_the_same_secret_only_decrypts_a_password(cipher: str, bits: int) -> None:
    encoder = replace(ENCODER, cipher_algorithm=cipher, key_length=bits)
    stored = encoder.encode("pä😀ss", RANDOM)
    assert "pä" not in stored
    assert ENCODER.decode(stored) == "pä😀ss", "the algorithms are stored, too"
    with pytest.raises(PasswordError):
        PasswordEncoder("another").decode(stored)


def test_the_same_fields_are_stored_as_by_kafka() -> None:
    def names(stored: str) -> set[str]:
        return {pair.rpartition(":")[0] for pair in stored.split(",")}

    assert names(ENCODER.encode("x", RANDOM)) == names(OF_KAFKA)
    with_gcm = replace(ENCODER, cipher_algorithm=GCM)
    assert names(with_gcm.encode("x", RANDOM)) == names(OF_KAFKA_WITH_GCM)


WRONG = {
    "nothing": "",
    "plain": "secret",
    "no salt": OF_KAFKA.replace("salt:", "sugar:"),
    "other length": OF_KAFKA.replace("passwordLength:6", "passwordLength:5"),
    "cipher": OF_KAFKA.replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
    "derivation": OF_KAFKA.replace("PBKDF2WithHmacSHA512", "MD5"),
    "key length": OF_KAFKA.replace("keyLength:128", "keyLength:64"),
    "many iterations": OF_KAFKA.replace("iterations:4096", "iterations:2000000000"),
    "no number": OF_KAFKA.replace("iterations:4096", "iterations:many"),
    "tampered": OF_KAFKA_WITH_GCM.replace("encryptedPassword:", "encryptedPassword:AAAA"),
}


@pytest.mark.mission("SEC-181")
@pytest.mark.parametrize("what", WRONG)
def test_a_malformed_password_is_an_error(what: str) -> None:
    with pytest.raises(PasswordError) as caught:
        ENCODER.decode(WRONG[what])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "encoder"),
    [
        ("keyfactory.algorithm", replace(ENCODER, key_factory_algorithm="MD5")),
        ("cipher.algorithm", replace(ENCODER, cipher_algorithm="AES/ECB/NoPadding")),
        ("key.length", replace(ENCODER, key_length=64)),
    ],
)
def test_unsupported_algorithms_are_named(key: str, encoder: PasswordEncoder) -> None:
    with pytest.raises(PasswordError, match=f"password.encoder.{key} must be one of"):
        encoder.encode("x", RANDOM)
    assert len(RANDOM) == RANDOM_BYTES
