"""The verb `perf`: measure the rates of producing and consuming, and end-to-end latency.

It prints counts, rates and latencies as Kafka's perf tools do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import partial

from minikafka.cli.connect import (
    TIMEOUT_MS,
    bare_client_config,
    check_answered,
    command_config,
    run_client,
    with_properties,
)
from minikafka.cli.verb_parser import (
    add_bootstrap_argument,
    add_json_argument,
    add_pairs_argument,
    at_least,
    pairs,
)
from minikafka.client.config import ClientConfig
from minikafka.client.consumer.consumer import Consumer, ConsumerConfig
from minikafka.client.producer.producer import Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

MEBIBYTE = 1024 * 1024
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the percentile ``share`` (0 to 100) of sorted values by nearest rank; 0 if empty."""
    if not ordered:
        return 0.0
    rank = min(len(ordered) - 1, int(share * len(ordered) / 100))
    return ordered[rank]


class Window:
    """Counts and latencies of records since ``begun_s``."""

    def __init__(self, begun_s: float) -> None:
        self.begun_s = begun_s
        self.records = 0
        self.bytes = 0
        self.latency_ms = 0.0
        self.max_latency_ms = 0.0

    def add(self, size_bytes: int, latency_ms: float = 0.0) -> None:
        self.records += 1
        self.bytes += size_bytes
        self.latency_ms += latency_ms
        self.max_latency_ms = max(self.max_latency_ms, latency_ms)

    def text(self, now_s: float, verb: str) -> str:
        """Format ``N records sent, R records/sec (M MB/sec)``, with latencies if there are any."""
        elapsed_s = max(now_s - self.begun_s, 1e-9)
        line = (
            f"{self.records} records {verb}, {self.records / elapsed_s:.1f} records/sec "
            f"({self.bytes / elapsed_s / MEBIBYTE:.2f} MB/sec)"
        )
        if self.max_latency_ms:
            average = self.latency_ms / max(1, self.records)
            line += f", {average:.2f} ms avg latency, {self.max_latency_ms:.2f} ms max latency"
        return line


class Measurement:
    """Statistics of all records, and of the window since the last report."""

    def __init__(self, begun_s: float, verb: str) -> None:
        self.total = Window(begun_s)
        self.window = Window(begun_s)
        self._verb = verb
        self._latencies_ms = array("d")

    def add(self, size_bytes: int, latency_ms: float | None = None) -> None:
        self.total.add(size_bytes, latency_ms or 0.0)
        self.window.add(size_bytes, latency_ms or 0.0)
        if latency_ms is not None:
            self._latencies_ms.append(latency_ms)

    def report(self, now_s: float) -> str:
        """Return the line of the present window and start the next one."""
        line = self.window.text(now_s, self._verb) + "."
        self.window = Window(now_s)
        return line

    def percentiles(self) -> dict[float, float]:
        ordered = sorted(self._latencies_ms)
        return {share: percentile(ordered, share) for share in PERCENTILES}

    def summary(self, now_s: float) -> str:
        line = self.total.text(now_s, self._verb)
        if self._latencies_ms:
            found = self.percentiles().items()
            line += "".join(f", {value:.2f} ms {share:g}th" for share, value in found)
        return line + "."

    def facts(self, now_s: float) -> dict[str, float]:
        """Return the statistics for ``--json``; latencies are in milliseconds."""
        elapsed_s = max(now_s - self.total.begun_s, 1e-9)
        found: dict[str, float] = {
            "records": self.total.records,
            "seconds": round(elapsed_s, 3),
            "records_per_second": round(self.total.records / elapsed_s, 1),
            "mb_per_second": round(self.total.bytes / elapsed_s / MEBIBYTE, 3),
        }
        if self._latencies_ms:
            found["latency_avg_ms"] = round(self.total.latency_ms / self.total.records, 3)
            found["latency_max_ms"] = round(self.total.max_latency_ms, 3)
            for share, value in self.percentiles().items():
                found[f"latency_p{share:g}_ms"] = round(value, 3)
        return found


