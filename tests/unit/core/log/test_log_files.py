"""Checkpoint files, partition.metadata, names: exact bytes, and what is refused."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log import names
from minikafka.core.log.leader_epochs import EpochEntry
from minikafka.core.log.small_files import (
    CheckpointError,
    PartitionMetadataError,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from minikafka.kernel.cluster import TopicPartition


def test_offset_checkpoints_are_kafkas_bytes() -> None:
    offsets = {TopicPartition("a.x_y-z", 12): 2**40, TopicPartition("b", 1): 7}
    data = encode_offsets(offsets)
    assert data == b"0\n2\na.x_y-z 12 1099511627776\nb 1 7\n"
    assert decode_offsets(data) == offsets
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"0\n0\n") == decode_offsets(b"") == {}


def test_epoch_checkpoints_are_kafkas_bytes() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(5, 42)]
    assert encode_epochs(entries) == b"0\n2\n0 0\n5 42\n"
    assert decode_epochs(b"0\n2\n0 0\n5 42\n") == entries


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n1\n",
        b"0\n1\na 0 1\nb 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na 0 12",
        b"zero\n0\n",
        b"0\nmany\n",
        b"\xff\xfe",
    ],
)
def test_damaged_checkpoints_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode_offsets(data)


@pytest.mark.parametrize("data", [b"0\n2\n5 1\n4 2\n", b"0\n2\n5 2\n6 1\n", b"0\n1\n5 1 1\n"])
def test_epochs_have_to_rise(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode_epochs(data)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_checkpoint_or_an_error(data: bytes) -> None:
    for decode in (decode_offsets, decode_epochs):
        try:
            decode(data)
        except CheckpointError:
            continue


@given(topic_id=st.uuids())
def test_partition_metadata_round_trip(topic_id: UUID) -> None:
    data = encode_partition_metadata(topic_id)
    assert data.startswith(b"version: 0\ntopic_id: ")
    assert len(data) == len("version: 0\ntopic_id: ") + 22
    assert decode_partition_metadata(data) == topic_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 1\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA",
        b"version: 0",
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id",
        b"\xff",
    ],
)
def test_damaged_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(PartitionMetadataError):
        decode_partition_metadata(data)


def test_file_names() -> None:
    assert names.file_name(42, ".log") == "00000000000000000042.log"
    assert names.offset_of("00000000000000000042.log", ".log") == 42
    for other in ("42.log", "00000000000000000042.logx", "0000000000000000004a.log", ".log"):
        assert names.offset_of(other, ".log") is None
    assert names.offsets_of(["x", names.file_name(9, ".log"), names.file_name(3, ".log")], ".log")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-0", ("a", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("t-delete-0", ("t-delete", 0)),
        ("a", None),
        ("a-", None),
        ("-1", None),
        ("a-01", None),
        ("a-0.0123-delete", None),
        ("a b-0", None),
    ],
)
def test_directory_names(name: str, parsed: tuple[str, int] | None) -> None:
    assert names.parse_directory_name(name) == parsed
    if parsed is not None:
        assert names.directory_name(TopicPartition(*parsed)) == name


def test_names_of_deleted_logs_differ_and_fit() -> None:
    long = TopicPartition("t" * 249, 3)
    one, two = (names.delete_directory_name(long, seed) for seed in ("x", "y"))
    assert one != two
    assert len(one) == 255
    assert one.endswith("-delete")
    assert names.parse_directory_name(one) is None
    assert names.delete_directory_name(long, "x") == one
