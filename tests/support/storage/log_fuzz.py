"""Mutated batches and mutated files that a log must withstand, seed by seed."""

from __future__ import annotations

import contextlib
import random
from itertools import pairwise
from typing import Any

from minikafka.core.log.format_conversion import message_set_of_batches
from minikafka.core.log.producer_state import ProducerStates
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CRC_OFFSET,
    HEADER,
    crc_of,
    parse_batches,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import encode_message_set
from minikafka.protocol.records.record import Record
from minikafka.server.storage.dump import (
    DumpOptions,
    LogDump,
    UnknownFile,
    decode_offsets_record,
    decode_transaction_record,
)
from minikafka.server.storage.log.unified_log import AppendOrigin, UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, NOW, load, new_log, run_now
from tests.support.storage.searches import run_search
from tests.support.storage.transactions import marker

EXTREMES = [0, 1, -1, 2, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)]
FIELDS = [(0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4), (27, 8), (35, 8)]
FIELDS += [(43, 8), (51, 2), (53, 4), (57, 4)]  # offset and size in a header of magic 2


def any_config(dice: random.Random) -> dict[str, Any]:
    return {
        "segment_bytes": dice.choice([400, 2000, 10**6]),
        "index_interval_bytes": dice.choice([1, 100, 4096]),
        "index_size_max_bytes": dice.choice([24, 1000]),
        "max_message_bytes": dice.choice([300, 10**6]),
        "message_timestamp_type": dice.choice(["CreateTime", "LogAppendTime"]),
        "message_timestamp_before_max_ms": dice.choice([10, 2**63 - 1]),
        "compression_type": dice.choice(["producer", "producer", "uncompressed", "zstd", "gzip"]),
        "cleanup_policy": dice.choice(["delete", "delete", "compact"]),
    }


def any_batch(dice: random.Random, **fields: Any) -> bytes:
    """Return a valid batch, or a message set of an old format."""
    records = [
        (
            NOW + dice.randint(-20, 20),
            dice.choice([None, b"", b"k%d" % dice.randint(0, 3)]),
            dice.choice([None, dice.randbytes(dice.randint(0, 60)), bytes(200)]),
            dice.choice([[], [("h", b"v"), ("", None)]]),
        )
        for _ in range(dice.randint(1, 4))
    ]
    kind = dice.random()
    if kind < 0.1:
        magic = dice.choice([0, 1])
        codec = dice.choice([Compression.NONE, Compression.GZIP, Compression.LZ4])
        plain = [Record(n, at, key, value, []) for n, (at, key, value, _) in enumerate(records)]
        return encode_message_set(plain, magic, codec)
    if kind < 0.2:
        return marker(dice.randint(0, 2), 0, dice.random() < 0.5, **fields)
    if kind < 0.6:
        fields |= {"producer_id": dice.randint(0, 2), "producer_epoch": dice.choice([0, 0, 1])}
        fields |= {"base_sequence": dice.choice([0, 1, 5, 2**31 - 2])}
        fields["transactional"] = dice.random() < 0.5
    return build_batch(records, compression=dice.choice(list(Compression)), **fields)


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Return ``data`` with errors in one or a few places, and sometimes with a matching CRC."""
    work = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 4])):
        if work:
            _mutate(dice, work)
    if len(work) >= BATCH_OVERHEAD and dice.random() < 0.6:
        size = len(work)
        if dice.random() < 0.5:
            work[8:12] = (size - 12).to_bytes(4, "big")
        work[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc_of(work, 0, size).to_bytes(4, "big")
    return bytes(work)


def _mutate(dice: random.Random, work: bytearray) -> None:
    at = dice.randrange(len(work))
    kind = dice.randrange(7)
    if kind == 0:
        work[at] ^= 1 << dice.randrange(8)
    elif kind == 1:
        work[at] = dice.choice([0, 1, 0x7F, 0x80, 0xFF])
    elif kind == 2:
        del work[at:]
    elif kind == 3:
        del work[at : at + dice.randint(1, 20)]
    elif kind == 4:
        work[at:at] = dice.randbytes(dice.randint(1, 20))
    elif kind == 5:
        work[at:at] = work[at : at + dice.randint(1, 100)]
    else:
        offset, size = dice.choice(FIELDS)
        number = dice.choice(EXTREMES) % (1 << 8 * size)
        if len(work) >= HEADER.size:
            work[offset : offset + size] = number.to_bytes(size, "big")


# ---- appending


def fuzz_appends(seed: int) -> None:
    """Check that appends raise only Kafka's errors, and that the log stays whole."""
    dice = random.Random(seed)
    files = InstantFiles()
    config = any_config(dice)
    log = new_log(files, **config)
    for _ in range(12):
        follows = dice.random() < 0.3
        if follows:
            parts = [
                any_batch(dice, base_offset=log.log_end_offset + n, leader_epoch=dice.randint(0, 3))
                for n in range(dice.randint(1, 3))
            ]
            data = b"".join(parts)
        else:
            data = any_batch(dice)
        if dice.random() < 0.8:
            data = mutated(dice, data)
        end, size = log.log_end_offset, log.size_bytes
        try:
            if follows:
                log.append_as_follower(data)
            else:
                origin = dice.choice([AppendOrigin.CLIENT] * 3 + [AppendOrigin.COORDINATOR])
                log.append_as_leader(data, dice.randint(0, 3), NOW, origin)
        except KafkaError:
            assert (log.log_end_offset, log.size_bytes) == (end, size)
        assert log.log_end_offset >= end
    read_everything(log)
    again = load(files, **config)
    if any(b - a > 2**30 for a, b in pairwise([*log.segments.base_offsets, log.log_end_offset])):
        return  # too wide a gap for a segment: recovery cannot know it from a lost file
    assert again.log_end_offset == log.log_end_offset, "recovery refuses what an append accepted"
    assert producers(again.producers.states) == producers(log.producers.states)
    assert again.transactions.ongoing == log.transactions.ongoing


