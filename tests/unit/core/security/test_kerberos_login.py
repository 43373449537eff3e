"""The options of Krb5LoginModule, and the name of the service."""

from __future__ import annotations

import pytest

from minikafka.core.security.jaas import JaasError, parse_jaas_property
from minikafka.core.security.kerberos_names import ServiceLogin, keys_of_service, service_login
from minikafka.kernel.kerberos import KerberosIdentity

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KEYTAB = 'useKeyTab=true keyTab="/k.keytab" principal="kafka/h@R"'


def login(options: str, name: str | None = "kafka", module: str = MODULE) -> ServiceLogin:
    return service_login(parse_jaas_property(f"{module} required {options};"), name)


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    ("options", "identity"),
    [
        (f"{KEYTAB} storeKey=true", KerberosIdentity("kafka/h@R", keytab="/k.keytab")),
        (KEYTAB.replace("true", "TRUE"), KerberosIdentity("kafka/h@R", keytab="/k.keytab")),
        ("useTicketCache=true", KerberosIdentity(None)),
        ('useTicketCache=true principal="" ticketCache=""', KerberosIdentity(None)),
        (
            'useTicketCache=true ticketCache="/cc" principal="alice"',
            KerberosIdentity("alice", ticket_cache="/cc"),
        ),
    ],
)
def test_an_entry_has_the_identity_and_its_keys(options: str, identity: KerberosIdentity) -> None:
    assert login(options) == ServiceLogin(identity, "kafka")


@pytest.mark.mission("SEC-160")
def test_the_service_is_named_by_the_entry_or_by_the_key() -> None:
    own = 'useTicketCache=true serviceName="bus"'
    assert login(own, None).service == login(own, "bus").service == "bus"
    with pytest.raises(JaasError, match=r"not the same as in sasl\.kerberos\.service\.name"):
        login(own, "kafka")
    with pytest.raises(JaasError, match=r"set sasl\.kerberos\.service\.name"):
        login("useTicketCache=true", None)


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("", "useKeyTab=true or useTicketCache=true"),
        ("useKeyTab=false", "useKeyTab=true or useTicketCache=true"),
        ('useKeyTab=true principal="a"', "needs keyTab"),
        ('useKeyTab=true keyTab="/k"', "needs principal"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(options: str, error: str) -> None:
    with pytest.raises(JaasError, match=error):
        login(options)


def test_another_module_is_refused() -> None:
    with pytest.raises(JaasError, match=r"GSSAPI needs com\.sun"):
        login(KEYTAB, module="org.example.Module")


def test_a_broker_needs_a_keytab() -> None:
    assert keys_of_service(login(KEYTAB)) == ("kafka/h@R", "/k.keytab")
    for identity in (KerberosIdentity("kafka/h@R"), KerberosIdentity(None, "/k.keytab")):
        with pytest.raises(JaasError, match="a broker needs useKeyTab=true"):
            keys_of_service(ServiceLogin(identity, "kafka"))
