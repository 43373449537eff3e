"""The bytes that a process moves from and to disks."""

from __future__ import annotations

import os
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minikafka.cli.processes.broker import register_disk_bytes, register_process
from minikafka.core.prometheus import Names, TextFormat, exposition
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import run_at_once
from minikafka.world.real import process_io


@pytest.mark.mission("GLASS-5")
@pytest.mark.skipif(not process_io.IO.exists(), reason="no /proc/self/io")
def test_written_bytes_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    register_disk_bytes(metrics)
    name = "kafka.server:type=KafkaServer,name=linux-disk-write-bytes"
    before = metrics.snapshot()[name]
    with (tmp_path / "data").open("wb") as file:
        file.write(bytes(1_000_000))
        file.flush()
        os.fsync(file.fileno())
    after = metrics.snapshot()[name]
    assert after >= before + (0 if tmp_path.stat().st_dev in memory_disks() else 1_000_000)
    assert "kafka.server:type=KafkaServer,name=linux-disk-read-bytes" in metrics.snapshot()


def memory_disks() -> set[int]:
    """Return the devices of file systems that are in memory, which count nothing."""
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    in_memory = [row for row in rows if row[row.index("-") + 1] in ("tmpfs", "overlay", "ramfs")]
    return {os.makedev(*(int(part) for part in row[2].split(":"))) for row in in_memory}


@pytest.mark.mission("GLASS-5")
def test_a_system_without_the_counts_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_io, "IO", tmp_path / "missing")
    metrics = Metrics()
    register_disk_bytes(metrics)
    assert metrics.snapshot() == {}


@pytest.mark.mission("GLASS-58")
@pytest.mark.skipif(not process_io.IO.exists(), reason="no /proc")
@pytest.mark.parametrize("names", Names)
def test_a_process_is_shown_as_by_the_client_of_prometheus(names: Names) -> None:
    metrics = Metrics()
    register_process(metrics)
    text = run_at_once(exposition(metrics.samples(), names, TextFormat.PROMETHEUS)).decode()
    ours = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    collector = prometheus_client.ProcessCollector(registry=None)
    theirs = {s.name: s.value for f in collector.collect() for s in f.samples}
    assert ours.keys() == theirs.keys()
    exact = ("process_start_time_seconds", "process_max_fds")
    assert {name: ours[name] for name in exact} == {name: theirs[name] for name in exact}
    for name in ours.keys() - set(exact):
        assert ours[name] == pytest.approx(theirs[name], rel=0.5)


@pytest.mark.mission("GLASS-58")
def test_a_system_without_proc_shows_its_cpu_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_io, "PROCESS", tmp_path)
    metrics = Metrics()
    register_process(metrics)
    assert list(metrics.snapshot()) == ["process:type=cpu,name=seconds"]
