"""The disk of one broker of three is full for a while: a small tmpfs, under load."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster
from tests.support.cluster.verify_process import VerifyProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

SIZE = "48m"
VICTIM = 2
SETTINGS = ("zookeeper.session.timeout.ms=3000", "replica.lag.time.max.ms=3000")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return one broker's data directory, on which a small file system is mounted."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root")
    where = tmp_path / "cluster" / f"broker-{VICTIM}" / "data"
    where.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "minikafka-test", str(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def fill(where: Path) -> None:
    with (where / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(64 * 1024))
        except OSError:
            return


def test_a_full_disk_refuses_and_nothing_is_lost(small_disk: Path, tmp_path: Path) -> None:
    with (
        RealCluster(tmp_path / "cluster", overrides=SETTINGS) as cluster,
        VerifyProcess(cluster.bootstrap, tmp_path / "verify", "--topic", "watched") as load,
    ):
        cluster.until_whole()
        partitions = range(6)
        mark = len(cluster.log(VICTIM))
        fill(small_disk)
        told = f"the disk of {small_disk} is full"
        until(lambda: told in cluster.complaints(), "the terminal says that the disk is full")
        until(
            lambda: all(
                state["leader"] == VICTIM or VICTIM not in state["isr"]
                for state in (cluster.state("watched", p) for p in partitions)
            ),
            "it follows nobody any more",
            60,
        )
        load.until_more()  # where others lead
        assert "replica_disk_filled" in cluster.log(VICTIM)[mark:]
        (small_disk / "filler").unlink()
        cluster.until_whole()
        load.until_more()
        assert load.finish()["counts"]["in_doubt"] == 0
