"""Key stores and trust stores in Kafka's formats, as PEM for the TLS library.

PEM and PKCS#12 are read. Java's own format JKS is refused with the command that converts it: since
Java 9, keytool writes PKCS#12 unless it is asked for something else. The format is recognised by
the first bytes, since Java reads a PKCS#12 file under the type JKS as well.

Kafka: ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from minikafka.kernel.lazy_dataclass import dataclass

_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_DER_SEQUENCE: Final = b"\x30"
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
_PRIVATE_KEY: Final = re.compile(
    rb"-----BEGIN (ENCRYPTED |RSA |EC |DSA |)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----",
    re.DOTALL,
)


class StoreError(ValueError):
    """A store that cannot be read; the message says why and contains no secret."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key (PKCS#8 as PEM, without a password) and its certificates (PEM), its own first.

    The key is left out of the representation."""

    key: bytes
    certificates: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyStore({len(self.certificates)} certificates)"

    @property
    def chain(self) -> bytes:
        return b"".join(self.certificates)

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificates[0])


def key_store_of_file(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    """Read a key store: PKCS#12 with a password, or PEM, which must have none.

    ``key_password`` opens an encrypted key in PEM. Raises StoreError."""
    if is_pem(data):
        if password is not None:
            raise StoreError("a PEM file has no store password; ssl.key.password opens its key")
        return key_store_of_pem(data, data, key_password)
    if password is None:
        raise StoreError("a PKCS12 file needs its password")
    found = _open_pkcs12(data, password)
    if found.key is None or found.cert is None:
        raise StoreError("the file has no private key with its certificate")
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = _chain(found.cert.certificate, [each.certificate for each in found.additional_certs])
    return KeyStore(key, tuple(each.public_bytes(Encoding.PEM) for each in chain))


def key_store_of_pem(key: bytes, chain: bytes, key_password: str | None) -> KeyStore:
    """Return the key store of two PEM texts. Raises StoreError."""
    keys = [match[0] for match in _PRIVATE_KEY.finditer(key)]
    if len(keys) != 1:
        raise StoreError(f"exactly one private key is needed, not {len(keys)}")
    encrypted = b"ENCRYPTED" in keys[0]
    if encrypted and key_password is None:
        raise StoreError("the private key is encrypted: ssl.key.password is needed")
    try:
        loaded = load_pem_private_key(
            keys[0], key_password.encode() if encrypted and key_password is not None else None
        )
    except (ValueError, TypeError) as error:
        why = "ssl.key.password does not open it" if encrypted else _first_line(error)
        raise StoreError(f"the private key cannot be read: {why}") from None
    certificates = _certificates(chain)
    leaf = x509.load_pem_x509_certificate(certificates[0])
    if leaf.public_key() != loaded.public_key():
        raise StoreError("the first certificate of the chain is not that of the private key")
    pem = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyStore(pem, certificates)


def trust_store_of_file(data: bytes, password: str | None) -> bytes:
    """Return the trusted certificates of a PEM or PKCS#12 file as PEM. Raises StoreError."""
    if is_pem(data):
        if password is not None:
            raise StoreError("a PEM file has no store password")
        return trust_store_of_pem(data)
    if password is None:
        raise StoreError("without a password, a PKCS12 file shows no certificates")
    found = _open_pkcs12(data, password)
    certificates = [each.certificate for each in found.additional_certs]
    if found.cert is not None:
        certificates.append(found.cert.certificate)
    if not certificates:
        raise StoreError("the file has no trusted certificates")
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def trust_store_of_pem(text: bytes) -> bytes:
    """Check the certificates of a PEM text. Raises StoreError."""
    return b"".join(_certificates(text))


def is_pem(data: bytes) -> bool:
    """Whether a store is PEM; else it is PKCS#12. Raises StoreError for a format that is not
    read."""
    if data.startswith((_JKS, _JCEKS)):
        kind = "JKS" if data.startswith(_JKS) else "JCEKS"
        raise StoreError(
            f"the file has Java's own format {kind}; convert it with: keytool -importkeystore "
            "-srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
    if b"-----BEGIN" in data:
        return True
    if not data.startswith(_DER_SEQUENCE):
        raise StoreError("the file is neither PEM nor PKCS12")
    return False


def _open_pkcs12(data: bytes, password: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode())
    except ValueError as error:
        raise StoreError(f"the PKCS12 file cannot be opened: {_first_line(error)}") from None


def _certificates(text: bytes) -> tuple[bytes, ...]:
    """Return the certificates in OpenSSL's form. As in Java, blanks may stand for the ends of
    lines, since a properties file has the text in one line. Raises StoreError."""
    found = []
    for match in _CERTIFICATE.finditer(text):
        try:
            certificate = x509.load_pem_x509_certificate(match[0] + b"\n")
        except ValueError as error:
            raise StoreError(f"a certificate cannot be read: {_first_line(error)}") from None
        found.append(certificate.public_bytes(Encoding.PEM))
    if not found:
        raise StoreError("there is no certificate")
    return tuple(found)


def _chain(leaf: x509.Certificate, others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """Return the certificates from ``leaf`` towards its root, as far as ``others`` has them."""
    chain, left = [leaf], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
        left.remove(issuer)
    return chain


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
