"""The SASL login at ZooKeeper: DIGEST-MD5 (RFC 2831) as pure functions, and its place in kazoo.

ZooKeeper knows DIGEST-MD5 and Kerberos. The password does not travel, but who listens can guess it:
use TLS where the network is not trusted.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, AuthFailedError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from minikafka.kernel.zookeeper_security import DigestLogin

DIGEST_URI: Final = "zookeeper/zk-sasl-md5"  # ZooKeeper's clients have these names in their code
_DIRECTIVE: Final = re.compile(
    rb'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,+|$)', re.DOTALL
)


class DigestLoginRefused(Exception):
    """A login that has failed for good; the message says why."""


def digest_response(login: DigestLogin, challenge: bytes, client_nonce: str) -> bytes:
    """Return the response to the challenge of a server. Raises DigestLoginRefused."""
    given = _directives(challenge)
    nonce = given.get("nonce")
    if nonce is None or given.get("algorithm") != "md5-sess":
        raise DigestLoginRefused("the server has sent no challenge of DIGEST-MD5")
    if "auth" not in [word.strip() for word in given.get("qop", "auth").split(",")]:
        raise DigestLoginRefused(
            "the server requires a protection of DIGEST-MD5 that is not supported"
        )
    realm = given.get("realm", "")
    proof = _proof(login, realm, nonce, client_nonce, "AUTHENTICATE")
    fields = {
        "username": _quoted(login.username),
        "realm": _quoted(realm),
        "nonce": _quoted(nonce),
        "nc": "00000001",
        "cnonce": _quoted(client_nonce),
        "digest-uri": _quoted(DIGEST_URI),
        "maxbuf": "65536",
        "response": proof,
        "qop": "auth",
    }
    if given.get("charset") == "utf-8":
        fields = {"charset": "utf-8", **fields}
    return ",".join(f"{key}={value}" for key, value in fields.items()).encode()


def check_final(login: DigestLogin, challenge: bytes, client_nonce: str, final: bytes) -> None:
    """Check that the server knows the password, too. Raises DigestLoginRefused."""
    given = _directives(challenge)
    expected = _proof(login, given.get("realm", ""), given["nonce"], client_nonce, "")
    found = _directives(final).get("rspauth", "")
    if not hmac.compare_digest(found.encode(), expected.encode()):
        raise DigestLoginRefused("the server does not know the user's password")


def _proof(login: DigestLogin, realm: str, nonce: str, client_nonce: str, method: str) -> str:
    secret = b":".join(map(_hashed_bytes, (login.username, realm, login.password)))
    first = b":".join([_md5(secret), nonce.encode(), client_nonce.encode()])
    second = f"{method}:{DIGEST_URI}".encode()
    middle = f"{nonce}:00000001:{client_nonce}:auth"
    return _md5(f"{_md5(first).hex()}:{middle}:{_md5(second).hex()}".encode()).hex()


def _hashed_bytes(text: str) -> bytes:
    """RFC 2831: UTF-8, unless ISO 8859-1 has all characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _directives(text: bytes) -> Mapping[str, str]:
    """Raises DigestLoginRefused."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise DigestLoginRefused("the server's message is not one of DIGEST-MD5")
        name, quoted, plain = match.groups()
        value = plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted)
        found.setdefault(name.decode().lower(), value.decode("utf-8", "replace"))
        at = match.end()
    return found


class LoginConnection(ConnectionHandler):  # type: ignore[misc]
    """Kazoo's connection with our login, which kazoo calls after each connect. Kazoo's own would
    need another package, and takes a lost connection for a refused login.

    It runs on kazoo's connection thread; ``refusal`` is set before kazoo reports the failure."""

    def __init__(self, client: Any, login: DigestLogin, replaced: ConnectionHandler) -> None:
        super().__init__(
            client, replaced.retry_sleeper, replaced.logger, {"mechanism": "DIGEST-MD5"}
        )
        self._login = login
        self.refusal: DigestLoginRefused | None = None

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        try:
            client_nonce = secrets.token_hex(16)
            challenge = self._exchange(1, b"", timeout)
            response = digest_response(self._login, challenge, client_nonce)
            final = self._exchange(2, response, timeout)
            check_final(self._login, challenge, client_nonce, final)
        except DigestLoginRefused as refusal:
            self.refusal = refusal
            raise AuthFailedError(str(refusal)) from None
        self.client.handler.logged_in()

    def _exchange(self, number: int, token: bytes, timeout: float) -> bytes:
        self._submit(SASL(token), timeout, number)
        header, data, offset = self._read_header(timeout)
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        if header.err:
            raise DigestLoginRefused(
                f"the server refuses it with {EXCEPTIONS[header.err].__name__}"
            )
        answer, _ = SASL.deserialize(data, offset)
        if not answer:
            raise DigestLoginRefused(
                "the server has no SASL, or does not know the user and password"
            )
        return bytes(answer)
