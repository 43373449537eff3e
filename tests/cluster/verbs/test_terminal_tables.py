"""Tables on a terminal of 80 columns; the form of Kafka's tools keeps their layout there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.real_cluster import MINIKAFKA, run_verb

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.mission("GLASS-151"),
    pytest.mark.mission("GLASS-162"),
]

TOPIC = "a-topic-with-a-name-of-more-than-eighty-characters-" + "x" * 60
RED = "\x1b[1;31m"


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(2) as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        yield cluster


def on_terminal(*words: str, **environment: str) -> str:
    """Run a verb on a terminal of 80 columns; return what it prints."""
    parent, child = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", **environment}
    with subprocess.Popen([*MINIKAFKA, *words], stdout=child, stdin=child, env=env) as process:
        os.close(child)
        found = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(parent, 1 << 16):
                found += data
        assert process.wait(60) == 0
    os.close(parent)
    return found.decode().replace("\r\n", "\n")


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_tables_fit_and_what_is_sick_is_red(cluster: InsideCluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    assert (
        run_verb(
            *("groups", "reset-offsets", "--group", "readers", "--topic", TOPIC),
            *("--to-latest", "--execute", *server),
        ).returncode
        == 0
    )
    healthy = on_terminal("topics", "describe", "--topic", TOPIC, *server)
    assert plain(healthy)[1].split() == ["partition", "leader", "replicas", "in", "sync", "state"]
    assert RED not in healthy
    piped = run_verb("topics", "describe", "--topic", TOPIC, *server).stdout
    raw = on_terminal("topics", "--describe", "--topic", TOPIC, *server)
    assert raw.expandtabs() == piped.expandtabs()
    assert "\tPartition: 0\tLeader: " in piped

    cluster.kill_broker(2)
    for _ in range(50):  # the controller notices it after a moment
        sick = on_terminal("topics", "describe", "--topic", TOPIC, *server)
        if RED in sick:
            break
    assert f"{RED}not in sync: 2" in sick
    for words in (
        ("topics", "describe", "--topic", TOPIC),
        ("groups", "describe", "--group", "readers"),
        ("groups", "list"),
        ("configs", "describe", "--topic", TOPIC, "--all"),
        ("features", "describe"),
        ("topics", "describe", "--topics-with-overrides"),
        ("topics", "describe", "--under-replicated-partitions"),
        ("log-dirs", "--topic-list", TOPIC, "--broker-list", "1"),
    ):
        lines = plain(on_terminal(*words, *server))
        assert lines
        assert [line for line in lines[1:] if len(line) > 80] == []
    raw = on_terminal("topics", "--describe", "--under-replicated-partitions", *server)
    assert plain(raw)[0].split()[0] == "Topic:"
    raw = on_terminal("configs", "--describe", "--topic", TOPIC, "--all", *server)
    assert " sensitive=false synonyms={" in raw
    assert RED not in on_terminal("topics", "describe", "--topic", TOPIC, *server, NO_COLOR="1")
    assert run_verb(*("log-dirs", "--broker-list", "1", *server)).stdout.startswith("broker\tdirec")
