"""The outcome of a TLS handshake in the simulator: nothing is encrypted."""

from __future__ import annotations

import errno
import ssl

from minikafka.kernel.tls import ClientAuth, TlsError, TlsSettings


class SimTlsEnd:
    """What ``get_extra_info("ssl_object")`` returns: knows the certificate of the other end."""

    def __init__(self, peer: bytes | None) -> None:
        self._peer = peer

    def getpeercert(self, binary_form: bool = False) -> bytes | None:
        assert binary_form, "the simulator has certificates as bytes only"
        return self._peer


def check_settings(settings: TlsSettings, of_listener: bool) -> None:
    if of_listener and not settings.key:
        raise TlsError("a TLS listener needs a key")


def check_handshake(server: TlsSettings, client: TlsSettings) -> None:
    try:
        handshake(server, client)
    except OSError as error:
        raise TlsError(str(error.strerror)) from error


def handshake(
    server: TlsSettings | None, client: TlsSettings | None
) -> tuple[SimTlsEnd | None, SimTlsEnd | None]:
    """Return what the server and the client know of each other; None without TLS.

    A chain is trusted if one of its certificates is. Host names are not compared. Raises OSError if
    the handshake fails."""
    if server is None and client is None:
        return None, None
    if server is None or client is None:
        raise ConnectionResetError(errno.ECONNRESET, "one end speaks TLS and the other does not")
    if not set(server.protocols) & set(client.protocols):
        raise _failure("no TLS version in common")
    if not _trusts(client, server):
        raise _failure("certificate verify failed")
    shown = client if server.client_auth is not ClientAuth.NONE and client.chain else None
    if shown is not None and not _trusts(server, shown):
        raise _failure("certificate verify failed")
    if shown is None and server.client_auth is ClientAuth.REQUIRED:
        raise _failure("peer did not return a certificate")
    return SimTlsEnd(None if shown is None else _leaf(shown)), SimTlsEnd(_leaf(server))


def _failure(reason: str) -> OSError:
    return ssl.SSLError(errno.EPROTO, reason)


def _trusts(one: TlsSettings, other: TlsSettings) -> bool:
    return not set(_certificates(one.trusted)).isdisjoint(_certificates(other.chain))


def _leaf(settings: TlsSettings) -> bytes:
    return ssl.PEM_cert_to_DER_cert(_certificates(settings.chain)[0])


def _certificates(pem: bytes) -> list[str]:
    end = "-----END CERTIFICATE-----"
    return [f"{text.strip()}\n{end}" for text in pem.decode().split(end)[:-1]]
