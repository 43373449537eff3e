"""What security costs: TLS and logins, an authorizer with many ACLs, quotas, failing logins.

Beside Apache Kafka where its jars are; see ``apache_kafka.jars``.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.core.security.acl_cache import AclCache, AclRules
from minikafka.core.security.acls import (
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from minikafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from scripts.lib.bench import apache_kafka, requests, servers
from scripts.lib.bench.broker_processes import BrokerProcesses, Command, minikafka_command
from scripts.lib.bench.certificates import write_certificates
from scripts.lib.bench.load import Result, drive_in_turn
from scripts.lib.bench.produce import IN_FLIGHT, fill_and_fetch
from scripts.lib.bench.report import Report

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
LISTENERS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
USER, PASSWORD = "alice", "alice-secret"
TOPIC = "bench"
ROUNDS = 3
# batch bytes, requests a round
PRODUCED = ((1 << 10, 8_000), (16 << 10, 4_000), (256 << 10, 300))
FETCHES = 500
WARM_UP = 3_000
ACLS, ACLS_OF_A_TOPIC = 10_000, 4
DECISIONS = 20_000
FAILING_LOGINS, FAILING_S = 1_000, 10
VICTIM_REQUESTS = 8_000
QUOTAS = "producer_byte_rate=100000000000,consumer_byte_rate=100000000000,request_percentage=100000"
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",  # of the listener PLAINTEXT, for the preparations
}


class Kind(NamedTuple):
    """A kind of broker."""

    name: str
    command: Command


@dataclass(frozen=True)
class Door:
    """How a client gets in by one listener."""

    port: int
    opening: Sequence[bytes] = ()
    tls: ssl.SSLContext | None = None

    def drive(self, frames: Sequence[bytes], count: int, in_flight: int) -> Result:
        run = drive_in_turn(self.port, frames, count, in_flight, self.opening, self.tls)
        result, answer = uvloop.run(run)
        if not answer:
            raise RuntimeError("no answer")
        return result


def login_frames(password: str = PASSWORD) -> list[bytes]:
    """SASL/PLAIN."""
    token = f"\0{USER}\0{password}".encode()
    return [
        encode_request(RequestHeader(17, 1, 1, "bench"), SaslHandshakeRequest("PLAIN")),
        encode_request(RequestHeader(36, 2, 2, "bench"), SaslAuthenticateRequest(token)),
    ]


def door(cluster: BrokerProcesses, listener: str, authority: Path) -> Door:
    return Door(
        cluster.port(1, listener),
        login_frames() if listener.startswith("SASL") else (),
        ssl.create_default_context(cafile=str(authority)) if listener.endswith("SSL") else None,
    )


def security_settings(home: Path) -> dict[str, object]:
    """Write certificates, and return the settings of all listeners."""
    home.mkdir(parents=True, exist_ok=True)
    keys, authority = write_certificates(home)
    entry = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}";'
    )
    return {
        "message.max.bytes": 4 << 20,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keys,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": entry,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": entry,
    }


def kinds() -> list[Kind]:
    jars = apache_kafka.jars(os.environ)
    ours = [Kind("minikafka", minikafka_command)]
    return [*ours, Kind("Kafka", partial(apache_kafka.broker_command, jars))] if jars else ours


@contextmanager
def cluster_of(
    kind: Kind, home: Path, more: Mapping[str, object] | None = None
) -> Iterator[BrokerProcesses]:
    """A broker with all listeners, and the topic."""
    settings = {**security_settings(home / "certificates"), **(more or {})}
    with BrokerProcesses(kind.command, home / "brokers", 1, settings, LISTENERS[1:]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        time.sleep(1)
        yield cluster


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        servers.take_memory(Path(home))
        compare_listeners(report, Path(home))
        compare_authorizers(report, Path(home))
        time_decisions(report)
        compare_quotas(report, Path(home))
        bear_failing_logins(report, Path(home))


def row(
    report: Report, name: str, unit: str, values: Sequence[float], notes: Sequence[str]
) -> None:
    """``values`` and ``notes`` are those of minikafka, and of Kafka if it is there."""
    theirs = values[1] if len(values) > 1 else None
    report.row(name, unit, values[0], theirs, note=" | ".join(notes))


# ---- TLS and logins


def compare_listeners(report: Report, home: Path) -> None:
    """Rounds over each listener in turn, of one broker; then the other kind."""
    report.section("one broker, five in flight, by listener (share of PLAINTEXT)", probe="Kafka")
    measured = []
    for kind in kinds():
        with cluster_of(kind, home / "listeners" / kind.name) as cluster:
            authority = home / "listeners" / kind.name / "certificates" / "ca.pem"
            doors = {name: door(cluster, name, authority) for name in LISTENERS}
            measured.append(rates_by_listener(doors))
    for name, unit, listener in measured[0]:
        values = [rates[name, unit, listener] for rates in measured]
        plain = [rates[name, unit, PLAINTEXT] for rates in measured]
        shares = [f"{value / base:.2f}" for value, base in zip(values, plain, strict=True)]
        row(report, f"{name}, {listener}", unit, values, shares)


def rates_by_listener(doors: Mapping[str, Door]) -> dict[tuple[str, str, str], float]:
    found = {}
    for size, count in PRODUCED:
        frame = requests.produce_frame(TOPIC, size, 1)
        for name, rate in in_turns(doors, [frame], count).items():
            found[f"produce {size >> 10} KB", "1/s", name] = rate
    fetches, volume = fill_and_fetch(doors[PLAINTEXT].port, TOPIC, 16 << 10)
    for name, rate in in_turns(doors, fetches, FETCHES).items():
        found["fetch 1 MB", "MB/s", name] = rate * volume / 1e6
    return found


def in_turns(doors: Mapping[str, Door], frames: Sequence[bytes], count: int) -> dict[str, float]:
    """Requests a second: the median of some rounds, in which each door has its turn."""
    for each in doors.values():
        each.drive(frames, min(count, WARM_UP), IN_FLIGHT)
    rates: dict[str, list[float]] = {name: [] for name in doors}
    for _ in range(ROUNDS):
        for name, each in doors.items():
            rates[name].append(each.drive(frames, count, IN_FLIGHT).per_second)
    return {name: median(values) for name, values in rates.items()}


# ---- an authorizer


def compare_authorizers(report: Report, home: Path) -> None:
    """Two brokers of a kind at the same time, one with an authorizer, in turns."""
    report.section(f"produce 1 KB, authorizer with {ACLS:,} ACLs (share of none)", probe="Kafka")
    frame = requests.produce_frame(TOPIC, 1 << 10, 1)
    values, notes = [], []
    for kind in kinds():
        with ExitStack() as stack:
            doors = {}
            for name, settings in (("none", {}), ("acls", AUTHORIZER)):
                folder = home / "authorizers" / kind.name / name
                cluster = stack.enter_context(cluster_of(kind, folder, settings))
                if settings:
                    create_acls(cluster.port(1, PLAINTEXT))
                authority = folder / "certificates" / "ca.pem"
                doors[name] = door(cluster, SASL_PLAINTEXT, authority)
            rates = in_turns(doors, [frame], PRODUCED[0][1])
        values.append(rates["acls"])
        notes.append(f"{rates['acls'] / rates['none']:.2f}")
    row(report, "produce 1 KB, SASL_PLAINTEXT", "1/s", values, notes)


def create_acls(port: int) -> None:
    """Some entries for each topic, and for the one that the bench writes to."""
    for number in range(ACLS // ACLS_OF_A_TOPIC):
        name = TOPIC if number == 0 else f"topic-{number}"
        literal_or_prefixed = 3 if number % 5 else 4
        rows = [
            AclCreation(2, name, literal_or_prefixed, f"User:{user}", "*", operation, 3)
            for user, operation in (("bob", 3), ("bob", 4), (USER, 3), (USER, 4))
        ]
        request = CreateAclsRequest(creations=rows)
        frame = encode_request(RequestHeader(30, 2, number, "bench"), request)
        _, answer = uvloop.run(drive_in_turn(port, [frame], 1, 1))
        _, response = decode_response(CreateAclsResponse, 2, memoryview(answer))
        if any(result.error_code for result in response.results):
            raise RuntimeError(f"CreateAcls: {response}")


def time_decisions(report: Report) -> None:
    report.section("one decision of our authorizer (µs)")
    for count in (10, ACLS):
        cache = AclCache(AclRules(frozenset(), False))
        for number in range(count // ACLS_OF_A_TOPIC):
            pattern = ResourcePattern(
                AclResourceType.TOPIC,
                f"topic-{number}",
                PatternType.LITERAL if number % 5 else PatternType.PREFIXED,
            )
            entries = frozenset(
                AclEntry(f"User:{user}", "*", operation, PermissionType.ALLOW)
                for user in ("bob", USER)
                for operation in (AclOperation.READ, AclOperation.WRITE)
            )
            cache.put(pattern, VersionedAcls(entries, 0))
        for label, names in (
            ("again", [TOPIC] * DECISIONS),
            ("of a new topic", [f"topic-{number}" for number in range(DECISIONS)]),
        ):
            started = time.perf_counter()
            for name in names:
                cache.decide(
                    f"User:{USER}", "127.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC, name
                )
            seconds = time.perf_counter() - started
            report.row(f"{count:,} ACLs, {label}", "µs", seconds / DECISIONS * 1e6)


# ---- quotas


def compare_quotas(report: Report, home: Path) -> None:
    """Two brokers of a kind at the same time, one with high quotas of all users, in turns."""
    report.section("produce 1 KB with quotas that are not reached (share of none)", probe="Kafka")
    frame = requests.produce_frame(TOPIC, 1 << 10, 1)
    values, notes = [], []
    for kind in kinds():
        with ExitStack() as stack:
            doors = {}
            for name in ("none", "quotas"):
                folder = home / "quotas" / kind.name / name
                cluster = stack.enter_context(cluster_of(kind, folder))
                if name == "quotas":
                    set_quotas(cluster.bootstrap)
                doors[name] = door(cluster, PLAINTEXT, folder / "certificates" / "ca.pem")
            rates = in_turns(doors, [frame], PRODUCED[0][1])
        values.append(rates["quotas"])
        notes.append(f"{rates['quotas'] / rates['none']:.2f}")
    row(report, "produce 1 KB, PLAINTEXT", "1/s", values, notes)


def set_quotas(bootstrap: str) -> None:
    command = [sys.executable, "-m", "minikafka.cli.main", "configs"]
    command += ["--bootstrap-server", bootstrap, "--alter", "--entity-type", "users"]
    command += ["--entity-default", "--add-config", QUOTAS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    time.sleep(1)


# ---- failing logins


def bear_failing_logins(report: Report, home: Path) -> None:
    """A client that has logged in produces, alone and beside the failing logins, in turns."""
    title = f"a logged-in client beside {FAILING_LOGINS} failing logins in {FAILING_S} s"
    report.section(f"{title} (ms)", probe="Kafka")
    frame = requests.produce_frame(TOPIC, 1 << 10, 1)
    alone: list[Result] = []
    beside: list[Result] = []
    notes = []
    for kind in kinds():
        with cluster_of(kind, home / "logins" / kind.name) as cluster:
            authority = home / "logins" / kind.name / "certificates" / "ca.pem"
            victim = door(cluster, SASL_PLAINTEXT, authority)
            broker = psutil.Process(cluster.broker_pid(1))
            victim.drive([frame], WARM_UP, 1)
            alone.append(victim.drive([frame], VICTIM_REQUESTS, 1))
            before = broker.memory_info().rss
            sockets: list[int] = []
            with failing_logins(cluster.port(1, SASL_PLAINTEXT), broker, sockets) as attackers:
                latencies: list[float] = []
                started = time.perf_counter()
                while attackers.is_alive():
                    latencies += victim.drive([frame], 500, 1).latencies_ms
                seconds = time.perf_counter() - started
            beside.append(Result(len(latencies), seconds, 0, latencies))
            grown = (broker.memory_info().rss - before) / 1e6
            notes.append(f"{max(sockets)} sockets at most, {grown:+.0f} MB")
    for share in (0.5, 0.99):
        name = f"produce 1 KB p{share * 100:.0f}"
        row(report, f"{name}, alone", "ms", [r.percentile_ms(share) for r in alone], [])
        row(report, f"{name}, beside", "ms", [r.percentile_ms(share) for r in beside], notes)


@contextmanager
def failing_logins(
    port: int, broker: psutil.Process, sockets: list[int]
) -> Iterator[threading.Thread]:
    """Failing logins from another process. ``sockets`` gets the numbers that the broker has."""
    command = [sys.executable, "-m", "scripts.lib.bench.failing_logins"]
    command += [str(port), str(FAILING_LOGINS), str(FAILING_S)]
    attackers = subprocess.Popen(command)

    def watch() -> None:
        while attackers.poll() is None:
            sockets.append(len(broker.net_connections("tcp")))
            time.sleep(0.2)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield thread
    finally:
        attackers.kill()
        thread.join()
    if attackers.returncode:
        raise RuntimeError("not every login was refused")
