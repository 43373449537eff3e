"""Groups on one broker: heartbeats and commits a second, joins of many, loading of offsets."""

from __future__ import annotations

import asyncio
import re
import signal
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.codec import encode
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.registry import response_class
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.protocol.schema import Message
from scripts.lib.bench import servers
from scripts.lib.bench.load import drive
from scripts.lib.bench.produce import port_of
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

TOPIC = "many"
PARTITIONS = 1_000
DELAY_MS = 2_000
OVERRIDES = (
    "offsets.topic.num.partitions=1",
    f"group.initial.rebalance.delay.ms={DELAY_MS}",
)
IN_FLIGHT = 5
CONNECTIONS = 10  # each with a member, all in one group
ROUNDS = 3
HEARTBEATS, COMMITS = 4_000, 2_000  # of each connection in a round
LOADED = 100_000
RESTING, REST_S, SETTLE_S = 10_000, 10.0, 3.0
PATIENCE_S = 120
VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "OffsetCommit": 8}
SIZE = struct.Struct(">i")


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(Path(home) / "cluster", 1, OVERRIDES)
        cluster.stderr = Path(home) / "complaints"  # of the broker that is killed
        with cluster:
            measure(report, cluster, Path(home))


def measure(report: Report, cluster: Cluster, home: Path) -> None:
    create(cluster)
    port = port_of(cluster)
    uvloop.run(until_coordinated(port))
    report.section(f"groups, RF 1, {CONNECTIONS} members, five in flight (requests/s)")
    members = uvloop.run(join(port, "fast", CONNECTIONS))[1]
    beats = [frame(HeartbeatRequest("fast", m.generation, m.member_id)) for m in members]
    process = psutil.Process(cluster.broker_pid(1))
    compare(report, "heartbeats", process, port, beats, HEARTBEATS, home)
    commits = [frame(commit_of("fast", m, [0])) for m in members]
    compare(report, "commits, acks=all", process, port, commits, COMMITS, home)
    report.section("joins, from the first request to the last assignment", probe="")
    for count in (10, 100, 500):
        seconds, _ = uvloop.run(join(port, f"crowd-{count}", count))
        # Members that come in the first stretch of the delay cause a second one.
        beyond = max(0.0, seconds - 2 * DELAY_MS / 1000)
        aim = " (aim: 3)" if count == 500 else ""
        report.row(f"{count} members, beyond the delay{aim}", "s", beyond)
    report.section(f"{RESTING:,} groups with offsets and without members", probe="none")
    before = cpu_at_rest(process)
    uvloop.run(commit_in_groups(port))
    report.row("CPU at rest", "ms/s", cpu_at_rest(process), before)
    report.section("loading", probe="")
    uvloop.run(commit_many(port))
    report.row(f"load {LOADED:,} offsets (aim: 2)", "s", load_time(cluster))


def create(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)


def frame(message: Message) -> bytes:
    assert message.SPEC.api_key is not None
    version = VERSIONS[message.SPEC.api_key.api_name]
    return encode_request(RequestHeader(message.SPEC.api_key, version, 1, "bench"), message)


def compare(
    report: Report,
    name: str,
    process: psutil.Process,
    port: int,
    frames: Sequence[bytes],
    count: int,
    home: Path,
) -> None:
    """All connections at once, beside the probe with the same bytes. The figure per second of the
    broker's own CPU time is what a core of its own would give."""
    _, answer = uvloop.run(drive(port, frames[0], 500, IN_FLIGHT))
    ours, bare, used_s = [], [], 0.0
    with servers.probe(home, len(answer) - 4) as probe_port:
        for _ in range(ROUNDS):
            before = process.cpu_times()
            ours.append(uvloop.run(rate(port, frames, count)))
            after = process.cpu_times()
            used_s += after.user + after.system - before.user - before.system
            bare.append(uvloop.run(rate(probe_port, frames, count)))
    aims = {"heartbeats": 5_000, "commits, acks=all": 3_000}
    report.row(f"{name} (aim: {aims[name]:,})", "1/s", median(ours), median(bare))
    report.row(f"{name}, a CPU second", "1", ROUNDS * count * len(frames) / used_s)


async def rate(port: int, frames: Sequence[bytes], count: int) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(drive(port, each, count, IN_FLIGHT) for each in frames))
    return count * len(frames) / (time.perf_counter() - started)


# -- members


