"""Runs the benchmarks named, or all. A name may have an option: `stalls:TEXT` takes only the inputs
whose names have TEXT, `soak:MINUTES`, or `soak MINUTES`, lasts so long, `scale:NUMBER` takes so
many partitions, and `failover:ROUNDS` kills so often."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial

from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.bench import (
    catching_up,
    clients,
    copies,
    failover,
    formats,
    idle,
    kafka,
    loads,
    members,
    page,
    partitioners,
    processes,
    scale,
    security,
    shares,
    slow_disk,
    spark,
    spark_cluster,
    spark_trigger,
    stalls,
    tab,
    testing,
)
from scripts.lib.bench.report import Report
from scripts.lib.bench.slow_device import NoSlowDevice
from scripts.lib.bench.soak import run as soak

# Beside the figures of both kinds.
IN_THE_DOCUMENT = ("start", "interpreters", "idle", "connections", "client")
BENCHMARKS: dict[str, Callable[[Report], None]] = {
    **{name: partial(loads.run, name) for name in loads.TABLES},
    "failover": failover.run,
    "catching-up": catching_up.run,
    "copies": copies.run,
    "start": processes.start,
    "idle": idle.run,
    "testing": testing.run,
    "scale": scale.run,
    "client": clients.run,
    "partitioners": partitioners.run,
    "security": security.run,
    "members": members.run,
    "shares": shares.run,
    "page": page.run,
    "tab": tab.run,
    "stalls": stalls.run,
    "slow-disk": slow_disk.run,
    "spark": spark.run,
    "spark-streams": spark.run_streams,
    "spark-trigger": spark_trigger.run,
    "spark-cluster": spark_cluster.run,
    "formats": formats.run,
    "interpreters": processes.interpreters,
    "flames": processes.flames,
    "soak": soak.run,
    "kafka": lambda _: kafka.run([BENCHMARKS[name] for name in IN_THE_DOCUMENT]),
}
# What runs only when it is named: it takes long, or writes into docs.
ONLY_NAMED = (
    "failover", "catching-up", "scale", "members", "shares", "slow-disk", "spark-cluster",
    "interpreters", "flames", "soak", "kafka",
)  # fmt: skip
WITH_OPTION: dict[str, Callable[[Report, str], None]] = {
    "stalls": stalls.run,
    "scale": lambda report, number: scale.run(report, int(number)),
    "failover": lambda report, rounds: failover.run(report, int(rounds)),
    "soak": lambda report, minutes: soak.run(report, float(minutes)),
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
    except (NoApacheKafka, NoSlowDevice) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
