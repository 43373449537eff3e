"""`minikafka mcp` as a process: what its clients get, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from confluent_kafka import Producer

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.view import TestView
from tests.support.mcp_process import (
    ENVIRONMENT,
    call,
    failure,
    mcp_client,
    mcp_process,
    words,
)


def until(condition: Callable[[], object]) -> None:
    while not condition():  # the test's time-out ends it
        time.sleep(0.02)


def topics_of(view: TestView) -> set[str]:
    listed = subprocess.run(
        [
            *(sys.executable, "-m", "minikafka.cli.main", "topics", "list"),
            *("--bootstrap-server", view.bootstrap),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **ENVIRONMENT},
    )
    return {name for name in listed.stdout.splitlines() if not name.startswith("__")}


@pytest.mark.mission("GLASS-60")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_only_reading_tools_without_allow(minikafka: TestView, mode: str) -> None:
    topic = minikafka.topic()
    async with mcp_client(minikafka.bootstrap, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"topics_list", "groups_describe", "consume"} <= set(listed)
        for tool in listed.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
        reason = await failure(client, "topics_create", topic=f"{topic}-more")
        assert "--allow topics-create" in reason
        assert "topics-delete" in await failure(client, "topics_delete", topic=topic)
        found = (await call(client, "topics_list"))["output"]
        assert {"topic": topic} in found
        assert {"topic": f"{topic}-more"} not in found


@pytest.mark.mission("GLASS-60")
async def test_an_allowed_act_changes_the_cluster(minikafka: TestView) -> None:
    topic = f"{minikafka.topic()}-more"
    async with mcp_client(minikafka.bootstrap, "--allow", "topics-create", "produce") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        annotations = tools["topics_create"].annotations
        assert annotations is not None
        assert not annotations.read_only_hint
        assert "topics_delete" not in tools
        created = await call(client, "topics_create", topic=topic, partitions=2)
        assert created["command"].startswith("minikafka topics create --bootstrap-server")
        ((described,)) = (await call(client, "topics_describe", topic=[topic]))["output"]
        assert described["partitionCount"] == 2
        assert "already exists" in await failure(client, "topics_create", topic=topic)
        assert "not allowed" in await failure(client, "topics_delete", topic=topic)


@pytest.mark.mission("GLASS-60")
async def test_reading_creates_no_topic(minikafka: TestView) -> None:
    minikafka.topic()
    before = topics_of(minikafka)
    async with mcp_client(minikafka.bootstrap) as client:
        for name in ("consume", "transactions_describe_producers", "transactions_find_hanging"):
            reason = await failure(client, name, topic="misspelled", partition=0)
            assert "UNKNOWN_TOPIC_OR_PARTITION" in reason
        await failure(client, "topics_describe", topic=["misspelled"])
        await failure(client, "configs_describe", topic="misspelled")
    assert topics_of(minikafka) == before


@pytest.mark.mission("GLASS-61")
async def test_records_and_lag(minikafka: TestView) -> None:
    topic = minikafka.topic()
    minikafka.produce(topic, "wörter 語 😀".encode(), b"\xff\xfe", b"three", key=b"k")
    async with mcp_client(minikafka.bootstrap, "--allow", "groups-reset-offsets") as client:
        read = await call(client, "consume", topic=topic, max_messages=2)
        first, second = read["output"]
        assert (first["offset"], first["key"], first["value"]) == (0, "k", "wörter 語 😀")
        assert second["value_base64"] == "//4="
        (only,) = (await call(client, "consume", topic=topic, max_messages=1))["output"]
        assert only == first
        group = f"{topic}-group"
        planned = await call(
            client, "groups_reset_offsets", group=group, topic=topic, offset=1, dry_run=True
        )
        assert "--dry-run" in planned["command"]
        assert minikafka.committed(group) == {}
        await call(client, "groups_reset_offsets", group=group, topic=topic, offset=1)
        assert minikafka.committed(group) == {TopicPartition(topic, 0): 1}
        (described,) = (await call(client, "groups_describe", group=[group]))["output"]
        assert (described["group"], described["state"], described["lag"]) == (group, "Empty", 2)
        (offset,) = described["offsets"]
        assert (offset["topic"], offset["currentOffset"], offset["logEndOffset"]) == (topic, 1, 3)
        listed = (await call(client, "groups_list"))["output"]
        assert (group, "Empty") in {(row["group"], row["state"]) for row in listed}


@pytest.mark.mission("GLASS-61")
async def test_transactions_that_hang_are_looked_for(minikafka: TestView) -> None:
    topic = minikafka.topic()
    producer = Producer({**minikafka.config("confluent"), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    async with mcp_client(minikafka.bootstrap) as client:
        (open_one,) = (
            await call(client, "transactions_describe_producers", topic=topic, partition=0)
        )["output"]
        assert open_one["CurrentTransactionStartOffset"] == 0
        (described,) = (await call(client, "transactions_describe", transactional_id=topic))[
            "output"
        ]
        assert described["TransactionState"] == "Ongoing"
        # The coordinator knows the transaction, so it does not hang.
        found = await call(
            client, "transactions_find_hanging", topic=topic, max_transaction_timeout=0
        )
        assert found["output"] == []
    producer.abort_transaction(20)


@pytest.mark.mission("GLASS-61")
async def test_a_wrong_argument_is_named(minikafka: TestView) -> None:
    async with mcp_client(minikafka.bootstrap) as client:
        assert "max_messages" in await failure(client, "consume", topic="t", max_messages="x")
        assert "field topic is missing" in await failure(client, "consume")
        assert "no field tpoic" in await failure(client, "consume", tpoic="t")
        assert "topic" in await failure(client, "consume", topic="--help")
        assert "topic" in await failure(client, "consume", topic="t\nu")
        assert "no tool blah" in await failure(client, "blah")
        assert "dry" in await failure(client, "topics_list", dry_run=True)
        # The verb's own words, in one line.
        reason = await failure(client, "configs_describe", topic="misspelled")
        assert reason.startswith("UNKNOWN_TOPIC_OR_PARTITION")
        assert "\n" not in reason


@pytest.mark.mission("GLASS-62")
async def test_replies_are_bounded(minikafka: TestView) -> None:
    topic = minikafka.topic()
    minikafka.produce(topic, *(b"%04d" % number + b"x" * 2000 for number in range(500)))
    minikafka.produce(topic, "語".encode() * 300_000)
    async with mcp_client(minikafka.bootstrap, "--max-output", "5000") as client:
        result = await client.call_tool("consume", {"topic": topic, "max_messages": 501})
        text = result.content[0].text  # type: ignore[union-attr]
        assert len(text) <= 5000
        reply = json.loads(text)
        assert [row["offset"] for row in reply["output"]] == list(range(len(reply["output"])))
        assert len(reply["output"]) >= 10
        assert "the longest has 501" in reply["cut"]
        assert "the longest has 300,000" in reply["cut"]
        last = await call(client, "consume", topic=topic, partition=0, offset=500, max_messages=1)
        assert last["output"][0]["value"].startswith("語語")


@pytest.mark.mission("GLASS-63")
async def test_calls_run_side_by_side_and_a_cancelled_one_ends(minikafka: TestView) -> None:
    topic = minikafka.topic()
    async with mcp_client(minikafka.bootstrap) as client:
        waiting = [
            asyncio.create_task(call(client, "consume", topic=topic, timeout_ms=30_000))
            for _ in range(3)
        ]
        listed = await asyncio.gather(*(call(client, "topics_list") for _ in range(6)))
        assert all({"topic": topic} in each["output"] for each in listed)
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        # As many as run at once: the cancelled calls hold no place.
        await asyncio.gather(*(call(client, "topics_list") for _ in range(4)))


@pytest.mark.mission("GLASS-63")
def test_a_cancelled_call_ends_its_process(minikafka: TestView) -> None:
    topic = minikafka.topic()
    with mcp_process(minikafka.bootstrap) as server:
        server.begin().call(1, "consume", topic=topic, timeout_ms=30_000)
        until(server.children)
        params = {"requestId": 1, "reason": "enough"}
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        until(lambda: not server.children())
        server.call(2, "topics_list")
        assert server.receive()["id"] == 2  # and nothing for the cancelled one


@pytest.mark.mission("GLASS-63")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_signal_ends_it_without_a_trace(
    minikafka: TestView, number: signal.Signals, busy: bool
) -> None:
    topic = minikafka.topic()
    with mcp_process(minikafka.bootstrap) as server:
        server.begin()
        children = []
        if busy:
            server.call(1, "consume", topic=topic, timeout_ms=30_000)
            until(server.children)
            children = server.children()
        server.process.send_signal(number)
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""
        assert server.process.wait() == 0
        # It would run for longer by itself.
        assert psutil.wait_procs(children, timeout=15)[1] == []


@pytest.mark.mission("GLASS-63")
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_the_end_of_the_input_ends_it(minikafka: TestView, busy: bool) -> None:
    topic = minikafka.topic()
    with mcp_process(minikafka.bootstrap) as server:
        server.begin()
        if busy:
            server.call(1, "consume", topic=topic, timeout_ms=30_000)
            until(server.children)
        server.stdin.close()
        assert server.process.wait() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""


@pytest.mark.mission("GLASS-63")
def test_a_closed_terminal_ends_it(minikafka: TestView) -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *words(minikafka.bootstrap)],
        stdin=its,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
    ) as process:
        os.close(its)
        assert process.stderr is not None
        assert b"see docs/how-to/mcp.md" in process.stderr.readline()
        os.close(ours)
        assert process.wait() == 0
        assert process.stderr.read() == b""


@pytest.mark.mission("GLASS-63")
def test_a_message_without_an_end_ends_it(minikafka: TestView) -> None:
    with mcp_process(minikafka.bootstrap) as server:
        server.begin()
        with suppress(BrokenPipeError):
            for _ in range(20):
                server.stdin.write(b"x" * 1024 * 1024)
            server.stdin.flush()
        assert server.process.wait() == 0
        with suppress(BrokenPipeError):
            server.stdin.close()


@pytest.mark.mission("GLASS-63")
def test_a_client_that_stops_reading_ends_it(minikafka: TestView) -> None:
    with mcp_process(minikafka.bootstrap) as server:
        server.begin()
        server.stdout.close()
        server.call(1, "topics_list")
        assert server.process.wait() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""


@pytest.mark.mission("GLASS-63")
def test_garbage_does_not_end_it(minikafka: TestView) -> None:
    with mcp_process(minikafka.bootstrap) as server:
        server.begin().send(b"\xff\xfe", b"", b"[]", b"{}", b'{"jsonrpc":"2.0"}', b"null")
        server.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": 7}})
        assert server.receive()["error"]["code"] == -32602
        server.call(6, "topics_list", exclude_internal=True)
        assert server.receive()["id"] == 6


@pytest.mark.mission("GLASS-64")
async def test_a_dead_cluster_is_an_error_in_one_sentence() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{unused.getsockname()[1]}"  # nothing listens here
        async with mcp_client(bootstrap, "--allow", "all") as client:
            assert len((await client.list_tools()).tools) > 20
            reasons = await asyncio.gather(
                failure(client, "topics_list"), failure(client, "topics_create", topic="t")
            )
    for reason in reasons:
        assert reason.startswith(f"the cluster at {bootstrap} does not respond: ")
        assert "\n" not in reason
    assert reasons[1].endswith("it is not known whether the change was made")


@pytest.mark.mission("GLASS-64")
async def test_a_silent_cluster_is_an_error_too() -> None:
    with InsideCluster(1) as cluster:
        async with mcp_client(cluster.bootstrap) as client:
            listed = (await call(client, "topics_list"))["output"]
            assert len(listed) == 1, "the internal topic of groups"
            cluster.pause_broker(1)
            assert "does not respond" in await failure(client, "topics_list")
            cluster.resume_broker(1)
            assert (await call(client, "topics_list"))["output"] == listed


@pytest.mark.mission("GLASS-61")
async def test_the_inside_of_a_broker_is_read_by_its_debug_listener() -> None:
    with InsideCluster(1, debug_ports=[0]) as cluster:
        async with mcp_client(cluster.bootstrap) as client:
            status = (await call(client, "controller_status"))["output"]
            assert (status["controller"], status["active"]) == (1, True)
            metrics = (await call(client, "debug_metrics", broker=1))["output"]
            assert len(metrics["metrics"]) > 100
            wheels = (await call(client, "debug_purgatories", broker=1))["output"]
            assert "Produce" in {each["name"] for each in wheels["purgatories"]}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--allow", "topics-craete"], "did you mean topics-create?"),
        (["--command-config", "/no/such/file"], "/no/such/file"),
        (["--max-output", "10"], "at least 1000"),
    ],
)
def test_wrong_usage_is_one_line(more: list[str], reason: str) -> None:
    done = subprocess.run(
        [sys.executable, *words("h:1", *more)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
