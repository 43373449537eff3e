"""The options of Krb5LoginModule in JAAS entries, and the name of the service to log in at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minikafka.core.security.jaas import KERBEROS_MODULE, JaasError, LoginEntry
from minikafka.kernel.kerberos import KerberosIdentity
from minikafka.kernel.lazy_dataclass import dataclass

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
