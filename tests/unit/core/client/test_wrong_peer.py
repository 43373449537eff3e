"""What a client concludes from the replies of a bootstrap server."""

from __future__ import annotations

import pytest

from minikafka.core.client.wrong_peer import Probe, ProbeReply, is_complete, mismatch, probes
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages.sasl import SaslHandshakeResponse


def login(code: ErrorCode, *mechanisms: str) -> ProbeReply:
    return ProbeReply(bytes(encode_response(0, SaslHandshakeResponse(code, list(mechanisms)), 1)))


NO_LOGINS = login(ErrorCode.ILLEGAL_SASL_STATE)
SCRAM = login(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "SCRAM-SHA-256", "PLAIN")
SILENCE = ProbeReply()
HTTP = ProbeReply(b"HTTP/1.1 400 Bad Request\r\n")
ALERT = ProbeReply(b"\x15\x03\x03\x00\x02\x02\x28")
SERVER_HELLO = ProbeReply(b"\x16\x03\x03\x00\x58\x02\x00\x00\x54\x03\x03")
ZOOKEEPER = ProbeReply(b"Zookeeper version: 3.8.4")
UNTRUSTED = ProbeReply(
    error="[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"
)
OTHER_NAME = ProbeReply(
    error="[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch, ..."
)
WANTS_CERTIFICATE = ProbeReply(
    error="[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] certificate required"
)

EMPTY = ProbeReply(closed=True)
MISMATCHES = [
    ("PLAINTEXT", {Probe.LOGIN: SILENCE, Probe.HTTP: HTTP}, "is an HTTP server", False),
    ("PLAINTEXT", {Probe.LOGIN: HTTP}, "is an HTTP server", False),
    ("SASL_SSL", {Probe.LOGIN: UNTRUSTED, Probe.HTTP: HTTP}, "is an HTTP server", False),
    ("PLAINTEXT", {Probe.ZOOKEEPER: ZOOKEEPER}, "is a ZooKeeper server", False),
    ("PLAINTEXT", {Probe.ZOOKEEPER: ProbeReply(b"srvr is not executed")}, "is a ZooKeeper", False),
    ("SSL", {Probe.ZOOKEEPER: ZOOKEEPER}, "is a ZooKeeper server", False),
    ("PLAINTEXT", {Probe.TLS: SERVER_HELLO}, "speaks TLS: set security.protocol=SSL", True),
    ("PLAINTEXT", {Probe.LOGIN: ALERT, Probe.TLS: SILENCE}, "speaks TLS", True),
    ("SASL_PLAINTEXT", {Probe.TLS: ALERT}, "or SASL_SSL with a login", True),
    (
        "PLAINTEXT",
        {Probe.LOGIN: SCRAM},
        "SASL_PLAINTEXT, sasl.mechanism=SCRAM-SHA-256 or PLAIN, and sasl.jaas.config",
        True,
    ),
    ("SSL", {Probe.LOGIN: SCRAM}, "wants a login: set security.protocol=SASL_SSL", True),
    (
        "SASL_PLAINTEXT",
        {Probe.LOGIN: NO_LOGINS},
        "takes no logins: set security.protocol=PLAINTEXT",
        True,
    ),
    ("SASL_SSL", {Probe.LOGIN: NO_LOGINS}, "takes no logins: set security.protocol=SSL", True),
    (
        "SSL",
        {Probe.LOGIN: SILENCE, Probe.PLAIN_LOGIN: NO_LOGINS},
        "does not speak TLS: set security.protocol=PLAINTEXT",
        True,
    ),
    (
        "SASL_SSL",
        {Probe.PLAIN_LOGIN: SCRAM},
        "does not speak TLS: set security.protocol=SASL_PLAINTEXT, sasl.mechanism=SCRAM",
        True,
    ),
    ("SSL", {Probe.LOGIN: UNTRUSTED}, "ssl.truststore.location must have", True),
    ("SSL", {Probe.LOGIN: OTHER_NAME}, "ssl.endpoint.identification.algorithm", True),
    ("SSL", {Probe.LOGIN: WANTS_CERTIFICATE}, "ssl.keystore.location", True),
    (
        "PLAINTEXT",
        {Probe.LOGIN: ProbeReply(b"\x00\x00\x00\x04\x00\x00\x00\x07")},
        "not respond as a broker",
        False,
    ),
    (
        "SASL_PLAINTEXT",
        {Probe.LOGIN: ProbeReply(b"SSH-2.0-OpenSSH_9.2p1 Debian")},
        "with b'SSH-2.0-OpenSSH_9.2p'",
        False,
    ),
    ("PLAINTEXT", dict.fromkeys(Probe, EMPTY), "closes each connection", False),
    ("SSL", dict.fromkeys(Probe, EMPTY), "ssl.keystore.location", True),
]


@pytest.mark.parametrize(("protocol", "replies", "text", "by_keys"), MISMATCHES)
def test_a_peer_that_the_client_cannot_use(
    protocol: str, replies: dict[Probe, ProbeReply], text: str, by_keys: bool
) -> None:
    found = mismatch("h:1", protocol, replies)
    assert found is not None
    assert "h:1" in str(found)
    assert text in str(found)
    assert found.by_keys == by_keys
    assert not found.retriable


@pytest.mark.parametrize(
    ("protocol", "replies"),
    [
        ("PLAINTEXT", {}),
        ("PLAINTEXT", dict.fromkeys(Probe, SILENCE)),
        ("PLAINTEXT", {Probe.LOGIN: NO_LOGINS}),
        ("SSL", {Probe.LOGIN: NO_LOGINS}),
        ("SASL_SSL", {Probe.LOGIN: SCRAM}),
        ("SASL_PLAINTEXT", {Probe.LOGIN: SCRAM}),
        ("PLAINTEXT", {Probe.LOGIN: login(ErrorCode.UNKNOWN_SERVER_ERROR)}),  # Tansu, and later
        ("PLAINTEXT", {Probe.LOGIN: login(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "")}),
        ("SSL", {Probe.LOGIN: SERVER_HELLO, Probe.PLAIN_LOGIN: ALERT}),
        ("SSL", {Probe.LOGIN: ProbeReply(error="connection reset by peer")}),
        ("PLAINTEXT", {Probe.LOGIN: ProbeReply(b"\x00\x00\x00\x04\x00\x00")}),  # not complete
        ("PLAINTEXT", dict.fromkeys(Probe, EMPTY) | {Probe.HTTP: SILENCE}),
    ],
)
def test_replies_that_do_not_tell(protocol: str, replies: dict[Probe, ProbeReply]) -> None:
    assert mismatch("h:1", protocol, replies) is None


@pytest.mark.parametrize("reply", [NO_LOGINS, SCRAM])
def test_a_response_is_complete_with_its_last_byte(reply: ProbeReply) -> None:
    assert [is_complete(reply.data[:end]) for end in range(len(reply.data))] == (
        [False] * len(reply.data)
    )
    assert is_complete(reply.data)


def test_the_client_hello_has_the_sizes_that_it_names() -> None:
    hello = probes("")[Probe.TLS]
    assert int.from_bytes(hello[3:5], "big") == len(hello) - 5
    assert int.from_bytes(hello[6:9], "big") == len(hello) - 9
