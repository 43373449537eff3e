"""The soak with faults: its commands are those that `verify` takes, its tables show both sides."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minikafka.cli.records.verify_nemesis import add_nemesis_arguments, nemesis_of
from minikafka.client import ClientConfig
from minikafka.world.real.world import real_world
from scripts.lib.bench.report import insert
from scripts.lib.soak_with_faults import (
    DOCUMENT,
    MARKS,
    FaultyRun,
    commands,
    nemesis_words,
    tables,
)


def verdict(count: int, complaint: str = "", **found: int) -> dict[str, Any]:
    faults = [
        {"kind": "kill9", "ended_ms": 1_000, "whole_ms": 3_000},
        {"kind": "kill9", "ended_ms": 10_000, "whole_ms": 16_000},
        {"kind": "stop", "ended_ms": 20_000, "whole_ms": -1},
    ]
    return {
        "workloads": {"append": {"counts": {"done": count, "other": 9}, "found": found}},
        "nemesis": {"faults": faults, "complaint": complaint},
    }


def test_tables_of_both_sides() -> None:
    runs = [
        FaultyRun("minikafka", "append", verdict(1_000)),
        FaultyRun("Kafka", "append", verdict(2_000, "not whole", lost=2)),
        FaultyRun("minikafka", "groups", verdict(10)),
    ]
    sides = ("minikafka", "Kafka")
    first = " | ".join(f"{s}, operations | {s}, faults | {s}, anomalies" for s in sides)
    second = " | ".join(f"{s}, faults | {s}, p50 (s) | {s}, worst (s)" for s in sides)
    assert tables(runs).splitlines() == [
        f"| workload | {first} |",
        "| --- | --: | --: | --: | --: | --: | --: |",
        "| append | 1,000 | 3 | none | 2,000 | 3 | 2 lost; not whole |",
        "| groups | 10 | 3 | none |  |  |  |",
        "",
        f"| fault | {second} |",
        "| --- | --: | --: | --: | --: | --: | --: |",
        "| kill9 | 4 | 4.0 | 6.0 | 2 | 4.0 | 6.0 |",
    ]


def test_verify_takes_the_commands() -> None:
    for disks in (None, Path("/disks")):
        parser = argparse.ArgumentParser()
        add_nemesis_arguments(parser)
        args = parser.parse_args(nemesis_words(Path("/home"), disks, 7))
        args.replication_factor, args.topic, args.topic_config = -1, "", []
        nemesis = nemesis_of(args, real_world(), ClientConfig())
        assert nemesis is not None
        assert ("full-disk" in args.nemesis) == (disks is not None)
        assert args.nemesis_seed == 7
    for begin, end in commands(Path("/home"), Path("/disks")).values():
        assert "{broker}" in begin + end or "/home/zookeeper" in begin


def test_the_document_has_a_place_for_them() -> None:
    assert "figures" in insert(DOCUMENT.read_text(), "figures", MARKS)
