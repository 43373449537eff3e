"""Listeners: what is bound, what is advertised, which one brokers use."""

import pytest

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import ConfigError
from minikafka.kernel.listeners import (
    Listeners,
    connection_overrides,
    debug_listener,
    listener_change_problem,
    listeners,
)
from minikafka.kernel.settings import BROKER_CONFIG


def read(**given: str) -> Listeners:
    values = {key.replace("_", "."): value for key, value in given.items()}
    return listeners(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"} | values), "me")


def test_the_hostname_is_advertised_for_every_interface() -> None:
    found = read(listeners="PLAINTEXT://:9092")
    assert found.bound == (Endpoint("", 9092),)
    assert found.advertised == (Endpoint("me", 9092),)
    assert found.inter_broker == "PLAINTEXT"


@pytest.mark.mission("SEC-197")
def test_without_the_key_only_this_machine_reaches_the_broker() -> None:
    found = read()
    assert found.bound == found.advertised == (Endpoint("localhost", 9092),)


def test_internal_and_external_listeners() -> None:
    found = read(
        listeners="INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:19092",
        advertised_listeners="INTERNAL://broker-1:9092,EXTERNAL://localhost:19092",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
    )
    assert [e.listener for e in found.bound] == ["INTERNAL", "EXTERNAL"]
    assert found.advertised[1] == Endpoint("localhost", 19092, "EXTERNAL")
    assert found.inter_broker == "INTERNAL"


def test_ipv6() -> None:
    assert read(listeners="PLAINTEXT://[::1]:9092").bound == (Endpoint("::1", 9092),)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listeners": "9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:99999"}, "NAME://host:port"),
        ({"listeners": "OTHER://h:1"}, "no protocol for OTHER"),
        (
            {"listeners": "A://h:1", "listener_security_protocol_map": "A:TLS"},
            "TLS is no security protocol",
        ),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "a different name"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "others can connect"),
        ({"advertised_listeners": "SASL_SSL://h:1"}, "SASL_SSL, not in listeners"),
        ({"listeners": "SSL://h:1"}, "security.inter.broker.protocol=PLAINTEXT is not"),
        ({"inter_broker_listener_name": "X"}, "not an advertised listener"),
        (
            {
                "inter_broker_listener_name": "PLAINTEXT",
                "security_inter_broker_protocol": "PLAINTEXT",
            },
            "only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
    ],
)
def test_invalid_listeners_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(**given)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("HTTP://127.0.0.1:9192", ("127.0.0.1", 9192)),
        ("http://localhost:1", ("localhost", 1)),
        ("HTTP://127.0.0.1:0", ("127.0.0.1", 0)),
        ("HTTP://[::1]:65535", ("::1", 65535)),
        ("HTTP://127.8.9.10:80", ("127.8.9.10", 80)),
    ],
)
def test_a_debug_listener(value: str, expected: tuple[str, int]) -> None:
    config = BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "debug.listener": value})
    endpoint = debug_listener(config.optional("debug.listener"))
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == expected


def test_no_debug_listener() -> None:
    assert (
        debug_listener(BROKER_CONFIG.parse({"zookeeper.connect": "z:1"}).optional("debug.listener"))
        is None
    )
    assert debug_listener("") is None
    assert BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "debug.listener": ""})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("9192", "HTTP://host:port"),
        ("PLAINTEXT://127.0.0.1:9192", "HTTP://host:port"),
        ("HTTP://127.0.0.1:65536", "HTTP://host:port"),
        ("HTTP://:9192", "loopback"),
        ("HTTP://0.0.0.0:9192", "loopback"),
        ("HTTP://10.0.0.1:9192", "loopback"),
        ("HTTP://localhost.example.com:9192", "loopback"),
    ],
)
def test_a_debug_listener_that_others_could_reach_or_that_is_none(value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "debug.listener": value})
    with pytest.raises(ConfigError, match=words):
        debug_listener(value)


def parsed(per_ip: str, overrides: str) -> None:
    given = {"max.connections.per.ip": per_ip, "max.connections.per.ip.overrides": overrides}
    BROKER_CONFIG.parse({"zookeeper.connect": "z:1"} | given)


