"""The passwords among the dynamic settings of a broker, which ZooKeeper has encrypted.

Imported only by brokers with ``password.encoder.secret``: it takes the ``cryptography`` library.
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.security.password_encoder import RANDOM_BYTES, PasswordEncoder, PasswordError
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.dynamic_settings import is_password
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Entropy


class StoredPasswords:
    """The ``Passwords`` of a broker with ``password.encoder.secret``."""

    def __init__(self, config: Config, entropy: Entropy) -> None:
        self._encoder = _encoder(config, config.string("password.encoder.secret"))
        old_secret = config.optional("password.encoder.old.secret")
        self._old = _encoder(config, old_secret) if old_secret else None
        self._entropy = entropy
        self._known: dict[str, str] = {}  # of the last settings: to derive keys takes time
        self._log = event_log("dynamic-config")

    def encrypted(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with encrypted passwords. Raises ConfigError."""
        return {
            name: self._encrypt(text) if is_password(name) else text for name, text in given.items()
        }

    def decrypted(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings without encryption. A password that cannot be decrypted is logged
        and left out."""
        found, known = {}, {}
        for name, text in stored.items():
            if not is_password(name):
                found[name] = text
                continue
            try:
                found[name] = known[text] = self._known.get(text) or self._encoder.decode(text)
            except PasswordError as error:
                self._log.error("dynamic_password_ignored", key=name, error=str(error))
        self._known = known
        return found

    def rewritten(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """Return the settings with the passwords encrypted again that the old secret decrypts;
        None if there are none."""
        found = dict(stored)
        for name, text in stored.items():
            if self._old is not None and is_password(name):
                try:
                    found[name] = self._encrypt(self._old.decode(text))
                except PasswordError:
                    continue  # it is encrypted with the new secret already
        return None if found == dict(stored) else found

    def _encrypt(self, text: str) -> str:
        try:
            return self._encoder.encode(text, self._entropy.random_bytes(RANDOM_BYTES))
        except PasswordError as error:
            raise ConfigError(str(error)) from error


def _encoder(config: Config, secret: str) -> PasswordEncoder:
    return PasswordEncoder(
        secret,
        config.optional("password.encoder.keyfactory.algorithm") or "PBKDF2WithHmacSHA512",
        config.string("password.encoder.cipher.algorithm"),
        config.integer("password.encoder.key.length"),
        config.integer("password.encoder.iterations"),
    )
