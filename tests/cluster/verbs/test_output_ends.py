"""Verbs work with closed standard streams, and complete a change although nobody reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.real_cluster import MINIKAFKA, run_verb

pytestmark = pytest.mark.cluster

# A reassignment of these as JSON is larger than the buffer of standard output.
PARTITIONS = 50
MOVED = "moved-" + "x" * 200


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with InsideCluster(brokers=2) as cluster:
        yield cluster.bootstrap


def closed(streams: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a verb with closed standard streams, such as ``>&-``."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", *MINIKAFKA, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words",
    [
        ("topics", "--list"),
        ("produce", "--topic", "lines"),
        ("consume", "--topic", "lines", "--timeout-ms", "100"),
        ("configs", "--describe", "--broker", "1", "--all"),
        ("groups", "list"),
    ],
    ids=" ".join,
)
def test_closed_streams(bootstrap: str, streams: str, words: Sequence[str]) -> None:
    done = closed(streams, [*words, "--bootstrap-server", bootstrap])
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [(), ("--help",), ("topics", "--help"), ("no-verb",)])
def test_closed_streams_without_a_cluster(streams: str, words: Sequence[str]) -> None:
    expected = 0 if "--help" in words else 2
    assert closed(streams, words).returncode == expected


def piped(words: Sequence[str]) -> tuple[int, str]:
    """Run a verb whose reader has ended before it begins. Return its status and its errors."""
    with subprocess.Popen(
        [*MINIKAFKA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        return process.wait(60), errors


def test_a_change_is_completed_without_a_reader(bootstrap: str, tmp_path: Path) -> None:
    """The throttle is set before the moves start, and the rollback is printed between."""
    server = ("--bootstrap-server", bootstrap)
    on_broker_1 = ",".join(["1"] * PARTITIONS)
    topic = ("topics", "create", "--topic", MOVED, "--replica-assignment", on_broker_1)
    made = run_verb(*topic, *server)
    assert made.returncode == 0, made.stderr
    plan = tmp_path / "plan.json"
    rows = [{"topic": MOVED, "partition": n, "replicas": [2]} for n in range(PARTITIONS)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    status, errors = piped(
        [
            *("reassign", "--execute", "--throttle", "100000000"),
            *("--reassignment-json-file", str(plan), *server),
        ]
    )
    assert (status, errors) == (1, "")
    described = run_verb("topics", "describe", "--topic", MOVED, "--json", *server)
    assert described.returncode == 0, described.stderr
    found = json.loads(described.stdout)
    moved = [2 in row["replicas"] for topic in found for row in topic["partitions"]]
    assert moved == [True] * PARTITIONS


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_output_is_an_error(bootstrap: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MINIKAFKA, "topics", "list", "--bootstrap-server", bootstrap],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "minikafka: No space left on device\n"


def test_help_into_a_pipe_without_a_reader() -> None:
    assert piped(["topics", "--help"])[1] == ""
