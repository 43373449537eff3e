"""The checkpoint of high watermarks has the values of now, and costs a broker at rest no writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication import hosted_partitions
from minikafka.server.broker.replication.hosted_partitions import (
    UNCHANGED_ROUNDS,
    HighWatermarkCheckpoint,
)
from tests.support.compiled import takes_stand_ins
from tests.support.world.turns import pause_at_every_element

pytestmark = takes_stand_ins(hosted_partitions)

INDEXES = range(4)
LEFT = TopicPartition("left", 0)  # from before the start


class Replica:
    """Stands for a ``Partition``."""

    def __init__(self, index: int, moved: list[Any]) -> None:
        self.topic_partition = TopicPartition("t", index)
        self.has_log = False
        self.high_watermark = 0
        self.is_moved = False
        self._moved = moved

    def change(self, has_log: bool, step: int) -> None:
        if has_log is self.has_log and not step:
            return
        self.has_log = has_log
        self.high_watermark += step
        if not self.is_moved:
            self.is_moved = True
            self._moved.append(self)

    def checked_high_watermark(self) -> int:
        return self.high_watermark


class Logs:
    """Stands for the ``LogManager``."""

    def __init__(self) -> None:
        self.file: dict[TopicPartition, int] = {}
        self.writes = 0

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return {LEFT: 7}

    async def write_high_watermarks(self, values: Mapping[TopicPartition, int]) -> bool:
        self.file, self.writes = dict(values), self.writes + 1
        return True


class Life:
    def __init__(self) -> None:
        self.logs = Logs()
        self.hosted: dict[TopicPartition, Replica] = {}
        self.checkpoint = HighWatermarkCheckpoint(cast(Any, self.logs), cast(Any, self.hosted))
        self.checkpoint.read()
        self.left = {LEFT: 7}

    def change(self, what: str, index: int) -> None:
        topic_partition = TopicPartition("t", index)
        if what == "forget":
            self.checkpoint.forget(LEFT)
            self.left = {}
        elif what == "host" and topic_partition not in self.hosted:
            replica = Replica(index, self.checkpoint.moved)
            replica.change(True, 0)
            self.hosted[topic_partition] = replica
        elif what == "stop" and topic_partition in self.hosted:
            self.hosted.pop(topic_partition).change(False, 0)
        elif what == "advance" and topic_partition in self.hosted:
            self.hosted[topic_partition].change(True, 1)

    def values(self) -> dict[TopicPartition, int]:
        online = self.hosted.values()
        return self.left | {r.topic_partition: r.high_watermark for r in online if r.has_log}


CHANGES = st.tuples(
    st.sampled_from(["host", "advance", "advance", "stop", "forget"]),
    st.sampled_from(INDEXES),
)


@pytest.mark.mission("FET-16")
@given(rounds=st.lists(st.lists(CHANGES, max_size=3), max_size=40))
def test_the_files_always_have_the_values_of_now(rounds: list[list[tuple[str, int]]]) -> None:
    async def live() -> None:
        life = Life()
        for changes in rounds:
            for what, index in changes:
                life.change(what, index)
            writes, differs = life.logs.writes, life.logs.file != life.values()
            assert await life.checkpoint.write_changes() is (life.logs.writes > writes)
            assert life.logs.writes > writes or not differs
            assert life.logs.file == life.values()

    asyncio.run(live())


@pytest.mark.mission("FET-16")
async def test_values_that_stay_are_written_seldom() -> None:
    life = Life()
    life.change("host", 1)
    for _ in range(10 * UNCHANGED_ROUNDS):
        await life.checkpoint.write_changes()
    assert life.logs.writes == 10
    life.checkpoint.log_moved()
    assert await life.checkpoint.write_changes()
    assert await life.checkpoint.write()
    assert life.logs.writes == 12


@pytest.mark.mission("FET-16")
async def test_a_hosted_partition_is_not_looked_at_when_its_value_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its disk may have failed amid a truncation: then its high watermark is not lowered yet."""
    life = Life()
    life.change("host", 1)
    await life.checkpoint.write()
    topic_partition = TopicPartition("t", 1)
    replica = life.hosted[topic_partition]
    with monkeypatch.context() as amid:
        amid.setattr(replica, "checked_high_watermark", lambda: pytest.fail("outside of the log"))
        life.checkpoint.forget(topic_partition)
    life.change("stop", 1)
    assert await life.checkpoint.write_changes()
    assert life.logs.file == life.values() == life.left


@pytest.mark.mission("FAST-11")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_the_loop_runs_between_slices_and_no_move_is_lost(
    monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    pause_at_every_element(monkeypatch)
    life = Life()
    for index in INDEXES:
        life.change("host", index)
    round_ = asyncio.ensure_future(life.checkpoint.write_changes())
    await asyncio.sleep(0)
    assert life.logs.writes == 0  # the first slice is taken over, the second is not
    life.change("advance", 0)
    life.change("stop", 1)
    life.change("advance", 3)
    if cancelled:
        round_.cancel()
        assert await life.checkpoint.write()
    else:
        await round_
    assert life.logs.file == life.values()
