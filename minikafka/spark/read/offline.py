"""Batch reads from the files of a broker's log directory: ``option("path", LOG_DIR)``.

The broker need not run. It may run; the records that its checkpoint covers are read then."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from minikafka.client.columnar.decode import Slice, decode_to_arrow
from minikafka.core.log.names import (
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
    directory_name,
    file_name,
    offsets_of,
    parse_directory_name,
)
from minikafka.core.log.open_transactions import ENTRY, ENTRY_BYTES, AbortedTxn
from minikafka.core.log.small_files import (
    LOG_START_OFFSET,
    META_PROPERTIES,
    PARTITION_METADATA,
    REPLICATION_OFFSET,
    PartitionMetadataError,
    decode_offsets,
    decode_partition_metadata,
)
from minikafka.kernel.cluster import INTERNAL_TOPICS, ZERO_UUID, TopicPartition
from minikafka.protocol.records.batch import iterate_batches
from minikafka.spark.failure_text import print_to_stderr
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.options import AtOffsets, Edge, Limit, ReadOptions, TopicSelection
from minikafka.spark.read.offsets import EARLIEST, LARGEST, Offsets, names
from minikafka.spark.read.planning import (
    ADVICE_FAIL,
    ADVICE_RECREATED,
    DataLossError,
    check_same_partitions,
    check_start_within,
    recreated_text,
)

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentRange(NamedTuple):
    """The offsets to read from one segment file, and the aborted transactions in it."""

    topic: str
    partition: int
    start: int
    end: int
    file: str
    aborted: tuple[tuple[int, int], ...]
    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True)
class _Log:
    """The directory of one partition."""

    segments: tuple[tuple[int, Path], ...]  # base offset, file
    start: int
    high_watermark: int
    aborted: tuple[AbortedTxn, ...]
    topic_id: UUID


def segment_ranges(directory: Path, options: ReadOptions) -> list[SegmentRange]:
    """Plan one range for each segment of the partitions to read.

    The latest offset is the high watermark in the broker's checkpoint, which a running broker
    writes every few seconds. With ``read_committed`` it is the last stable offset below that.

    Raises OptionError if ``directory`` is not a log directory; ValueError for an unknown partition
    and for a start beyond the end; DataLossError for given offsets outside the log."""
    _check_log_directory(directory)
    committed = options.client.read_committed
    logs = _logs(directory, options.subscription)
    starts = {each: log.start for each, log in logs.items()}
    ends = {
        each: max(log.start, _last_stable_offset(log) if committed else log.high_watermark)
        for each, log in logs.items()
    }
    start = _resolve(options.starting, starts, ends, "startingOffsets")
    end = _resolve(options.ending, starts, ends, "endingOffsets")
    check_start_within(start, end)
    ranges: list[SegmentRange] = []
    for each, log in logs.items():
        first, last = start[each], min(end[each], ends[each])
        if first < log.start and options.fail_on_data_loss:
            raise DataLossError(
                f"{each}: offsets {first} to {log.start - 1} are gone. {ADVICE_FAIL}"
            )
        if last < end[each] and options.fail_on_data_loss:
            raise DataLossError(
                f"{each} can be read below offset {last}, and endingOffsets is {end[each]}. "
                'Name a lower one, or set the option "failOnDataLoss" to "false"'
            )
        ranges += _ranges_of(each, log, max(first, log.start), last, committed)
    return ranges


def read_segment(
    segment: SegmentRange, schema: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a planned range. Raises OSError if the file is gone, DataLossError if
    its topic was created again since, CorruptRecordError, KafkaError."""
    file, crcs = Path(segment.file), options.client.check_crcs
    data = _mapped(file)
    topic_id = _topic_id(file.parent)  # after the file was opened, which may be that of a new topic
    if topic_id != segment.topic_id and ZERO_UUID not in (topic_id, segment.topic_id):
        loss = recreated_text(segment.topic, segment.topic_id, topic_id)
        if options.fail_on_data_loss:
            raise DataLossError(f"{loss}. {ADVICE_RECREATED}")
        print_to_stderr(f"data loss: {loss}")
        return
    overflow_is_null = not options.fail_on_timestamp_overflow
    yield from decode_to_arrow(
        data, Slice(*segment[:4]), schema, segment.aborted, crcs, overflow_is_null
    )


