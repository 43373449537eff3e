"""Names of TLS certificates as Java writes them, and the rules that make principals of them.

``ssl.principal.mapping.rules``; Kafka: ``SslPrincipalMapper``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from minikafka.kernel.lazy_dataclass import dataclass

# The attribute types that Java writes by name in a distinguished name; the others by number.
_NAMED: Final = frozenset(
    {
        NameOID.COMMON_NAME,
        NameOID.COUNTRY_NAME,
        NameOID.ORGANIZATION_NAME,
        NameOID.ORGANIZATIONAL_UNIT_NAME,
        NameOID.LOCALITY_NAME,
        NameOID.STATE_OR_PROVINCE_NAME,
        NameOID.STREET_ADDRESS,
        NameOID.DOMAIN_COMPONENT,
        NameOID.USER_ID,
    }
)


class RuleError(ValueError):
    """Rules that cannot be parsed, or a name that no rule matches."""


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as Java prints it in the form of RFC 2253.

    Raises ValueError for bytes that are no certificate."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join(
        "+".join(_attribute(each) for each in part) for part in reversed(list(subject.rdns))
    )


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid in _NAMED:
        return x509.RelativeDistinguishedName([attribute]).rfc4514_string()
    encoded = x509.Name([attribute]).public_bytes()
    # Name > RelativeDistinguishedName > attribute > (type, value): only the value is shown.
    return f"{attribute.oid.dotted_string}=#{_last_value(encoded).hex()}"


def _last_value(der: bytes) -> bytes:
    """Return the value of the only attribute of a name, with its tag and length."""
    for _ in range(3):  # the sequence, the set, the attribute
        der = _contents(der)
    return der[len(der) - len(_after_first(der)) :]


def _contents(der: bytes) -> bytes:
    return der[_header_bytes(der) :]


def _after_first(der: bytes) -> bytes:
    """Return what follows the first element."""
    return der[_header_bytes(der) + _length(der) :]


def _header_bytes(der: bytes) -> int:
    return 2 if der[1] < 0x80 else 2 + (der[1] & 0x7F)


def _length(der: bytes) -> int:
    if der[1] < 0x80:
        return der[1]
    return int.from_bytes(der[2 : 2 + (der[1] & 0x7F)], "big")


# Of a replacement: an escaped character, or a reference to a group.
_PART: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>\d+)", re.DOTALL)
_SSL_RULE: Final = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|)\s*(,|$)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class SslRule:
    """``pattern`` must match the whole name; None is DEFAULT, which keeps it."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the new name; None if the rule does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        found = _filled(self.replacement, match)
        return {"L": found.lower(), "U": found.upper()}.get(self.case, found)


def parse_ssl_rules(text: str) -> tuple[SslRule, ...]:
    """Parse ``ssl.principal.mapping.rules``; empty rules are ignored, as in Kafka. Raises
    RuleError."""
    rules, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _SSL_RULE.match(text, position)
        if match is None:
            raise RuleError(f"Invalid rule: `{text[position:]}`")
        if match[1]:
            rules.append(SslRule(None))
        elif match[2] is not None:
            rules.append(SslRule(_compiled(match[2]), match[3], match[4]))
        position = match.end()
    return tuple(rules) or (SslRule(None),)


def map_distinguished_name(rules: Sequence[SslRule], name: str) -> str:
    """Return the name that the first matching rule makes. Raises RuleError if none matches."""
    for rule in rules:
        found = rule.apply(name)
        if found is not None:
            return found
    raise RuleError(f"No rules apply to {name}")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise RuleError(f"Invalid pattern {pattern}: {error}") from error


def _filled(replacement: str, match: re.Match[str]) -> str:
    """Return the replacement with its references and escapes replaced, as Java does: ``$12`` is
    group 1 and a 2 if there are fewer than 12 groups; a reference to no group stays."""

    def value(part: re.Match[str]) -> str:
        if part["escaped"] is not None:
            return part["escaped"]
        digits = part["group"]
        for end in range(len(digits), 0, -1):
            if int(digits[:end]) <= match.re.groups:
                return (match[int(digits[:end])] or "") + digits[end:]
        return part[0]

    return _PART.sub(value, replacement)
