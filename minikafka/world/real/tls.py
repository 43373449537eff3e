"""TLS contexts of the ``ssl`` module, from ``TlsSettings``."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.tls import ClientAuth, TlsError, TlsSettings

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = LazyModule("tempfile")

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_VERIFICATION = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
# Of handshakes and farewells: a peer that is silent for longer is disconnected.
HANDSHAKE_TIMEOUT_S = 30.0
SHUTDOWN_TIMEOUT_S = 1.0
HANDSHAKE_FLIGHTS = 8  # more than either version of TLS has


@lru_cache(maxsize=64)  # of the settings in use, and of those that were used before
def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises TlsError."""
    if not settings.key:
        raise TlsError("a TLS listener needs a key")
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.verify_mode = _VERIFICATION[settings.client_auth]
    context.num_tickets = 0  # connections live long: nobody resumes them
    return context


@lru_cache(maxsize=64)
def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises TlsError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.check_host_name
    if not settings.trusted:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def check_handshake(server: TlsSettings, client: TlsSettings) -> None:
    """Let a server and a client with these settings shake hands in memory, without host names.
    Raises TlsError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(replace(client, check_host_name=False))
    ends = [
        context.wrap_bio(to_client, to_server),
        server_context(server).wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(HANDSHAKE_FLIGHTS):
            # A client of TLS 1.3 is ready before the server has looked at its certificate.
            finished = [_goes_on(end) for end in ends]
            if all(finished):
                return
    except ssl.SSLError as error:
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else None
        raise TlsError(f"the handshake fails: {reason or error.reason}") from error
    raise AssertionError("a handshake without an end")


def _goes_on(end: ssl.SSLObject) -> bool:
    """Whether this end has finished its handshake with what it has received. Raises SSLError."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _context(kind: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    try:
        _limit_versions(context, settings.protocols)
        if settings.ciphers:
            context.set_ciphers(":".join(settings.ciphers))
        if settings.key:
            with _as_file(settings.key + settings.chain) as path:
                context.load_cert_chain(path)
        if settings.trusted:
            context.load_verify_locations(cadata=settings.trusted.decode())
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(f"TLS settings cannot be used: {error}") from error
    # As in Java, a trusted certificate need not be that of an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _limit_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """A range is allowed: OpenSSL cannot leave out a version between two others."""
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise TlsError(f"{', '.join(unknown) or 'nothing'} is no TLS version that is known here")
    order = list(_VERSIONS)
    places = sorted(order.index(name) for name in names)
    if places[-1] - places[0] >= len(set(places)):
        raise TlsError(f"TLS versions without those between them: {', '.join(names)}")
    context.minimum_version = _VERSIONS[order[places[0]]]
    context.maximum_version = _VERSIONS[order[places[-1]]]


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of a file with the data: the ``ssl`` module reads keys from files only. It is in
    memory, where the system can do that, so that no key is left on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable by its owner only
            file.write(data)
            file.flush()
            yield file.name
