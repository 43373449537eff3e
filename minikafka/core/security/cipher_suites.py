"""Names of cipher suites: Kafka's settings have Java's, the TLS library has OpenSSL's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_JAVA: Final = re.compile(
    r"TLS_(?:(?P<exchange>ECDHE|DHE)_(?P<signer>RSA|ECDSA)|RSA)_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA|SHA256|SHA384)"
    r"|(?P<chacha>CHACHA20_POLY1305)_SHA256)"
)
_OPENSSL: Final = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)+")
TLS_1_3_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)


class UnknownCipherSuite(ValueError):
    """A name of a cipher suite that neither Java nor OpenSSL has."""


def openssl_suites(names: Iterable[str]) -> tuple[str, ...]:
    """Return OpenSSL's names of the suites of TLS 1.2. The suites of TLS 1.3 are left out: Python
    cannot choose among them. Raises UnknownCipherSuite."""
    return tuple(_openssl_name(name) for name in names if name not in TLS_1_3_SUITES)


def _openssl_name(name: str) -> str:
    match = _JAVA.fullmatch(name)
    if match is None:
        if _OPENSSL.fullmatch(name):
            return name
        raise UnknownCipherSuite(f"{name} is no cipher suite that is known here")
    parts = [match["exchange"], match["signer"]] if match["exchange"] else []
    if match["chacha"]:
        parts.append("CHACHA20-POLY1305")
    else:
        parts.append(f"AES{match['bits']}")
        if match["mode"] == "GCM":
            parts.append("GCM")
        parts.append(match["hash"])
    return "-".join(parts)
