"""Runs the benchmarks named, or all. A name may have an option: `stalls:TEXT` runs only the rows
whose names have TEXT, `soak:MINUTES`, or `soak MINUTES`, lasts that long, `scale:NUMBER` takes so
many partitions, and `flames:DIRECTORY` the brokers of another checkout."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.bench import (
    clients,
    codec,
    connections,
    controller,
    copies,
    fetch,
    flames,
    formats,
    groups,
    idle,
    interpreters,
    log,
    page,
    partitioners,
    produce,
    replication,
    scale,
    security,
    side_by_side,
    spark,
    spark_cluster,
    spark_streams,
    spark_trigger,
    stalls,
    start,
    tab,
    testing,
    timer,
    transactions,
)
from scripts.lib.bench.report import Report
from scripts.lib.bench.soak import run as soak

# Beside the figures of both kinds.
IN_THE_DOCUMENT = ("start", "interpreters", "idle", "connections", "client")
BENCHMARKS: dict[str, Callable[[Report], None]] = {
    "codec": codec.run,
    "log": log.run,
    "produce": produce.run_produce,
    "fetch": fetch.run,
    "replication": replication.run,
    "catching-up": replication.catching_up,
    "copies": copies.run,
    "latency": produce.run_latency,
    "start": start.run,
    "idle": idle.run,
    "connections": connections.run,
    "testing": testing.run,
    "timer": timer.run,
    "controller": controller.run,
    "scale": scale.run,
    "groups": groups.run,
    "client": clients.run,
    "partitioners": partitioners.run,
    "transactions": transactions.run,
    "security": security.run,
    "page": page.run,
    "tab": tab.run,
    "stalls": stalls.run,
    "spark": spark.run,
    "spark-cluster": spark_cluster.run,
    "spark-streams": spark_streams.run,
    "spark-trigger": spark_trigger.run,
    "formats": formats.run,
    "interpreters": interpreters.run,
    "flames": flames.run,
    "soak": soak.run,
    "kafka": lambda _: side_by_side.run([BENCHMARKS[name] for name in IN_THE_DOCUMENT]),
}
# What runs only when it is named: it takes long, or writes into docs.
ONLY_NAMED = (
    "catching-up", "scale", "spark-cluster", "interpreters", "flames", "soak", "kafka"
)  # fmt: skip
WITH_OPTION: dict[str, Callable[[Report, str], None]] = {
    "stalls": lambda report, text: stalls.run(report, [text]),
    "scale": lambda report, number: scale.run(report, int(number)),
    "soak": lambda report, minutes: soak.run(report, float(minutes)),
    "flames": lambda report, directory: flames.run(report, Path(directory)),
}


def main() -> int:
    words = re.sub(r"\bsoak ([\d.]+)", r"soak:\1", " ".join(sys.argv[1:])).split()
    wanted = [each.partition(":") for each in dict.fromkeys(words)] or [
        (name, "", "") for name in BENCHMARKS if name not in ONLY_NAMED
    ]
    unknown = [name for name, _, _ in wanted if name not in BENCHMARKS]
    if unknown:
        print(f"bench: no {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    report = Report()
    try:
        for name, _, option in wanted:
            if option and name in WITH_OPTION:
                WITH_OPTION[name](report, option)
            else:
                BENCHMARKS[name](report)
    except NoApacheKafka as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