REPORT_S = 5.0
PROGRESS_S = 0.5
CHECK_RECORDS = 64  # records between two checks of the rate
POLL_MS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ways = parser.add_subparsers(dest="way", required=True, metavar="produce|consume|e2e")
    produce = ways.add_parser("produce", help="measure the rate and latency of producing")
    produce.add_argument(
        "--num-records", type=at_least(1), required=True, help="how many records to send"
    )
    produce.add_argument(
        "--throughput", type=float, default=-1, help="records a second (-1: no limit)"
    )
    consume = ways.add_parser("consume", help="measure the rate of consuming existing records")
    consume.add_argument(
        "--messages", type=at_least(1), required=True, help="how many records to read"
    )
    consume.add_argument("--group", help="consumer group to join (default: assign all partitions)")
    consume.add_argument(
        "--timeout",
        type=at_least(1),
        default=10_000,
        help="stop after this time without a record, in ms",
    )
    e2e = ways.add_parser("e2e", help="measure the time from sending a record to reading it")
    e2e.add_argument(
        "--num-records",
        "--messages",
        dest="messages",
        type=at_least(1),
        required=True,
        help="how many records to send and read, one at a time",
    )
    for way in (produce, e2e):
        way.add_argument("--record-size", type=at_least(1), default=100, help="bytes of a record")
        add_pairs_argument(way, "--producer-property", "a setting of the producer; repeatable")
    for way in (consume, e2e):
        add_pairs_argument(way, "--consumer-property", "a setting of the consumer; repeatable")
    for way in (produce, consume, e2e):
        add_bootstrap_argument(way)
        way.add_argument("--topic", required=True, help="the topic to measure with")
        add_json_argument(way, "print the statistics as a JSON object")


def run(args: argparse.Namespace) -> int:
    ways = {"produce": produce, "consume": consume, "e2e": end_to_end}
    limit_ms = None if args.way == "consume" else TIMEOUT_MS
    measured = run_client(partial(ways[args.way], args=args), limit_ms)
    if args.json:
        print(json.dumps(measured))
    return 0


class ProgressPrinter:
    """Prints progress: a line every five seconds, and on a terminal one that is overwritten."""

    def __init__(self, measurement: Measurement, quiet: bool, wanted: int) -> None:
        self._measurement = measurement
        self._wanted = wanted
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._next_s = self._report_s = measurement.total.begun_s

    def look(self, now_s: float) -> None:
        if now_s < self._next_s:
            return
        self._next_s = now_s + PROGRESS_S
        if now_s >= self._report_s + REPORT_S:
            self._report_s = now_s
            self.say(self._measurement.report(now_s))
        elif self._terminal:
            total = self._measurement.total
            share = 100 * total.records // self._wanted
            text = total.text(now_s, "so far")
            print(f"\r{share:3} % {text[:90]:90}", end="", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        if self._terminal:
            print("\r" + " " * 100, end="\r", file=sys.stderr)
        if not self._quiet:
            print(line, flush=True)


def settings(args: argparse.Namespace, which: str) -> dict[str, str]:
    given = pairs(getattr(args, f"{which}_property", []), f"--{which}-property")
    return {**command_config(args), **given}


# ------------------------------------------------------------------------------------ produce


async def produce(world: World, args: argparse.Namespace) -> dict[str, float]:
    config, producer_config = with_properties(
        settings(args, "producer"),
        bare_client_config(args),
        ProducerConfig(max_block_ms=TIMEOUT_MS),
    )
    loop = asyncio.get_running_loop()
    payload = world.entropy.random_bytes(args.record_size)
    async with Producer(world, config, producer_config) as producer:
        await producer.session.metadata.topic(args.topic, producer_config.max_block_ms)
        begun_s = loop.time()
        measurement = Measurement(begun_s, "sent")
        progress = ProgressPrinter(measurement, args.json, args.num_records)
        failed: list[BaseException] = []

        def settled(sent_s: float, promise: asyncio.Future[RecordMetadata]) -> None:
            error = promise.exception()
            if error is None:
                measurement.add(args.record_size, (loop.time() - sent_s) * 1000)
            else:
                failed.append(error)

        for number in range(args.num_records):
            promise = await producer.send(args.topic, payload)
            promise.add_done_callback(partial(settled, loop.time()))
            if number % CHECK_RECORDS == 0:
                await keep_pace(begun_s, number, args.throughput)
                progress.look(loop.time())
        await producer.flush()
        await asyncio.sleep(0)
    ended_s = loop.time()
    progress.say(measurement.summary(ended_s))
    if failed:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(failed)} records failed, first: {failed[0]}"
        )
    return measurement.facts(ended_s)


