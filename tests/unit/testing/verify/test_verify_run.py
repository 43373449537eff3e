"""A whole run against brokers that keep their promises, and against some that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import ClientConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.report import RunVerdict, WorkloadVerdict
from minikafka.testing.verify.run import Progress, Run
from minikafka.testing.verify.workload import RunConfig
from tests.support.client.fake_cluster import HANG_UP, FakeCluster, FakePartition
from tests.support.world.client_world import client_world, jumping


class Forgetful(FakePartition):
    """Acknowledges its fifth batch and does not keep it."""

    count = 0

    def append(self, data: bytes | memoryview) -> int:
        self.count += 1
        if self.count != 5:
            return super().append(data)
        return self.end


class Stuttering(FakePartition):
    """Keeps its fifth batch twice."""

    count = 0

    def append(self, data: bytes | memoryview) -> int:
        self.count += 1
        if self.count == 5:
            super().append(data)
        return super().append(data)


class Hasty(FakePartition):
    """Lets its fifth batch overtake the fourth, and admits where they are."""

    count = 0

    def append(self, data: bytes | memoryview) -> int:
        self.count += 1
        if self.count == 4:
            self.held = bytes(data)
            return self.end + self.records_in(data)
        base = super().append(data)
        if self.count == 5:
            super().append(self.held)
        return base

    @staticmethod
    def records_in(data: bytes | memoryview) -> int:
        from minikafka.protocol.records.batch import parse_batches

        return parse_batches(data)[0].next_offset


class Amnesiac(FakePartition):
    """Does not know what it has already."""

    def produce(self, data: bytes | memoryview) -> tuple[ErrorCode, int]:
        return ErrorCode.NONE, self.append(data)


class Planted(FakeCluster):
    kind: type[FakePartition] = FakePartition

    def create(self, topic: str, partitions: int = 2) -> None:
        super().create(topic, partitions)
        for tp, made in self.partitions.items():
            if tp.partition == 0 or self.kind is Amnesiac:
                self.partitions[tp] = self.kind(made.leader)


async def run_against(
    kind: type[FakePartition], fault: Any = None, **config: Any
) -> tuple[WorkloadVerdict, Planted, list[Progress]]:
    world = client_world()
    cluster = Planted(world)
    cluster.kind = kind
    await cluster.start()
    if fault is not None:
        cluster.fail(ApiKey.PRODUCE, *fault)
    heard: list[Progress] = []
    settings = {"duration_ms": 3_000, "partitions": 2, "records_per_s": 200, **config}
    client = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    verdict = await Run(world, client, RunConfig(**settings), heard.append).execute()
    return verdict.workloads[0], cluster, heard


@jumping
async def test_a_cluster_that_keeps_its_promises() -> None:
    verdict, cluster, heard = await run_against(FakePartition)
    assert not verdict.findings, verdict.headline()
    acknowledged = verdict.counts["records_acknowledged"]
    assert 400 < acknowledged <= 600
    assert verdict.counts["read"] == 2 * acknowledged
    assert verdict.counts["in_doubt"] == 0
    assert cluster.topic_ids == {}, "the topic is deleted"
    assert [p.elapsed_ms // 1000 for p in heard[:2]] == [1, 2]
    identities = {request.transactional_id for request in cluster.requests(ApiKey.INIT_PRODUCER_ID)}
    assert identities == {None}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Forgetful, "lost"), (Stuttering, "doubled"), (Hasty, "reordered")],
)
def test_one_that_does_not(kind: type[FakePartition], expected: str) -> None:
    @jumping
    async def scenario() -> None:
        verdict, cluster, _ = await run_against(kind, producers=1)
        assert expected in verdict.as_json()["found"]
        assert cluster.topic_ids != {}, "the topic is kept"
        assert any("sent to partition 0" in line for line in verdict.finding_lines())

    scenario()


@jumping
async def test_an_append_with_a_lost_response() -> None:
    class Deaf(Planted):
        """Appends, and hangs up instead of answering, once."""

        done = False

        def _produce(self, broker: int, request: Any, fault: Any, reply: Any) -> None:
            if self.done:
                super()._produce(broker, request, fault, reply)
                return
            self.done = True
            super()._produce(broker, request, fault, lambda _: None)
            self.stop_broker(broker)
            asyncio.get_running_loop().create_task(self.start_broker(broker))

    async def verdict_of(kind: type[FakePartition], idempotent: bool) -> RunVerdict:
        world = client_world()
        cluster = Deaf(world)
        cluster.kind = kind
        await cluster.start()
        client = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
        config = RunConfig(2_000, 1, 1, 2, records_per_s=100, idempotent=idempotent)
        return await Run(world, client, config).execute()

    assert (await verdict_of(FakePartition, True)).ok
    assert (await verdict_of(Amnesiac, True)).workloads[0].as_json()["found"].keys() == {"doubled"}
    assert (await verdict_of(Amnesiac, False)).ok


@jumping
async def test_errors_that_pass() -> None:
    faults = [HANG_UP, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, ErrorCode.NOT_ENOUGH_REPLICAS]
    verdict, _, _ = await run_against(FakePartition, faults)
    assert not verdict.findings, verdict.headline()


@jumping
async def test_errors_that_do_not_leave_records_in_doubt() -> None:
    verdict, cluster, _ = await run_against(FakePartition, [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
    assert not verdict.findings
    assert verdict.counts["in_doubt"] > 0
    # One to see whether that works, one for each producer, one for the doubt.
    assert len(cluster.requests(ApiKey.INIT_PRODUCER_ID)) == 1 + 3 + 1


def test_readers_read_on_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow clients are waited for; those without progress are reported."""
    read_some = Append._read_some
    wakes_at_ms = 0

    async def late(run: Append, consumer: Any, reading: Any, positions: Any) -> None:
        if reading.name == "reader 2" and run._scene.now_ms() < wakes_at_ms:
            await asyncio.sleep(1)
        else:
            await read_some(run, consumer, reading, positions)

    @jumping
    async def scenario() -> None:
        nonlocal wakes_at_ms
        wakes_at_ms = 30_000  # the load takes 3 s
        verdict, *_ = await run_against(FakePartition)
        assert not verdict.findings, verdict.headline()
        assert verdict.counts["read"] == 2 * verdict.counts["records_acknowledged"]
        wakes_at_ms = 900_000
        verdict, *_ = await run_against(FakePartition)
        assert verdict.as_json()["found"] == {"stopped": 2}, "of two partitions"
        assert verdict.findings[0].text.startswith("reader 2 stopped after offset -1")

    monkeypatch.setattr(Append, "_read_some", late)
    scenario()


@jumping
async def test_brokers_that_give_no_producer_ids() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    del cluster.versions[ApiKey.INIT_PRODUCER_ID]
    await cluster.start()
    client = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    with pytest.raises(KafkaError) as caught:
        await Run(world, client, RunConfig(1_000)).execute()
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    verdict = await Run(
        world, client, RunConfig(1_000, records_per_s=100, idempotent=False, topic="t")
    ).execute()
    assert verdict.ok
    assert verdict.topics == ["t"]