def test_overrides_of_connections_by_address() -> None:
    text = " 10.0.0.1 : 5,[::1]:0,2001:DB8::1:7,"
    assert connection_overrides(text) == {"10.0.0.1": 5, "::1": 0, "2001:db8::1": 7}
    assert connection_overrides("") == {}
    assert connection_overrides("a-b.example.com:5") == {"a-b.example.com": 5}
    parsed("0", text)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("10.0.0.1", "10.0.0.1 is not host:count"),
        ("10.0.0.1:-1", "10.0.0.1:-1 is not host:count"),
        ("10.0.0.1:\N{SUPERSCRIPT TWO}", "is not host:count"),
        ("example..com:5", "example..com is no IP address and no host name"),
        (":5", ":5 is no IP address"),
        ("10.0.0.1:5,10.0.0:5", "10.0.0 is no IP address"),
    ],
)
def test_overrides_that_cannot_be_applied(overrides: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parsed("1", overrides)


def test_no_connections_at_all_need_an_override() -> None:
    with pytest.raises(ConfigError, match="can be set to zero only if"):
        parsed("0", "")


TWO = {
    "listeners": "PLAINTEXT://:1,CONTROL://:2",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
}


@pytest.mark.mission("SEC-184")
def test_the_control_plane_has_a_listener_of_its_own() -> None:
    assert read(**TWO).control_plane is None
    assert read(**TWO, control_plane_listener_name="control").control_plane == "CONTROL"
    with pytest.raises(ConfigError, match="is not an advertised listener"):
        read(**TWO, control_plane_listener_name="OTHER")
    with pytest.raises(ConfigError, match="is not an advertised listener"):
        read(**TWO, control_plane_listener_name="CONTROL", advertised_listeners="PLAINTEXT://h:1")
    with pytest.raises(ConfigError, match="different value from the inter broker listener"):
        read(**TWO, control_plane_listener_name="PLAINTEXT")


BEFORE = {
    "zookeeper.connect": "z:1",
    "listeners": "PLAINTEXT://:1,OTHER://h:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,NEW:SSL",
    "listener.name.other.ssl.client.auth": "none",
}


def problem(**changes: str | None) -> str:
    after = {**BEFORE, **{key.replace("_", "."): value for key, value in changes.items()}}
    given = {key: text for key, text in after.items() if text is not None}
    try:
        return (
            listener_change_problem(BROKER_CONFIG.parse(BEFORE), BROKER_CONFIG.parse(given)) or ""
        )
    except ConfigError as error:
        return str(error)


@pytest.mark.mission("SEC-183")
def test_listeners_that_may_be_added_removed_and_changed_at_run_time() -> None:
    assert problem() == ""
    assert problem(listeners="PLAINTEXT://:1,OTHER://h:2,NEW://:3") == ""
    assert problem(listeners="PLAINTEXT://:1") == ""
    assert problem(advertised_listeners="PLAINTEXT://here:7") == ""
    limits = {"listener.name.other.max.connections": "3"}
    assert problem(**limits, **{"listener.name.other.ssl.keystore.location": "/k"}) == ""
    assert (
        problem(listeners="PLAINTEXT://:1", **{"listener.name.other.ssl.client.auth": None}) == ""
    )


@pytest.mark.mission("SEC-183")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"listeners": "PLAINTEXT://:1,OTHER://h:3"}, "address of existing listener OTHER"),
        ({"listeners": "PLAINTEXT://g:1,OTHER://h:2"}, "address of existing listener PLAINTEXT"),
        ({"listeners": "OTHER://h:2"}, "security.inter.broker.protocol=PLAINTEXT is not"),
        (
            {"advertised_listeners": "OTHER://h:2"},
            "security.inter.broker.protocol=PLAINTEXT is not",
        ),
        ({"advertised_listeners": "PLAINTEXT://h:1,NEW://h:2"}, "NEW, not in listeners"),
        ({"listeners": "PLAINTEXT://:1,X://h:2"}, "no protocol for X"),
        (
            {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OTHER:SSL"},
            "Security protocol cannot be updated for existing listener OTHER",
        ),
        (
            {"listener.name.other.ssl.client.auth": "required"},
            "Configs cannot be updated dynamically for existing listener OTHER",
        ),
        ({"max_connections": "0"}, "Invalid max.connections 0"),
        ({"max_connection_creation_rate": "0"}, "Invalid max.connection.creation.rate 0"),
    ],
)
def test_changes_of_listeners_that_are_refused(changes: dict[str, str], words: str) -> None:
    assert words in problem(**changes)
