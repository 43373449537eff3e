"""Versions of the inter-broker protocol, against the values of Kafka 3.9."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol as Ibp
from minikafka.kernel.settings import BROKER_CONFIG

# Of the last version of each release: LeaderAndIsr, UpdateMetadata, StopReplica,
# ControlledShutdown, Fetch, ListOffsets, OffsetForLeaderEpoch, WriteTxnMarkers, group metadata
# record, offset commit record, broker znode, feature znode. Last, the highest version of Metadata
# that is needed here, which no release of Kafka sends to brokers, but all of them serve.
VERSIONS = """
2.0  1 4 0 1  8 3 1 0 1 1 4 1  6
2.1  1 4 0 1 10 4 2 0 2 3 4 1  7
2.2  2 5 1 2 10 5 2 0 2 3 4 1  7
2.3  2 5 1 2 11 5 3 0 3 3 4 1  7
2.4  4 6 2 3 11 5 3 0 3 3 4 1  7
2.5  4 6 2 3 11 5 3 0 3 3 4 1  7
2.6  4 6 3 3 11 5 3 0 3 3 4 1  7
2.7  4 6 3 3 12 5 3 0 3 3 5 1  7
2.8  5 7 3 3 12 6 4 1 3 3 5 1 10
3.0  5 7 3 3 12 7 4 1 3 3 5 1 10
3.1  5 7 3 3 13 7 4 1 3 3 5 1 10
3.2  6 7 3 3 13 7 4 1 3 3 5 1 10
3.3  6 7 3 3 13 7 4 1 3 3 5 2 10
3.4  7 8 4 3 13 7 4 1 3 3 5 2 10
3.5  7 8 4 3 15 8 4 1 3 3 5 2 10
3.6  7 8 4 3 15 8 4 1 3 3 5 2 10
3.7  7 8 4 3 16 8 4 1 3 3 5 2 10
3.8  7 8 4 3 16 8 4 1 3 3 5 2 10
3.9  7 8 4 3 17 9 4 1 3 3 5 2 10
"""
ROWS = [line.split() for line in VERSIONS.split("\n") if line]


@pytest.mark.mission("MIX-10")
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_versions_of_each_release_are_kafkas(row: list[str]) -> None:
    protocol = Ibp.parse(row[0])
    assert [
        protocol.leader_and_isr_version,
        protocol.update_metadata_version,
        protocol.stop_replica_version,
        protocol.controlled_shutdown_version,
        protocol.fetch_version,
        protocol.list_offsets_version,
        protocol.offset_for_leader_epoch_version,
        protocol.write_txn_markers_version,
        protocol.group_metadata_value_version,
        protocol.offset_commit_value_version(expires=False),
        protocol.broker_znode_version,
        protocol.feature_znode_version,
        protocol.metadata_version,
    ] == [int(number) for number in row[1:]]


@pytest.mark.mission("MIX-10")
@pytest.mark.parametrize(
    ("before", "since", "decided"),
    [
        ("2.0-IV0", "2.0-IV1", lambda p: p.fetch_version == 8 and p.list_offsets_version == 3),
        ("2.1-IV0", "2.1-IV1", lambda p: p.offset_commit_value_version(expires=False) == 3),
        ("2.1-IV1", "2.1-IV2", lambda p: p.fetch_version == 10),
        ("2.2-IV0", "2.2-IV1", lambda p: p.list_offsets_version == 5),
        ("2.3-IV0", "2.3-IV1", lambda p: p.fetch_version == 11),
        ("2.4-IV0", "2.4-IV1", lambda p: p.leader_and_isr_version == 4),
        ("2.6", "2.7-IV0", lambda p: p.has_features),
        ("2.7-IV0", "2.7-IV1", lambda p: p.truncates_on_fetch and p.fetch_version == 12),
        ("2.7-IV1", "2.7-IV2", lambda p: p.has_alter_partition),
        ("2.7", "2.8-IV0", lambda p: p.has_topic_ids and p.write_txn_markers_version == 1),
        ("2.8-IV0", "2.8-IV1", lambda p: p.leader_and_isr_version == 5),
        ("2.8", "3.0-IV0", lambda p: p.has_allocate_producer_ids),
        ("3.0-IV0", "3.0-IV1", lambda p: p.list_offsets_version == 7),
        ("3.1", "3.2", lambda p: p.has_leader_recovery),
        ("3.5-IV0", "3.5-IV1", lambda p: p.fetch_version == 15),
        ("3.7-IV3", "3.7-IV4", lambda p: p.fetch_version == 16),
    ],
)
def test_each_change_takes_effect_at_kafkas_version(
    before: str, since: str, decided: Callable[[Ibp], bool]
) -> None:
    assert Ibp.parse(before) < Ibp.parse(since)
    assert not decided(Ibp.parse(before))
    assert decided(Ibp.parse(since))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.8", "2.8-IV1"),
        ("2.8.2", "2.8-IV1"),
        ("2.8-IV0", "2.8-IV0"),
        ("2.0.1", "2.0-IV1"),
        ("3.7", "3.7-IV4"),
        ("3.9.1-anything", "3.9-IV0"),
    ],
)
def test_short_names_are_the_last_version_of_a_release(text: str, version: str) -> None:
    assert Ibp.parse(text).text == version


def test_an_offset_with_an_expiry_is_written_in_version_1() -> None:
    assert [p.offset_commit_value_version(expires=True) for p in Ibp] == [1] * len(Ibp)


@pytest.mark.mission("MIX-10")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2.01", "Version 2.01 is not a valid version"),
        ("2.8-IV2", "Version 2.8-IV2 is not a valid version"),
        ("4.0", "Version 4.0 is not a valid version"),
        ("new", "Version new is not a valid version"),
        ("1.1-IV0", "Version 1.1-IV0 is older than 2.0, the oldest that is supported"),
        ("0.11.0", "Version 0.11.0 is older than 2.0, the oldest that is supported"),
    ],
)
def test_an_unknown_version_is_a_configuration_error(value: str, problem: str) -> None:
    given = {"zookeeper.connect": "z:1", "inter.broker.protocol.version": value}
    with pytest.raises(ConfigError, match=problem):
        BROKER_CONFIG.parse(given)
