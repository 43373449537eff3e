"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), and logins with a delegation token.

The grammar is that of Kafka's ``ScramMessages``: no channel binding, ASCII only, extensions are
ignored except ``tokenauth=true``, with which the user name is the id of a delegation token and the
password its HMAC in base64. The proof covers the messages as the peer sent them; Kafka assembles
them again from their fields, and so refuses clients that send several extensions.

Only clients compute PBKDF2. A broker computes three hashes for each login.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from minikafka.core.security.sasl.exchange import (
    Challenge,
    ExchangeError,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.core.security.scram_credentials import (
    MIN_ITERATIONS,
    Mechanism,
    ScramCredential,
    TokenCredential,
    credential_of,
    salted_password,
)
from minikafka.kernel.principals import Principal

NONCE_BYTES: Final = 17  # of which 130 bits are used, as in Kafka
# A server could occupy a client with any number of iterations. These take half a second.
MAX_CLIENT_ITERATIONS: Final = 1_000_000

_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = rb"[\x21-\x2b\x2d-\x7e]+"
_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rb"(?:,[A-Za-z]+=%b)*" % _VALUE
_RESERVED = rb"(?:m=%b,)?" % _VALUE

_CLIENT_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>%b))?,"
    rb"(?P<bare>%bn=(?P<name>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_NAME, _RESERVED, _NAME, _PRINTABLE, _EXTENSIONS)
)
_SERVER_FIRST = re.compile(
    rb"%br=(?P<nonce>%b),s=(?P<salt>%b),i=(?P<iterations>[0-9]{1,10})%b"
    % (_RESERVED, _PRINTABLE, _BASE64, _EXTENSIONS)
)
_CLIENT_FINAL = re.compile(
    rb"(?P<without_proof>c=%b,r=(?P<nonce>%b)%b),p=(?P<proof>%b)"
    % (_BASE64, _PRINTABLE, _EXTENSIONS, _BASE64)
)
_SERVER_FINAL = re.compile(
    rb"(?:e=(?P<error>%b)|v=(?P<signature>%b))%b" % (_VALUE, _BASE64, _EXTENSIONS)
)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def scram_nonce(entropy: bytes) -> str:
    """Return a nonce of ``NONCE_BYTES`` random bytes: about 25 letters and digits."""
    assert len(entropy) == NONCE_BYTES
    number = int.from_bytes(entropy, "big") >> (NONCE_BYTES * 8 - 130)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


