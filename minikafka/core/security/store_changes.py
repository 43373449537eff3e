"""Which certificates a key store may have that replaces another one while a broker runs.

Kafka: ``SslFactory.CertificateEntries``.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from minikafka.core.security.certificate_names import distinguished_name


def store_change_problem(
    before: bytes, after: bytes, allow_dn_changes: bool, allow_san_changes: bool
) -> str | None:
    """Return why a certificate chain (PEM) must not replace another one; None if it may. An empty
    chain is that of no store.

    The name of the broker's certificate stays, and so does each of its alternative names, unless
    the changes are allowed (``ssl.allow.dn.changes``, ``ssl.allow.san.changes``)."""
    if bool(before) != bool(after):
        return (
            "Cannot remove the SSL keystore from an existing listener for which a keystore was "
            "configured."
            if before
            else "Cannot add SSL keystore to an existing listener for which no keystore was "
            "configured."
        )
    if not before:
        return None
    old, new = (x509.load_pem_x509_certificate(chain) for chain in (before, after))
    names = [distinguished_name(each.public_bytes(Encoding.DER)) for each in (old, new)]
    is_same = old.subject == new.subject or names[0].lower() == names[1].lower()
    if not allow_dn_changes and not is_same:
        return (
            f"Keystore DistinguishedName does not match: existing={{DN={names[0]}}}, "
            f"new={{DN={names[1]}}}"
        )
    missing = _alternative_names(old) - _alternative_names(new)
    if not allow_san_changes and missing:
        lacking = ", ".join(sorted(missing))
        return f"Keystore SubjectAltNames do not match: the new one lacks {lacking}"
    return None


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {repr(name) for name in found.value}
