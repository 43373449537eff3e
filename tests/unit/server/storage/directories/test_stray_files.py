"""Strays of any name and shape in a data directory: no log and no directory is lost for them."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from minikafka.core.log import names
from minikafka.core.log.small_files import decode_meta_properties
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from minikafka.world.real.files import RealFiles
from tests.support.storage.logs import batch
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

TP = TopicPartition("flights", 0)
ID = UUID(int=5)
DIRECTORY = None  # what the stray is, or its contents

BEYOND = "99999999999999999999"
LAST = "09223372036854775807"  # the last int64
# Where, name, contents.
IN_LOG: list[tuple[str, bytes | None]] = [
    *[(f"{BEYOND}{suffix}", b"x" * 61) for suffix in (".log", *names.INDEX_SUFFIXES, ".snapshot")],
    *[(f"{LAST}{suffix}", b"") for suffix in (".log", *names.INDEX_SUFFIXES, ".snapshot")],
    *[(f"{BEYOND}.log{suffix}", b"") for suffix in (".swap", ".cleaned", ".deleted", ".apart")],
    *[
        (f"00000000000000000007{suffix}", DIRECTORY)
        for suffix in (".log", *names.INDEX_SUFFIXES, ".snapshot", ".log.swap", ".log.cleaned")
    ],
    *[(f"00000000000000000000{suffix}", DIRECTORY) for suffix in (".snapshot", ".log.deleted")],
    *[(name, DIRECTORY) for name in ("a.tmp", "a.log", "a.index", "x.deleted", "x.swap", "sub")],
    *[(name, b"\0garbage") for name in ("a.log", "a.index", "1.log", "-1.log", "x y")],
    ("0000000000000000000\u0663.log", b""),
    ("\udcff\udcfe.log", b""),
    ("\udcff.tmp", DIRECTORY),
    ("leader-epoch-checkpoint.bak", b"?"),
    ("x" * 250, b""),
    ("moved-from", DIRECTORY),
]  # fmt: skip
IN_DATA: list[tuple[str, bytes | None]] = [
    ("flights-1", b"a file"),
    ("flights-99999999999999999999", DIRECTORY),
    ("flights-2147483648", DIRECTORY),
    ("flights-01", DIRECTORY),
    ("..-0", DIRECTORY),
    (".-0", DIRECTORY),
    ("-0", DIRECTORY),
    ("x" * 251 + "-0", DIRECTORY),
    ("a b-0", DIRECTORY),
    ("\udcff-0", DIRECTORY),
    ("lost+found", DIRECTORY),
    ("my-delete", DIRECTORY),
    ("my-delete", b"a file"),
    ("flights-0." + "0" * 32 + "-delete", b"a file"),
    ("flights-0." + "0" * 32 + "-future", b"a file"),
    ("flights-7." + "0" * 32 + "-stray", b"a file"),
    *[
        (f"{name}-checkpoint", text)
        for name in (
            "recovery-point-offset",
            "log-start-offset",
            "replication-offset",
            "cleaner-offset",
        )
        for text in (
            b"\xff\0garbage",
            b"0\n1\nflights 0 " + b"9" * 30 + b"\n",
            b"0\n1\nflights 0 -5\n",
            b"0\n1\nflights 99999999999 5\n",
            b"0\n1\nflights 0 " + b"9" * 5000 + b"\n",
            b"[" * 5000,
        )
    ],
]


def manager(path: Path) -> LogManager:
    return LogManager(
        RealFiles(), VirtualClock(), ManualWorkers(), LogManagerConfig(log_dirs=(str(path),))
    )


def put(path: Path, contents: bytes | None) -> None:
    if contents is DIRECTORY:
        path.mkdir()
        (path / "inside").write_bytes(b"x")
    else:
        path.write_bytes(contents)


async def use(logs: LogManager, end: int) -> None:
    """Read and append, roll, truncate and list snapshots, as a running broker does."""
    assert logs.directories.offline == {}
    log = logs.get_or_create(TP, ID, LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    log.append_as_leader(batch(b"more"), 0, 0)
    assert log.read(0, 1 << 20, log.log_end_offset, True).records
    assert log.read(log.log_end_offset, 1 << 20, log.log_end_offset, True).records == b""
    log.producers.take_snapshot(log.log_end_offset)
    log.append_as_leader(batch(b"cut"), 0, 0)
    log.truncate_to(end + 1)
    await log.flush()
    other = logs.get_or_create(TopicPartition("flights", 1), ID, LogConfig())
    other.append_as_leader(batch(b"x"), 0, 0)
    assert logs.directories.offline == {}


async def left_behind(data: Path, clean: bool) -> None:
    logs = manager(data)
    await logs.start()
    log = logs.get_or_create(TP, ID, LogConfig())
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), 0, 0)
    await log.flush()
    await logs.shutdown()
    if not clean:
        os.unlink(data / ".kafka_cleanshutdown")


@pytest.mark.mission("DOOR-5")
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(
    ("name", "contents"), IN_LOG, ids=[f"{n[:40]!a}-{c is DIRECTORY}" for n, c in IN_LOG]
)
async def test_a_stray_in_a_log(
    tmp_path: Path, name: str, contents: bytes | None, clean: bool
) -> None:
    await left_behind(tmp_path, clean)
    put(tmp_path / "flights-0" / name, contents)
    for end in (3, 4):
        logs = manager(tmp_path)
        await logs.start()
        await use(logs, end)
        await logs.shutdown()


@pytest.mark.mission("DOOR-5")
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(("name", "contents"), IN_DATA)
async def test_a_stray_in_a_data_directory(
    tmp_path: Path, name: str, contents: bytes | None, clean: bool
) -> None:
    await left_behind(tmp_path, clean)
    put(tmp_path / name, contents)
    for end in (3, 4):
        logs = manager(tmp_path)
        await logs.start()
        assert set(logs.logs()) <= {TP, TopicPartition("flights", 1)}
        assert logs.directories.topics() == {"flights"}
        logs.directories.read_high_watermarks()
        await use(logs, end)
        await logs.shutdown()
    if name == "my-delete":
        assert (tmp_path / name).exists()


@pytest.mark.mission("DOOR-5")
async def test_a_segment_beyond_int64_that_comes_while_the_broker_runs(tmp_path: Path) -> None:
    """Snapshots are listed again after a truncation."""
    await left_behind(tmp_path, True)
    logs = manager(tmp_path)
    await logs.start()
    put(tmp_path / "flights-0" / f"{BEYOND}.log", b"x")
    put(tmp_path / "flights-0" / f"{BEYOND}.snapshot", b"x")
    put(tmp_path / "flights-0" / "00000000000000000002.snapshot", DIRECTORY)
    await use(logs, 3)
    await logs.shutdown()


@pytest.mark.mission("DOOR-5")
@pytest.mark.parametrize("text", ["\u00b2", "9" * 5000, "-1", "x"])
def test_a_broker_id_in_meta_properties_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a number"):
        decode_meta_properties(f"broker.id={text}\n".encode())
