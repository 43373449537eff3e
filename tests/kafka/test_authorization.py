"""The authorizer beside that of Apache Kafka: decisions, ACLs in ZooKeeper, tools."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import pytest

from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.schema import Message
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import connected
from tests.support.cluster.mixed_cluster import MixedCluster
from tests.support.security import api_matrix
from tests.support.security.api_matrix import BOB, BROKER, RECORDED, STRANGER

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

HOSTS = {"admin": "127.0.0.1", BOB: "127.0.0.2", STRANGER: "127.0.0.3"}


class Client:
    """A connection from ``host``, opened again when the broker has closed it."""

    def __init__(self, address: str, host: str) -> None:
        name, port = address.split(":")
        self._broker = name, int(port)
        self._host = host
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, message: Message, version: int) -> Any:
        """Return the response; None if the connection is closed without one."""
        if self._socket is None:
            self._socket = socket.create_connection(self._broker, 30, (self._host, 0))
        key = message.SPEC.api_key
        assert key is not None
        self._socket.sendall(encode_request(RequestHeader(key, version, 1, "matrix"), message))
        with self._socket.makefile("rb") as stream:
            frame = _frame(stream)
        if frame is None:
            self.close()
            return None
        return decode_response(RESPONSES[key], version, frame)[1]


def _frame(stream: BinaryIO) -> bytes | None:
    try:
        head = stream.read(4)
    except ConnectionResetError:
        return None
    if len(head) < 4:
        return None
    return stream.read(struct.unpack(">i", head)[0])


def store_acls(zookeeper: str, znodes: dict[str, bytes]) -> None:
    """Write the znodes of ACLs before the first broker starts."""
    host, _, chroot = zookeeper.partition("/")
    with connected(host) as client:
        for path, data in znodes.items():
            client.create(f"/{chroot}{path}", data, makepath=True)


def prepare(admin: Client) -> dict[str, UUID]:
    ids: dict[str, UUID] = {}
    script = api_matrix.prepare(ids)
    message, version = next(script)
    while True:
        response = admin.ask(message, version)
        try:
            message, version = script.send(response)
        except StopIteration:
            return ids


@pytest.mark.mission("SEC-133")
def test_the_recorded_responses_are_those_of_apache_kafka(mixed: Mixed, tmp_path: Path) -> None:
    """``tests/simulation/test_authorization.py`` compares ours with the same record."""
    lone = mixed(NEWEST, properties=api_matrix.SETTINGS)
    assert isinstance(lone, MixedCluster)
    store_acls(lone.zookeeper, api_matrix.acl_znodes(api_matrix.acls(HOSTS[BOB], HOSTS["admin"])))
    with lone as cluster:
        clients = {name: Client(cluster.address(BROKER), host) for name, host in HOSTS.items()}
        ids = prepare(clients["admin"])
        renderer = api_matrix.Renderer(ids)
        found = []
        with (cluster.home("broker-1") / "log").open() as log:
            log.read()
            for name in (STRANGER, BOB):
                for row in api_matrix.rows(ids):
                    response = renderer.text(clients[name].ask(row.request, row.version))
                    denied = api_matrix.denials(log.read().splitlines())
                    found.append(api_matrix.Seen(name, row, response, denied))
    now = tmp_path / RECORDED.name
    now.write_text(api_matrix.table(found))
    assert now.read_text() == RECORDED.read_text(), f"{now} is what Apache Kafka {NEWEST} sends"
