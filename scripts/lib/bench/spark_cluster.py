"""Spark on a standalone cluster of four workers with a core each: 1, 2 and 4 tasks at a time.

All on one machine, three brokers included, so that the curve ends where the machine does."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from minikafka.spark.java import find_java_home
from scripts.lib.bench.brokers import Brokers, spread
from scripts.lib.bench.report import Report
from scripts.lib.bench.spark import PARTITIONS, fill
from scripts.lib.spark_standalone import Standalone

JOB = Path(__file__).with_name("spark_cluster_job.py")
SIZE = 100
COUNT = 500_000
WORKERS = 4
TASKS = (1, 2, 4)


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Brokers(3) as cluster:
        folder = Path(home)
        names = ["in", *(f"out-{tasks}" for tasks in TASKS)]
        cluster.create({name: spread(PARTITIONS, 3, 3) for name in names})
        fill(cluster.bootstrap, "in", SIZE, COUNT)
        with Standalone(folder, find_java_home(os.environ, folder / "java"), WORKERS) as spark:
            title = f"Spark: {WORKERS} workers of one core, {SIZE} B, {os.cpu_count()} processors"
            report.section(title, "minikafka", "1 task")
            one: dict[str, float] = {}
            for tasks in TASKS:
                found = run_job(spark, cluster.bootstrap, folder, tasks)
                one = one or found
                for name, rate in found.items():
                    report.row(f"{name}, tasks: {tasks}", "krec/s", rate, one[name])


def run_job(spark: Standalone, bootstrap: str, folder: Path, tasks: int) -> dict[str, float]:
    """Submit the job on ``tasks`` cores and return its figures, the last line of its output.

    Raises RuntimeError if the job fails."""
    checkpoint = str(folder / f"checkpoint-{tasks}")
    job = spark.submit(JOB, bootstrap, "in", f"out-{tasks}", checkpoint, cores=tasks)
    status = job.wait(900)
    log = spark.log_of("submit")
    if status != 0:
        raise RuntimeError(log[-3000:])
    found: dict[str, float] = json.loads(log.rstrip().splitlines()[-1])
    return found
