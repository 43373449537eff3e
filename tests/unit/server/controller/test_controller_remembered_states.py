"""When the controller reads state znodes, and when it takes what it remembers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.events import event_log
from minikafka.server.controller.znode_reads import Leaderships

TP = TopicPartition("t", 0)
OLD = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1, 2), 0), 1)
NEW = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1,), 1), 1)


class Store:
    """``znode`` is what ZooKeeper has, ``reads`` how often it was read."""

    def __init__(self) -> None:
        self.znode = NEW
        self.reads = 0

    async def leader_isr_states(self, partitions: Any, watcher: Any = None) -> Any:
        self.reads += len(partitions)
        return {} if self.znode is None else dict.fromkeys(partitions, self.znode)


class Remembered:
    """OLD in memory, NEW in ZooKeeper."""

    def __init__(self) -> None:
        self.store = Store()
        self.context = ControllerContext()
        self.context.leadership[TP] = OLD
        self.states = Leaderships(
            self.context, cast(Any, SimpleNamespace(store=self.store)), event_log("test")
        )

    async def read(self, memory_will_do: Any) -> Any:
        """What was found, and how many reads of ZooKeeper that took."""
        before = self.store.reads
        found, unreadable = await self.states.read([TP], lambda *_: memory_will_do)
        assert not unreadable
        return found.get(TP), self.store.reads - before


@pytest.fixture
def memory() -> Any:
    return Remembered()


async def test_remembered_state_is_used_where_it_suffices(memory: Any) -> None:
    assert await memory.read(True) == (OLD, 0)
    assert await memory.read(False) == (NEW, 1)
    assert memory.context.leadership[TP] == NEW


async def test_a_state_read_stays_fresh_for_the_event(memory: Any) -> None:
    assert await memory.read(False) == (NEW, 1)
    assert memory.states.is_fresh(TP)
    assert await memory.read(False) == (NEW, 0)
    memory.states.new_event()
    assert not memory.states.is_fresh(TP)
    assert await memory.read(False) == (NEW, 1)


async def test_a_state_written_stays_fresh_for_the_event(memory: Any) -> None:
    memory.states.written([TP])
    assert await memory.read(False) == (OLD, 0)
    memory.states.new_event()
    assert await memory.read(False) == (NEW, 1)


async def test_a_state_written_by_another_broker_is_read_again(memory: Any) -> None:
    memory.states.written([TP])
    memory.states.outdated([TP])
    assert not memory.states.is_fresh(TP)
    assert await memory.read(True) == (NEW, 1)
    assert await memory.read(False) == (NEW, 0)


async def test_an_own_write_makes_remembered_state_fresh_again(memory: Any) -> None:
    memory.states.outdated([TP])
    memory.states.written([TP])
    assert await memory.read(False) == (OLD, 0)


async def test_the_next_event_uses_remembered_state_where_it_suffices(memory: Any) -> None:
    memory.states.outdated([TP])
    memory.states.new_event()
    assert await memory.read(True) == (OLD, 0)


async def test_a_missing_znode_is_missing_for_the_event(memory: Any) -> None:
    memory.store.znode = None
    assert await memory.read(False) == (None, 1)
    assert await memory.read(True) == (None, 0)
    memory.store.znode = NEW
    memory.states.new_event()
    assert await memory.read(False) == (NEW, 1)


@pytest.mark.parametrize("found_by", ["written", "outdated", "refresh"])
async def test_a_missing_znode_that_comes_back(memory: Any, found_by: Any) -> None:
    memory.store.znode = None
    assert await memory.read(False) == (None, 1)
    memory.store.znode = NEW
    if found_by == "refresh":
        await memory.states.refresh([TP])
        assert await memory.read(True) == (NEW, 0)
    else:
        getattr(memory.states, found_by)([TP])
        assert await memory.read(True) == ((OLD, 0) if found_by == "written" else (NEW, 1))


async def test_a_partition_that_memory_does_not_know_is_read(memory: Any) -> None:
    del memory.context.leadership[TP]
    assert await memory.read(True) == (NEW, 1)
