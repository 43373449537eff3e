"""The checkpoint of high watermarks has the values of now, and costs a broker at rest no writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.replication import hosted_partitions
from minikafka.broker.replication.hosted_partitions import (
    UNCHANGED_ROUNDS,
    HighWatermarkCheckpoint,
)
from minikafka.kernel.cluster import TopicPartition

INDEXES = range(4)
LEFT = TopicPartition("left", 0)  # from before the start


class Replica:
    """Stands for a ``Partition``."""

    def __init__(self, index: int) -> None:
        self.topic_partition = TopicPartition("t", index)
        self.has_log = True
        self.high_watermark = 0

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
        self.hosted: dict[int, Replica] = {}
        self.checkpoint = HighWatermarkCheckpoint(
            cast(Any, self.logs), cast(Any, _Values(self.hosted))
        )
        self.checkpoint.read()
        self.left = {LEFT: 7}

    def change(self, what: str, index: int) -> None:
        if what == "host":
            self.hosted.setdefault(index, Replica(index))
        elif what == "stop":
            self.hosted.pop(index, None)
        elif what == "forget":
            self.checkpoint.forget(LEFT)
            self.left = {}
        elif index in self.hosted:
            replica = self.hosted[index]
            replica.has_log = what != "lose log"
            replica.high_watermark += 1 if what == "advance" else 0

    def values(self) -> dict[TopicPartition, int]:
        online = self.hosted.values()
        return self.left | {r.topic_partition: r.high_watermark for r in online if r.has_log}


class _Values:
    """The values of a dict, which is going to change."""

    def __init__(self, values: dict[int, Replica]) -> None:
        self._values = values

    def __iter__(self) -> Any:
        return iter(list(self._values.values()))


CHANGES = st.tuples(
    st.sampled_from(["host", "advance", "advance", "stop", "lose log", "find log", "forget"]),
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


@pytest.mark.mission("FAST-11")
async def test_the_loop_runs_between_slices_and_the_next_round_writes_later_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosted_partitions, "READ_AT_ONCE", 2)
    life = Life()
    for index in INDEXES:
        life.change("host", index)
    round_ = asyncio.ensure_future(life.checkpoint.write_changes())
    await asyncio.sleep(0)
    assert life.logs.writes == 0  # the first slice is read, the second is not
    life.change("advance", 0)
    life.change("stop", 1)
    life.change("advance", 3)
    await round_
    read = {TopicPartition("t", index): 0 for index in INDEXES}
    assert life.logs.file == life.left | read | {TopicPartition("t", 3): 1}
    assert await life.checkpoint.write_changes()
    assert life.logs.file == life.values()
