"""Which record format each version of Produce and Fetch carries.

Logs hold batches (magic 2) alone. What older versions bring is turned into batches by the log; what
they ask for is turned into messages here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from minikafka.broker.fetch.reader import FetchEntry, FetchParams, ReadResult
from minikafka.core.log.config import LogConfig
from minikafka.core.log.down_conversion import message_set_of_batches
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    MAGIC_OFFSET,
    MAGIC_V2,
)
from minikafka.protocol.records.compression import Compression

T = TypeVar("T")

# Conversion takes some 5 us a record and happens on the loop: what one answer reads for it at most,
# save that the first batch always fits.
CONVERTED_BYTES: Final = 512 * 1024
_ATTRIBUTES: Final = ATTRIBUTES_OFFSET + 1  # the byte of the two that has flags


class ProduceFormat(NamedTuple):
    """``batches_only``: one batch of magic 2. Before, any format may come, whatever the version
    was made for: clients got that wrong, and Kafka let them."""

    batches_only: bool
    zstd: bool


class FetchFormat(NamedTuple):
    """What records of ``magic`` are to look like for the asker. ``each_partition_progresses``: the
    version has no limit for the whole answer, and its clients do not take turns in what they put
    first, so that every partition gets its first batch (KIP-74)."""

    magic: int
    zstd: bool
    each_partition_progresses: bool

    @property
    def is_converted(self) -> bool:
        return self.magic < MAGIC_V2

    @property
    def is_any(self) -> bool:
        """Whatever a log holds can be sent as it is."""
        return self.zstd and not self.is_converted


_NO_TABLE_END: Final = 100


def _by_version(*rows: tuple[int, T]) -> tuple[T, ...]:
    """From (first version, what holds from there on), rising."""
    ends = [first for first, _ in rows[1:]] + [_NO_TABLE_END]
    return tuple(
        value for (first, value), end in zip(rows, ends, strict=True) for _ in range(first, end)
    )


PRODUCE_FORMATS: Final = _by_version(
    (0, ProduceFormat(batches_only=False, zstd=True)),
    (3, ProduceFormat(batches_only=True, zstd=False)),
    (7, ProduceFormat(batches_only=True, zstd=True)),
)
FETCH_FORMATS: Final = _by_version(
    (0, FetchFormat(0, zstd=False, each_partition_progresses=True)),
    (2, FetchFormat(1, zstd=False, each_partition_progresses=True)),
    (3, FetchFormat(1, zstd=False, each_partition_progresses=False)),
    (4, FetchFormat(MAGIC_V2, zstd=False, each_partition_progresses=False)),
    (10, FetchFormat(MAGIC_V2, zstd=True, each_partition_progresses=False)),
)


def refusal_of(records: Buffer | None, version: int) -> KafkaError | None:
    """Why these records may not come by this version of Produce. What they have to be in any
    version is for the log to check."""
    if records is None or len(records) <= _ATTRIBUTES:
        return KafkaError(ErrorCode.INVALID_RECORD, "an append must have a record batch")
    magic = records[MAGIC_OFFSET]
    if magic != MAGIC_V2:
        if magic > MAGIC_V2 or not PRODUCE_FORMATS[version].batches_only:
            return None
        return KafkaError(ErrorCode.INVALID_RECORD, f"messages of magic {magic} need version 2")
    attributes = records[_ATTRIBUTES]
    if attributes & COMPRESSION_MASK == Compression.ZSTD and not PRODUCE_FORMATS[version].zstd:
        return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7")
    return None


def limited(
    params: FetchParams, entries: Sequence[FetchEntry], wanted: FetchFormat
) -> tuple[FetchParams, list[FetchEntry]]:
    """A fetch whose records will be converted, reading no more than one answer may take."""
    share = max(1, CONVERTED_BYTES // len(entries))
    min_bytes = min(params.min_bytes, share)
    if wanted.each_partition_progresses:
        params = params._replace(min_bytes=min_bytes, each_partition_progresses=True)
    else:
        max_bytes = min(params.max_bytes, CONVERTED_BYTES)
        params = params._replace(min_bytes=min_bytes, max_bytes=max_bytes)
    return params, [entry._replace(max_bytes=min(entry.max_bytes, share)) for entry in entries]


def in_format(
    result: ReadResult, entry: FetchEntry, wanted: FetchFormat, config: LogConfig, follower: bool
) -> ReadResult:
    """What was read for ``entry``, as the asker can read it; UNSUPPORTED_COMPRESSION_TYPE (zstd, by
    what the topic is set to), or UNSUPPORTED_VERSION where the topic allows no conversion."""
    try:
        if config.compression_type == "zstd" and not wanted.zstd:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if not wanted.is_converted:
            return result
        if not config.message_downconversion_enable and not follower:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        records = message_set_of_batches(
            result.records, wanted.magic, entry.fetch_offset, entry.max_bytes
        )
    except KafkaError as error:
        return ReadResult(result.topic_partition, error.code)
    return result._replace(records=records)
