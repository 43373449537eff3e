"""Triggered runs of the pipeline of `pipeline init`: where their time goes, and what options save.

The probe is the same pipeline with Java's own options. CPU time is that of processes, which says
the same on a busy machine; the seconds until an event do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import Producer

from minikafka.spark.pipeline.project import FILES, make_project
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.harness import Figures, in_turns, medians
from scripts.lib.bench.report import Report

ROUNDS = 3
MANY = 300_000
BETWEEN_SAMPLES_S = 0.1
TOPICS = ("orders", "orders-by-minute", "orders-dead-letters")
# What takes back the options of a triggered run.
JAVAS_OWN = (
    "-Xshare:auto -XX:+UseG1GC -XX:CompileThresholdScaling=1 -XX:Tier4InvocationThreshold=5000 "
    "-XX:Tier4MinInvocationThreshold=600 -XX:Tier4CompileThreshold=15000 "
    "-XX:Tier4BackEdgeThreshold=40000"
)
END = "until its end"
KINDS = {"minikafka": "", "Java's own": JAVAS_OWN}


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Brokers() as cluster:
        environ = {**os.environ, "XDG_CACHE_HOME": f"{home}/cache"}
        shops = {}
        for number, (kind, options) in enumerate(KINDS.items()):
            shops[kind] = Shop(Path(home) / f"shop-{number}", cluster, number, options)
        report.section("Spark: a triggered run, local[2]", *KINDS)
        for name in ("the first", "the second"):  # which writes the archive
            show(report, name, {kind: shop.run(environ) for kind, shop in shops.items()})
        runs = {kind: partial(shop.run, environ) for kind, shop in shops.items()}
        few = {kind: medians(each) for kind, each in in_turns(runs, ROUNDS).items()}
        show(report, "of seven records", few, 15)
        for shop in shops.values():
            shop.sell(MANY)
        show(report, f"of {MANY:,}", {kind: shop.run(environ) for kind, shop in shops.items()})


def show(report: Report, name: str, runs: dict[str, Figures], aim: float | None = None) -> None:
    ours, plain = runs.values()
    for meaning, value in ours.items():
        wanted = aim if meaning == END else None
        report.row(f"{name}: {meaning}", "s", value, plain[meaning], most=wanted)


class Shop:
    """A new project with new topics, which hold the orders of the template."""

    def __init__(self, folder: Path, cluster: Brokers, number: int, options: str) -> None:
        make_project(folder)
        bootstrap = cluster.bootstrap
        self._folder = folder
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._orders = f"orders-{number}"
        cluster.create({f"{name}-{number}": [[1], [1]] for name in TOPICS})
        changes = {
            "127.0.0.1:9092": bootstrap,
            "local[*]": "local[2]",
            '"subscribe", "orders"': f'"subscribe", "{self._orders}"',
            'topic("orders-by-minute")': f'topic("orders-by-minute-{number}")',
            'topic("orders-dead-letters")': f'topic("orders-dead-letters-{number}")',
        }
        for name in ("spark-pipeline.yml", "config/spark.properties", "transformations/orders.py"):
            text = (folder / name).read_text()
            for old, new in changes.items():
                text = text.replace(old, new)
            (folder / name).write_text(text)
        if options:
            with (folder / "config/spark.properties").open("a") as file:
                file.write(f"spark.driver.extraJavaOptions={options}\n")

    def sell(self, count: int) -> None:
        begin = datetime(2026, 2, 1, tzinfo=UTC)
        for number in range(count):
            at = (begin + timedelta(seconds=number)).isoformat()
            order = {"product": f"p{number % 20}", "amount": number, "at": at}
            self._producer.produce(self._orders, json.dumps(order).encode())
            if number % 10_000 == 0:
                self._producer.flush(60)

    def run(self, environ: dict[str, str]) -> Figures:
        """Add the seven orders of the template, and run the pipeline. Raises CalledProcessError."""
        for line in FILES["orders.jsonl"].splitlines():
            self._producer.produce(self._orders, line.encode())
        assert self._producer.flush(60) == 0
        command = [sys.executable, "-m", "minikafka.cli.main", "pipeline", "run"]
        command.append(str(self._folder))
        began = time.monotonic()
        events: dict[str, float] = {}
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
            output = process.stdout
            assert output is not None

            def note_events() -> None:
                for line in output:
                    for event in ("is RUNNING", "is COMPLETED"):
                        if event in line:
                            events.setdefault(event, time.monotonic() - began)

            reading = threading.Thread(target=note_events)
            reading.start()
            jvm, others = cpu_until_end(process)
            reading.join()
        ended = time.monotonic() - began
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return {
            "CPU of the JVM": jvm,
            "CPU of Python": others,
            "until flows run": events["is RUNNING"],
            "until it is completed": events["is COMPLETED"],
            END: ended,
        }


def cpu_until_end(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Wait for the end. Return the CPU time of Spark's JVM, and that of all other processes."""
    used: dict[bool, dict[int, float]] = {True: {}, False: {}}
    while process.poll() is None:
        try:
            root = psutil.Process(process.pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for each in family:
            try:
                times = each.cpu_times()
                is_jvm = "org.apache.spark.deploy.SparkSubmit" in each.cmdline()
            except psutil.Error:
                continue  # it has ended
            used[is_jvm][each.pid] = times.user + times.system
        time.sleep(BETWEEN_SAMPLES_S)
    jvm = used.pop(True)
    others = {pid: cpu for pid, cpu in used[False].items() if pid not in jvm}
    return sum(jvm.values()), sum(others.values())
