"""The table of loads: what is sent, beside what, and which figures of it are shown.

A load gets its client from a running cluster: the topics, the requests of each connection, and the
check of responses. Beside it, in turns, another client sends: the same bytes to a bare probe, or
another load to the same brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench import probe
from scripts.lib.bench.brokers import LARGE, OURS, Brokers, spread
from scripts.lib.bench.groups import SETTINGS as GROUPS
from scripts.lib.bench.groups import at_rest, commits, heartbeats
from scripts.lib.bench.harness import child, percentile
from scripts.lib.bench.load import IN_FLIGHT, NO_CHECK, Client, Result, drive_in_turns, middle
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import (
    check_of,
    fetch_frame,
    fetched_bytes,
    produce_frame,
    produced_offset,
)
from scripts.lib.bench.transactions import commits as transactions
from scripts.lib.bench.transactions import reading

KB, MB = 1 << 10, 1 << 20
DATA_BYTES = 96 * MB  # to read in turn: more than the processor's caches have
READ_BYTES = 8 * MB  # to read 1 MB at a time
MOST_BATCHES = 4_000
MOST_HEAD_BYTES = 80  # of a batch with one record

Made = Callable[[Brokers], Client]
Beside = Callable[[Brokers, Client], Client]


@dataclass(frozen=True)
class Figure:
    """A figure of a round: what a row's name ends with, its unit, and how it is found."""

    end: str
    unit: str
    of: Callable[[Result], float]


FIGURES = {
    "rate": Figure("", "1/s", lambda found: found.per_second),
    "cpu": Figure(", CPU of the server", "µs", lambda found: found.cpu_us),
    "p50": Figure(", p50", "ms", lambda found: found.percentile_ms(0.5)),
    "p99": Figure(", p99", "ms", lambda found: found.percentile_ms(0.99)),
    "fairness": Figure(", largest share over the least", "x", lambda found: found.unfairness),
}


# ----------------------------------------------------------------------------------- what is sent


