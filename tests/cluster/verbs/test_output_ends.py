"""Verbs work with closed standard streams, and complete a change although nobody reads them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import pytest

from minikafka.cli.main import VERBS, main
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.real_cluster import MINIKAFKA, run_verb

pytestmark = pytest.mark.cluster

# A reassignment of these as JSON is larger than the buffer of standard output.
PARTITIONS = 50
MOVED = "moved-" + "x" * 200


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with InsideCluster(brokers=2, settings=settings) as cluster:
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


# Verbs that change a cluster: every act of one, and what a verb that reads prints afterwards. They
# depend on each other. Files are texts after "@".
PLAN: Final = {"version": 1, "partitions": [{"topic": "kept", "partition": 0, "replicas": [2, 1]}]}
RECORDS: Final = {"version": 1, "partitions": [{"topic": "kept", "partition": 0, "offset": 2}]}
KEPT: Final = ("topics describe --topic kept", "consume --topic kept --from-beginning")
CHANGES: Final[Sequence[tuple[str, str, str]]] = (
    ("topics create --topic kept --replica-assignment 1:2", KEPT[0], "PartitionCount: 1"),
    ("topics create --topic gone", "topics list", "gone"),
    ("topics alter --topic gone --partitions 3", "topics describe --topic gone", "Count: 3"),
    ("topics delete --topic gone", "topics list", "!gone"),
    ("produce --topic kept", f"{KEPT[1]} --max-messages 3", "line 3"),
    (f"delete-records --offset-json-file @{json.dumps(RECORDS)}", f"{KEPT[1]} --max-messages 1",
     "!line 2"),
    ("configs --alter --topic kept --add-config retention.ms=77", KEPT[0], "retention.ms=77"),
    (f"reassign --execute --throttle 1000000 --reassignment-json-file @{json.dumps(PLAN)}",
     KEPT[0], "Replicas: 2,1"),
    ("elect-leaders --election-type preferred --topic kept --partition 0", KEPT[0], "Leader: 2"),
    (f"reassign --verify --reassignment-json-file @{json.dumps(PLAN)}",
     "configs --describe --broker 2", "!throttled.rate"),
    ("client-metrics --alter --name pushed --metrics *", "client-metrics --list", "pushed"),
    ("client-metrics --delete --name pushed", "client-metrics --list", "!pushed"),
    ("acls --add --allow-principal User:ann --operation Read --topic kept", "acls --list", "ann"),
    ("acls --remove --force --allow-principal User:ann --operation Read --topic kept",
     "acls --list", "!ann"),
    ("users --create --user bob --password-file @secret", "users --list", "bob"),
    ("users --delete --user bob", "users --list", "!bob"),
    ("quotas set --user carl --producer-byte-rate 9", "quotas describe", "carl"),
    ("quotas remove --user carl", "quotas describe", "!carl"),
    ("groups reset-offsets --group readers --topic kept --to-latest --execute", "groups list",
     "readers"),
    ("groups delete-offsets --group readers --topic kept", "groups describe --group readers",
     "!kept"),
    ("groups delete --group readers", "groups list", "!readers"),
)  # fmt: skip
# Verbs that need more than this cluster to change something. They print after their change, or run
# in ``run_client`` too.
OTHERS: Final = {
    *("tokens", "features", "share-groups", "streams-groups", "transactions", "secure", "stop"),
    *("zookeeper-security", "migrate", "pipeline", "schemas"),
}
ATTEMPTS: Final = 50
READING: Final = {
    *("up", "ui", "learn", "registry", "fake", "faults", "broker", "zookeeper", "mcp"),
    *("controller", "debug", "log-dirs", "dump-log", "doctor"),
    *("consume", "perf", "verify", "conformance"),
}


def test_every_verb_that_changes_something_is_tried() -> None:
    assert {row[0].split()[0] for row in CHANGES} | OTHERS | READING == set(VERBS)


@pytest.mark.mission("GLASS-150")
def test_every_change_is_completed_without_a_reader(bootstrap: str, tmp_path: Path) -> None:
    """Each line that is printed fails with EPIPE at once: nothing that follows it may be lost."""
    for number, (change, reading, expected) in enumerate(CHANGES):
        words = change.split(" @")[0].split()
        if " @" in change:
            file = tmp_path / f"{number}"
            file.write_text(change.split(" @")[1])
            words.append(str(file))
        without_reader([*words, "--bootstrap-server", bootstrap])
        text = ""
        for _ in range(ATTEMPTS):  # a broker may know of a change a moment later
            text = printed([*reading.split(), "--bootstrap-server", bootstrap])
            if (expected.lstrip("!") in text) is not expected.startswith("!"):
                break
        else:
            pytest.fail(f"{change}: {text}")


def printed(words: Sequence[str]) -> str:
    """Run a verb in this process and return what it prints."""
    limit = ["--timeout-ms", "2000"] if words[0] == "consume" else []
    with io.TextIOWrapper(raw := io.BytesIO(), write_through=True) as shown:
        with redirect_stdout(shown):
            main([*words, *limit])
        return raw.getvalue().decode()


def without_reader(words: Sequence[str]) -> None:
    """Run a verb in this process, with three lines as standard input. Standard output is a pipe
    without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    with (
        tempfile.TemporaryFile() as lines,
        io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True) as ended,
        redirect_stdout(ended),
    ):
        lines.write(b"line 1\nline 2\nline 3\n")
        lines.seek(0)
        before = os.dup(0)
        os.dup2(lines.fileno(), 0)
        try:
            main(words)
        finally:
            os.dup2(before, 0)
            os.close(before)
