"""kcat against three brokers."""

import json
import shutil
import subprocess

import pytest

from tests.support.clients.places import Cluster, in_both_places
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]


def kcat(cluster: Cluster, *arguments: str, text: str | None = None) -> str:
    command = ["kcat", "-b", cluster.bootstrap, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata(cluster: Cluster) -> None:
    listed = json.loads(kcat(cluster, "-L", "-J"))
    assert sorted(broker["id"] for broker in listed["brokers"]) == [1, 2, 3]


@pytest.mark.mission("CRD-1")
# Debian's kcat has librdkafka 2.0, which auto-creates the topic by asking for its metadata.
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produce_and_read_back(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    lines = [f"line {n}" for n in range(200)]
    kcat(cluster, "-L", "-t", topic)
    wait_for_leaders(cluster.bootstrap, topic, 1)
    options = ["-t", topic, "-p", "0", "-z", codec, "-X", f"acks={acks}"]
    kcat(cluster, "-P", *options, text="\n".join(lines) + "\n")
    assert (
        kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q").splitlines()
        == lines
    )


@in_both_places
def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    kcat(cluster, "-P", "-t", topic, "-p", "0", text="a\nb\n")
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-2").strip().endswith("offset 0")
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-1").strip().endswith("offset 2")
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:1000").strip().endswith("offset 0")
