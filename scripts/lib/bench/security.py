"""What security costs: TLS and logins, an authorizer with many ACLs, quotas, failing logins.

Beside Apache Kafka where its jars are; see ``apache_kafka.jars``.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from minikafka.cli.secured.certificates import new_authority
from minikafka.client import Admin, ClientConfig
from minikafka.core.security.acl_cache import AclCache, AclRules
from minikafka.core.security.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
    VersionedAcls,
)
from minikafka.protocol.api_keys import ApiKey
from minikafka.world.real.loop import run as run_world
from minikafka.world.real.world import real_world
from scripts.lib.bench.brokers import KAFKA, LARGE, Brokers, Command, kinds
from scripts.lib.bench.harness import Figures, percentile, resident_mb, take_memory
from scripts.lib.bench.load import Client, drive_in_turns, rate
from scripts.lib.bench.loads import KB, reads
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import (
    Connection,
    check_of,
    fetched_bytes,
    frame,
    produce_frame,
)

T = TypeVar("T")
PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
LISTENERS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
USER, PASSWORD = "alice", "alice-secret"
TOPIC = "bench"
ROUNDS = 3
# batch bytes, requests a round
PRODUCED = ((KB, 8_000), (16 * KB, 4_000), (256 * KB, 300))
FETCHES = 500
ACLS = 10_000
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
    (home / "keys.pem").write_text(authority.issue("broker", ["127.0.0.1"], now))
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


def by_kind(measure: Callable[[Command], T]) -> list[T]:
    """Measure minikafka, and Kafka if it is there."""
    return [measure(command) for command in kinds().values()]


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
    measured = by_kind(partial(rates_by_listener, settings))
    for (name, unit), listener in itertools.product(measured[0], LISTENERS):
        found = [rates[name, unit] for rates in measured]
        shares = [f"{each[listener] / each[PLAINTEXT]:.2f}" for each in found]
        row(report, f"{name}, {listener}", unit, [each[listener] for each in found], shares)


def rates_by_listener(
    settings: Mapping[str, object], command: Command
) -> dict[tuple[str, str], Figures]:
    found: dict[tuple[str, str], Figures] = {}
    with cluster_of(command, settings) as cluster:
        for size, count in PRODUCED:
            doors = {name: producer(cluster, name, settings, size) for name in LISTENERS}
            found[f"produce {size // KB} KB", "1/s"] = rates(doors, count)
        frames = reads(cluster, 16 * KB).frames
        doors = {
            name: replace(door, frames=frames, check=fetched_bytes) for name, door in doors.items()
        }
        volume = fetched_bytes(doors[PLAINTEXT].drive(1).answer) / 1e6
        fetches = rates(doors, FETCHES)
    found["fetch 1 MB", "MB/s"] = {name: volume * each for name, each in fetches.items()}
    return found


def rates(doors: Mapping[str, Client], count: int) -> Figures:
    return {name: rate(each) for name, each in drive_in_turns(doors, count, ROUNDS).items()}


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

    def both(command: Command) -> Figures:
        with cluster_of(command, plain) as bare, cluster_of(command, more) as prepared:
            prepare(prepared)
            sides = {"none": bare, "more": prepared}
            doors = {name: producer(each, listener, plain) for name, each in sides.items()}
            return rates(doors, PRODUCED[0][1])

    report.section(title, probe=KAFKA)
    found = by_kind(both)
    shares = [f"{each['more'] / each['none']:.2f}" for each in found]
    row(report, f"produce 1 KB, {listener}", "1/s", [each["more"] for each in found], shares)


def acls_of_topics(count: int) -> Iterator[tuple[ResourcePattern, frozenset[AclEntry]]]:
    """Yield four entries for each topic, ``count`` in all. The first topic is the one that the
    bench writes to; one pattern in five is a prefix."""
    entries = frozenset(
        AclEntry(f"User:{user}", "*", operation, PermissionType.ALLOW)
        for user in ("bob", USER)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    )
    for number in range(count // len(entries)):
        name = f"topic-{number}" if number else TOPIC
        kind = PatternType.LITERAL if number % 5 else PatternType.PREFIXED
        yield ResourcePattern(AclResourceType.TOPIC, name, kind), entries


def create_acls(cluster: Brokers) -> None:
    async def work() -> None:
        async with Admin(real_world(), ClientConfig(cluster.bootstrap)) as admin:
            for pattern, entries in acls_of_topics(ACLS):
                results = await admin.create_acls([AclBinding(pattern, each) for each in entries])
                if any(results.values()):
                    raise RuntimeError(f"not created: {results}")

    run_world(work())


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
        for pattern, entries in acls_of_topics(count):
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
    found = by_kind(partial(beside_failing_logins, settings))
    for share in (0.5, 0.99):
        name = f"produce 1 KB p{share * 100:.0f}"
        row(report, f"{name}, alone", "ms", [percentile(each[0], share) for each in found], [])
        beside = [percentile(each[1], share) for each in found]
        row(report, f"{name}, beside", "ms", beside, [each[2] for each in found])


def beside_failing_logins(
    settings: Mapping[str, object], command: Command
) -> tuple[list[float], list[float], str]:
    """Return the client's latencies, sorted, and what the broker needs for the failing logins."""
    with cluster_of(command, settings) as cluster:
        victim, broker = producer(cluster, SASL_PLAINTEXT, settings), cluster.process(1)
        victim.drive(VICTIM_REQUESTS // 2)
        alone = victim.drive(VICTIM_REQUESTS).latencies_ms
        before, beside, sockets = resident_mb(broker), [], 0
        attack = [sys.executable, "-m", "scripts.lib.bench.security"]
        port = cluster.port(1, SASL_PLAINTEXT)
        with subprocess.Popen([*attack, str(port)]) as attackers:
            while attackers.poll() is None:
                beside += victim.drive(500).latencies_ms
                sockets = max(sockets, len(broker.net_connections("tcp")))
        if attackers.returncode:
            raise RuntimeError("not every login was refused")
        grown = resident_mb(broker) - before
        return sorted(alone), sorted(beside), f"{sockets} sockets at most, {grown:+.0f} MB"


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
