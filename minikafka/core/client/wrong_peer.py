"""Recognition of a bootstrap server that is no broker of the client's protocol.

A client that gets no valid response from an address sends each of ``probes`` there on a separate
connection. ``mismatch`` judges the replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from minikafka.core.client.errors import WrongPeer
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse

_LOGIN_VERSION: Final = 0  # that of the oldest brokers
_MOST_LOGIN_BYTES: Final = 1_000  # of a SaslHandshake response; text read as a size is larger
_HEAD_BYTES: Final = 20  # they tell TLS, HTTP and ZooKeeper apart
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # an alert, a ServerHello
_ZOOKEEPER_WORDS: Final = (b"Zookeeper version", b"srvr is not", b"This ZooKeeper")
_BROKERS: Final = "bootstrap.servers must name listeners of brokers"
# Parts of the error of a TLS handshake, and what the client can change.
_TLS_REMEDIES: Final = (
    (
        ("Hostname mismatch", "IP address mismatch"),
        "use a host name of the certificate, or set ssl.endpoint.identification.algorithm= (empty)",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "ssl.truststore.location must have the authority that signed the broker's certificate",
    ),
    (
        ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA"),
        "the listener may want a certificate of the client: ssl.keystore.location",
    ),
    (
        ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        "ssl.enabled.protocols names no TLS version that the listener supports",
    ),
)


class Probe(Enum):
    """A message that is sent on a separate connection."""

    LOGIN = auto()  # a SaslHandshake over the client's transport, which may be TLS
    PLAIN_LOGIN = auto()  # the same without TLS
    TLS = auto()
    ZOOKEEPER = auto()
    HTTP = auto()


def _sized(data: bytes, size_bytes: int) -> bytes:
    return len(data).to_bytes(size_bytes, "big") + data


def _client_hello() -> bytes:
    """Return a ClientHello of TLS 1.2 and 1.3 (RFC 8446, 4.1.2). It has the usual extensions, since
    some servers close the connection without an alert otherwise, and no key share."""
    suites = bytes.fromhex("1301 1302 1303 c02b c02f c02c c030 009c 002f")
    extensions = (
        ("000a", _sized(bytes.fromhex("001d 0017 0018"), 2)),  # groups
        ("000d", _sized(bytes.fromhex("0403 0503 0603 0804 0805 0806 0401 0501 0601"), 2)),
        ("002b", _sized(bytes.fromhex("0304 0303"), 1)),  # versions
        ("0033", _sized(b"", 2)),  # key shares: the server asks for one
    )
    extended = b"".join(bytes.fromhex(kind) + _sized(body, 2) for kind, body in extensions)
    hello = b"\x03\x03" + bytes(32) + b"\x00" + _sized(suites, 2) + b"\x01\x00"
    handshake = b"\x01" + _sized(hello + _sized(extended, 2), 3)
    return b"\x16\x03\x01" + _sized(handshake, 2)


def probes(mechanism: str) -> Mapping[Probe, bytes]:
    """Return the bytes of each probe for a client with this SASL mechanism; "" if it has no login.

    A listener without logins replies to a SaslHandshake with ILLEGAL_SASL_STATE, one that lacks the
    mechanism with those that it has. The latter counts as a failed authentication, so a client
    whose mechanism is right must name it.
    """
    header = RequestHeader(ApiKey.SASL_HANDSHAKE, _LOGIN_VERSION, 0, None)
    login = encode_request(header, SaslHandshakeRequest(mechanism))
    return {
        Probe.LOGIN: login,
        Probe.PLAIN_LOGIN: login,
        Probe.TLS: _client_hello(),
        Probe.ZOOKEEPER: b"srvr",
        Probe.HTTP: b"GET / HTTP/1.0\r\n\r\n",
    }


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """The first bytes of a reply, why the connection failed, if it did, and whether the peer closed
    it."""

    data: bytes = b""
    error: str = ""
    closed: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the peer closed the connection without a byte."""
        return self.closed and not self.data


NO_REPLY: Final = ProbeReply()


def is_complete(data: bytes | bytearray) -> bool:
    """Whether ``mismatch`` needs no more bytes of a reply: it is a whole SaslHandshake response,
    or begins as another protocol does."""
    size = int.from_bytes(data[:4], "big")
    needed = 4 + size if size < _MOST_LOGIN_BYTES else _HEAD_BYTES
    return len(data) >= max(4, needed)