def produced(
    size: int, records: int = 1, acks: int = 1, replicas: int = 1,
    connections: int = 1, in_flight: int = IN_FLIGHT,
) -> Made:  # fmt: skip
    """Produce batches of ``size`` bytes to a partition of broker 1."""

    def make(cluster: Brokers) -> Client:
        topic = f"produce-{size}-{records}-{acks}-{replicas}-{connections}-{in_flight}"
        cluster.create({topic: [list(cluster.ids)[:replicas]]})
        frame = produce_frame(topic, size // records, acks, records_per_batch=records)
        frames = [[frame]] * connections
        check = check_of(ApiKey.PRODUCE)
        return Client(cluster.ports[0], frames, check, [cluster.process(1)], in_flight)

    return make


def fetched(size: int, connections: int = 1, in_flight: int = IN_FLIGHT) -> Made:
    """Fetch batches of ``size`` bytes, one in each response. Each connection reads on from where it
    is, as consumers do, and no two requests in flight want the same batch."""

    def make(cluster: Brokers) -> Client:
        topic, count = f"fetch-{size}", min(MOST_BATCHES, DATA_BYTES // size)
        cluster.create({topic: [[1]]})
        frame = produce_frame(topic, size - MOST_HEAD_BYTES, acks=1)
        Client(cluster.ports[0], [[frame]], produced_offset).drive(count - 1)
        frames = [fetch_frame(topic, offset, size) for offset in range(count)]
        shares = rotated(frames, connections)
        return Client(cluster.ports[0], shares, fetched_bytes, [cluster.process(1)], in_flight)

    return make


def rotated(frames: Sequence[bytes], connections: int) -> list[list[bytes]]:
    """Return the frames for each connection; each begins at another place."""
    starts = [len(frames) * number // connections for number in range(connections)]
    return [[*frames[start:], *frames[:start]] for start in starts]


def reads(cluster: Brokers, batch_bytes: int) -> Client:
    """Append batches; fetch 1 MB at a time. No two requests in flight want the same records: a
    broker may read them once for both."""
    topic, count = f"read-{batch_bytes}", READ_BYTES // batch_bytes
    cluster.create({topic: [[1]]})
    frame, port = produce_frame(topic, batch_bytes, acks=1), cluster.ports[0]
    Client(port, [[frame]], produced_offset).drive(count)
    step = MB // batch_bytes
    frames = [fetch_frame(topic, step * number, MB) for number in range(IN_FLIGHT)]
    return Client(port, [frames], fetched_bytes)


# ---------------------------------------------------------------------------------- beside what


def bare(cluster: Brokers, ours: Client) -> Client:
    """The same bytes to a server that writes them, and responds with as many as the broker."""
    size = len(ours.drive(1).answer) - 4
    port, process = cluster.enter(child("probe", "log", cluster.directory, size))
    return Client(int(port), ours.frames, NO_CHECK, [process], ours.in_flight)


def bare_file(size: int) -> Beside:
    """Reads of the same bytes of the same segment file from a server that knows only the file."""

    def make(cluster: Brokers, ours: Client) -> Client:
        (segment,) = cluster.data(1).glob(f"fetch-{size}-0/*.log")
        count = len(ours.frames[0])
        length = segment.stat().st_size // count
        overhead = len(ours.drive(1).answer) + 4 - length
        port, process = cluster.enter(child("probe", "file", segment, overhead))
        bytes_of_request = len(ours.frames[0][0])
        frames = [probe.read_frame(n * length, length, bytes_of_request) for n in range(count)]
        return Client(
            int(port), rotated(frames, len(ours.frames)), NO_CHECK, [process], ours.in_flight
        )

    return make


def other(made: Made) -> Beside:
    return lambda cluster, _: made(cluster)


# ---------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Load:
    """One load: ``count`` requests a round; ``size`` are the bytes of records of one. ``least`` is
    the aim of its first figure."""

    name: str
    count: int
    ours: Made
    beside: Beside = bare
    shows: Sequence[str] = ("rate",)
    least: float | None = None
    size: int = 0

    def run(self, report: Report, cluster: Brokers, columns: tuple[str, str], rounds: int) -> None:
        client = self.ours(cluster)
        sides = dict(zip(columns, (client, self.beside(cluster, client)), strict=True))
        ours, beside = (middle(each) for each in drive_in_turns(sides, self.count, rounds).values())
        for number, key in enumerate(self.shows):
            shown = FIGURES[key]
            mb = f"{ours.per_second * self.size / 1e6:,.0f} MB/s" if self.size else ""
            report.row(
                f"{self.name}{shown.end}", shown.unit, shown.of(ours), shown.of(beside),
                least=None if number else self.least, note=mb if key == "rate" else "",
            )  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Loads on one cluster, or each on its own if ``fresh``: their data then stay within the memory
    that was taken."""

    title: str
    loads: Sequence[Load]
    brokers: int = 1
    columns: tuple[str, str] = (OURS, "probe")
    rounds: int = 3
    fresh: bool = False
    settings: Mapping[str, object] = field(default_factory=lambda: LARGE)

    def run(self, report: Report) -> None:
        report.section(self.title, *self.columns)
        for some in [[load] for load in self.loads] if self.fresh else [self.loads]:
            with Brokers(self.brokers, self.settings) as cluster:
                cluster.take_memory()
                for load in some:
                    load.run(report, cluster, self.columns, self.rounds)


# bytes of a batch, its records, requests of a round, least ratio to the probe
PRODUCED = (
    (KB, 1, 30_000, 0.4),
    (16 * KB, 1, 8_000, 0.6),
    (16 * KB, 160, 8_000, None),
    (256 * KB, 1, 600, 0.7),
    (256 * KB, 2560, 600, None),
    (MB, 1, 150, 0.8),
)
FETCHED = ((KB, 20_000, None), (16 * KB, 12_000, None), (256 * KB, 4_000, 0.7), (MB, 1_500, 0.7))
REPLICATED = ((KB, 6_000, None), (16 * KB, 2_000, None), (256 * KB, 300, 0.4))
CROWDS = (8, 64, 512)


def name_of(size: int, records: int = 1) -> str:
    return f"{size // KB} KB, {records:,} record{'s' if records > 1 else ''}"


def fetch_table(connections: int, in_flight: int) -> Table:
    many = f"{connections} connection{'s' if connections > 1 else ''}"
    loads = [
        Load(f"{size // KB} KB", count, fetched(size, connections, in_flight), bare_file(size),
             ("rate", "cpu"), least, size)
        for size, count, least in FETCHED
    ]  # fmt: skip
    return Table(f"fetch of cached data, {many}, {in_flight} in flight", loads, rounds=5)


TABLES: dict[str, list[Table]] = {
    "produce": [
        Table(
            "produce acks=1, one broker, five in flight (requests/s)",
            [
                Load(name_of(size, records), count, produced(size, records), least=least, size=size)
                for size, records, count, least in PRODUCED
            ],
            fresh=True,
        )
    ],
    "latency": [
        Table(
            "one request at a time, 1 KB, three brokers (ms)",
            [
                Load(f"produce acks={'all' if acks < 0 else acks}", 2_000,
                     produced(KB, acks=acks, replicas=3, in_flight=1), shows=("p50", "p99"))
                for acks in (1, -1)
            ],
            brokers=3,
        )
    ],
    "fetch": [fetch_table(1, IN_FLIGHT), fetch_table(8, 1)],
    "replication": [
        Table(
            "produce, three brokers, five in flight (requests/s)",
            [
                *(
                    Load(f"{size // KB} KB", count, produced(size, acks=-1, replicas=3),
                         other(produced(size)), least=least, size=size)
                    for size, count, least in REPLICATED
                ),
                Load("1 KB, one at a time", 2_000, produced(KB, acks=-1, replicas=3, in_flight=1),
                     other(produced(KB, in_flight=1)), shows=("p50", "p99")),
            ],
            brokers=3,
            columns=("all, RF 3", "1, RF 1"),
            rounds=5,
        )
    ],
    "connections": [
        Table(
            "produce acks=1, 1 KB, connections with one request in flight",
            [
                Load(f"{count} connections", 20_000, produced(KB, connections=count, in_flight=1),
                     shows=("cpu", "p50", "p99", "fairness"))
                for count in CROWDS
            ],
            rounds=5,
        ),
        Table(
            "the same beside one connection with five in flight",
            [
                Load(f"{count} connections", 20_000, produced(KB, connections=count, in_flight=1),
                     other(produced(KB)), ("rate", "cpu"), least=1.0)
                for count in CROWDS
            ],
            columns=("all", f"one with {IN_FLIGHT}"),
            rounds=5,
        ),
    ],
    "groups": [
        Table(
            "groups, ten members, five in flight (requests/s)",
            [
                Load("heartbeats (aim: 5,000)", 40_000, heartbeats, shows=("rate", "cpu")),
                Load("commits, acks=all (aim: 3,000)", 20_000, commits, shows=("rate", "cpu")),
            ],
            settings=GROUPS,
        )
    ],
    "transactions": [
        Table(
            "fetch in 1 MB reads, half of it aborted (requests/s)",
            [
                Load(f"transactions of {size // KB} KB", 500, reading(size, 1),
                     other(reading(size, 0)), least=0.8 if size > KB else None)
                for size in (KB, 16 * KB, 256 * KB)
            ],
            columns=("committed", "plain"),
            rounds=5,
        )
    ],
}  # fmt: skip


def run(name: str, report: Report) -> None:
    """Measure the tables of a name, and then what is no rate of requests."""
    for table in TABLES[name]:
        table.run(report)
    if name in MORE:
        MORE[name](report)


def latency_of_clients(report: Report) -> None:
    with Brokers(3, LARGE) as cluster:
        cluster.create({"end-to-end": spread(1, 3, 3)})
        taken = asyncio.run(end_to_end(cluster.bootstrap, "end-to-end", 500))
    for share in (0.5, 0.99):
        name = f"produce to consumer, acks=all, p{share * 100:.0f}"
        report.row(name, "ms", percentile(taken, share))


MORE: dict[str, Callable[[Report], None]] = {
    "latency": latency_of_clients,
    "groups": at_rest,
    "transactions": transactions,
}


async def end_to_end(bootstrap: str, topic: str, count: int) -> list[float]:
    """Return the milliseconds from the call of send until a consumer has the record, sorted."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    loop, partition = asyncio.get_running_loop(), TopicPartition(topic, 0)
    latencies = []
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer,
        AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer,
    ):
        consumer.assign([partition])
        await consumer.seek_to_end()
        await consumer.position(partition)
        for _ in range(count):
            started = loop.time()
            sent = asyncio.create_task(producer.send_and_wait(topic, b"x" * 1024, partition=0))
            await consumer.getone()
            latencies.append((loop.time() - started) * 1000)
            await sent
    return sorted(latencies)
