"""A certificate authority for one cluster, and the certificates of its brokers.

The extensions are those that strict verifiers demand (RFC 5280; Python 3.13 and Go check them).
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from minikafka.kernel.lazy_dataclass import dataclass

HOUR: Final = datetime.timedelta(hours=1)  # clocks of other machines may be slow
AUTHORITY_LIFE: Final = datetime.timedelta(days=3650)
BROKER_LIFE: Final = datetime.timedelta(days=825)  # some clients refuse certificates above this
RENEWAL: Final = datetime.timedelta(days=30)  # a certificate that ends sooner is issued again
_HOST: Final = re.compile(r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


class UnusableCertificate(ValueError):
    """A stored key or certificate that cannot be used; the message contains no secret."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates. Its key is not in its representation."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return f"Authority({self.certificate.subject.rfc4514_string()})"

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return _key_pem(self.key)

    def issue(self, name: str, hosts: Sequence[str], now: datetime.datetime) -> str:
        """Return a new key and its certificate for a broker, as PEM. Raises UnusableCertificate for
        a name that is no host."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key_id = self.certificate.extensions.get_extension_for_class(
            x509.SubjectKeyIdentifier
        ).value
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        life = min(now + BROKER_LIFE, self.certificate.not_valid_after_utc)
        certificate = (
            _builder(_name(name), self.certificate.subject, key.public_key(), now, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(of_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key_id),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        return _key_pem(key) + certificate.public_bytes(Encoding.PEM).decode()

    def is_usable(self, pem: str, hosts: Sequence[str], now: datetime.datetime) -> bool:
        """Return whether a broker can go on with its key and certificate: this authority issued it,
        it has all ``hosts``, and it ends later than in a month."""
        try:
            certificate = x509.load_pem_x509_certificate(pem.encode())
            key = load_pem_private_key(pem.encode(), None)
            certificate.verify_directly_issued_by(self.certificate)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except Exception:  # cryptography raises a dozen types; another certificate is the remedy
            return False
        return (
            certificate.public_key() == key.public_key()
            and certificate.not_valid_before_utc <= now
            and now + RENEWAL < certificate.not_valid_after_utc
            and {_alternative(host) for host in hosts} <= set(names.value)
        )


def new_authority(name: str, now: datetime.datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(of_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def load_authority(pem: str, key_pem: str, now: datetime.datetime) -> Authority:
    """Return a stored authority. Raises UnusableCertificate if it cannot issue any more."""
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        key = load_pem_private_key(key_pem.encode(), None)
    except (ValueError, TypeError):
        raise UnusableCertificate("the certificate authority cannot be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusableCertificate("the key of the certificate authority is not an EC key")
    if certificate.public_key() != key.public_key():
        raise UnusableCertificate("the key of the certificate authority is another one's")
    if certificate.not_valid_after_utc < now + RENEWAL:
        raise UnusableCertificate("the certificate authority ends within a month")
    return Authority(certificate, key)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(end)
    )


def _key_usage(of_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not of_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=of_authority,
        crl_sign=of_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if _HOST.fullmatch(host) is None:
            raise UnusableCertificate(f"{host!r} is neither a host name nor an address") from None
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
