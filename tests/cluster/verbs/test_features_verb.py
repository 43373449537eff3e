"""The verb `features` on real brokers: levels in force at all brokers, and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def with_groups(trio: RealCluster) -> Iterator[RealCluster]:
    """The trio, whose group.version is in force before and after."""
    assert level(trio) == {"max_version_level": 1}
    yield trio
    features(trio, "upgrade", "--feature", "group.version=1")
    assert level(trio) == {"max_version_level": 1}


def level(trio: RealCluster) -> object:
    """Return the finalized level of group.version in ZooKeeper."""
    found = trio.znode("/feature")
    assert found is not None
    return found["features"].get("group.version")


def described(trio: RealCluster) -> str:
    """Return the line of the verb about group.version."""
    lines: list[str] = features(trio, "describe").stdout.splitlines(keepends=True)
    return next(line for line in lines if line.startswith("Feature: group.version\t"))


def features(trio: RealCluster, action: str, *words: str) -> Any:
    return run_verb("features", action, "--bootstrap-server", trio.bootstrap, *words)


@pytest.mark.mission("OPS-1")
def test_a_feature_is_removed_and_put_in_force_again(with_groups: RealCluster) -> None:
    trio = with_groups
    with trio.zk() as client:
        registered = json.loads(client.get("/brokers/ids/1")[0])
        _, stat = client.get("/feature")
    assert registered["features"]["group.version"] == {"min_version": 1, "max_version": 1}
    line = (
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
        "FinalizedVersionLevel: {}\tEpoch: {}\n"
    )
    assert described(trio) == line.format(1, stat.version)

    tried = features(trio, "disable", "--feature", "group.version", "--dry-run")
    assert (tried.returncode, tried.stdout) == (0, "group.version can be disabled.\n")
    assert level(trio) == {"max_version_level": 1}
    removed = features(trio, "downgrade", "--feature", "group.version=0")
    assert (removed.returncode, removed.stdout) == (0, "group.version was downgraded to 0.\n")
    assert level(trio) is None
    off = line.format(0, stat.version + 1)
    until(lambda: described(trio) == off, "a broker knows that it is off")

    refused = features(trio, "upgrade", "--feature", "group.version=2", "--feature", "other=1")
    assert refused.returncode == 1
    assert refused.stdout == (
        "Could not upgrade group.version to 2. Could not apply finalized feature update because "
        "the provided versionLevel:2 is lower than the supported minVersion:0.\n"
        "Could not upgrade other to 1. Could not apply finalized feature update because the "
        "provided feature is not supported.\n"
    )
    assert refused.stderr == "2 out of 2 operation(s) failed.\n"
    again = run_verb(
        *("features", "--bootstrap-server", trio.bootstrap, "upgrade"),
        *("--feature", "group.version=1"),
    )
    assert (again.returncode, again.stdout) == (0, "group.version was upgraded to 1.\n")