def producers(states: ProducerStates) -> list[tuple[int, int, int, int]]:
    return sorted(
        (e.producer_id, e.producer_epoch, e.last_sequence, e.current_txn_first_offset)
        for e in states.entries
    )


# ---- files


def fuzz_files(seed: int) -> None:
    """Check that a log with mutated files loads or raises Kafka's errors, and then use it."""
    dice = random.Random(seed)
    files = InstantFiles()
    config = any_config(dice) | {"max_message_bytes": 10**6, "cleanup_policy": "delete"}
    log = new_log(files, **config)
    for number in range(dice.randint(1, 15)):
        with contextlib.suppress(KafkaError):
            origin = dice.choice([AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
            log.append_as_leader(any_batch(dice), number // 4, NOW, origin)
    if dice.random() < 0.5:
        log.persist()
    log.close()
    for _ in range(dice.choice([1, 1, 2, 3])):
        _tamper(dice, files)
    dump_everything(files)
    clean, point = dice.random() < 0.4, dice.randint(0, log.log_end_offset + 2)
    start = dice.choice([0, 0, dice.randint(0, log.log_end_offset + 2)])
    try:
        again = load(files, clean, point, start, **config)
    except KafkaError:
        assert clean or point > 0, "all was looked at, and nothing was to stop it"
        return
    looked_at = not clean and point == 0
    read_everything(again, looked_at)
    for _ in range(2):
        append_some(dice, again)
        with contextlib.suppress(KafkaError):
            again.truncate_to(dice.randint(0, again.log_end_offset))
        read_everything(again, looked_at)
        with contextlib.suppress(KafkaError):
            run_now(again.flush())
    append_some(dice, again)
    read_everything(again, looked_at)


def append_some(dice: random.Random, log: UnifiedLog) -> None:
    for _ in range(3):
        with contextlib.suppress(KafkaError):
            log.append_as_leader(any_batch(dice), 9, NOW, AppendOrigin.COORDINATOR)


def _tamper(dice: random.Random, files: InstantFiles) -> None:
    names = files.list(DIRECTORY)
    if not names:
        return
    name = f"{DIRECTORY}/{dice.choice(names)}"
    kind = dice.random()
    if kind < 0.1:
        files.remove(name)
    elif kind < 0.2:
        suffix = dice.choice([".swap", ".cleaned", ".deleted", ".tmp"])
        files.replace_unsynced(name + suffix, files.read_all(name))
    elif kind < 0.3:
        other = f"{DIRECTORY}/{dice.randrange(30):020d}"
        files.replace_unsynced(other + dice.choice([".log", ".index", ".snapshot"]), b"")
    else:
        data = files.read_all(name)
        cut = dice.randint(0, len(data))  # so that batches in the middle are hit as well
        files.replace_unsynced(name, data[:cut] + mutated(dice, data[cut:]))


def read_everything(log: UnifiedLog, looked_at: bool = True) -> None:
    """Read the log by every method. Where a file has no valid batch, only Kafka's errors are
    raised. Offsets, which no CRC covers, are right only in files that recovery has
    ``looked_at``."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            read = log.read(offset, 500, log.log_end_offset, True)
            for magic in (0, 1):
                with contextlib.suppress(KafkaError):
                    message_set_of_batches(read.records, magic, offset, 10**6)
            found = parse_batches(read.records)
        except KafkaError:
            break
        if not found:
            break  # what is there is no batch
        if found[-1].next_offset <= offset:
            assert not looked_at, "a reader would not get on"
            break
        offset = found[-1].next_offset
    for timestamp in (0, NOW, 2**62):
        with contextlib.suppress(KafkaError):
            run_search(log.offset_by_timestamp(timestamp, log.log_end_offset))
    with contextlib.suppress(KafkaError):
        run_search(log.offset_of_max_timestamp(log.log_end_offset))
    for epoch in (-1, 0, 2, 99):
        log.end_offset_for_epoch(epoch)


def dump_everything(files: InstantFiles) -> None:
    for decode in (decode_offsets_record, decode_transaction_record):
        dumped = LogDump(files, DumpOptions(deep=True, contents=True, decode=decode))
        for name in files.list(DIRECTORY):
            with contextlib.suppress(ValueError, FileNotFoundError, UnknownFile):
                for _ in dumped.lines(f"{DIRECTORY}/{name}"):
                    pass
