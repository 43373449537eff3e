"""Groups on one broker: heartbeats and commits of members, and what groups at rest cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import encode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.harness import cpu_at_rest
from scripts.lib.bench.load import Client
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import Connection, accepted, check_of, frame

TOPIC = "many"
PARTITIONS = 1_000
SETTINGS = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 1_000}
MEMBERS = 10
RESTING, REST_S, SETTLE_S = 10_000, 10.0, 3.0
PATIENCE_S = 120


# --------------------------------------------------------------------------------------- members


class Member:
    """A connection, and its place in a group."""

    def __init__(self, group_id: str, connection: Connection) -> None:
        self.group_id, self.connection = group_id, connection
        self.member_id, self.generation = "", -1

    @property
    def place(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "member_id": self.member_id}

    async def join(self) -> None:
        """Join and get an assignment. Raises RuntimeError if either is refused."""
        metadata = b"\0\0" + encode(ConsumerProtocolSubscription([TOPIC]), 0)
        protocols = [{"name": "range", "metadata": metadata}]
        while True:
            answer = await self.connection.request(
                ApiKey.JOIN_GROUP, **self.place, session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000, protocol_type="consumer", protocols=protocols,
            )  # fmt: skip
            self.member_id = answer.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        check(answer.error_code)
        self.generation = answer.generation_id
        given = [{"member_id": m.member_id, "assignment": bytes(200)} for m in answer.members]
        synced = await self.connection.request(
            ApiKey.SYNC_GROUP, **self.place, generation_id=self.generation,
            protocol_type="consumer", protocol_name="range", assignments=given,
        )  # fmt: skip
        check(synced.error_code)


def check(code: int) -> None:
    if code:
        raise RuntimeError(f"refused: {ErrorCode(code).name}")


async def join(port: int, group_id: str) -> list[Member]:
    """Let all members join at once."""
    members = [Member(group_id, await Connection.open(port)) for _ in range(MEMBERS)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(member.join() for member in members))
    if len({member.generation for member in members}) != 1:
        raise RuntimeError("not all in one generation")
    for member in members:
        member.connection.close()
    return members


def members_of(cluster: Brokers, group_id: str) -> list[Member]:
    """Create the topic of the benchmark if it is not there, and join a group of it."""
    if cluster.create({TOPIC: [[1]] * PARTITIONS}):
        uvloop.run(until_coordinated(cluster.ports[0]))
    return uvloop.run(join(cluster.ports[0], group_id))


async def until_coordinated(port: int) -> None:
    connection = await Connection.open(port)
    questions: tuple[tuple[ApiKey, dict[str, Any], int], ...] = (
        (ApiKey.FIND_COORDINATOR, {"key": "fast"}, ErrorCode.NONE),
        (ApiKey.HEARTBEAT, {"group_id": "fast", "generation_id": 1, "member_id": "nobody"},
         ErrorCode.UNKNOWN_MEMBER_ID),
    )  # fmt: skip
    for key, values, wanted in questions:
        while True:
            if (await connection.request(key, **values)).error_code == wanted:
                break
            await asyncio.sleep(0.05)
    connection.close()


def heartbeats(cluster: Brokers) -> Client:
    frames = [
        [frame(ApiKey.HEARTBEAT, **each.place, generation_id=each.generation)]
        for each in members_of(cluster, "heartbeats")
    ]
    return Client(cluster.ports[0], frames, check_of(ApiKey.HEARTBEAT), cluster.processes)


def commits(cluster: Brokers) -> Client:
    frames = [
        [commit_of("commits", [0], each.generation, each.member_id)]
        for each in members_of(cluster, "commits")
    ]
    return Client(cluster.ports[0], frames, check_of(ApiKey.OFFSET_COMMIT), cluster.processes)


def commit_of(
    group_id: str, partitions: Sequence[int], generation: int = -1, member_id: str = ""
) -> bytes:
    rows = [
        {"partition_index": n, "committed_offset": 1_000, "committed_metadata": ""}
        for n in partitions
    ]
    return frame(
        ApiKey.OFFSET_COMMIT, group_id=group_id, generation_id_or_member_epoch=generation,
        member_id=member_id, topics=[{"name": TOPIC, "partitions": rows}],
    )  # fmt: skip


# ------------------------------------------------------------------------------- groups at rest


def at_rest(report: Report) -> None:
    with Brokers(1, SETTINGS) as cluster:
        members_of(cluster, "first")
        report.section(f"{RESTING:,} groups with offsets and without members", probe="none")
        time.sleep(SETTLE_S)
        before = cpu_at_rest(cluster.processes, REST_S)
        uvloop.run(commit_in_groups(cluster.ports[0]))
        time.sleep(SETTLE_S)
        report.row("CPU at rest", "ms/s", cpu_at_rest(cluster.processes, REST_S), before)


async def commit_in_groups(port: int) -> None:
    """An offset in each of ``RESTING`` groups, over as many connections as there are members."""

    async def commit(first: int) -> None:
        connection = await Connection.open(port)
        for number in range(first, RESTING, MEMBERS):
            request = commit_of(f"resting-{number}", [number % PARTITIONS])
            accepted(ApiKey.OFFSET_COMMIT, await connection.exchange(request))
        connection.close()

    await asyncio.gather(*map(commit, range(MEMBERS)))
