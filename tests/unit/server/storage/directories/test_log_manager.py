"""The log manager: owners and locks, loading, checkpoints, an orderly stop."""

import asyncio
import errno
from uuid import UUID

import pytest

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.storage.directories.log_manager import LogConfig
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.log_managers import fill, manager, started
from tests.support.storage.logs import NOW, batch, cut, values_of
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
ID = UUID("12345678-1234-5678-1234-567812345678")
SMALL = LogConfig(segment_bytes=200)


# ------------------------------------------------------------------------------------------ owner


async def test_a_directory_remembers_its_broker_and_cluster() -> None:
    files = InstantFiles()
    first = manager(files)
    assert await first.broker_id() is None
    await first.claim(3, "cluster-id")
    first.close()
    assert files.read_all("/d/meta.properties") == (
        b"version=0\nbroker.id=3\ncluster.id=cluster-id\n"
    )
    again = manager(files)
    assert await again.broker_id() == 3
    await again.claim(3, "cluster-id")
    with pytest.raises(ConfigError, match=r"broker\.id 4 does not match"):
        await again.claim(4, "cluster-id")
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        await again.claim(3, "another")


async def test_a_file_as_kafka_writes_it_is_understood_and_kept() -> None:
    files = InstantFiles()
    files.make_directories("/d")
    text = b"#\n#Fri Nov 21\nversion=0\nbroker.id=7\ncluster.id=ab\\=c\ndirectory.id=xyz\n"
    files.replace_unsynced("/d/meta.properties", text)
    one = manager(files, "/d", "/e")
    assert await one.broker_id() == 7
    await one.claim(7, "ab=c")
    assert files.read_all("/d/meta.properties") == text
    assert b"broker.id=7" in files.read_all("/e/meta.properties")
    files.replace_unsynced("/e/meta.properties", b"broker.id=8\n")
    with pytest.raises(ConfigError, match="several brokers"):
        await one.broker_id()
    files.replace_unsynced("/e/meta.properties", b"broker.id=eight\n")
    with pytest.raises(ConfigError, match="not a number"):
        await one.broker_id()


async def test_a_directory_in_use_is_refused() -> None:
    files = InstantFiles()
    first = await started(files)
    with pytest.raises(ConfigError, match="/d is in use by another process"):
        await manager(files).start()
    await first.shutdown()
    second = await started(files)
    second.close()
    second.close()
    (await started(files)).close()


# ------------------------------------------------------------------------------------------- logs


async def test_logs_are_made_found_and_spread_over_directories() -> None:
    files = InstantFiles()
    logs = await started(files, "/d", "/e")
    assert logs.get(A) is None
    made = [logs.get_or_create(TopicPartition("t", n), ID, LogConfig()) for n in range(4)]
    assert sorted(log.directory for log in made) == ["/d/t-0", "/d/t-2", "/e/t-1", "/e/t-3"]
    assert logs.get(TopicPartition("t", 2)) is made[2]
    assert list(logs.logs()) == [log.topic_partition for log in made]
    config = LogConfig(segment_bytes=1000)
    assert logs.get_or_create(TopicPartition("t", 2), ID, config) is made[2]
    assert made[2].config is config


async def test_a_log_of_an_earlier_topic_of_the_name_is_refused() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, None, LogConfig())
    assert log.topic_id is None
    logs.get_or_create(A, ZERO_UUID, LogConfig())
    assert log.topic_id is None
    logs.get_or_create(A, ID, LogConfig())
    assert log.topic_id == ID
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create(A, UUID(int=5), LogConfig())
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    await logs.shutdown()
    again = await started(files)
    found = again.get(A)
    assert found is not None
    assert found.topic_id == ID


