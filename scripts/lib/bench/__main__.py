"""Runs the benchmarks named, or all. `stalls:TEXT` runs only the rows whose names have TEXT, and
`soak:MINUTES`, or `soak MINUTES`, lasts that long, and `scale:NUMBER` takes so many partitions."""

from __future__ import annotations

import re
import sys

from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.bench import (
    clients,
    codec,
    controller,
    groups,
    idle,
    log,
    page,
    partitioners,
    produce,
    replication,
    scale,
    security,
    side_by_side,
    spark,
    stalls,
    start,
    tab,
    testing,
    timer,
    transactions,
)
from scripts.lib.bench.report import Report
from scripts.lib.bench.soak import run as soak

BENCHMARKS = {
    "codec": codec.run,
    "log": log.run,
    "produce": produce.run_produce,
    "fetch": produce.run_fetch,
    "replication": replication.run,
    "latency": produce.run_latency,
    "start": start.run,
    "idle": idle.run,
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
    "soak": soak.run,
    "kafka": side_by_side.run,
}
ONLY_NAMED = ("scale", "soak", "kafka")  # they take long, and the last two write a document


def main() -> int:
    words = re.sub(r"\bsoak ([\d.]+)", r"soak:\1", " ".join(sys.argv[1:])).split()
    arguments = [each.partition(":") for each in words]
    rows = [row for name, _, row in arguments if name == "stalls" and row]
    minutes = [float(row) for name, _, row in arguments if name == "soak" and row]
    sizes = [int(row) for name, _, row in arguments if name == "scale" and row]
    names = list(dict.fromkeys(name for name, _, _ in arguments)) or [
        name for name in BENCHMARKS if name not in ONLY_NAMED
    ]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"bench: no {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    report = Report()
    try:
        for name in names:
            if name == "stalls":
                stalls.run(report, rows)
            elif name == "soak":
                soak.run(report, *minutes)
            elif name == "scale":
                scale.run(report, *sizes)
            else:
                BENCHMARKS[name](report)
    except NoApacheKafka as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
