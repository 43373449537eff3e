"""What security costs: TLS and logins, an authorizer with many ACLs, quotas, failing logins.

Beside Apache Kafka where its jars are; see ``apache_kafka.jars``.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from minikafka.cli.secured.certificates import new_authority
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
from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.brokers import KAFKA, LARGE, Brokers, Command, kinds
from scripts.lib.bench.harness import percentile, resident_mb, take_memory
from scripts.lib.bench.load import Client, in_turns, rate
from scripts.lib.bench.loads import KB, MB, reads
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import (
    Connection,
    accepted,
    check_of,
    fetched_bytes,
    frame,
    produce_frame,
)

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
LISTENERS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
USER, PASSWORD = "alice", "alice-secret"
TOPIC = "bench"
ROUNDS = 3
# batch bytes, requests a round
PRODUCED = ((KB, 8_000), (16 * KB, 4_000), (256 * KB, 300))
FETCHES = 500
ACLS, ACLS_OF_A_TOPIC = 10_000, 4
DECISIONS = 20_000
FAILING_LOGINS, FAILING_S = 1_000, 10
VICTIM_REQUESTS = 8_000
REFUSED = 58  # SASL_AUTHENTICATION_FAILED
LIMIT_S = 60
QUOTAS = "producer_byte_rate=100000000000,consumer_byte_rate=100000000000,request_percentage=100000"
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",  # of the listener PLAINTEXT, for the preparations
}


def run(report: Report) -> None:
    with TemporaryDirectory() as home:
        take_memory(Path(home))
        settings = security_settings(Path(home))
        compare_listeners(report, settings)
        compare_settings(
            report, f"produce 1 KB, authorizer with {ACLS:,} ACLs (share of none)",
            SASL_PLAINTEXT, settings, {**settings, **AUTHORIZER}, create_acls,
        )  # fmt: skip
        time_decisions(report)
        compare_settings(
            report, "produce 1 KB with quotas that are not reached (share of none)",
            PLAINTEXT, settings, settings, set_quotas,
        )  # fmt: skip
        bear_failing_logins(report, settings)


def security_settings(home: Path) -> dict[str, object]:
    """Write a key with its certificate, and the authority that clients and brokers trust. Return
    the settings of all listeners."""
    now = datetime.datetime.now(datetime.UTC)
    authority = new_authority("bench", now)
    (home / "keys.pem").write_text(authority.issue("bench", ["127.0.0.1"], now))
    (home / "ca.pem").write_text(authority.pem)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    entry = f'{module} required user_{USER}="{PASSWORD}";'
    return {
        **LARGE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": home / "keys.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": home / "ca.pem",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": entry,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": entry,
    }


def login_frames(password: str = PASSWORD) -> list[bytes]:
    """SASL/PLAIN."""
    token = f"\0{USER}\0{password}".encode()
    return [
        frame(ApiKey.SASL_HANDSHAKE, mechanism="PLAIN"),
        frame(ApiKey.SASL_AUTHENTICATE, auth_bytes=token),
    ]


@contextmanager
def cluster_of(command: Command, settings: Mapping[str, object]) -> Iterator[Brokers]:
    """A broker with all listeners, and the topic."""
    with Brokers(1, settings, command, LISTENERS[1:]) as cluster:
        cluster.create({TOPIC: [[1]]})
        yield cluster


def producer(
    cluster: Brokers, listener: str, settings: Mapping[str, object], size: int = KB
) -> Client:
    """Produce by a listener; each connection logs in first where it must."""
    trusted = str(settings["ssl.truststore.location"])
    return Client(
        cluster.port(1, listener),
        [[produce_frame(TOPIC, size, 1)]],
        check_of(ApiKey.PRODUCE),
        opening=login_frames() if listener.startswith("SASL") else (),
        tls=ssl.create_default_context(cafile=trusted) if listener.endswith("SSL") else None,
    )


def row(
    report: Report, name: str, unit: str, values: Sequence[float], notes: Sequence[str]
) -> None:
    """``values`` and ``notes`` are those of minikafka, and of Kafka if it is there."""
    theirs = values[1] if len(values) > 1 else None
    report.row(name, unit, values[0], theirs, note=" | ".join(notes))


# ---- TLS and logins


def compare_listeners(report: Report, settings: Mapping[str, object]) -> None:
    """Rounds over each listener in turn, of one broker; then the other kind."""
    report.section("one broker, five in flight, by listener (share of PLAINTEXT)", probe=KAFKA)
    measured = []
    for command in kinds().values():
        with cluster_of(command, settings) as cluster:
            measured.append(rates_by_listener(cluster, settings))
    for name, unit, listener in measured[0]:
        values = [rates[name, unit, listener] for rates in measured]
        plain = [rates[name, unit, PLAINTEXT] for rates in measured]
        shares = [f"{value / base:.2f}" for value, base in zip(values, plain, strict=True)]
        row(report, f"{name}, {listener}", unit, values, shares)


def rates_by_listener(
    cluster: Brokers, settings: Mapping[str, object]
) -> dict[tuple[str, str, str], float]:
    found = {}
    for size, count in PRODUCED:
        doors = {name: producer(cluster, name, settings, size) for name in LISTENERS}
        for name, rounds in in_turns(doors, count, ROUNDS).items():
            found[f"produce {size // KB} KB", "1/s", name] = rate(rounds)
    fetches = reads(cluster, 16 * KB)
    doors = {
        name: Client(door.port, fetches.frames, fetched_bytes, opening=door.opening, tls=door.tls)
        for name, door in doors.items()
    }
    for name, rounds in in_turns(doors, FETCHES, ROUNDS).items():
        volume = fetched_bytes(rounds[0].answer) / 1e6
        found[f"fetch {MB // MB} MB", "MB/s", name] = rate(rounds) * volume
    return found


# ---- an authorizer, and quotas


def compare_settings(
    report: Report,
    title: str,
    listener: str,
    plain: Mapping[str, object],
    more: Mapping[str, object],
    prepare: Callable[[Brokers], None],
) -> None:
    """Two brokers of a kind at the same time, in turns; one has ``more`` and is prepared."""
    report.section(title, probe=KAFKA)
    values, notes = [], []
    for command in kinds().values():
        with ExitStack() as stack:
            doors = {}
            for name, settings in (("none", plain), ("more", more)):
                cluster = stack.enter_context(cluster_of(command, settings))
                if name == "more":
                    prepare(cluster)
                doors[name] = producer(cluster, listener, plain)
            found = in_turns(doors, PRODUCED[0][1], ROUNDS)
        values.append(rate(found["more"]))
        notes.append(f"{values[-1] / rate(found['none']):.2f}")
    row(report, f"produce 1 KB, {listener}", "1/s", values, notes)


def create_acls(cluster: Brokers) -> None:
    """Some entries for each topic, and for the one that the bench writes to."""

    async def work() -> None:
        connection = await Connection.open(cluster.ports[0])
        for number in range(ACLS // ACLS_OF_A_TOPIC):
            resource = {
                "resource_type": 2,
                "resource_name": TOPIC if number == 0 else f"topic-{number}",
                "resource_pattern_type": 3 if number % 5 else 4,  # literal or prefixed
            }
            rows = [
                {**resource, "principal": f"User:{user}", "host": "*", "operation": operation,
                 "permission_type": 3}
                for user, operation in (("bob", 3), ("bob", 4), (USER, 3), (USER, 4))
            ]  # fmt: skip
            answer = await connection.exchange(frame(ApiKey.CREATE_ACLS, creations=rows))
            accepted(ApiKey.CREATE_ACLS, answer)
        connection.close()

    uvloop.run(work())


def set_quotas(cluster: Brokers) -> None:
    command = [sys.executable, "-m", "minikafka.cli.main", "configs"]
    command += ["--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "users"]
    command += ["--entity-default", "--add-config", QUOTAS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    time.sleep(1)


def time_decisions(report: Report) -> None:
    report.section("one decision of our authorizer (µs)")
    for count in (10, ACLS):
        cache = AclCache(AclRules(frozenset(), False))
        for number in range(count // ACLS_OF_A_TOPIC):
            kind = PatternType.LITERAL if number % 5 else PatternType.PREFIXED
            pattern = ResourcePattern(AclResourceType.TOPIC, f"topic-{number}", kind)
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
            request = f"User:{USER}", "127.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC
            started = time.perf_counter()
            for name in names:
                cache.decide(*request, name)
            seconds = time.perf_counter() - started
            report.row(f"{count:,} ACLs, {label}", "µs", seconds / DECISIONS * 1e6)


# ---- failing logins


def bear_failing_logins(report: Report, settings: Mapping[str, object]) -> None:
    """A client that has logged in produces, alone and then beside the failing logins."""
    title = f"a logged-in client beside {FAILING_LOGINS} failing logins in {FAILING_S} s"
    report.section(f"{title} (ms)", probe=KAFKA)
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    notes = []
    for command in kinds().values():
        with cluster_of(command, settings) as cluster:
            victim = producer(cluster, SASL_PLAINTEXT, settings)
            victim.drive(VICTIM_REQUESTS // 2)
            alone.append(sorted(victim.drive(VICTIM_REQUESTS).latencies_ms))
            before, latencies = resident_mb(cluster.process(1)), []
            with failing_logins(cluster) as (attackers, sockets):
                while attackers.poll() is None:
                    latencies += victim.drive(500).latencies_ms
            beside.append(sorted(latencies))
            grown = resident_mb(cluster.process(1)) - before
            notes.append(f"{max(sockets)} sockets at most, {grown:+.0f} MB")
    for share in (0.5, 0.99):
        name = f"produce 1 KB p{share * 100:.0f}"
        row(report, f"{name}, alone", "ms", [percentile(each, share) for each in alone], [])
        row(report, f"{name}, beside", "ms", [percentile(each, share) for each in beside], notes)


@contextmanager
def failing_logins(cluster: Brokers) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Failing logins from another process, and the numbers of sockets that the broker has."""
    command = [sys.executable, "-m", "scripts.lib.bench.security"]
    attackers = subprocess.Popen([*command, str(cluster.port(1, SASL_PLAINTEXT))])
    broker, sockets = cluster.process(1), [0]

    def watch() -> None:
        while attackers.poll() is None:
            sockets.append(len(broker.net_connections("tcp")))
            time.sleep(0.2)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield attackers, sockets
    finally:
        attackers.kill()
        thread.join()
    if attackers.returncode:
        raise RuntimeError("not every login was refused")


async def fail(port: int) -> bool:
    """Log in with a wrong password; return whether it was refused and the connection closed."""
    connection = await Connection.open(port)
    try:
        body = b""
        for request in login_frames("wrong"):
            body = await connection.exchange(request)
        # A flexible header: correlation id, no tags; then the error code.
        refused = struct.unpack_from(">h", body, 5) == (REFUSED,)
        return refused and await connection.is_closed_by_server()
    finally:
        connection.close()


async def fail_all(port: int) -> bool:
    tasks = []
    for _ in range(FAILING_LOGINS):
        tasks.append(asyncio.create_task(fail(port)))
        await asyncio.sleep(FAILING_S / FAILING_LOGINS)
    async with asyncio.timeout(LIMIT_S):
        return all(await asyncio.gather(*tasks))


if __name__ == "__main__":
    sys.exit(not asyncio.run(fail_all(int(sys.argv[1]))))