class Member:
    """A connection, and what the group made of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.member_id = ""
        self.generation = -1

    async def ask(self, message: Message, version: int | None = None) -> Any:
        spec = message.SPEC
        assert spec.api_key is not None
        version = VERSIONS[spec.api_key.api_name] if version is None else version
        self._writer.write(encode_request(RequestHeader(spec.api_key, version, 1, "b"), message))
        (size,) = SIZE.unpack(await self._reader.readexactly(4))
        data = await self._reader.readexactly(size)
        return decode_response(response_class(message), version, memoryview(data))[1]

    async def join(self, group_id: str) -> None:
        metadata = b"\0\0" + encode(ConsumerProtocolSubscription([TOPIC]), 0)
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        while True:
            request = JoinGroupRequest(
                group_id, 60_000, 60_000, self.member_id, None, "consumer", protocols
            )
            answer = await self.ask(request)
            self.member_id = answer.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        check(answer.error_code)
        self.generation = answer.generation_id
        given = [SyncGroupRequestAssignment(m.member_id, bytes(200)) for m in answer.members]
        sync = SyncGroupRequest(
            group_id,
            self.generation,
            self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )
        check((await self.ask(sync)).error_code)

    def close(self) -> None:
        self._writer.close()


def check(code: int) -> None:
    if code:
        raise RuntimeError(f"refused: {ErrorCode(code).name}")


async def connected(port: int) -> Member:
    return Member(*await asyncio.open_connection("127.0.0.1", port))


async def until_coordinated(port: int) -> None:
    member = await connected(port)
    questions: tuple[tuple[Message, int, int], ...] = (
        (FindCoordinatorRequest("fast"), 3, ErrorCode.NONE),
        (HeartbeatRequest("fast", 1, "nobody"), 4, ErrorCode.UNKNOWN_MEMBER_ID),
    )
    for question, version, wanted in questions:
        code = None
        while code != wanted:
            code = (await member.ask(question, version)).error_code
            await asyncio.sleep(0.05)
    member.close()


async def join(port: int, group_id: str, count: int) -> tuple[float, list[Member]]:
    """All at once; the seconds until the last has its assignment."""
    members = await asyncio.gather(*(connected(port) for _ in range(count)))
    started = time.perf_counter()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(member.join(group_id) for member in members))
    seconds = time.perf_counter() - started
    if len({member.generation for member in members}) != 1:
        raise RuntimeError("not all in one generation")
    for member in members:
        member.close()
    return seconds, members


# -- offsets


def commit_of(group_id: str, member: Member | None, partitions: Sequence[int]) -> Message:
    rows = [OffsetCommitRequestPartition(n, 1_000, committed_metadata="") for n in partitions]
    who = (-1, "") if member is None else (member.generation, member.member_id)
    return OffsetCommitRequest(group_id, *who, topics=[OffsetCommitRequestTopic(TOPIC, rows)])


async def commit_many(port: int) -> None:
    """``LOADED`` offsets, ``PARTITIONS`` in each group."""
    member = await connected(port)
    for number in range(LOADED // PARTITIONS):
        request = commit_of(f"loaded-{number}", None, range(PARTITIONS))
        answer = await member.ask(request)
        for row in answer.topics[0].partitions:
            check(row.error_code)
    member.close()


async def commit_in_groups(port: int) -> None:
    """An offset in each of ``RESTING`` groups, over ``CONNECTIONS``."""

    async def commit(first: int) -> None:
        member = await connected(port)
        for number in range(first, RESTING, CONNECTIONS):
            answer = await member.ask(commit_of(f"resting-{number}", None, [number % PARTITIONS]))
            check(answer.topics[0].partitions[0].error_code)
        member.close()

    await asyncio.gather(*map(commit, range(CONNECTIONS)))


def cpu_at_rest(process: psutil.Process) -> float:
    """Milliseconds of CPU in a second without requests."""
    time.sleep(SETTLE_S)
    before, started = process.cpu_times(), time.monotonic()
    time.sleep(REST_S)
    after, lasted = process.cpu_times(), time.monotonic() - started
    used = after.user + after.system - before.user - before.system
    return float(used / lasted * 1000)


def load_time(cluster: Cluster) -> float:
    """Of a broker that starts again, as it says itself."""
    log = cluster.directory / "broker-1" / "log"
    before = len(re.findall("groups_loaded ", log.read_text()))
    cluster.kill_broker(1, signal.SIGKILL)
    until_gone = cluster.directory / "broker-1" / "pid"
    deadline = time.monotonic() + PATIENCE_S
    while until_gone.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.restart_broker(1)
    while time.monotonic() < deadline:
        found = re.findall(r"groups_loaded .*took_ms=(\d+)", log.read_text())
        if len(found) > before:
            return int(found[-1]) / 1000
        time.sleep(0.1)
    raise RuntimeError("nothing was loaded")
