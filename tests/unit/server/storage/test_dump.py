"""Dumping the files of a log, as rows and in the words of Kafka's tool."""

from typing import Any

import pytest

from minikafka.core.log.names import file_name
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.server.storage import dump as dump
from minikafka.server.storage.dump import DumpOptions, LogDump
from minikafka.server.storage.log.unified_log import AppendOrigin, UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, batch, new_log


def path(suffix: str, offset: int = 0) -> str:
    return f"{DIRECTORY}/{file_name(offset, suffix)}"


def lines(
    files: InstantFiles, suffix: str, records: bool = False, contents: bool = False
) -> list[str]:
    options = DumpOptions(deep=records or contents, contents=contents)
    return list(LogDump(files, options).lines(path(suffix)))


def findings(
    files: InstantFiles, name: str, **options: Any
) -> tuple[list[str], dict[str, list[str]]]:
    dumped = LogDump(files, DumpOptions(**options))
    return list(dumped.lines(name)), dumped.findings


@pytest.fixture
def files() -> InstantFiles:
    return InstantFiles()


@pytest.fixture
def log(files: InstantFiles) -> UnifiedLog:
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


def test_batches_in_kafkas_words(files: InstantFiles, log: UnifiedLog) -> None:
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


def test_records_in_kafkas_words(files: InstantFiles, log: UnifiedLog) -> None:
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


def test_damage_is_shown(files: InstantFiles, log: UnifiedLog) -> None:
    data = bytearray(files.read_all(path(".log")))
    data[70] ^= 1
    files.replace_unsynced(path(".log"), bytes(data[:-3]))
    found = lines(files, ".log", contents=True)
    assert found[1].endswith("isvalid: false")
    assert "invalid bytes at the end of 00000000000000000000.log" in found[-1]
    rows = list(dump.batches(files, path(".log")))
    assert isinstance(rows[-1], dump.TrailingBytes)


def test_malformed_records_are_shown(files: InstantFiles) -> None:
    files.make_directories(DIRECTORY)
    damaged = bytearray(batch(b"x"))
    damaged[61] = 1
    files.replace_unsynced(path(".log"), bytes(damaged))
    assert lines(files, ".log", records=True)[-1].startswith("| CORRUPT_MESSAGE: ")
    damaged[22] = 7
    files.replace_unsynced(path(".log"), bytes(damaged))
    assert "compresscodec: unknown" in lines(files, ".log")[1]


def test_records_before_a_malformed_one_are_shown(files: InstantFiles) -> None:
    files.make_directories(DIRECTORY)
    damaged = bytearray(batch(b"x", b"y"))
    damaged[-1] = 1  # the second record claims a header
    files.replace_unsynced(path(".log"), bytes(damaged))
    first, second = lines(files, ".log", contents=True)[-2:]
    assert first.startswith("| offset: 0 ")
    assert first.endswith("payload: x")
    assert second.startswith("| CORRUPT_MESSAGE: ")


def test_indexes(files: InstantFiles, log: UnifiedLog) -> None:
    second = [row.position for row in dump.batches(files, path(".log"))][1:]  # type: ignore[union-attr]
    assert lines(files, ".index") == [
        f"offset: 3 position: {second[0]}",
        f"offset: 4 position: {second[1]}",
    ]
    assert lines(files, ".timeindex") == ["timestamp: 9 offset: 3"]


def test_indexes_that_lie(files: InstantFiles, log: UnifiedLog) -> None:
    index, times = path(".index"), path(".timeindex")
    preallocated = bytes(80)
    files.replace_unsynced(index, bytes.fromhex("0000000200000000") + preallocated)
    assert findings(files, index) == (
        ["offset: 2 position: 0"],
        {f"Mismatches in :{index}": ["  Index offset: 2, log offset: 1"]},
    )
    assert findings(files, index, verify_only=True)[0] == []
    files.replace_unsynced(index, bytes.fromhex("0000000200000003"))
    assert list(findings(files, index)[1].values()) == [["  Index offset: 2, log offset: none"]]
    entry = bytes.fromhex("000000000000000700000003")
    files.replace_unsynced(times, entry + preallocated + b"\x00")
    assert findings(files, times) == (
        ["timestamp: 7 offset: 3"],
        {f"Found timestamp mismatch in :{times}": ["  Index timestamp: 7, log timestamp: 9"]},
    )
    entries = ("000000000000000600000001", "000000000000000900000003", "000000000000000800000004")
    files.replace_unsynced(times, bytes.fromhex("".join(entries)))
    assert findings(files, times, verify_only=True) == (
        [],
        {
            f"Found out of order timestamp in :{times}": [
                "  Index timestamp: 8, Previously indexed timestamp: 9"
            ]
        },
    )
    files.replace_unsynced(
        times, bytes.fromhex("000000000000000600000000" + entry.hex()[:-1] + "9")
    )
    assert findings(files, times)[1] == {
        "The following indexed offsets are not found in the log.": [
            "  Indexed offset: 0, found log offset: 1",
            "  Indexed offset: 9, found log offset: -1",
        ]
    }


def test_an_empty_offset_index(files: InstantFiles, log: UnifiedLog) -> None:
    files.replace_unsynced(path(".index"), b"")
    assert lines(files, ".index") == [f"{path('.index')} is empty."]


