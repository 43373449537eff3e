"""Logs that move to another directory: whole, while they change, across restarts and failures."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.directories import moves as log_moves
from minikafka.server.storage.directories.log_manager import (
    NO_REPLICAS,
    LogConfig,
    LogManager,
    LogManagerConfig,
)
from minikafka.server.storage.directories.moves import MOVED_FROM
from minikafka.server.storage.log.reader import LogRead
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch, batches_of, values_of
from tests.support.storage.transactions import TxnProducer
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID = UUID(int=5)
SMALL = LogConfig(segment_bytes=300)


class Broker:
    def __init__(self, files: InstantFiles, clock: VirtualClock, logs: LogManager) -> None:
        self.files, self.clock, self.logs = files, clock, logs

    @property
    def log(self) -> UnifiedLog:
        return self.logs.logs()[A]

    def fill(self, count: int, epoch: int = 0) -> None:
        for number in range(count):
            value = f"{epoch}.{number}".encode() + bytes(60)
            self.log.append_as_leader(bytearray(batch(value)), epoch, NOW)

    def move(self, path: str) -> None:
        self.logs.moves.begin(A, path, self.logs.get(A))

    def directories(self, path: str) -> list[str]:
        return [name for name in self.files.list(path) if name.startswith(("a-", "b-"))]


@contextlib.asynccontextmanager
async def broker(files: InstantFiles | None = None) -> AsyncIterator[Broker]:
    files, clock = files or InstantFiles(), VirtualClock()
    is_new = not files.exists("/d")
    logs = LogManager(files, clock, ManualWorkers(), LogManagerConfig(log_dirs=("/d", "/e")))
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        if is_new:
            logs.get_or_create(A, ID, SMALL)
        yield Broker(files, clock, logs)
        await logs.shutdown()


async def test_a_log_lies_elsewhere_afterwards_and_is_the_same() -> None:
    async with broker() as node:
        node.fill(9)
        node.log.assign_epoch_start_offset(4, 9)
        before, old = values_of(node.log), node.log
        moved: list[UnifiedLog] = []
        node.logs.connect(replace(NO_REPLICAS, log_replaced=moved.append))
        node.move("/e")
        assert len(node.logs.directories.live[1].futures) == 1
        (name,) = node.directories("/e")
        assert name.startswith("a-0.")
        assert name.endswith("-future")
        await node.clock.settle()
        assert moved == [node.log]
        assert node.log is not old
        assert old.closed
        assert node.log.directory == "/e/a-0"
        assert values_of(node.log) == before
        assert node.log.latest_epoch == 4
        assert node.log.topic_id == ID
        assert node.log.recovery_point == 9
        assert [n.endswith("-delete") for n in node.directories("/d")] == [True]
        assert MOVED_FROM not in node.files.list("/e/a-0")
        node.fill(2, epoch=5)
        await node.clock.advance(60_000)
        assert node.directories("/d") == []
    async with broker(node.files) as again:
        assert len(values_of(again.log)) == 11


async def test_appends_continue_during_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_moves, "_SLICE_BYTES", 200)
    async with broker() as node:
        node.fill(20)
        node.move("/e")
        epoch = 1
        while node.log.directory == "/d/a-0":
            if epoch < 50:
                node.fill(1, epoch)
            epoch += 1
            await asyncio.sleep(0)
        assert epoch > 1
        values = values_of(node.log)
        assert len(values) == node.log.log_end_offset > 20
        await node.clock.settle()


async def test_moves_keep_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_moves, "_SLICE_BYTES", 200)
    async with broker() as node:
        node.fill(20)
        node.logs.moves.quota.limit(100)
        node.move("/e")
        (future,) = node.logs.directories.live[1].futures.values()
        for second in range(1, 11):
            await node.clock.advance(1_000)
            assert 100 * (second - 1) <= future.size_bytes <= 100 * (second + 1) + 200
        assert node.log.directory == "/d/a-0"
        node.logs.moves.quota.limit(None)
        await node.clock.advance(1_000)
        assert node.log.directory == "/e/a-0"
        assert len(values_of(node.log)) == 20


async def test_producer_state_and_cleaner_offset_move_with_the_log() -> None:
    async with broker() as node:
        states = node.log.producers.states
        guard = states.verification_of(1, 0, 0, NOW)
        node.fill(2)
        node.log.cleaned_offset = 1
        old = node.log
        node.move("/e")
        await node.clock.settle()
        assert node.log is not old
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        begun = bytearray(batch(b"verified before the move", **fields))
        node.log.append_as_leader(begun, 0, NOW, AppendOrigin.CLIENT, guard)
        assert node.log.cleaned_offset == 1
        cleaned = node.files.read_all("/e/cleaner-offset-checkpoint")
        assert cleaned == b"0\n1\na 0 1\n"


@pytest.mark.mission("DOP-5")
async def test_committed_transactions_stay_committed() -> None:
    """The copy has seen their markers; that they are committed, only the partition knows."""
    async with broker() as node:
        partition = Partition(A, 1, 1_000, set(), lambda _: None, [])
        node.logs.connect(replace(NO_REPLICAS, log_replaced=partition.replace_log))
        producer = TxnProducer(7)
        for _ in range(3):
            producer.send(node.log, (None, b"x"))
            producer.end(node.log, commit=True)
        producer.send(node.log, (None, b"open"))
        partition.open_log(node.log, 7)
        assert partition.last_stable_offset == 6
        node.move("/e")
        await node.clock.settle()
        assert partition.log.directory == "/e/a-0"
        assert partition.last_stable_offset == 6


async def test_flushing_the_replaced_log_flushes_its_copy() -> None:
    async with broker() as node:
        old = node.log
        node.move("/e")
        await node.clock.settle()
        node.fill(2)
        assert node.log.recovery_point == 0
        await node.logs.flush([old])
        assert node.log.recovery_point == 2


async def test_a_log_that_starts_within_a_batch() -> None:
    async with broker() as node:
        node.log.append_as_leader(bytearray(batch(b"a", b"b", b"c")), 0, NOW)
        node.fill(3)
        node.log.increment_log_start_offset(2)
        node.move("/e")
        await node.clock.settle()
        assert node.log.directory == "/e/a-0"
        assert (node.log.log_start_offset, node.log.log_end_offset) == (2, 6)
        assert batches_of(node.log)[0].base_offset == 0
    async with broker(node.files) as again:
        assert again.log.log_start_offset == 2


async def test_an_empty_log_and_one_whose_records_are_all_deleted() -> None:
    async with broker() as node:
        node.move("/e")
        await node.clock.settle()
        assert node.log.directory == "/e/a-0"
        node.fill(2)
        node.log.increment_log_start_offset(2)
        node.log.roll()
        node.move("/d")
        await node.clock.settle()
        assert node.log.directory == "/d/a-0"
        assert (node.log.log_start_offset, node.log.log_end_offset) == (2, 2)
        node.fill(1)
        assert node.log.log_end_offset == 3


async def test_invalid_moves_are_refused() -> None:
    async with broker() as node:

        def refusal(partition: TopicPartition, path: str) -> ErrorCode:
            with pytest.raises(KafkaError) as caught:
                node.logs.moves.begin(partition, path, node.logs.get(partition))
            return caught.value.code

        assert refusal(A, "/f") is ErrorCode.LOG_DIR_NOT_FOUND
        assert refusal(B, "/d") is ErrorCode.REPLICA_NOT_AVAILABLE
        assert node.logs.get_or_create(B, ID, SMALL).directory == "/d/b-0"
        node.move("/d")  # it lies there already
        long = TopicPartition("x" * 240, 0)
        node.logs.get_or_create(long, ID, SMALL)
        assert refusal(long, "/d") is ErrorCode.INVALID_TOPIC_EXCEPTION
        node.logs.storage_failed(long, OSError(errno.EIO, "broken"))
        assert refusal(A, "/e") is ErrorCode.KAFKA_STORAGE_ERROR


async def test_another_direction_ends_a_move_and_so_does_deletion() -> None:
    async with broker() as node:
        node.fill(3)
        node.move("/e")
        node.move("/e")
        node.move("/d")
        await node.clock.settle()
        assert node.log.directory == "/d/a-0"
        assert node.directories("/e") == []
        node.move("/e")
        await node.logs.delete(A)
        await node.clock.settle()
        assert node.directories("/e") == []
        assert not node.logs.directories.live[1].futures


async def test_an_interrupted_move_starts_again() -> None:
    files = InstantFiles()
    async with broker(files) as node:
        node.fill(5)
        node.move("/e")
        assert node.directories("/e") != []
    async with broker(files) as again:
        await again.clock.settle()
        assert again.log.directory == "/e/a-0"
        assert len(values_of(again.log)) == 5
        assert again.directories("/e") == ["a-0"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_a_broker_whose_old_log_stays_knows_the_newer_one(number: int) -> None:
    """It dies between the two names, or the old directory fails and comes back."""
    files = InstantFiles()
    async with broker(files) as node:
        node.fill(5)
        real = files.rename

        def dying(source: str, target: str) -> None:
            if target.endswith("-delete"):
                raise OSError(number, "as good as dead")
            real(source, target)

        files.rename = dying  # type: ignore[method-assign]
        node.move("/e")
        await node.clock.settle()
        assert node.log.directory == "/e/a-0"
        node.fill(1)
        files.rename = real  # type: ignore[method-assign]
        assert node.directories("/d") == ["a-0"]
    async with broker(files) as again:
        assert again.log.directory == "/e/a-0"
        assert again.log.log_end_offset == 6
        assert again.directories("/d") != ["a-0"]
        assert MOVED_FROM not in files.list("/e/a-0")


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_source_that_lacks_descriptors_is_read_again(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as node:
        node.fill(5)
        before = values_of(node.log)

        async def starved(*given: object) -> LogRead:
            raise OSError(number, "too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(node.log, "read_cold", starved)
            node.move("/e")
            await node.clock.advance(5_000)
            assert node.log.directory == "/d/a-0"
        await node.clock.advance(1_000)
        assert node.log.directory == "/e/a-0"
        assert values_of(node.log) == before
        assert node.logs.directories.offline == {}


async def test_a_full_directory_is_waited_for() -> None:
    async with broker() as node:
        node.fill(5)
        node.move("/e")
        node.files.leave_room(100)
        await node.clock.advance(5_000)
        assert node.log.directory == "/d/a-0"
        assert not node.log.closed
        node.files.leave_room(10**6)
        await node.clock.advance(1_000)
        assert node.log.directory == "/e/a-0"


@pytest.mark.parametrize("failing", ["/d", "/e"])
async def test_a_directory_that_fails_ends_its_moves(failing: str) -> None:
    async with broker() as node:
        node.fill(5)
        node.move("/e")
        node.logs.directories.fail(
            next(d for d in node.logs.directories.live if d.path == failing),
            OSError(errno.EIO, "broken"),
        )
        await node.clock.settle()
        if failing == "/e":
            assert node.log.directory == "/d/a-0"
        else:
            assert node.logs.get(A) is None


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("truncate"), st.integers(0, 40)),
        st.tuples(st.just("start"), st.integers(0, 40)),
        st.tuples(st.just("restart"), st.integers(0, 40)),
        st.tuples(st.just("step"), st.integers(1, 20)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_the_copy_is_equal_after_any_changes_during_the_move(
    actions: list[tuple[str, int]],
) -> None:
    async def play() -> None:
        async with broker() as node:
            node.fill(8)
            node.move("/e")
            epoch = 0
            for action, number in actions:
                log = node.log
                match action:
                    case "append":
                        epoch += 1
                        node.fill(number, epoch)
                    case "truncate":
                        log.truncate_to(max(number, 0))
                        await log.flush()
                    case "start":
                        log.increment_log_start_offset(min(number, log.log_end_offset))
                    case "restart":
                        log.truncate_fully_and_start_at(number)
                        await log.flush()
                    case "step":
                        for _ in range(number):
                            await asyncio.sleep(0)
                expected = contents(node.log)
                moved = node.log.directory == "/e/a-0"
                await asyncio.sleep(0)
                if not moved and node.log.directory == "/e/a-0":
                    assert contents(node.log) == expected
            expected = contents(node.log)
            await node.clock.settle()
            assert node.log.directory == "/e/a-0"
            assert contents(node.log) == expected

    slice_bytes = log_moves._SLICE_BYTES
    try:
        log_moves._SLICE_BYTES = 150  # type: ignore[misc]
        asyncio.run(play())
    finally:
        log_moves._SLICE_BYTES = slice_bytes  # type: ignore[misc]


def contents(log: UnifiedLog) -> tuple[int, int, list[tuple[int, bytes]], object]:
    return (
        log.log_start_offset,
        log.log_end_offset,
        [(b.base_offset, bytes(b.view())) for b in batches_of(log)],
        log.epochs.cache.entries,
    )
