"""Names of certificates as Java writes them, and mapping rules."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from minikafka.core.security.certificate_names import (
    RuleError,
    distinguished_name,
    map_distinguished_name,
    parse_ssl_rules,
)
from tests.support.security.certificates import Authority


@pytest.mark.mission("SEC-123")
def test_a_distinguished_name_is_written_as_java_does() -> None:
    parts = [
        (NameOID.COUNTRY_NAME, "US"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Y"),
        (NameOID.LOCALITY_NAME, "X"),
        (NameOID.ORGANIZATION_NAME, "Ex"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Svc"),
        (NameOID.COMMON_NAME, "Al , B"),
    ]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    der = Authority().issue(subject).der
    assert distinguished_name(der) == "CN=Al \\, B,OU=Svc,O=Ex,L=X,ST=Y,C=US"


@pytest.mark.mission("SEC-123")
def test_an_attribute_without_a_name_in_java_is_written_by_number() -> None:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "al"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "al@ex.org"),
        ]
    )
    assert distinguished_name(Authority().issue(subject).der) == (
        "1.2.840.113549.1.9.1=#1609616c4065782e6f7267,CN=al"
    )
    with pytest.raises(ValueError, match="parsing"):
        distinguished_name(b"no certificate")


NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.mission("SEC-123")
@pytest.mark.parametrize(
    ("rules", "mapped"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("DEFAULT,,", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^cn=(.*?),.*$/$1/, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "DUKE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L , DEFAULT", "duke@serviceusers"),
        ("RULE:CN=Duke/x/,DEFAULT", NAME),  # matches a part only
        ("RULE:CN=([^,]*),.*/$1\\/$9\\$1/", "Duke/$9$1"),
        ("RULE:CN=([^,]*),.*/$12/", "Duke2"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_maps_it(rules: str, mapped: str) -> None:
    assert map_distinguished_name(parse_ssl_rules(rules), NAME) == mapped


@pytest.mark.mission("SEC-123")
def test_a_name_without_a_rule_is_an_error() -> None:
    with pytest.raises(RuleError, match="No rules apply to CN=x"):
        map_distinguished_name(parse_ssl_rules("RULE:CN=y/y/"), "CN=x")


@pytest.mark.mission("SEC-123")
@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAULT/L", "RULE:CN=x/x", "RULE:CN=x/x/LU", "RULE:/x/a", "RULE:(/x/"],
)
def test_rules_that_cannot_be_parsed_are_refused(rules: str) -> None:
    with pytest.raises(RuleError, match="Invalid"):
        parse_ssl_rules(rules)