@pytest.mark.parametrize(
    ("suffix", "content", "problem"),
    [
        (".index", "000000010000000200", "found 9 bytes, which are not a multiple of 8"),
        (".index", "00000003000000090000000200000010", "its entries are not in ascending order"),
        (".index", "ffffffff00000000", "its last offset is less than the base offset"),
        (".timeindex", "00" * 13, "found 13 bytes, which are not a multiple of 12"),
        (".txnindex", "00" * 35, "found 35 bytes, which are not a multiple of 34"),
        (".txnindex", "0001" + "00" * 32, "unexpected aborted transaction version 1"),
        (
            ".txnindex",
            "00" * 18 + "ff" * 8 + "00" * 8,
            "last offset -1 is less than start offset 0",
        ),
    ],
)
def test_sanity_of_indexes(
    files: InstantFiles, log: UnifiedLog, suffix: str, content: str, problem: str
) -> None:
    name = path(suffix)
    if suffix != ".txnindex":
        good: tuple[list[str], dict[str, list[str]]] = ([f"{name} passed sanity check."], {})
        assert findings(files, name, sanity_only=True) == good
    files.replace_unsynced(name, bytes.fromhex(content))
    assert findings(files, name, sanity_only=True) == (
        [],
        {f"Corrupt index found, index file {name}": [f"  {problem}"]},
    )


def test_the_transaction_index(files: InstantFiles, log: UnifiedLog) -> None:
    numbers = (b"\x00\x00", *(n.to_bytes(8, "big") for n in (7, 10, 20, 11)))
    files.replace_unsynced(path(".txnindex"), b"".join(numbers))
    assert lines(files, ".txnindex") == [
        "version: 0 producerId: 7 firstOffset: 10 lastOffset: 20 lastStableOffset: 11"
    ]
    found, _ = findings(files, path(".txnindex"), sanity_only=True)
    assert found == [f"{path('.txnindex')} passed sanity check."]


def test_snapshots(files: InstantFiles, log: UnifiedLog) -> None:
    snapshot = f"{DIRECTORY}/{file_name(5, '.snapshot')}"
    assert findings(files, snapshot) == (
        [
            (
                "producerId: 7 producerEpoch: 1 coordinatorEpoch: 4 currentTxnFirstOffset: "
                "OptionalLong.empty lastTimestamp: 8 firstSequence: 2147483647 lastSequence: 0 "
                "lastOffset: 3 offsetDelta: 1 timestamp: 8"
            )
        ],
        {},
    )
    files.replace_unsynced(snapshot, b"xx")
    assert findings(files, snapshot) == (
        [],
        {f"Corrupt snapshot {snapshot}": ["  a snapshot of 2 bytes"]},
    )


def test_checkpoints(files: InstantFiles, log: UnifiedLog) -> None:
    epochs = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert findings(files, epochs)[0] == ["epoch: 2 startOffset: 0", "epoch: 3 startOffset: 4"]
    offsets = "/logs/recovery-point-offset-checkpoint"
    files.replace_unsynced(offsets, b"0\n2\na-b 0 42\nt 1 7\n")
    assert findings(files, offsets)[0] == [
        "topic: a-b partition: 0 offset: 42",
        "topic: t partition: 1 offset: 7",
    ]
    for name in (epochs, offsets):
        files.replace_unsynced(name, b"0\n1\n")
        assert findings(files, name) == (
            [],
            {f"Malformed checkpoint {name}": ["  0 entries, but the second line says 1"]},
        )
    topic_id = f"{DIRECTORY}/partition.metadata"
    files.replace_unsynced(topic_id, b"version: 0\ntopic_id: X\n")
    assert findings(files, topic_id)[0] == ["version: 0", "topic_id: X"]


def test_gaps_between_records_are_found(files: InstantFiles) -> None:
    files.make_directories(DIRECTORY)
    parts = [batch(b"x", base_offset=offset) for offset in (0, 1, 4)]
    files.replace_unsynced(path(".log"), b"".join(parts))
    headline = f"Non-consecutive offsets in {path('.log')}"
    assert findings(files, path(".log"), deep=True)[1] == {headline: ["  1 is followed by 4"]}
    assert findings(files, path(".log"))[1] == {}


def test_only_the_first_bytes(files: InstantFiles, log: UnifiedLog) -> None:
    everything = lines(files, ".log")
    dumped = LogDump(files, DumpOptions(max_bytes=1))
    assert list(dumped.lines(path(".log"))) == everything[:2]


def test_contents_without_metadata(files: InstantFiles, log: UnifiedLog) -> None:
    options = DumpOptions(deep=True, contents=True, record_metadata=False)
    found = list(LogDump(files, options).lines(path(".log")))
    assert [line for line in found if line.startswith("|")] == [
        "| key: k payload: v",
        "|",
        "| payload: x",
        "| payload: y",
        "|",
    ]


@pytest.mark.parametrize("name", ["meta.properties", "x.log"])
def test_other_files_are_refused(files: InstantFiles, log: UnifiedLog, name: str) -> None:
    with pytest.raises(dump.UnknownFile, match=name):
        list(LogDump(files, DumpOptions()).lines(f"{DIRECTORY}/{name}"))