def _mapped(file: Path) -> memoryview:
    """Map a file into memory. The mapping is kept until the last view of it is deleted."""
    with file.open("rb") as opened:
        if opened.seek(0, 2) == 0:  # an empty file cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def _check_log_directory(directory: Path) -> None:
    """Raise OptionError unless a broker has written its files to this directory.

    A copy may lack meta.properties: only the checkpoint of high watermarks is read."""
    if any((directory / name).is_file() for name in (META_PROPERTIES, REPLICATION_OFFSET)):
        return
    if not directory.is_dir():
        raise OptionError(f"option path: there is no directory {directory}")
    children = sorted(each.parent for each in directory.glob(f"*/{META_PROPERTIES}"))
    hint = f": did you mean {' or '.join(map(str, children))}?" if children else ""
    raise OptionError(
        f"option path: {directory} is not a log directory (no {META_PROPERTIES}){hint}"
    )


def _logs(directory: Path, selection: TopicSelection) -> dict[TopicPartition, _Log]:
    found = sorted(
        each
        for path in directory.iterdir()
        if path.is_dir() and (each := parse_directory_name(path.name)) is not None
    )
    if selection.pattern:
        pattern = re.compile(selection.pattern)
        chosen = [
            each
            for each in found
            if pattern.fullmatch(each.topic) and each.topic not in INTERNAL_TOPICS
        ]
    elif selection.topics:
        chosen = [each for each in found if each.topic in selection.topics]
        if missing := set(selection.topics) - {each.topic for each in chosen}:
            raise ValueError(f"topic {min(missing)} is not in {directory}")
    else:
        chosen = list(selection.partitions)
        if absent := set(chosen) - set(found):
            raise ValueError(f"{names(absent)} not in {directory}")
    high_watermarks = _checkpoint(directory / REPLICATION_OFFSET)
    log_starts = _checkpoint(directory / LOG_START_OFFSET)
    return {
        each: _log(directory / directory_name(each), log_starts.get(each, 0), high_watermarks[each])
        for each in chosen
        if each in high_watermarks
    }


def _checkpoint(path: Path) -> Mapping[TopicPartition, int]:
    return decode_offsets(path.read_bytes()) if path.is_file() else {}


def _log(directory: Path, log_start: int, high_watermark: int) -> _Log:
    files = [path.name for path in directory.iterdir()]
    bases = offsets_of(files, LOG_SUFFIX)
    aborted: list[AbortedTxn] = []
    for base in offsets_of(files, TXN_INDEX_SUFFIX):
        data = (directory / file_name(base, TXN_INDEX_SUFFIX)).read_bytes()
        whole = len(data) - len(data) % ENTRY_BYTES
        aborted += [AbortedTxn(*row[1:]) for row in ENTRY.iter_unpack(data[:whole])]
    return _Log(
        tuple((base, directory / file_name(base, LOG_SUFFIX)) for base in bases),
        max(log_start, bases[0] if bases else 0),
        high_watermark,
        tuple(aborted),
        _topic_id(directory),
    )


def _topic_id(directory: Path) -> UUID:
    """Return the topic id of a partition's directory, zero if the broker has written none."""
    try:
        return decode_partition_metadata((directory / PARTITION_METADATA).read_bytes())
    except (FileNotFoundError, PartitionMetadataError):
        return ZERO_UUID


def _last_stable_offset(log: _Log) -> int:
    """Return the first offset of the first transaction that has no marker below the high watermark,
    or the high watermark if there is none."""
    started: dict[int, int] = {}
    for _, file in log.segments:
        for batch in iterate_batches(_mapped(file)):
            if batch.last_offset >= log.high_watermark:
                break
            if batch.is_control:
                started.pop(batch.producer_id, None)
            elif batch.is_transactional:
                started.setdefault(batch.producer_id, batch.base_offset)
    return min(started.values(), default=log.high_watermark)


def _resolve(limit: Limit, starts: Offsets, ends: Offsets, option: str) -> Offsets:
    if limit is Edge.EARLIEST:
        return starts
    if limit is Edge.LATEST:
        return ends
    if not isinstance(limit, AtOffsets):
        raise ValueError("option path: timestamps are not looked up offline, name offsets")
    check_same_partitions(limit.offsets, list(starts), option)
    edges = {each: starts[each] if offset == EARLIEST else ends[each]
             for each, offset in limit.offsets.items() if offset < 0}  # fmt: skip
    return limit.offsets | edges


def _ranges_of(
    partition: TopicPartition, log: _Log, start: int, end: int, read_committed: bool
) -> Iterator[SegmentRange]:
    bases = [base for base, _ in log.segments]
    for (base, file), following in zip(log.segments, [*bases[1:], LARGEST], strict=True):
        first, last = max(start, base), min(end, following)
        if first < last:
            aborted = tuple(
                (each.producer_id, each.first_offset)
                for each in log.aborted
                if read_committed and each.last_offset >= base and each.first_offset < last
            )
            yield SegmentRange(*partition, first, last, str(file), aborted, log.topic_id)