class ScramServer:
    """A broker's side of SCRAM.

    ``credential_of(user)`` and ``token_of(token_id)`` look up a credential for this mechanism, and
    return None if there is none. ``nonce`` is of ``scram_nonce``, and never used twice.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        nonce: str,
        credential_of: Callable[[str], ScramCredential | None],
        token_of: Callable[[str], TokenCredential | None] = lambda token_id: None,
    ) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        self._credential_of = credential_of
        self._token_of = token_of
        # Set by the first message of the client.
        self._credential: ScramCredential | None = None
        self._principal: Principal | None = None
        self._expires_ms: int | None = None
        self._client_first_bare = b""
        self._server_first = b""
        self._full_nonce = b""

    def respond(self, token: bytes, wall_ms: int) -> ServerOutcome:
        if self._credential is None:
            return self._client_first(token)
        return self._client_final(token, self._credential)

    def _client_first(self, token: bytes) -> ServerOutcome:
        match = _CLIENT_FIRST.fullmatch(token)
        if match is None:
            return _failed("the first message of the client is malformed")
        user = _unescaped(match["name"])
        credential = self._look_up(user, match["extensions"])
        if isinstance(credential, Failure):
            return credential
        if match["authzid"] is not None and _unescaped(match["authzid"]) != user:
            message = (
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
            return Failure(message, message)
        if credential.iterations < MIN_ITERATIONS:
            return _failed(
                f"the credential has {credential.iterations} iterations, at least "
                f"{MIN_ITERATIONS} are required"
            )
        self._credential = credential
        self._client_first_bare = match["bare"]
        self._full_nonce = match["nonce"] + self._nonce.encode()
        self._server_first = b"r=%b,s=%b,i=%d" % (
            self._full_nonce,
            base64.b64encode(credential.salt),
            credential.iterations,
        )
        return Challenge(self._server_first)

    def _look_up(self, user: str, extensions: bytes) -> ScramCredential | Failure:
        if not _is_token_login(extensions):
            credential = self._credential_of(user)
            if credential is None:
                return _failed("the user has no credential for this mechanism")
            self._principal = Principal(user)
            return credential
        token = self._token_of(user)
        if token is None:
            return _failed("there is no delegation token with this id")
        self._principal = Principal(token.owner, by_token=True)
        self._expires_ms = token.expires_ms
        return token.credential

    def _client_final(self, token: bytes, credential: ScramCredential) -> ServerOutcome:
        assert self._principal is not None
        match = _CLIENT_FINAL.fullmatch(token)
        if match is None:
            return _failed("the final message of the client is malformed")
        if not match["nonce"].endswith(self._full_nonce):
            return _failed("the final message of the client has another nonce")
        auth_message = b",".join(
            (self._client_first_bare, self._server_first, match["without_proof"])
        )
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, auth_message, digest)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature):
            return _failed("the proof of the client has the wrong length")
        client_key = _xor(proof, signature)
        stored_key = hashlib.new(digest, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            return _failed("the proof of the client is wrong")
        server_signature = hmac.digest(credential.server_key, auth_message, digest)
        return Success(
            b"v=" + base64.b64encode(server_signature), self._principal, self._expires_ms
        )


class ScramClient:
    """A client's side of SCRAM. ``by_token``: ``user`` is the id of a delegation token, and
    ``password`` its HMAC in base64.

    The first ``respond`` computes PBKDF2, which takes milliseconds. Raises ExchangeError if the
    server does not prove that it knows the credential.
    """

    def __init__(
        self, mechanism: Mechanism, user: str, password: str, nonce: str, by_token: bool = False
    ) -> None:
        self.mechanism = mechanism.kafka_name
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extension = ",tokenauth=true" if by_token else ""
        self._client_first_bare = f"n={_escaped(user)},r={nonce}{extension}".encode()
        self._server_signature: bytes | None = None  # expected, from the second message on

    def initial_response(self) -> bytes:
        return b"n,," + self._client_first_bare

    def respond(self, token: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._client_final(token)
        match = _SERVER_FINAL.fullmatch(token)
        if match is None:
            raise ExchangeError("the final message of the server is malformed")
        if match["error"] is not None:
            raise ExchangeError(f"the server refused the login: {match['error'].decode()}")
        if not hmac.compare_digest(base64.b64decode(match["signature"]), self._server_signature):
            raise ExchangeError(
                "the server could not prove that it knows the credential of the user"
            )
        return None

    def _client_final(self, server_first: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            raise ExchangeError("the first message of the server is malformed")
        if not match["nonce"].startswith(self._nonce.encode()):
            raise ExchangeError("the nonce of the server does not begin with that of the client")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise ExchangeError(
                f"the server requests {iterations} iterations, {MIN_ITERATIONS} to "
                f"{MAX_CLIENT_ITERATIONS} are allowed"
            )
        salt = base64.b64decode(match["salt"])
        digest = self._mechanism.digest
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        credential = credential_of(self._mechanism, salt, salted, iterations)
        without_proof = b"c=biws,r=" + match["nonce"]  # biws is "n,,"
        auth_message = b",".join((self._client_first_bare, server_first, without_proof))
        signature = hmac.digest(credential.stored_key, auth_message, digest)
        client_key = hmac.digest(salted, b"Client Key", digest)
        self._server_signature = hmac.digest(credential.server_key, auth_message, digest)
        return without_proof + b",p=" + base64.b64encode(_xor(client_key, signature))


def _is_token_login(extensions: bytes) -> bool:
    """The last one counts if ``tokenauth`` is given several times, as in Kafka."""
    values = dict(part.split(b"=", 1) for part in extensions.split(b",") if part)
    return values.get(b"tokenauth", b"").lower() == b"true"


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _failed(detail: str) -> Failure:
    return Failure(None, detail)
