"""Bytes that no client would send: their connection is closed for a logged reason, others go on."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.load import Load
from tests.support.cluster.real_cluster import RealCluster, run_verb

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

IDLE_CONNECTIONS = 1_000


@pytest.fixture(scope="module")
def load(trio: RealCluster) -> Iterator[Load]:
    """A client that everybody else's bad manners must not disturb."""
    trio.until_whole()
    trio.create_topic("undisturbed", replication_factor=1)
    with Load(trio.bootstrap, "undisturbed") as running:
        yield running
        running.finish()


@contextlib.contextmanager
def connected(cluster: RealCluster) -> Iterator[socket.socket]:
    """To broker 1."""
    host, _, port = cluster.any_broker.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 1) + b"x"


GARBAGE = random.Random(1).randbytes(4096)
BAD_INPUTS = {
    "garbage": (b"\x7f" + GARBAGE, "bad_frame"),
    "oversized length": (struct.pack(">i", 0x7FFFFFFF), "bad_frame"),
    "negative length": (struct.pack(">i", -1) + GARBAGE, "bad_frame"),
    "no header": (frame(b"\x00"), "bad_header"),
    "unknown api key": (frame(header(999, 0)), "unknown_api"),
    "unsupported version": (frame(header(3, 99) + b"\x00"), "unsupported_version"),
    "truncated body": (frame(header(0, 3) + b"\xff\xff\x00\x01\x00"), "bad_request"),
    "huge array": (frame(header(3, 0) + struct.pack(">i", 0x7FFFFFF0)), "bad_request"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_a_bad_input_costs_only_its_own_connection(
    trio: RealCluster, load: Load, name: str
) -> None:
    data, reason = BAD_INPUTS[name]
    mark = len(trio.log(1))
    with connected(trio) as neighbour, connected(trio) as offender:
        offender.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            assert offender.recv(1) == b"", "closed without an answer"
        until(lambda: f"reason={reason}" in trio.log(1)[mark:], f"{reason} is logged")
        neighbour.sendall(frame(header(18, 0)))
        assert neighbour.recv(4)
    load.until_more(50)


def test_a_client_that_goes_in_the_middle_of_a_frame(trio: RealCluster, load: Load) -> None:
    for cut in (1, 3, 4, 20):
        with connected(trio) as offender:
            offender.sendall(frame(header(18, 0) + bytes(100))[:cut])
    load.until_more(50)


def test_a_thousand_idle_connections(trio: RealCluster, load: Load) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connected(trio)) for _ in range(IDLE_CONNECTIONS)]
        load.until_more()
        listed = run_verb("topics", "list", "--bootstrap-server", trio.any_broker)
        assert "undisturbed" in listed.stdout
        for connection in (idle[0], idle[-1]):
            connection.sendall(frame(header(18, 0)))
            assert connection.recv(4), "still served"