def speaks_kafka(reply: ProbeReply) -> bool:
    return _login_response(reply) is not None


def mismatch(peer: str, protocol: str, replies: Mapping[Probe, ProbeReply]) -> WrongPeer | None:
    """Return why a client with this ``security.protocol`` cannot use ``peer``; None if it can, or
    if the replies are inconclusive."""
    heads = [reply.data for reply in replies.values()]
    if any(data.startswith(b"HTTP/") for data in heads):
        return WrongPeer(
            f"{peer} is an HTTP server, such as a page, a registry or a debug listener: {_BROKERS}",
            by_keys=False,
        )
    if any(data.startswith(_ZOOKEEPER_WORDS) for data in heads):
        return WrongPeer(f"{peer} is a ZooKeeper server: {_BROKERS}", by_keys=False)
    response = _login_response(replies.get(Probe.LOGIN, NO_REPLY))
    if response is not None:
        return _login_mismatch(peer, protocol, response)
    if protocol in TLS_PROTOCOLS:
        return _tls_mismatch(peer, replies)
    if any(data.startswith(_TLS_RECORDS) for data in heads):
        return WrongPeer(
            f"{peer} speaks TLS: set security.protocol=SSL, or SASL_SSL with a login, and "
            "ssl.truststore.location",
            by_keys=True,
        )
    head = replies.get(Probe.LOGIN, NO_REPLY).data
    if head and is_complete(head):
        return WrongPeer(f"{peer} does not respond as a broker, but with {head[:20]!r}: {_BROKERS}")
    if replies and all(reply.is_empty for reply in replies.values()):
        return WrongPeer(
            f"{peer} closes each connection without a response: {_BROKERS}, which must accept "
            "connections from this host"
        )
    return None


def _login_mismatch(peer: str, protocol: str, response: SaslHandshakeResponse) -> WrongPeer | None:
    has_logins = response.error_code != ErrorCode.ILLEGAL_SASL_STATE
    if has_logins == (protocol in SASL_PROTOCOLS):
        return None
    if has_logins and not any(response.mechanisms):
        return None  # brokers of other makers refuse the API itself so, Tansu with one empty name
    suffix = "SSL" if protocol in TLS_PROTOCOLS else "PLAINTEXT"
    if not has_logins:
        text = f"{peer} takes no logins: set security.protocol={suffix}"
    else:
        text = f"{peer} wants a login: set {_sasl(suffix, response)}"
    return WrongPeer(text, by_keys=True)


def _tls_mismatch(peer: str, replies: Mapping[Probe, ProbeReply]) -> WrongPeer | None:
    plain = _login_response(replies.get(Probe.PLAIN_LOGIN, NO_REPLY))
    if plain is not None:
        no_login = plain.error_code == ErrorCode.ILLEGAL_SASL_STATE
        keys = "security.protocol=PLAINTEXT" if no_login else _sasl("PLAINTEXT", plain)
        return WrongPeer(f"{peer} does not speak TLS: set {keys}", by_keys=True)
    error = replies.get(Probe.LOGIN, NO_REPLY).error
    for reasons, remedy in _TLS_REMEDIES:
        if any(reason in error for reason in reasons):
            return WrongPeer(
                f"the TLS handshake with {peer} fails: {error}: {remedy}", by_keys=True
            )
    if replies.get(Probe.LOGIN, NO_REPLY).is_empty:
        return WrongPeer(
            f"{peer} closes the connection after the TLS handshake: it may want a certificate of "
            "the client: ssl.keystore.location",
            by_keys=True,
        )
    return None


def _sasl(suffix: str, response: SaslHandshakeResponse) -> str:
    mechanisms = " or ".join(response.mechanisms)
    return f"security.protocol=SASL_{suffix}, sasl.mechanism={mechanisms}, and sasl.jaas.config"


def _login_response(reply: ProbeReply) -> SaslHandshakeResponse | None:
    data = reply.data
    if len(data) < 8 or int.from_bytes(data[:4], "big") != len(data) - 4:
        return None
    try:
        number, response = decode_response(
            SaslHandshakeResponse, _LOGIN_VERSION, memoryview(data)[4:]
        )
    except DecodeError:
        return None
    return response if number == 0 else None
