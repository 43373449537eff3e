"""kcat as a member of a group (librdkafka 2.0, as Debian has it)."""

import shutil
import subprocess

import pytest

from tests.support.clients.places import Cluster, on_processes
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


@on_processes
def test_a_group_goes_on_where_it_was(cluster: Cluster, topic: str) -> None:
    kcat(cluster, "-L", "-t", topic)
    wait_for_leaders(cluster.bootstrap, topic, 1)

    def read() -> list[str]:
        options = ["-X", "auto.offset.reset=earliest", "-e", "-q"]
        return kcat(cluster, "-G", f"g-{topic}", *options, topic).split()

    kcat(cluster, "-P", "-t", topic, text="a\nb\nc\n")
    assert read() == ["a", "b", "c"]
    kcat(cluster, "-P", "-t", topic, text="d\n")
    assert read() == ["d"]
    assert read() == []
