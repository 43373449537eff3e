"""Names of the files and directories of logs."""

from __future__ import annotations

import re
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
APART_SUFFIX: Final = ".apart"  # a segment after a hole in the log; the broker never removes it
CLEANED_SUFFIX: Final = ".cleaned"
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
_MAX_NAME_CHARACTERS: Final = 255
_HEX_DIGITS: Final = 32

# A larger offset in a file's name is garbage, and appends would run out of int64 soon.
MAX_OFFSET: Final = 1 << 62
_MAX_PARTITION: Final = (1 << 31) - 1
_LOG_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_DELETED_DIRECTORY: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-delete")


def file_name(offset: int, suffix: str) -> str:
    """Return for example ``00000000000000000042.log``. With 20 digits, names sort like offsets."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """Return the offset in the name of a file with ``suffix``, None for any other name and for an
    offset that no log reaches."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != 20 or not (stem.isascii() and stem.isdigit()):
        return None
    offset = int(stem)
    return offset if offset <= MAX_OFFSET else None


def offsets_of(names: list[str], suffix: str) -> list[int]:
    """Return the offsets of all files with ``suffix`` in increasing order."""
    offsets = (offset_of(name, suffix) for name in names)
    return sorted(offset for offset in offsets if offset is not None)


def directory_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition whose log is in a directory of this name, None for any other directory,
    for example one that ends in ``-delete``, ``-future`` or ``-stray``."""
    match = _LOG_DIRECTORY.fullmatch(name)
    if match is None or name_problem(match["topic"]) is not None:
        return None
    partition = int(match["partition"])
    return TopicPartition(match["topic"], partition) if partition <= _MAX_PARTITION else None


def is_deleted_directory_name(name: str) -> bool:
    """Whether ``delete_directory_name`` can have made the name (its topic may have been cut)."""
    return _DELETED_DIRECTORY.fullmatch(name) is not None


def parse_future_directory_name(name: str) -> TopicPartition | None:
    """Return the partition whose log was being copied into a directory of this name, else None."""
    stem, dot, rest = name.removesuffix(FUTURE_DIR_SUFFIX).rpartition(".")
    if not name.endswith(FUTURE_DIR_SUFFIX) or not dot or len(rest) != _HEX_DIGITS:
        return None
    return parse_directory_name(stem)


def delete_directory_name(topic_partition: TopicPartition, seed: str) -> str:
    """Return ``<topic>-<partition>.<32 hex digits>-delete``. The digits are a hash of ``seed``.

    As in Kafka, a long topic name is truncated, so that the name has at most 255 characters.
    """
    return _cut(topic_partition, _aside_suffix(topic_partition, seed, DELETE_DIR_SUFFIX))


def stray_directory_name(topic_partition: TopicPartition, seed: str) -> str:
    """Return ``<topic>-<partition>.<32 hex digits>-stray``, with a long topic name truncated."""
    return _cut(topic_partition, _aside_suffix(topic_partition, seed, STRAY_DIR_SUFFIX))


def future_directory_name(topic_partition: TopicPartition, seed: str) -> str | None:
    """Return ``<topic>-<partition>.<32 hex digits>-future``.

    Return None if the topic name would have to be truncated: after a restart the broker could not
    read the partition from the directory's name (KAFKA-4893)."""
    name = topic_partition.topic + _aside_suffix(topic_partition, seed, FUTURE_DIR_SUFFIX)
    return name if len(name) <= _MAX_NAME_CHARACTERS else None


def _cut(topic_partition: TopicPartition, suffix: str) -> str:
    return topic_partition.topic[: _MAX_NAME_CHARACTERS - len(suffix)] + suffix


def _aside_suffix(topic_partition: TopicPartition, seed: str, suffix: str) -> str:
    return f"-{topic_partition.partition}.{uuid5(NAMESPACE_URL, seed).hex}{suffix}"
