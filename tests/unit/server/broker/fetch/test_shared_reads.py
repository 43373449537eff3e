"""Fetches that want the same in one turn of the loop read the file once; later ones read again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.fetch.reader import SharedReads
from minikafka.server.storage.log import unified_log
from tests.support.broker.replicas import values_in
from tests.support.compiled import takes_stand_ins
from tests.support.storage.logs import NOW, batch, new_log

pytestmark = takes_stand_ins(unified_log)


class Counting:
    """A log, and how often it was read from."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, *wanted: Any) -> Any:
        self.reads += 1
        return self._log.read(*wanted)


@pytest.fixture
def log() -> Any:
    log = new_log()
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(bytearray(batch(value)), 0, NOW)
    return Counting(log)


def read(shared: SharedReads, log: Any, offset: int = 0, end: int = 3) -> list[str]:
    return values_in(shared.read(log, offset, 1 << 20, end, True, False, True).records)


async def test_the_same_is_read_once_in_a_turn(log: Any) -> None:
    shared = SharedReads()
    assert read(shared, log) == read(shared, log) == ["a", "b", "c"]
    assert log.reads == 1
    await asyncio.sleep(0)
    assert read(shared, log) == ["a", "b", "c"]
    assert log.reads == 2


async def test_anything_else_is_read(log: Any) -> None:
    shared = SharedReads()
    assert read(shared, log, offset=1) == ["b", "c"]
    assert read(shared, log, end=2) == ["a", "b"]
    assert read(shared, Counting(log)) == ["a", "b", "c"]
    assert read(shared, log, offset=3) == []
    assert log.reads == 4


async def test_a_log_that_was_cut_is_read_again(log: Any) -> None:
    shared = SharedReads()
    assert read(shared, log) == ["a", "b", "c"]
    log.truncate_to(1)
    await log.flush()
    assert read(shared, log, end=1) == ["a"]
    for value in (b"d", b"e"):
        log.append_as_leader(bytearray(batch(value)), 1, NOW)
    assert read(shared, log) == ["a", "d", "e"]


async def test_a_start_that_moved_is_looked_at(log: Any) -> None:
    shared = SharedReads()
    assert read(shared, log) == ["a", "b", "c"]
    log.increment_log_start_offset(2)
    with pytest.raises(KafkaError) as raised:
        read(shared, log)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
