"""JAAS texts: what Java's tokenizer makes of them, and which of them stop a broker."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.jaas import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    LoginEntry,
    parse_jaas_file,
    parse_jaas_property,
    plain_users,
)


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas_property(f"{PLAIN_MODULE} required {text}").options)


def test_the_usual_property_of_a_broker() -> None:
    entry = parse_jaas_property(
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        '  username="admin" password="admin-secret"\n'
        '  user_admin="admin-secret" user_a.b="x";\n'
    )
    assert entry == LoginEntry(
        PLAIN_MODULE,
        {
            "username": "admin",
            "password": "admin-secret",
            "user_admin": "admin-secret",
            "user_a.b": "x",
        },
    )
    assert plain_users(entry) == {"admin": "admin-secret", "a.b": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (";", {}),
        ("a=b;", {"a": "b"}),
        ("a = b ;", {"a": "b"}),
        ("a=b c=d;", {"a": "b", "c": "d"}),
        ("a=b a=c;", {"a": "c"}),
        ("a=x1.2-3_4$5;", {"a": "x1.2-3_4$5"}),
        ("a=_b;", {"a": "_b"}),
        ("a=$b;", {"a": "$b"}),
        ("a=é\u4e2d;", {"a": "é\u4e2d"}),
        ('"a key"="b";', {"a key": "b"}),
        ("a='b \"c\"';", {"a": 'b "c"'}),
        ('a="";', {"a": ""}),
        ('a="1234";', {"a": "1234"}),
        (r'a="\"\\\'\n\t\r\a\b\f\v\q";', {"a": "\"\\'\n\t\r\a\b\f\vq"}),
        (r'a="\101\1018\1\08\4001";', {"a": "AA8\1\0008 01"}),
        ('a="=;{}//x/*y*/";', {"a": "=;{}//x/*y*/"}),
        ("// c;omment\na=b; // more", {"a": "b"}),
        ("/ this too\na=b;", {"a": "b"}),
        ("/* com\nment */a=b;/* open", {"a": "b"}),
        ("a=b/**/c=d;", {"a": "b", "c": "d"}),
        ("a\x00=\tb\r\n;", {"a": "b"}),
    ],
)
def test_options(text: str, expected: dict[str, str]) -> None:
    assert options(text) == expected


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional", '"required"'])
def test_any_flag_will_do(flag: str) -> None:
    assert parse_jaas_property(f"m {flag};") == LoginEntry("m", {})


VALUE = (
    "Value not specified for key 'password' in JAAS config: a value is a word that begins with a "
    "letter, or is quoted"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        ("  // nothing", "Login module not specified in JAAS config"),
        (";", "a login module expected in JAAS config, line 1"),
        ("m", "Login module control flag not specified in JAAS config"),
        ("m ;", "Login module control flag is not available in the JAAS config"),
        ("m a=b;", "Invalid login module control flag 'a' in JAAS config"),
        ("m required", "JAAS config entry not terminated by semi-colon"),
        ('m required password="s3cret"', "JAAS config entry not terminated by semi-colon"),
        ("m required password=s3cret/x;", "JAAS config entry not terminated by semi-colon"),
        ("m required password;", VALUE),
        ("m required password", VALUE),
        ("m required password=;", VALUE),
        ("m required password=", VALUE),
        ("m required password=1234;", VALUE),
        ("m required password=-x;", VALUE),
        ("m required password=.5;", VALUE),
        ("m required password=#s3cret;", VALUE),
        ("m required =s3cret;", "a key expected in JAAS config, line 1"),
        ("m required 12=s3cret;", "a key expected in JAAS config, line 1"),
        ('m required\npassword="s3cret\n";', "Quoted string is not closed in JAAS config, line 2"),
        ('m required password="s3cret;', "Quoted string is not closed in JAAS config, line 1"),
        ('m required password="\\', "Quoted string is not closed in JAAS config, line 1"),
        (
            "m required; n required;",
            "JAAS config property contains 2 login modules, should be 1 module",
        ),
        (
            "com.sun.security.auth.module.JndiLoginModule required;",
            "com.sun.security.auth.module.JndiLoginModule is not allowed",
        ),
        (
            '" com.sun.security.auth.module.JndiLoginModule " required;',
            "com.sun.security.auth.module.JndiLoginModule is not allowed",
        ),
    ],
)
def test_a_property_that_stops_a_broker(text: str, message: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas_property(text)
    assert str(refused.value) == message


def test_secrets_are_not_shown() -> None:
    entry = parse_jaas_property('m required password="s3cret";')
    assert "s3cret" not in repr(entry)


FILE = f"""
/* A broker with two listeners. */
KafkaServer {{
    {PLAIN_MODULE} required
    user_alice="a";
    {SCRAM_MODULE} required username="admin" password="p";
}};
internal.KafkaServer {{ {SCRAM_MODULE} required; }};
Client {{}};
"""


def test_the_sections_of_a_file() -> None:
    sections = parse_jaas_file(FILE)
    assert list(sections) == ["KafkaServer", "internal.KafkaServer", "Client"]
    assert sections["Client"] == []
    plain, scram = sections["KafkaServer"]
    assert plain.module == PLAIN_MODULE
    assert scram == LoginEntry(SCRAM_MODULE, {"username": "admin", "password": "p"})
    assert sections["internal.KafkaServer"] == [LoginEntry(SCRAM_MODULE, {})]


SYSTEM_PROPERTY = (
    "The value of key 'keyTab' in the JAAS file refers to a system property of Java, which does "
    "not exist here: write the value itself"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "a section name expected in JAAS file, line 1"),
        ("A", "'{' expected after section name 'A' in JAAS file"),
        ("A\nm required;", "'{' expected after section name 'A' in JAAS file, line 2"),
        ("A {", "a login module expected in JAAS file"),
        ("A { m required; }", "';' expected after section 'A' in JAAS file"),
        ("A { m required };", "a key expected in JAAS file, line 1"),
        ("A { m required; };\nA {};", "Section 'A' occurs twice in the JAAS file"),
        (
            'A { m required keyTab="${user.home}/k"; };',
            SYSTEM_PROPERTY,
        ),
    ],
)
def test_a_file_that_stops_a_broker(text: str, message: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas_file(text)
    assert str(refused.value) == message


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_quoted_options_round_trip(pairs: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'

    text = " ".join(f"{quoted(key)}={quoted(value)}" for key, value in pairs.items())
    assert options(text + ";") == pairs


@given(st.text(st.sampled_from("ab1.-_$\"'\\/*=;{} \n"), max_size=30))
def test_no_text_raises_another_error(text: str) -> None:
    for parse in (parse_jaas_property, parse_jaas_file):
        with contextlib.suppress(JaasError):
            parse(text)
