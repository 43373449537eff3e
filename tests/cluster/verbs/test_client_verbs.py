"""The verbs produce, consume and perf on real brokers: groups, headers, JSON, figures."""

from __future__ import annotations

import json
import os
import pty
import re
import sys

import pytest

from tests.support.cluster.real_cluster import RealCluster, run_verb
from tests.support.cluster.terminals import needs_a_terminal

pytestmark = pytest.mark.cluster


def test_json_and_headers_are_produced_and_consumed_unchanged(trio: RealCluster) -> None:
    server = ("--bootstrap-server", trio.bootstrap)
    trio.create_topic("verb-json", partitions=1)
    parse = ("--property", "parse.headers=true", "--property", "parse.key=true")
    lines = "a:1,b:2\tk1\tv1\na:3\tk2\tv2\n"
    done = run_verb("produce", *server, "--topic", "verb-json", *parse, stdin=lines)
    assert done.returncode == 0, done.stderr
    consume = ("consume", *server, "--topic", "verb-json", "--from-beginning")
    out = run_verb(*consume, "--max-messages", "2", "--json").stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [
        ("k1", "v1", 0),
        ("k2", "v2", 1),
    ]
    assert rows[0]["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    trio.create_topic("verb-json-copy", partitions=1)
    copied = run_verb("produce", *server, "--topic", "verb-json-copy", "--json", stdin=out)
    assert copied.returncode == 0, copied.stderr
    show = ("--property", "print.headers=true", "--property", "print.key=true")
    again = run_verb(
        *("consume", *server, "--topic", "verb-json-copy", "--from-beginning"),
        *("--max-messages", "2", *show),
    )
    assert again.stdout == lines


def test_a_group_goes_on_where_it_was(trio: RealCluster) -> None:
    server = ("--bootstrap-server", trio.bootstrap)
    trio.create_topic("verb-group", partitions=2)
    numbers = [str(number) for number in range(20)]
    run_verb("produce", *server, "--topic", "verb-group", stdin="\n".join(numbers) + "\n")
    consume = ("consume", *server, "--group", "verbs", "--from-beginning")
    first = run_verb(*consume, "--topic", "verb-group", "--max-messages", "12")
    second = run_verb(*consume, "--include", "verb-gr.*", "--max-messages", "8")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    read = first.stdout.split() + second.stdout.split()
    assert sorted(read, key=int) == numbers
    wrong = run_verb("consume", *server, "--include", "x.*")
    assert (wrong.returncode, "needs --group" in wrong.stderr) == (2, True)


@needs_a_terminal
def test_ctrl_c_ends_produce_at_its_prompt(trio: RealCluster) -> None:
    trio.create_topic("verb-prompt", partitions=1)
    server = ("--bootstrap-server", trio.bootstrap)
    command = [sys.executable, "-m", "minikafka.cli.main", "produce", "--topic", "verb-prompt"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*command, *server])
    os.write(terminal, b"hello\n")
    read = ("consume", *server, "--topic", "verb-prompt", "--from-beginning", "--max-messages")
    assert run_verb(*read, "1").stdout == "hello\n"
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    told = os.read(terminal, 4096)
    os.close(terminal)
    assert told.replace(b"\r", b"") == b"hello\n^C", "what the terminal echoes"


def test_lines_before_a_bad_one_are_produced(trio: RealCluster) -> None:
    trio.create_topic("verb-bad-line", partitions=1)
    server = ("--bootstrap-server", trio.bootstrap)
    lines = "k\tv\n" * 3_000 + "bad\n"
    wrong = run_verb(
        *("produce", *server, "--topic", "verb-bad-line", "--property", "parse.key=true"),
        stdin=lines,
    )
    told = "minikafka: no key separator in line: bad\n"
    assert (wrong.returncode, wrong.stderr) == (1, told)
    read = ("consume", *server, "--topic", "verb-bad-line", "--from-beginning", "--max-messages")
    assert run_verb(*read, "3000").stdout == "v\n" * 3_000


def test_perf(trio: RealCluster) -> None:
    server = ("--bootstrap-server", trio.bootstrap)
    trio.create_topic("verb-perf", partitions=1)
    produce = ("perf", "produce", *server, "--topic", "verb-perf", "--num-records", "2000")
    sent = run_verb(*produce, "--producer-property", "linger.ms=2")
    assert re.search(
        r"2000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
        r"[\d.]+ ms max latency, [\d.]+ ms 50th, .* ms 99.9th\.",
        sent.stdout,
    ), sent.stderr
    for group in ((), ("--group", "perf")):
        read = run_verb(
            "perf",
            "consume",
            *server,
            "--topic",
            "verb-perf",
            "--messages",
            "2000",
            "--json",
            *group,
        )
        assert json.loads(read.stdout)["records"] == 2000, read.stderr
    passed = run_verb("perf", "e2e", *server, "--topic", "verb-perf", "--messages", "20", "--json")
    figures = json.loads(passed.stdout)
    assert figures["records"] == 20
    assert 0 < figures["latency_p50_ms"] <= figures["latency_p99_ms"] <= figures["latency_max_ms"]
