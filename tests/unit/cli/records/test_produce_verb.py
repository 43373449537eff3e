"""The verb produce: what becomes of the lines before one that is wrong."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast

import pytest

from minikafka.cli.records.produce import InputLines, end_input, send_lines
from minikafka.cli.records.record_text import OutgoingRecord, parse_json_line, parse_line
from minikafka.client import ClientConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping


async def chunks(lines: list[bytes]) -> AsyncIterator[list[bytes]]:
    for at in range(0, len(lines), 1_000):
        yield lines[at : at + 1_000]


async def sent(
    lines: list[bytes], read: Callable[[bytes], OutgoingRecord]
) -> tuple[int, ConfigError | KafkaError]:
    """How many records are in the log, and what was raised in the end."""
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t", 1)
    await cluster.start()
    client = ClientConfig(bootstrap_servers=cluster.bootstrap)
    config = ProducerConfig(linger_ms=1_000, max_request_size=1_000)
    with pytest.raises((ConfigError, KafkaError)) as caught:
        async with Producer(world, client, config) as producer:
            await send_lines(producer, chunks(lines), "t", None, read)
    return cluster.partitions[TopicPartition("t", 0)].end, cast(
        ConfigError | KafkaError, caught.value
    )


@jumping
async def test_lines_before_one_without_a_separator() -> None:
    lines = [b"k\tv\n"] * 3_000 + [b"bad\n"] + [b"k\tv\n"]
    read = partial(parse_line, properties={"parse.key": "true"})
    count, error = await sent(lines, read)
    assert (count, str(error)) == (3_000, "no key separator in line: bad")


@jumping
async def test_lines_before_one_that_is_no_json() -> None:
    lines = [b'{"value": "v"}\n'] * 5 + [b"bad\n"]
    count, error = await sent(lines, parse_json_line)
    assert (count, type(error)) == (5, ConfigError)


@jumping
async def test_lines_before_one_that_is_too_large() -> None:
    lines = [b"v\n"] * 5 + [b"v" * 2_000 + b"\n"]
    count, error = await sent(lines, partial(parse_line, properties={}))
    assert count == 5
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_without_a_broker_it_prints_a_hint_and_a_second_signal_ends_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "minikafka.cli.main", "produce", "--topic", "t"]
        with subprocess.Popen(
            [*command, "--bootstrap-server", server],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(b"a line\n")
            refused = f"minikafka: {server}: Connection refused; trying on for 30 s\n"
            assert process.stderr.readline() == refused.encode()
            process.send_signal(signal.SIGINT)
            hint = b"minikafka: no broker responds; press Ctrl-C again to end at once\n"
            assert process.stderr.readline() == hint
            process.send_signal(signal.SIGINT)
            assert process.stderr.read() == b""
            assert process.wait(60) == -signal.SIGINT


@jumping
async def test_without_input_the_end_needs_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """No broker is known as nothing has been sent, and nothing waits for one."""
    config = ClientConfig(bootstrap_servers="b:1")
    async with Producer(client_world(), config, ProducerConfig()) as producer:
        end_input(InputLines(), producer)
    assert capsys.readouterr().err == ""
