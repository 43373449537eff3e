"""The authorizer beside that of Apache Kafka: decisions, ACLs in ZooKeeper, tools."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import pytest
from kazoo.client import KazooClient

from minikafka.core.security.acls import AclOperation
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.schema import Message
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.kafka.test_tls import Files, write
from tests.support.cluster.cluster_state import connected, until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.real_cluster import MINIKAFKA
from tests.support.cluster.tool_jvm import ToolJvm
from tests.support.security import api_matrix
from tests.support.security.api_matrix import BOB, BROKER, RECORDED, STRANGER
from tests.support.security.certificates import Authority

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

HOSTS = {"admin": "127.0.0.1", BOB: "127.0.0.2", STRANGER: "127.0.0.3"}


class Client:
    """A connection from ``host``, opened again when the broker has closed it."""

    def __init__(self, address: str, host: str, tls: ssl.SSLContext | None = None) -> None:
        name, port = address.split(":")
        self._broker = name, int(port)
        self._host = host
        self._tls = tls
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, message: Message, version: int) -> Any:
        """Return the response; None if the connection is closed without one."""
        if self._socket is None:
            self._socket = socket.create_connection(self._broker, 30, (self._host, 0))
            if self._tls is not None:
                self._socket = self._tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
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


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Files:
    home = tmp_path_factory.mktemp("stores")
    return write(home / "client", Authority("both").issue("carol", ("127.0.0.1",)))


@pytest.fixture(scope="module")
def both(mixed: Mixed, stores: Files) -> Iterator[MixedCluster]:
    """Broker 1 is ours, broker 2 is official. Clients at 127.0.0.1 may do everything."""
    properties = {
        **stores.properties(),
        **api_matrix.SETTINGS,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.client.auth": "required",
    }
    made = mixed(OURS, NEWEST, properties=properties, more_listeners=("SSL",))
    assert isinstance(made, MixedCluster)
    bindings = [
        row
        for row in api_matrix.acls("127.0.0.9", HOSTS["admin"])
        if row.entry.host == HOSTS["admin"]
    ]
    store_acls(made.zookeeper, api_matrix.acl_znodes(bindings))
    with made as cluster:
        cluster.create_topic("shared", [1, 2])
        yield cluster


def acl(kind: int, name: str, pattern_type: int = 3, **fields: Any) -> AclCreation:
    row = AclCreation(kind, name, pattern_type, "User:zed", "*", AclOperation.READ, 3)
    return dataclasses.replace(row, **fields)


def acl_filter(kind: int, name: str | None, pattern_type: int = 3, **fields: Any) -> Any:
    row = DeleteAclsFilter(kind, name, pattern_type, None, None, AclOperation.ANY, 1)
    return dataclasses.replace(row, **fields)


def described(found: Any, version: int = 3) -> tuple[Message, int]:
    values = (getattr(found, field.name) for field in dataclasses.fields(found))
    return DescribeAclsRequest(*values), version


ONE, OTHER = "bears", "be"  # topics of the script; the prefix of one is the other
ACL_SCRIPT: list[tuple[Message, int]] = [
    (CreateAclsRequest([acl(2, ONE), acl(2, ONE), acl(2, OTHER, 4), acl(3, "g é")]), 3),
    (CreateAclsRequest([acl(2, ONE)]), 2),  # exists
    (CreateAclsRequest([acl(2, ONE, operation=AclOperation.WRITE, permission_type=2)]), 1),
    (CreateAclsRequest([acl(3, "g", operation=AclOperation.ALTER_CONFIGS)]), 1),
    (CreateAclsRequest([acl(7, "User:zed", operation=AclOperation.CREATE_TOKENS)]), 3),
    (CreateAclsRequest([acl(5, "x", host="0:0:0:0:0:0:0:1")]), 0),
    (CreateAclsRequest([acl(4, "other"), acl(2, ""), acl(2, "a/b"), acl(2, "kept")]), 3),
    (CreateAclsRequest([acl(2, "t", principal="zed")]), 3),
    (CreateAclsRequest([acl(2, "t"), acl(2, "t", 1)]), 3),
    (CreateAclsRequest([acl(2, "t", operation=AclOperation.UNKNOWN)]), 3),
    *(described(acl_filter(2, ONE, kind)) for kind in (1, 2, 3, 4)),
    described(acl_filter(2, None, 1, principal_filter="User:zed")),
    described(acl_filter(2, None, 1, principal_filter="User:*")),
    described(acl_filter(3, None, 1, operation=AclOperation.ALTER_CONFIGS), 2),
    described(acl_filter(2, ONE), 0),
    described(acl_filter(1, "missing", 2)),
    described(acl_filter(0, ONE)),
    (
        DeleteAclsRequest(
            [
                acl_filter(2, ONE, operation=AclOperation.WRITE),
                acl_filter(
                    2, ONE, 2, principal_filter="User:zed"
                ),  # also the prefix, and the rest of the first
                acl_filter(2, "missing"),
            ]
        ),
        3,
    ),
    (DeleteAclsRequest([acl_filter(1, None, 1, principal_filter="User:zed")]), 3),
]


def acl_state(client: KazooClient) -> dict[str, object]:
    """The ACLs in ZooKeeper. Versions of znodes are left out: both rewrite unchanged ones."""
    found: dict[str, object] = {}
    for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
        for kind in client.get_children(root):
            for name in client.get_children(f"{root}/{kind}"):
                stored = json.loads(client.get(f"{root}/{kind}/{name}")[0])
                rows = sorted(json.dumps(row, sort_keys=True) for row in stored.pop("acls"))
                found[f"{root}/{kind}/{name}"] = rows, stored
    return found


def notices(client: KazooClient) -> dict[str, bytes]:
    """The notifications so far, by path."""
    return {
        f"{root}/{name}": client.get(f"{root}/{name}")[0]
        for root in ("/kafka-acl-changes", "/kafka-acl-extended-changes")
        for name in client.get_children(root)
    }


def _unnumbered(path: str, data: bytes) -> tuple[str, str]:
    text = data.decode()
    stored = json.dumps(json.loads(text), sort_keys=True) if text.startswith("{") else text
    return re.sub(r"\d+$", "", path), stored


def outcome(client: Client, zookeeper: KazooClient, message: Message, version: int) -> object:
    """Send a request. Return it with the response, the ACLs then, and the new notifications."""
    known = notices(zookeeper)
    response = api_matrix.Renderer({}).text(client.ask(message, version))
    new = notices(zookeeper).items() - known.items()
    noticed = sorted(_unnumbered(path, data) for path, data in new)
    return message, version, response, acl_state(zookeeper), noticed


@pytest.mark.mission("SEC-129")
def test_acl_requests_have_the_same_responses_and_effects(both: MixedCluster) -> None:
    """The same requests are sent to the official broker and then to ours."""
    seen: list[list[object]] = []
    with both.zk() as zookeeper:
        before = acl_state(zookeeper)
        for broker_id in (2, 1):
            client = Client(both.address(broker_id), HOSTS["admin"])
            seen.append([outcome(client, zookeeper, *row) for row in ACL_SCRIPT])
            assert acl_state(zookeeper) == before
    official, ours = seen
    for step, (theirs, mine) in enumerate(zip(official, ours, strict=True)):
        assert theirs == mine, f"step {step}"


def is_described(client: Client) -> bool:
    request = MetadataRequest([MetadataRequestTopic(name="shared")], False)
    (topic,) = client.ask(request, 9).topics
    return bool(topic.error_code == 0)


@pytest.mark.mission("SEC-130")
@pytest.mark.parametrize("writer", [1, 2])
def test_an_acl_of_one_broker_counts_on_the_other(both: MixedCluster, writer: int) -> None:
    readers = [Client(both.address(broker_id), HOSTS[BOB]) for broker_id in (1, 2)]
    admin = Client(both.address(writer), HOSTS["admin"])
    assert [is_described(reader) for reader in readers] == [False, False]
    row = acl(2, "sh", 4, principal=api_matrix.ANONYMOUS, host=HOSTS[BOB])
    assert admin.ask(CreateAclsRequest([row]), 3).results[0].error_code == 0
    assert is_described(readers[writer - 1])  # at once
    until(lambda: all(map(is_described, readers)), "both brokers know the ACL")
    deleted = admin.ask(DeleteAclsRequest([acl_filter(2, "sh", 4)]), 3)
    assert len(deleted.filter_results[0].matching_acls) == 1
    until(lambda: not any(map(is_described, readers)), "both brokers have forgotten the ACL")


@pytest.mark.mission("SEC-130", "SEC-123")
def test_the_principal_of_a_certificate_needs_acls(both: MixedCluster, stores: Files) -> None:
    """Carol comes from 127.0.0.1, where everything is for ANONYMOUS only."""
    for broker_id in (1, 2):
        client = Client(both.address(broker_id, "SSL"), HOSTS["admin"], stores.context())
        admin = Client(both.address(broker_id), HOSTS["admin"])
        assert not is_described(client)
        row = acl(2, "shared", principal="User:CN=carol")
        assert admin.ask(CreateAclsRequest([row]), 3).results[0].error_code == 0
        assert is_described(client)
        admin.ask(DeleteAclsRequest([acl_filter(2, "shared")]), 3)
        assert not is_described(client)


@pytest.mark.mission("SEC-156")
def test_kafka_acls_and_our_verb_print_the_same(both: MixedCluster, tools: ToolJvm) -> None:
    options = ("--producer", "--topic", "written", "--allow-principal", "User:zed")
    java = tools.run(both, "acls", "--bootstrap-server", "{bootstrap}", "--add", *options)
    assert java.status == 0, java
    listed = tools.run(both, "acls", "--bootstrap-server", "{bootstrap}", "--list")
    assert listed.status == 0, listed
    command = [*MINIKAFKA, "acls", "--bootstrap-server", both.address(1), "--list"]
    ours = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def rows(text: str) -> list[str]:
        """The lines of a resource come in any order, of which the first is indented more."""
        return sorted(line.strip() for line in text.splitlines())

    assert rows(ours) == rows(listed.out)
    named = "ResourcePattern(resourceType=TOPIC, name=written, patternType=LITERAL)"
    adding, *added = (line.strip() for line in java.out.splitlines() if line.strip())
    assert adding == f"Adding ACLs for resource `{named}`:"
    assert f"Current ACLs for resource `{named}`:" in rows(ours)
    assert len(added) == 3
    assert set(added) <= set(rows(ours))
    admin = Client(both.address(1), HOSTS["admin"])
    admin.ask(DeleteAclsRequest([acl_filter(2, "written")]), 3)


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
