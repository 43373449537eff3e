"""The verb `verify`: work with a cluster for a while, and report every promise that it breaks."""

from __future__ import annotations

import argparse
import sys

from minikafka.cli.connect import client_config, run_client
from minikafka.cli.output import show_json
from minikafka.cli.records.verify_nemesis import add_nemesis_arguments, nemesis_of
from minikafka.cli.stopping import call_once_when_asked_to_stop
from minikafka.cli.verb_parser import (
    add_bootstrap_argument,
    add_json_argument,
    add_pairs_argument,
    pairs,
)
from minikafka.kernel.ports import World
from minikafka.testing.verify.report import count_in_words
from minikafka.testing.verify.run import WORKLOADS, Progress, Run
from minikafka.testing.verify.workload import RunConfig

REQUEST_TIMEOUT_MS = 5_000  # how long a frozen broker is believed in
PIPE_PROGRESS_S = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument(
        "--workload",
        action="append",
        choices=tuple(WORKLOADS),
        help="what to do with the cluster; repeatable, several work side by side (append)",
    )
    parser.add_argument(
        "--duration-s", type=float, default=30, help="how long to work, in seconds (30)"
    )
    parser.add_argument("--producers", type=int, default=3, help="number of producers (3)")
    parser.add_argument("--consumers", type=int, default=2, help="number of consumers (2)")
    parser.add_argument("--partitions", type=int, default=6, help="partitions of a topic (6)")
    parser.add_argument(
        "--replication-factor",
        type=int,
        default=-1,
        help="of a topic (3, or the number of brokers)",
    )
    parser.add_argument(
        "--records-per-s", type=int, default=1_000, help="of all producers together (1000)"
    )
    parser.add_argument(
        "--value-bytes", type=int, default=100, help="size of a record's value (100)"
    )
    parser.add_argument("--topic", default="", help="name of the topic of append (a new one)")
    parser.add_argument(
        "--keep-topic", action="store_true", help="do not delete the topics after success"
    )
    add_pairs_argument(parser, "--topic-config", "a setting of the topics; repeatable")
    parser.add_argument(
        "--not-idempotent",
        action="store_true",
        help="producers without idempotence; duplicate records are allowed",
    )
    parser.add_argument(
        "--progress-s",
        type=float,
        default=PIPE_PROGRESS_S,
        help=f"seconds between lines of progress in a pipe ({PIPE_PROGRESS_S})",
    )
    add_json_argument(parser, "print the verdict as JSON")
    add_nemesis_arguments(parser)


def run(args: argparse.Namespace) -> int:
    config = RunConfig(
        duration_ms=int(args.duration_s * 1000),
        producers=max(1, args.producers),
        consumers=max(0, args.consumers),
        partitions=max(1, args.partitions),
        replication_factor=args.replication_factor,
        records_per_s=args.records_per_s,
        value_bytes=args.value_bytes,
        idempotent=not args.not_idempotent,
        topic=args.topic,
        keep_topic=args.keep_topic,
        topic_configs=pairs(args.topic_config, "--topic-config"),
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    client = client_config(args, request_timeout_ms=REQUEST_TIMEOUT_MS)
    shown = ProgressLine(int(args.progress_s * 1000))

    workloads = [WORKLOADS[name] for name in dict.fromkeys(args.workload or ["append"])]

    async def work(world: World) -> int:
        nemesis = nemesis_of(args, world, client)
        if nemesis is not None:
            await nemesis.prepare()
        running = Run(world, client, config, shown.update, workloads, nemesis)
        call_once_when_asked_to_stop(running.stop)
        try:
            verdict = await running.execute()
        finally:
            shown.end()
        if args.json:
            show_json(verdict.as_json())
        else:
            print("\n".join(verdict.lines()))
        if not verdict.ok:
            print(f"minikafka: kept: {', '.join(verdict.topics)}", file=sys.stderr)
        return 0 if verdict.ok else 1

    return run_client(work)


class ProgressLine:
    """Progress on standard error: an overwritten line on a terminal, a line at times in a pipe."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._on_terminal = sys.stderr.isatty()
        self._next_ms = 0
        self._open = False

    def update(self, progress: Progress) -> None:
        text = f"{progress.elapsed_ms // 1000:>4} s  {_counts_in_words(progress)}"
        if progress.silent_ms >= 1000:
            text += f", no success for {progress.silent_ms / 1000:.0f} s"
        if self._on_terminal:
            self._open = True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif progress.elapsed_ms >= self._next_ms:
            self._next_ms = progress.elapsed_ms + self._pause_ms
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._open:
            print(file=sys.stderr)


def _counts_in_words(progress: Progress) -> str:
    """Return the first count of each workload, and all counts of a single one."""
    if len(progress.counts) == 1:
        (counts,) = progress.counts.values()
        return ", ".join(count_in_words(*pair) for pair in counts.items())
    return ", ".join(
        f"{name}: {count_in_words(*next(iter(counts.items())))}"
        for name, counts in progress.counts.items()
    )
