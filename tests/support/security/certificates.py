"""A certificate authority for tests: keys and certificates that live for a day."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A key with its certificate and that of its authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    def key_pem(self, password: str | None = None) -> bytes:
        how = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)

    @property
    def chain_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM) + self.authority_pem

    @property
    def authority_pem(self) -> bytes:
        return self.authority.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def pkcs12(self, password: str) -> bytes:
        how = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"broker", self.key, self.certificate, [self.authority], how
        )

    def trust_pkcs12(self, password: str) -> bytes:
        how = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(None, None, None, [self.authority], how)


class Authority:
    """Issues certificates."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        self.certificate = (
            _builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str | x509.Name, hosts: tuple[str, ...] = ("localhost",)) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name) if isinstance(name, str) else name
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        certificate = (
            _builder(subject, self.certificate.subject, key.public_key())
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(key, certificate, self.certificate)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
