"""What the verb reassign makes of its options and files, and which replicas it throttles."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from minikafka.cli.cluster import reassign
from minikafka.cli.cluster.reassign import (
    Move,
    Replica,
    ReplicaDirectories,
    move_line,
    moves,
    parse_reassignment,
    throttled_replicas,
)
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.config import ConfigError

A, B = TopicPartition("a", 0), TopicPartition("a", 11)
C = TopicPartition("c", 2)


def move(sources: set[int], destinations: set[int]) -> Move:
    return Move(frozenset(sources), frozenset(destinations))


def test_throttled_replicas_of_reassignments() -> None:
    """A move that is replaced is copied from where the one before it was."""
    under_way = {
        A: ReplicaAssignment((3, 1, 2), adding=(3,), removing=(1,)),
        C: ReplicaAssignment((5, 4), adding=(5,), removing=(4,)),
    }
    found = moves(under_way, {A: (4, 2), B: (2, 1)}, {A: (3, 1, 2), B: (1, 2)})
    assert found == {A: move({1, 2}, {4}), B: move({1, 2}, set()), C: move({4}, {5})}
    assert throttled_replicas(found) == {"a": ("0:1,0:2,11:1,11:2", "0:4"), "c": ("2:4", "2:5")}


def args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    reassign.add_arguments(parser)
    return parser.parse_args(["--bootstrap-server", "x:1", *words])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--verify --throttle 5", "--throttle can't be used with --verify"),
        ("--execute --preserve-throttles", "--preserve-throttles can't be used with --execute"),
        ("--cancel --additional", "--additional can't be used with --cancel"),
        ("--verify --timeout 0", "--timeout can't be used with --verify"),
        ("--execute --throttle -1", "--throttle must be at least 0"),
    ],
)
def test_options_that_do_not_fit(words: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        reassign.check(args("--reassignment-json-file", "f", *words.split()))


def test_options_that_fit() -> None:
    for words in (
        "--execute --throttle 0 --additional",
        "--cancel --timeout 0 --preserve-throttles",
    ):
        reassign.check(args("--reassignment-json-file", "f", *words.split()))
    with pytest.raises(ConfigError, match="--execute needs --reassignment-json-file"):
        reassign.check(args("--execute"))


def plan(**more: Any) -> str:
    row = {"topic": "a", "partition": 0, "replicas": [1, 2]} | more
    return json.dumps({"version": 1, "partitions": [row]})


def test_directories() -> None:
    found = parse_reassignment(plan(log_dirs=["any", "/data"]))
    assert found.targets == {A: (1, 2)}
    assert found.directories == {Replica(2, A): "/data"}
    assert parse_reassignment(plan()).directories == {}
    for wrong in (["any"], "any", ["any", 5]):
        with pytest.raises(ConfigError, match="log"):
            parse_reassignment(plan(log_dirs=wrong))


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (ReplicaDirectories("/old", "/new"), "Reassignment of replica a-0-1 is still in progress."),
        (ReplicaDirectories("/new"), "Reassignment of replica a-0-1 completed successfully."),
        (
            ReplicaDirectories("/old"),
            "Partition a-0 on broker 1 is not being moved from log dir /old to /new.",
        ),
        (
            ReplicaDirectories("/old", "/else"),
            "Partition a-0 on broker 1 is being moved to log dir /else instead of /new.",
        ),
        (
            ReplicaDirectories(),
            (
                "Partition a-0 is not found in any live log dir on broker 1. "
                "There is likely an offline log directory on the broker."
            ),
        ),
    ],
)
def test_how_far_a_replica_is(place: ReplicaDirectories, line: str) -> None:
    assert move_line(Replica(1, A), place, "/new") == line