@pytest.mark.mission("CSH-3")
async def test_an_orderly_stop_leaves_nothing_to_recover() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, SMALL)
    fill(log, 3)
    log.increment_log_start_offset(2)
    await logs.shutdown()
    marker = files.read_all("/d/.kafka_cleanshutdown")
    assert marker == b'{"version":0,"brokerEpoch":-1}'
    assert files.read_all("/d/recovery-point-offset-checkpoint") == b"0\n1\na 0 3\n"
    assert files.read_all("/d/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    files.crash()  # whatever is not on disk is gone
    again = await started(files)
    found = again.get(A)
    assert found is not None
    assert found.recovery_point == found.log_end_offset == 3
    assert not files.exists("/d/.kafka_cleanshutdown")
    assert found.log_start_offset == 2
    assert values_of(found) == [bytes(100)]


async def test_a_killed_broker_recovers() -> None:
    files = InstantFiles()
    logs = await started(files)
    fill(logs.get_or_create(A, ID, SMALL), 3)
    logs.close()
    again = await started(files)
    log = again.get(A)
    assert log is not None
    assert (log.log_end_offset, log.recovery_point) == (3, 0)


async def test_start_offsets_within_a_segment_are_checkpointed() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    fill(log, 5)
    log.increment_log_start_offset(3)
    await logs.checkpoint()
    assert files.read_all("/d/log-start-offset-checkpoint") == b"0\n1\na 0 3\n"
    logs.close()
    again = (await started(files)).get(A)
    assert again is not None
    assert again.log_start_offset == 3


async def test_configs_of_topics_are_used_for_loading() -> None:
    files = InstantFiles()
    logs = await started(files)
    fill(logs.get_or_create(A, ID, SMALL), 1)
    fill(logs.get_or_create(B, ID, SMALL), 1)
    await logs.shutdown()
    default = LogConfig(index_interval_bytes=77)
    again = manager(files, log=default)
    await again.start(configs={"b": SMALL})
    assert again.logs()[A].config is default
    assert again.logs()[B].config is SMALL


async def test_other_directories_are_left_alone() -> None:
    files = InstantFiles()
    for name in ("lost+found", "a", "a-x", "a-01", "a-0.123-future", "a-0.123-stray"):
        files.make_directories(f"/d/{name}")
    files.replace_unsynced("/d/b-1", b"a file")
    assert (await started(files)).logs() == {}


async def test_a_partition_in_two_directories_is_refused() -> None:
    files = InstantFiles()
    for directory in ("/d/a-0", "/e/a-0"):
        files.make_directories(directory)
    with pytest.raises(ConfigError, match="two log directories hold a log of a-0"):
        await started(files, "/d", "/e")


async def test_loading_many_logs_yields_to_the_event_loop() -> None:
    files = InstantFiles()
    logs = await started(files)
    for n in range(100):
        logs.get_or_create(TopicPartition("t", n), ID, LogConfig())
    await logs.shutdown()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    again = await started(files)
    counting.cancel()
    assert len(again.logs()) == 100
    assert turns >= 2


# ------------------------------------------------------------------------------------ checkpoints


async def test_high_watermarks() -> None:
    files = InstantFiles()
    logs = await started(files, "/d", "/e")
    assert logs.read_high_watermarks() == {}
    for topic_partition in (A, B):
        logs.get_or_create(topic_partition, ID, LogConfig())
    unknown = TopicPartition("zz", 1)
    await logs.write_high_watermarks({A: 5, B: 6, unknown: 7})
    name = "replication-offset-checkpoint"
    assert files.read_all(f"/d/{name}") == b"0\n2\na 0 5\nzz 1 7\n"
    assert files.read_all(f"/e/{name}") == b"0\n1\nb 3 6\n"
    assert logs.read_high_watermarks() == {A: 5, B: 6, unknown: 7}
    files.replace_unsynced(f"/e/{name}", b"0\n1\nb 3")
    assert logs.read_high_watermarks() == {A: 5, unknown: 7}
    files.leave_room(0)
    await logs.write_high_watermarks({A: 9})  # logged; the old one stays
    assert logs.read_high_watermarks()[A] == 5


async def test_a_checkpoint_flushes_rolled_segments() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, SMALL)
    fill(log, 3)
    assert log.segments.base_offsets == [0, 1, 2]
    await logs.checkpoint()
    assert log.recovery_point == 2
    assert files.read_all("/d/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"


async def test_silent_producers_are_forgotten() -> None:
    files, clock = InstantFiles(), VirtualClock()
    settings = {"producer_id_expiration_ms": 1000, "log_initial_task_delay_ms": 500}
    logs = manager(files, clock=clock, producer_id_expiration_check_interval_ms=2000, **settings)
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        log = logs.get_or_create(A, ID, SMALL)
        for producer, age_ms in ((4, 600), (5, 100), (6, -2000)):
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            log.append_as_leader(batch(b"x", at_ms=clock.wall_ms() - age_ms, **fields), 0, NOW)
        known = log.producers.states
        await clock.advance(499)
        assert len(known) == 3
        await clock.advance(1)
        assert known.entry(4) is None
        assert len(known) == 2
        await clock.advance(2000)
        assert known.entry(5) is None
        assert known.entry(6) is not None
        await logs.shutdown()


async def test_checkpoints_are_written_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = manager(files, clock=clock, log_initial_task_delay_ms=500)
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        fill(logs.get_or_create(A, ID, SMALL), 2)
        with monkeypatch.context() as patch:

            def refuse(path: str, data: bytes) -> None:
                raise OSError(errno.ENOSPC, "no space left")

            patch.setattr(files, "replace_unsynced", refuse)
            await clock.advance(500)
        assert not files.exists("/d/recovery-point-offset-checkpoint")
        await clock.advance(60_000)
        assert files.read_all("/d/recovery-point-offset-checkpoint") == b"0\n1\na 0 1\n"
        await logs.shutdown()


async def test_a_truncated_log_lowers_its_recovery_point_in_the_file() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, SMALL)
    fill(log, 6)
    await log.flush()
    await logs.checkpoint()
    assert files.read_all("/d/recovery-point-offset-checkpoint") == b"0\n1\na 0 6\n"
    cut(log, 2)
    fill(log, 3)
    assert files.read_all("/d/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert not log.recovery_point_lowered


# -------------------------------------------------------------------- indexes of active segments


DENSE = LogConfig(index_interval_bytes=0)


def index_sizes(files: InstantFiles, directory: str) -> dict[str, int]:
    names = [name for name in files.list(directory) if name.endswith("index")]
    return {name: files.size(f"{directory}/{name}") for name in sorted(names)}


@pytest.mark.mission("MIX-21")
async def test_active_segments_have_their_index_files_within_a_second() -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = manager(files, clock=clock)
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        log = logs.get_or_create(A, ID, DENSE)
        fill(log, 1)
        first = "00000000000000000000"
        assert index_sizes(files, log.directory) == {}
        await clock.advance(1000)
        assert index_sizes(files, log.directory) == {f"{first}.index": 0, f"{first}.timeindex": 0}
        fill(log, 3)
        await clock.advance(1000)
        assert index_sizes(files, log.directory) == {f"{first}.index": 24, f"{first}.timeindex": 12}
        await logs.shutdown()


@pytest.mark.mission("MIX-21")
async def test_one_round_writes_a_bounded_number_of_indexes() -> None:
    files = InstantFiles()
    one = await started(files)
    logs = [one.get_or_create(TopicPartition("a", number), ID, DENSE) for number in range(120)]
    for log in logs:
        fill(log, 1)

    def written() -> int:
        return sum(len(index_sizes(files, log.directory)) == 2 for log in logs)

    rounds = []
    for _ in range(4):
        await one.open_segments.index_writes.write_some()
        rounds.append(written())
    assert rounds == [50, 100, 120, 120]
    fill(logs[0], 1)
    logs[1].close()
    await one.open_segments.index_writes.write_some()  # a log that is closed is left out
    one.close()


@pytest.mark.mission("MIX-21")
async def test_recovery_does_not_believe_the_index_files_of_an_active_segment() -> None:
    files = InstantFiles()
    one = await started(files)
    log = one.get_or_create(A, ID, DENSE)
    fill(log, 4)
    await one.open_segments.index_writes.write_some()
    index = f"{log.directory}/00000000000000000000.index"
    right = files.read_all(index)
    assert len(right) == 3 * 8
    one.close()  # as if the process had been killed
    files.replace_unsynced(index, right[:8] + b"\x7f" * 8)
    again = manager(files)
    await again.start(configs={A.topic: DENSE})
    found = again.get(A)
    assert found is not None
    assert found.log_end_offset == 4
    assert files.read_all(index) == right
    again.close()