async def keep_pace(begun_s: float, sent: int, per_second: float) -> None:
    """Sleep until ``sent`` records are due at the rate ``per_second``; 0 or less: no limit."""
    if per_second > 0:
        due_s = begun_s + sent / per_second
        ahead_s = due_s - asyncio.get_running_loop().time()
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)


# ------------------------------------------------------------------------------------ consume


async def consume(world: World, args: argparse.Namespace) -> dict[str, float]:
    config, consumer_config = with_properties(
        {
            **({} if args.group is None else {"group.id": args.group}),
            "auto.offset.reset": "earliest",
            **settings(args, "consumer"),
        },
        bare_client_config(args),
        ConsumerConfig(),
    )
    loop = asyncio.get_running_loop()
    async with Consumer(world, config, consumer_config) as consumer:
        if args.group is None:
            await consumer.assign_topics(args.topic)
        else:
            consumer.subscribe([args.topic])
        begun_s = idle_since_s = loop.time()
        measurement = Measurement(begun_s, "read")
        progress = ProgressPrinter(measurement, args.json, args.messages)
        while measurement.total.records < args.messages:
            left = args.messages - measurement.total.records
            records = await consumer.poll(POLL_MS, min(left, consumer_config.max_poll_records))
            for record in records:
                measurement.add(len(record.key or b"") + len(record.value or b""))
            now_s = loop.time()
            progress.look(now_s)
            if records:
                idle_since_s = now_s
            elif now_s - idle_since_s > args.timeout / 1000:
                progress.say(f"no record arrived for {args.timeout} ms")
                break
        ended_s = loop.time()
    check_answered(consumer)
    progress.say(measurement.summary(ended_s))
    return measurement.facts(ended_s)


# ------------------------------------------------------------------------------------ end to end


async def end_to_end(world: World, args: argparse.Namespace) -> dict[str, float]:
    """Send one record after another, and measure the time until each is read back.

    Kafka: ``EndToEndLatency``.
    """
    loop = asyncio.get_running_loop()
    client: ClientConfig = bare_client_config(args)
    config, producer_config = with_properties(
        settings(args, "producer"), client, ProducerConfig(max_block_ms=TIMEOUT_MS)
    )
    _, consumer_config = with_properties(settings(args, "consumer"), client, ConsumerConfig())
    async with (
        Producer(world, config, producer_config) as producer,
        Consumer(world, config, consumer_config) as consumer,
    ):
        view = await producer.session.metadata.topic(args.topic, producer_config.max_block_ms)
        partitions = [TopicPartition(args.topic, number) for number in view.partitions]
        consumer.assign(partitions)
        for tp in partitions:
            await consumer.position(tp)  # the end as of now
        measurement = Measurement(loop.time(), "passed on")
        progress = ProgressPrinter(measurement, args.json, args.messages)
        read: Callable[[], bytes] = partial(world.entropy.random_bytes, args.record_size)
        for _ in range(args.messages):
            payload, sent_s = read(), loop.time()
            await producer.send_and_wait(args.topic, payload)
            await until_read(consumer, payload, client.default_api_timeout_ms)
            measurement.add(args.record_size, (loop.time() - sent_s) * 1000)
            progress.look(loop.time())
        ended_s = loop.time()
    progress.say(measurement.summary(ended_s))
    return measurement.facts(ended_s)


async def until_read(consumer: Consumer, payload: bytes, timeout_ms: int) -> None:
    """Poll until the record has arrived.

    Raises KafkaError after ``timeout_ms``, ConfigError if another record arrives.
    """
    records = await consumer.poll(timeout_ms)
    if not records:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no record arrived for {timeout_ms} ms")
    if len(records) > 1 or records[0].value != payload:
        raise ConfigError("another producer writes to this topic; use a topic for this test only")
