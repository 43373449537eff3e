"""Short names of Kerberos principals: ``sasl.kerberos.principal.to.local.rules``."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.kerberos_names import (
    KerberosName,
    KerberosNameError,
    KerberosShortNamer,
)

REALM = "EXAMPLE.COM"


def short(name: str, *rules: str) -> str:
    return KerberosShortNamer(rules, REALM).short_name(name)


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("alice@R", ("alice", None, "R")),
        ("kafka/host@R", ("kafka", "host", "R")),
        ("kafka/@R", ("kafka", "", "R")),
        ("alice", ("alice", None, None)),
        ("a/b", ("a/b", None, None)),
    ],
)
def test_a_name_has_two_components_at_most(name: str, parts: tuple[str, ...]) -> None:
    found = KerberosName.parse(name)
    assert (found.service, found.host, found.realm) == parts


@pytest.mark.parametrize("name", ["a/b/c@R", "a@b@R", "a@b/c", "@@"])
def test_a_malformed_name_has_no_short_one(name: str) -> None:
    with pytest.raises(KerberosNameError, match="Malformed Kerberos name"):
        short(name, "DEFAULT")


CASES = [
    # The rules of Kafka's documentation and of KIP-32 and 371.
    ("DEFAULT", "alice@EXAMPLE.COM", "alice"),
    ("DEFAULT", "kafka/host@EXAMPLE.COM", "kafka"),
    ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "alice@OTHER.COM", "alice"),
    ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//U", "alice@OTHER.COM", "ALICE"),
    ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*///U", "alice@OTHER.COM", "ALICE"),
    ("RULE:[1:$1]/L", "Alice@OTHER.COM", "alice"),
    ("RULE:[1:$1]L", "Alice@OTHER.COM", "alice"),
    ("RULE:[2:$1]", "kafka/host@OTHER.COM", "kafka"),
    ("RULE:[2:$2.$1](host.*)", "kafka/host@OTHER.COM", "host.kafka"),
    ("RULE:[2:$1]s/k(a)(f)/$2$1$1\\$/", "kafka/host@OTHER.COM", "faa$ka"),
    ("RULE:[2:$1]s/a/x/", "kafka/host@OTHER.COM", "kxfka"),
    ("RULE:[2:$1]s/a/x/g", "kafka/host@OTHER.COM", "kxfkx"),
    ("RULE:[2:$1]s/(a)/$12/g", "kafka/host@OTHER.COM", "ka2fka2"),
    ("RULE:[2:$1]s/(z)?k/$1q/", "kafka/host@OTHER.COM", "qafka"),
    ("RULE:[2:$1]s/(a)(f)/-$1-$2-/", "kafka/host@OTHER.COM", "k-a-f-ka"),
    (f"RULE:[1:$1]s/{'(.)' * 12}/$12/", "abcdefghijkl@OTHER.COM", "l"),
    ("DEFAULT", "alice", "alice"),
    ("RULE:[1:$1]", "kafka/host@OTHER.COM", None),
    ("RULE:[2:$1]", "alice@OTHER.COM", None),
    ("RULE:[1:$1](ali)", "alice@OTHER.COM", None),
    ("RULE:[1:root]", "alice@OTHER.COM", "root"),
    ("DEFAULT", "alice@OTHER.COM", None),
]


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(("rule", "name", "expected"), CASES)
def test_a_rule_makes_the_short_name_of_kafka(rule: str, name: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(KerberosNameError, match="No rules apply to"):
            short(name, rule)
        return
    assert short(name, rule) == expected


@pytest.mark.mission("SEC-160")
def test_the_first_rule_that_matches_decides() -> None:
    rules = ("RULE:[2:$1](kafka)s/.*/broker/", "RULE:[2:service-$1]", "DEFAULT")
    assert short("kafka/host@EXAMPLE.COM", *rules) == "broker"
    assert short("spark/host@EXAMPLE.COM", *rules) == "service-spark"
    assert short("alice@EXAMPLE.COM", *rules) == "alice"
    with pytest.raises(KerberosNameError, match=r"No rules apply to alice@OTHER\.COM"):
        short("alice@OTHER.COM", *rules)
    with pytest.raises(KerberosNameError, match="No rules apply"):
        short("alice@EXAMPLE.COM")


@pytest.mark.mission("SEC-160")
def test_a_short_name_with_a_realm_is_an_error() -> None:
    """It would look like a principal of another realm."""
    for rule in ("RULE:[1:$1@$0]", "RULE:[1:a/$1]", "RULE:[1:$1]s/$/@X/"):
        with pytest.raises(KerberosNameError, match="Non-simple name"):
            short("alice@OTHER.COM", rule, "RULE:[1:other]")


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "DEFAULT2",
        "RULE:[1]",
        "RULE:[:$1]",
        "RULE:[1:$1]X",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/(/b/",
        "RULE:[1:$1]([)",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/$x/",
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_at_once(rule: str) -> None:
    with pytest.raises(KerberosNameError, match="Invalid rule"):
        KerberosShortNamer([rule], REALM)


PART = st.text("abAB01.-_$\\(", min_size=1, max_size=6)
COMPONENTS = st.lists(PART, min_size=1, max_size=2)


@pytest.mark.mission("SEC-160")
@given(COMPONENTS, st.sampled_from([REALM, "OTHER.COM"]))
def test_default_is_the_first_component_in_the_default_realm(parts: list[str], realm: str) -> None:
    name = "/".join(parts) + "@" + realm
    if realm == REALM:
        assert short(name, "DEFAULT") == parts[0]
    else:
        with pytest.raises(KerberosNameError):
            short(name, "DEFAULT")


@pytest.mark.mission("SEC-160")
@given(
    COMPONENTS,
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from(["$0", "$1", "$2", "x", "-"]), min_size=1, max_size=4),
    st.sampled_from(["", "a", "[a-b]", "A+"]),
    st.sampled_from(["", "y", "\\$"]),
    st.sampled_from(["", "g"]),
    st.sampled_from(["", "/L", "/U"]),
)
def test_a_rule_is_the_sequence_of_its_parts(
    parts: list[str],
    count: int,
    pieces: list[str],
    old: str,
    new: str,
    everywhere: str,
    case: str,
) -> None:
    """Beside a twin that does one step after the other, without a parser."""
    parameters = ["OTHER.COM", *parts]
    pieces = [piece for piece in pieces if piece != f"${count + 1}"]
    rule = f"RULE:[{count}:{''.join(pieces)}]" + (f"s/{old}/{new}/{everywhere}" if old else "")
    name = "/".join(parts) + "@OTHER.COM"
    if len(parts) != count:
        with pytest.raises(KerberosNameError, match="No rules apply"):
            short(name, rule + case)
        return
    text = "".join(parameters[int(p[1:])] if p.startswith("$") else p for p in pieces)
    if old:
        split = re.split(old, text) if everywhere else re.split(old, text, maxsplit=1)
        text = new.replace("\\", "").join(split)
    expected = {"": text, "/L": text.lower(), "/U": text.upper()}[case]
    assert short(name, rule + case) == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_random_rules_and_names_raise_nothing_else(rule: str, name: str) -> None:
    try:
        found = short(name, f"RULE:[1:$1]{rule}", "DEFAULT")
    except KerberosNameError:
        return
    assert "@" not in found
