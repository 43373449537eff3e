"""Passwords as they stand in /config/brokers/<id>: encrypted under ``password.encoder.secret``.

Kafka: ``EncryptingPasswordEncoder``. A stored password is a list of ``name:value`` pairs, which has
everything that is needed to decrypt it, except the secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from minikafka.kernel.lazy_dataclass import dataclass

# Random bytes that the encryption of one password takes.
RANDOM_BYTES: Final = 256 + 16
_SALT_BYTES: Final = 256
_GCM_IV_BYTES: Final = 12
_GCM_TAG_BITS: Final = 128
_KEY_BITS: Final = (128, 192, 256)
_BLOCK_BITS: Final = 128
_HASHES: Final = {f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)}
_CBC: Final = "AES/CBC/PKCS5Padding"
_GCM: Final = "AES/GCM/NoPadding"
# A stored password may come from another tool. More iterations would stall the broker.
_MAX_ITERATIONS: Final = 1_000_000


class PasswordError(ValueError):
    """A password that cannot be encrypted or decrypted; the message contains no secret."""


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """Encrypts and decrypts passwords (Kafka's keys ``password.encoder.*``). What encrypts a
    password counts for new ones only. ``key_length`` is in bits."""

    secret: str = field(repr=False)
    key_factory_algorithm: str = "PBKDF2WithHmacSHA512"
    cipher_algorithm: str = _CBC
    key_length: int = 128
    iterations: int = 4096

    def problem(self) -> str | None:
        """Return which key has a value that cannot be used, and why; None if there is none."""
        if self.key_factory_algorithm not in _HASHES:
            return f"password.encoder.keyfactory.algorithm must be one of: {', '.join(_HASHES)}"
        if self.cipher_algorithm not in (_CBC, _GCM):
            return f"password.encoder.cipher.algorithm must be one of: {_CBC}, {_GCM}"
        if self.key_length not in _KEY_BITS:
            return f"password.encoder.key.length must be one of: {', '.join(map(str, _KEY_BITS))}"
        return None

    def encode(self, password: str, random: bytes) -> str:
        """Encrypt a password. ``random`` are ``RANDOM_BYTES`` bytes that are never used again.
        Raises PasswordError if ``problem`` returns one."""
        problem = self.problem()
        if problem is not None:
            raise PasswordError(problem)
        assert len(random) == RANDOM_BYTES, "a salt and an initialization vector"
        salt, vector = random[:_SALT_BYTES], random[_SALT_BYTES:]
        key = self._key(self.key_factory_algorithm, salt, self.iterations, self.key_length)
        fields = {
            "keyFactoryAlgorithm": self.key_factory_algorithm,
            "cipherAlgorithm": self.cipher_algorithm,
            "keyLength": str(self.key_length),
            "salt": _base64(salt),
            "iterations": str(self.iterations),
            "passwordLength": str(_java_length(password)),
        }
        if self.cipher_algorithm == _GCM:
            vector = vector[:_GCM_IV_BYTES]
            encrypted = AESGCM(key).encrypt(vector, password.encode(), None)
            fields["authenticationTagLength"] = str(_GCM_TAG_BITS)
        else:
            padder, encryptor = (
                PKCS7(_BLOCK_BITS).padder(),
                Cipher(AES(key), CBC(vector)).encryptor(),
            )
            padded = padder.update(password.encode()) + padder.finalize()
            encrypted = encryptor.update(padded) + encryptor.finalize()
        fields["initializationVector"] = _base64(vector)
        fields["encryptedPassword"] = _base64(encrypted)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, stored: str) -> str:
        """Decrypt a stored password. Raises PasswordError, also if the secret is another one."""
        try:
            fields = _fields(stored)
            cipher, iterations = fields["cipherAlgorithm"], int(fields["iterations"])
            key_length = int(fields["keyLength"])
            if key_length not in _KEY_BITS or not 0 < iterations <= _MAX_ITERATIONS:
                raise PasswordError("the stored password has an unsupported key")
            salt = base64.b64decode(fields["salt"])
            key = self._key(fields["keyFactoryAlgorithm"], salt, iterations, key_length)
            vector = base64.b64decode(fields["initializationVector"])
            encrypted = base64.b64decode(fields["encryptedPassword"])
            password = _decrypted(cipher, key, vector, encrypted).decode()
            length = int(fields["passwordLength"])
        except PasswordError:
            raise
        except (KeyError, ValueError, binascii.Error, InvalidTag):
            raise PasswordError("the stored password cannot be decrypted") from None
        if _java_length(password) != length:
            raise PasswordError("the stored password has another length")
        return password

    def _key(self, algorithm: str, salt: bytes, iterations: int, bits: int) -> bytes:
        name = _HASHES.get(algorithm)
        if name is None:
            raise PasswordError(f"{algorithm} is not supported")
        return hashlib.pbkdf2_hmac(name, self.secret.encode(), salt, iterations, bits // 8)


def _decrypted(cipher: str, key: bytes, vector: bytes, encrypted: bytes) -> bytes:
    if cipher == _GCM:
        return AESGCM(key).decrypt(vector, encrypted, None)
    if cipher != _CBC:
        raise PasswordError(f"{cipher} is not supported")
    decryptor, unpadder = Cipher(AES(key), CBC(vector)).decryptor(), PKCS7(_BLOCK_BITS).unpadder()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _fields(stored: str) -> dict[str, str]:
    pairs = (pair.strip().rpartition(":") for pair in stored.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _java_length(text: str) -> int:
    """Return the length of a text in Java, which counts the 16-bit units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2
