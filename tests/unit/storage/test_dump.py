"""Dumping the files of a log, as rows and in the words of Kafka's tool."""

import pytest

from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.storage import dump
from minikafka.storage.names import file_name
from minikafka.storage.unified_log import AppendOrigin, UnifiedLog
from tests.support.logs import DIRECTORY, batch, new_log
from tests.support.memory_files import MemoryFiles


def path(suffix: str, offset: int = 0) -> str:
    return f"{DIRECTORY}/{file_name(offset, suffix)}"


def lines(
    files: MemoryFiles, suffix: str, records: bool = False, contents: bool = False
) -> list[str]:
    return list(dump.lines(files, path(suffix), records=records, contents=contents))


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def log(files: MemoryFiles) -> UnifiedLog:
    log = new_log(files, index_interval_bytes=1)
    one = build_batch([(5, b"k", b"v", [("h", None), ("i", b"")]), (6, None, None, [])])
    log.append_as_leader(one, 2, 0)
    fields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 2**31 - 1}
    log.append_as_leader(batch(b"x", b"y", at_ms=9, compression=Compression.ZSTD, **fields), 2, 0)
    key, value = encode_end_txn_marker(EndTxnMarker(ControlRecordType.COMMIT, 4))
    marker = build_batch(
        [(8, key, value, [])], producer_id=7, producer_epoch=1, transactional=True, control=True
    )
    log.append_as_leader(marker, 3, 0, AppendOrigin.COORDINATOR)
    log.persist()
    return log


def test_batches_in_kafkas_words(files: MemoryFiles, log: UnifiedLog) -> None:
    found = list(dump.batches(files, path(".log")))
    sizes = [row.batch.size_bytes for row in found if isinstance(row, dump.BatchRow)]
    crcs = [row.batch.crc for row in found if isinstance(row, dump.BatchRow)]
    assert lines(files, ".log") == [
        "Log starting offset: 0",
        (
            "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
            "producerEpoch: -1 partitionLeaderEpoch: 2 isTransactional: false isControl: false "
            f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 6 size: {sizes[0]} "
            f"magic: 2 compresscodec: none crc: {crcs[0]} isvalid: true"
        ),
        (
            "baseOffset: 2 lastOffset: 3 count: 2 baseSequence: 2147483647 lastSequence: 0 "
            "producerId: 7 producerEpoch: 1 partitionLeaderEpoch: 2 isTransactional: false "
            f"isControl: false deleteHorizonMs: OptionalLong.empty position: {sizes[0]} "
            f"CreateTime: 9 size: {sizes[1]} magic: 2 compresscodec: zstd crc: {crcs[1]} "
            "isvalid: true"
        ),
        (
            "baseOffset: 4 lastOffset: 4 count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 "
            "producerEpoch: 1 partitionLeaderEpoch: 3 isTransactional: true isControl: true "
            f"deleteHorizonMs: OptionalLong.empty position: {sizes[0] + sizes[1]} CreateTime: 8 "
            f"size: {sizes[2]} magic: 2 compresscodec: none crc: {crcs[2]} isvalid: true"
        ),
    ]


def test_records_in_kafkas_words(files: MemoryFiles, log: UnifiedLog) -> None:
    records = [line for line in lines(files, ".log", contents=True) if line.startswith("|")]
    assert records == [
        (
            "| offset: 0 CreateTime: 5 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h,i] "
            "key: k payload: v"
        ),
        "| offset: 1 CreateTime: 6 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
        (
            "| offset: 2 CreateTime: 9 keySize: -1 valueSize: 1 sequence: 2147483647 "
            "headerKeys: [] payload: x"
        ),
        "| offset: 3 CreateTime: 9 keySize: -1 valueSize: 1 sequence: 0 headerKeys: [] payload: y",
        (
            "| offset: 4 CreateTime: 8 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
            "endTxnMarker: COMMIT coordinatorEpoch: 4"
        ),
    ]
    plain = [line for line in lines(files, ".log", records=True) if line.startswith("|")]
    assert plain[0] == records[0].removesuffix(" key: k payload: v")


def test_damage_is_shown(files: MemoryFiles, log: UnifiedLog) -> None:
    data = bytearray(files.read_all(path(".log")))
    data[70] ^= 1
    files.replace_unsynced(path(".log"), bytes(data[:-3]))
    found = lines(files, ".log", contents=True)
    assert found[1].endswith("isvalid: false")
    assert "invalid bytes at the end of 00000000000000000000.log" in found[-1]
    rows = list(dump.batches(files, path(".log")))
    assert isinstance(rows[-1], dump.TrailingBytes)


def test_malformed_records_are_shown(files: MemoryFiles) -> None:
    files.make_directories(DIRECTORY)
    damaged = bytearray(batch(b"x"))
    damaged[61] = 1
    files.replace_unsynced(path(".log"), bytes(damaged))
    assert lines(files, ".log", records=True)[-1].startswith("| CORRUPT_MESSAGE: ")
    damaged[22] = 7
    files.replace_unsynced(path(".log"), bytes(damaged))
    assert "compresscodec: unknown" in lines(files, ".log")[1]


def test_indexes(files: MemoryFiles, log: UnifiedLog) -> None:
    second = [row.position for row in dump.batches(files, path(".log"))][1:]  # type: ignore[union-attr]
    assert lines(files, ".index") == [
        f"offset: 3 position: {second[0]}",
        f"offset: 4 position: {second[1]}",
    ]
    assert lines(files, ".timeindex") == ["timestamp: 9 offset: 3"]


def test_indexes_that_lie(files: MemoryFiles, log: UnifiedLog) -> None:
    preallocated = bytes(80)
    files.replace_unsynced(path(".index"), bytes.fromhex("0000000200000000") + preallocated)
    assert lines(files, ".index") == ["offset: 2 position: 0 MISMATCH: the log has 1"]
    files.replace_unsynced(path(".index"), bytes.fromhex("0000000200000003"))
    assert lines(files, ".index") == ["offset: 2 position: 3 MISMATCH: the log has None"]
    entry = bytes.fromhex("000000000000000700000003")
    files.replace_unsynced(path(".timeindex"), entry + preallocated + b"\x00")
    assert lines(files, ".timeindex") == ["timestamp: 7 offset: 3 MISMATCH: the log has 9"]


def test_snapshots(files: MemoryFiles, log: UnifiedLog) -> None:
    snapshot = f"{DIRECTORY}/{file_name(5, '.snapshot')}"
    assert list(dump.lines(files, snapshot, records=False, contents=False)) == [
        (
            "producerId: 7 producerEpoch: 1 coordinatorEpoch: 4 currentTxnFirstOffset: "
            "OptionalLong.empty lastTimestamp: 8 firstSequence: 2147483647 lastSequence: 0 "
            "lastOffset: 3 offsetDelta: 1 timestamp: 8"
        )
    ]
    files.replace_unsynced(snapshot, b"xx")
    assert list(dump.lines(files, snapshot, records=False, contents=False)) == [
        "a snapshot of 2 bytes"
    ]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "x.log"])
def test_other_files_are_refused(files: MemoryFiles, log: UnifiedLog, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        list(dump.lines(files, f"{DIRECTORY}/{name}", records=False, contents=False))
