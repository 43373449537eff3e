"""Names of Kerberos principals, the rules that make short names of them, and the options of
Krb5LoginModule in JAAS entries.

``sasl.kerberos.principal.to.local.rules``; Kafka: ``KerberosName``, ``KerberosShortNamer`` and
``KerberosRule``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minikafka.core.security.jaas import KERBEROS_MODULE, JaasError, LoginEntry
from minikafka.kernel.kerberos import KerberosIdentity
from minikafka.kernel.lazy_dataclass import dataclass

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<components>[0-9]*):(?P<format>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
# Of a replacement: an escaped character, a reference to a group, or an error.
_PART: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>[0-9]+)|(?P<bad>[\\$])", re.DOTALL)
_MAX_SHOWN: Final = 200  # characters of a name in a message


class KerberosNameError(ValueError):
    """A rule or a name that cannot be parsed, or a name without a short one."""


@dataclass(frozen=True, slots=True)
class KerberosName:
    """``service/host@REALM``; a user has no host. Without a realm the name is a short one."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Parse a name of at most two components. Raises KerberosNameError."""
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text:
            raise KerberosNameError(f"Malformed Kerberos name: {text[:_MAX_SHOWN]}")
        return cls(text, None, None)


@dataclass(frozen=True, slots=True)
class DefaultRule:
    """Returns the first component of names in the default realm."""

    realm: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        return parameters[1] if parameters[0] == self.realm else None


@dataclass(frozen=True, slots=True)
class KerberosRule:
    """``RULE:[n:format](match)s/from/to/g/L``, for names of ``components`` components.

    ``match`` must match the whole of the filled ``format``. ``replacement`` has texts and numbers
    of groups."""

    text: str
    components: int
    format: str
    match: re.Pattern[str] | None
    replaced: re.Pattern[str] | None
    replacement: Sequence[str | int]
    replace_all: bool
    case: str | None

    def apply(self, parameters: Sequence[str]) -> str | None:
        """Return the short name; None if the rule does not match. ``parameters`` are the realm and
        the components. Raises KerberosNameError for a short name with ``/`` or ``@``."""
        if len(parameters) - 1 != self.components:
            return None
        found = _PARAMETER.sub(lambda part: parameters[int(part[1])], self.format)
        if self.match is not None and not self.match.fullmatch(found):
            return None
        if self.replaced is not None:
            found = self.replaced.sub(self._fill, found, count=0 if self.replace_all else 1)
        if "/" in found or "@" in found:
            raise KerberosNameError(
                f"Non-simple name {found[:_MAX_SHOWN]} after auth_to_local rule {self.text}"
            )
        return {"L": found.lower(), "U": found.upper()}.get(self.case or "", found)

    def _fill(self, match: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else match[part] or "" for part in self.replacement
        )


class KerberosShortNamer:
    """Makes short names by the first rule that matches."""

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        """Parse the rules. Raises KerberosNameError."""
        self._rules = [_parse_rule(text, default_realm) for text in rules]

    def short_name(self, principal: str) -> str:
        """Return the short name of a principal. Raises KerberosNameError if no rule matches."""
        name = KerberosName.parse(principal)
        if name.realm is None:
            return name.service
        parameters = [name.realm, name.service]
        if name.host is not None:
            parameters.append(name.host)
        for rule in self._rules:
            found = rule.apply(parameters)
            if found is not None:
                return found
        raise KerberosNameError(f"No rules apply to {principal[:_MAX_SHOWN]}")


def _parse_rule(text: str, default_realm: str) -> DefaultRule | KerberosRule:
    parsed = _RULE.match(text)
    if parsed is None:
        raise KerberosNameError(f"Invalid rule: {text}")
    if parsed.end() != len(text):
        rest = text[parsed.end() :]
        raise KerberosNameError(f"Invalid rule: `{text}`, unmatched substring: `{rest}`")
    if parsed["default"]:
        return DefaultRule(default_realm)
    if not parsed["components"]:
        raise KerberosNameError(f"Invalid rule: `{text}`, no number of components")
    components = int(parsed["components"])
    for parameter in _PARAMETER.findall(parsed["format"]):
        # Kafka fails at the login of a name to which the rule applies.
        if not parameter or int(parameter) > components:
            raise KerberosNameError(
                f"Invalid rule: `{text}`, ${parameter} is none of $0 to ${components}"
            )
    replaced = _pattern(parsed["from"], text)
    return KerberosRule(
        text,
        components,
        parsed["format"],
        _pattern(parsed["match"], text),
        replaced,
        [] if replaced is None else _replacement(parsed["to"], replaced.groups, text),
        parsed["all"] is not None,
        parsed["case"],
    )


def _pattern(pattern: str | None, rule: str) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern, re.ASCII)
    except re.error as error:
        raise KerberosNameError(f"Invalid rule: `{rule}`, pattern {pattern}: {error}") from error


def _replacement(text: str, groups: int, rule: str) -> Sequence[str | int]:
    """Parse a replacement as Java does: ``$12`` is group 1 and a 2 if there are fewer than 12
    groups. A reference to no group is an error, at the login with Kafka."""
    parts: list[str | int] = []
    position = 0
    for part in _PART.finditer(text):
        parts.append(text[position : part.start()])
        position = part.end()
        if part["escaped"] is not None:
            parts.append(part["escaped"])
            continue
        digits = part["group"] or ""
        if not digits or int(digits[0]) > groups:
            raise KerberosNameError(f"Invalid rule: `{rule}`, replacement {text} has no such group")
        end = max(n for n in range(1, len(digits) + 1) if int(digits[:n]) <= groups)
        parts += [int(digits[:end]), digits[end:]]
    parts.append(text[position:])
    return [part for part in parts if part != ""]


SERVICE_NAME: Final = "sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True)
class ServiceLogin:
    """How a client, or a broker at another one, logs in: as whom, and at which service of the host
    that it connects to."""

    identity: KerberosIdentity
    service: str


def service_login(entry: LoginEntry, service_name: str | None) -> ServiceLogin:
    """Return the login that a JAAS entry describes. ``service_name`` is the value of
    ``sasl.kerberos.service.name``. Raises JaasError."""
    if entry.module != KERBEROS_MODULE:
        raise JaasError(f"GSSAPI needs {KERBEROS_MODULE}, not {entry.module}")
    options = entry.options
    own = options.get("serviceName")
    if own and service_name and own != service_name:
        raise JaasError(f"serviceName is not the same as in {SERVICE_NAME}")
    service = own or service_name
    if not service:
        raise JaasError(f"no name of the service: set {SERVICE_NAME}")
    return ServiceLogin(_identity(options), service)


def keys_of_service(login: ServiceLogin) -> tuple[str, str]:
    """Return the principal and the keytab with which a broker accepts clients. Raises JaasError."""
    principal, keytab = login.identity.principal, login.identity.keytab
    if principal is None or keytab is None:
        raise JaasError("a broker needs useKeyTab=true, keyTab and principal")
    return principal, keytab


def _identity(options: Mapping[str, str]) -> KerberosIdentity:
    principal = options.get("principal") or None
    if _is_on(options, "useKeyTab"):
        keytab = options.get("keyTab")
        if not keytab:
            raise JaasError("useKeyTab=true needs keyTab")
        if principal is None:
            raise JaasError("useKeyTab=true needs principal")
        return KerberosIdentity(principal, keytab=keytab)
    if _is_on(options, "useTicketCache"):
        return KerberosIdentity(principal, ticket_cache=options.get("ticketCache") or None)
    raise JaasError("the entry needs useKeyTab=true or useTicketCache=true")


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
