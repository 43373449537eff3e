"""Kerberos at brokers of both kinds: they log in at each other, and clients at them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from minikafka.core.security.sasl.gssapi import GssapiClient
from minikafka.kernel.kerberos import KerberosIdentity
from minikafka.protocol.frames import decode_response
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl import SaslAuthenticateResponse
from minikafka.world.real.kerberos import RealKerberos
from scripts.lib.apache_kafka import NEWEST
from scripts.lib.cluster import free_ports
from tests.kafka.conftest import Mixed
from tests.kafka.test_sasl import CLOSED, converse, framed, handshake, request, token
from tests.support.cluster.cluster_state import until
from tests.support.cluster.kafka_tools import run_tool
from tests.support.cluster.mixed_cluster import OURS, PLAINTEXT, MixedCluster
from tests.support.security.kdc import REALM, Kdc, why_there_is_no_kdc

MISSING = why_there_is_no_kdc()
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.kerberos,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.xdist_group("kafka"),
    pytest.mark.mission("SEC-160"),
]
LISTENER = "SASL_PLAINTEXT"
SERVICE = "kafka/localhost"
# Only alice and brokers may do anything; no rule is for stray.
RULES = "RULE:[1:$1](alice)s/alice/admin/,RULE:[2:$1](kafka),RULE:[1:$1](bob)"
SESSION_MS = 3_000
CYRUS_PLUGIN = any(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so*"))


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    home = tmp_path_factory.mktemp("kdc")
    with (
        Kdc(home, ["alice", "bob", "stray", SERVICE]) as kdc,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, text in kdc.environment.items():
            patch.setenv(name, text)
        patch.setenv("JDK_JAVA_OPTIONS", kdc.java_option)
        yield kdc


@pytest.fixture(scope="module")
def cluster(mixed: Mixed, kdc: Kdc) -> Iterator[MixedCluster]:
    """Broker 1 is ours, broker 2 is official."""
    properties = {
        "security.inter.broker.protocol": LISTENER,
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        f"listener.name.{LISTENER.lower()}.gssapi.sasl.jaas.config": kdc.module(SERVICE),
        "connections.max.reauth.ms": SESSION_MS,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:kafka;User:ANONYMOUS",
        "offsets.topic.replication.factor": 2,
    }
    own: dict[int, dict[str, object]] = {}
    made = mixed(OURS, NEWEST, properties=properties, own=own, more_listeners=(LISTENER,))
    assert isinstance(made, MixedCluster)
    for broker_id in made.broker_ids:
        plain = made.address(broker_id)
        names = f"{PLAINTEXT}://{plain},{LISTENER}://{place(made, broker_id)}"
        own[broker_id] = {"advertised.listeners": names}
    (debug_port,) = free_ports(1)
    own[1]["debug.listener"] = f"HTTP://127.0.0.1:{debug_port}"
    with made as cluster:
        cluster.create_topic("t", [1, 2], [2, 1])
        yield cluster


def place(cluster: MixedCluster, broker_id: int) -> str:
    """The address with the name of the host that the principal of the brokers has."""
    return cluster.address(broker_id, LISTENER).replace("127.0.0.1", "localhost")


def settings(kdc: Kdc, user: str) -> Path:
    path = kdc.directory / f"{user}.properties"
    path.write_text(
        f"security.protocol={LISTENER}\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={kdc.module(user)}\n"
    )
    return path


def verb(cluster: MixedCluster, kdc: Kdc, user: str, *words: str, text: str = "") -> str:
    """Run a verb of ours at broker 2, whose metadata lead to both. Return all that it prints."""
    command = [sys.executable, "-m", "minikafka.cli.main", *words]
    command += ["--bootstrap-server", place(cluster, 2)]
    command += ["--command-config", str(settings(kdc, user))]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode == 0) == (user == "alice"), done
    return done.stdout + done.stderr


def test_brokers_and_our_verbs_log_in_at_both_kinds(cluster: MixedCluster, kdc: Kdc) -> None:
    lines = "".join(f"line {n}\n" for n in range(20))
    verb(cluster, kdc, "alice", "produce", "--topic", "t", "--acks", "all", text=lines)
    words = ("--topic", "t", "--from-beginning", "--max-messages", "20")
    found = verb(cluster, kdc, "alice", "consume", *words)
    assert set(lines.splitlines()) <= set(found.splitlines())
    for partition in (0, 1):
        assert sorted(cluster.state("t", partition)["isr"]) == [1, 2]
    refused = verb(cluster, kdc, "bob", "topics", "--create", "--topic", "of-bob")
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused or "TOPIC_AUTHORIZATION_FAILED" in refused


def test_javas_client_logs_in(cluster: MixedCluster, kdc: Kdc) -> None:
    words = ("--describe", "--topic", "t", "--command-config", str(settings(kdc, "alice")))
    found = run_tool(cluster, "topics", "--bootstrap-server", place(cluster, 1), *words)
    assert found.status == 0, found
    assert "PartitionCount: 2" in found.out


def test_kafka_python_logs_in(
    cluster: MixedCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("alice")))
    producer = KafkaProducer(
        bootstrap_servers=place(cluster, 1),
        security_protocol=LISTENER,
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
    )
    for partition in (0, 1):
        assert producer.send("t", b"kafka-python", partition=partition).get(30).offset >= 0
    producer.close()


@pytest.mark.skipif(
    shutil.which("kcat") is None or not CYRUS_PLUGIN,
    reason="kcat or its plug-in is missing: apt-get install kcat libsasl2-modules-gssapi-mit",
)
def test_librdkafka_logs_in(cluster: MixedCluster, kdc: Kdc) -> None:
    """Of Debian: the one in the wheel of confluent-kafka is built without GSSAPI."""
    options = {
        "security.protocol": LISTENER.lower(),
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.kinit.cmd": "true",
    }
    given = [word for key, text in options.items() for word in ("-X", f"{key}={text}")]
    done = subprocess.run(
        ["kcat", "-b", place(cluster, 1), *given, "-P", "-t", "t", "-p", "0"],
        input="kcat",
        env={**os.environ, "KRB5_CLIENT_KTNAME": str(kdc.keytab("alice"))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done


METADATA = request(MetadataRequest(topics=[]), 1)


def login(
    cluster: MixedCluster, kdc: Kdc, broker_id: int, user: str, choice: bytes
) -> list[object]:
    """Log in as a user with a choice of the layer, send a request, and return what comes back."""
    identity = KerberosIdentity(f"{user}@{REALM}", str(kdc.keytab(user)))
    begun = asyncio.run(RealKerberos().initiate(identity, "kafka", "localhost"))
    client = GssapiClient(begun)
    host, _, port = cluster.address(broker_id, LISTENER).rpartition(":")
    found: list[object] = []
    with (
        socket.create_connection((host, int(port)), timeout=20) as connection,
        connection.makefile("rb") as reader,
    ):

        def exchange(frame: bytes) -> bytes:
            connection.sendall(frame)
            head = reader.read(4)
            return reader.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""

        exchange(handshake("GSSAPI"))
        auth_bytes = client.initial_response()
        for step in range(3):
            body = exchange(token(auth_bytes))
            _, response = decode_response(SaslAuthenticateResponse, 2, memoryview(body))
            found.append((response.error_code, response.error_message))
            if response.error_code:
                return found
            if step < 2:
                following = client.respond(bytes(response.auth_bytes))
                assert following is not None
                auth_bytes = begun.context.wrap(choice) if step == 1 else following
        found.append("served" if exchange(METADATA) else CLOSED)
    return found


NO_LAYER = bytes((1, 0, 0, 0))
STANDARD = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "GSSAPI"
)


@pytest.mark.parametrize(
    ("choice", "succeeds"),
    [
        (NO_LAYER, True),
        (NO_LAYER + b"root", True),
        (b"\x01\x01\x00\x00", True),
        (b"\x02\x00\xff\xff", False),
    ],
)
def test_the_choice_of_a_layer_has_the_same_effect(
    cluster: MixedCluster, kdc: Kdc, choice: bytes, succeeds: bool
) -> None:
    ours, official = (login(cluster, kdc, broker_id, "alice", choice) for broker_id in (1, 2))
    assert ours == official
    assert ours[-1] == ("served" if succeeds else (58, STANDARD))


def test_wrong_tokens_have_the_same_responses(cluster: MixedCluster, kdc: Kdc) -> None:
    identity = KerberosIdentity(f"alice@{REALM}", str(kdc.keytab("alice")))
    first = asyncio.run(RealKerberos().initiate(identity, "kafka", "localhost")).token
    conversations = {
        "rubbish": [handshake("GSSAPI"), token(b"rubbish"), METADATA],
        "empty": [handshake("GSSAPI"), token(b""), METADATA],
        "raw rubbish": [handshake("GSSAPI", 0), framed(b"rubbish"), METADATA],
        "rubbish of a client of 0.9": [framed(b"\x60\x82\x02\x00"), METADATA],
        "changed": [handshake("GSSAPI"), token(first[:-9] + b"x" + first[-8:]), METADATA],
        "another mechanism": [handshake("PLAIN"), METADATA],
    }
    for name, frames in conversations.items():
        ours, official = (converse(cluster.address(n, LISTENER), frames) for n in (1, 2))
        assert (name, ours) == (name, official)


def test_a_principal_without_a_short_name_is_not_served(cluster: MixedCluster, kdc: Kdc) -> None:
    """Kafka finds that out when it reads the first request."""
    assert login(cluster, kdc, 1, "stray", NO_LAYER) == [(0, ""), (0, ""), (58, STANDARD)]
    assert login(cluster, kdc, 2, "stray", NO_LAYER)[-1] == CLOSED


def test_brokers_log_in_again_within_their_sessions(cluster: MixedCluster) -> None:
    address = str(cluster.properties(1)["debug.listener"]).lower()

    def repeated_logins() -> int:
        with urllib.request.urlopen(
            f"{address}/metrics.json?prefix=kafka.server:type=socket-"
        ) as response:
            metrics = json.load(response)["metrics"]
        mbean = f"kafka.server:type=socket-server-metrics,listener={LISTENER},networkProcessor=0"
        return int(metrics[f"{mbean}:successful-reauthentication-total"])

    until(lambda: repeated_logins() >= 2, "the official broker has logged in again", 30)
    for partition in (0, 1):
        assert sorted(cluster.state("t", partition)["isr"]) == [1, 2]
        assert cluster.state("t", partition)["leader_epoch"] == 0
    log = (cluster.home("broker-1") / "log").read_text()
    assert "login_refused" not in log
