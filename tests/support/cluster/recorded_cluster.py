"""A cluster whose ZooKeeper tree and control requests can be compared with another cluster's.

Ids, times, ports and broker epochs differ between two clusters with the same history. ``Names``
replaces them, so that what is left must be equal.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import dataclasses
import json
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.protocol.schema import Message
from minikafka.spark.client_options import ClientOptions
from minikafka.spark.connection import BlockingConnection
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import POLL_S, connected, until
from tests.support.cluster.mixed_cluster import PLAINTEXT, START_LIMIT_S, MixedCluster
from tests.support.network.recording_proxy import CONTROL_REQUESTS, RecordingProxy

QUIET_S = 0.3  # the effects of a step are over after so long without a request or a write
SETTLE_LIMIT_S = 60.0
CLIENTS, BROKERS = "CLIENTS", "BROKERS"  # the names of the listeners


class Znode(NamedTuple):
    """The contents of a znode, how often it was written, how often children were created or
    deleted, and whether it belongs to a session."""

    data: Any
    version: int
    children_changed: int
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request of a controller to a broker, with the version and client id of its header. Equal
    messages have equal bytes: ``requests`` checks that encoding them gives what was sent."""

    broker_id: int
    version: int
    client_id: str | None
    message: Message

    def __str__(self) -> str:
        kind = type(self.message).__name__
        return f"{kind} v{self.version} from client {self.client_id}: {_compact(self.message)}"


class RecordedCluster(MixedCluster):
    """Three brokers of one kind. Their listener for other brokers is advertised as the port of a
    proxy, which records the requests of the controller.

    ``with`` starts no broker: brokers start one after another, so that the first is the
    controller."""

    def __init__(
        self, directory: Path, zookeeper: str, kind: str, properties: Mapping[str, object]
    ) -> None:
        super().__init__(directory, zookeeper, [kind] * 3, properties)
        self._stack = contextlib.ExitStack()
        self._recorded: list[tuple[int, RequestHeader, bytes]] = []
        inner = free_ports(len(self.kinds))
        self._inner = dict(zip(self.kinds, inner, strict=True))
        self._proxies = {
            broker_id: RecordingProxy(port, partial(self._record, broker_id))
            for broker_id, port in self._inner.items()
        }
        self._names = Names(
            {self._ports[PLAINTEXT, b]: f"{CLIENTS} {b}" for b in self.kinds}
            | {proxy.port: f"{BROKERS} {b}" for b, proxy in self._proxies.items()}
        )

    def _record(self, broker_id: int, header: RequestHeader, body: bytes) -> None:
        self._recorded.append((broker_id, header, body))  # of several threads

    def __enter__(self) -> Self:
        host, _, chroot = self.zookeeper.partition("/")
        with connected(host) as client:
            client.ensure_path(f"/{chroot}")
        self.client: KazooClient = self._stack.enter_context(connected(self.zookeeper))
        return self

    def stop(self) -> None:
        super().stop()
        for proxy in self._proxies.values():
            proxy.close()
        self._stack.close()

    def log(self, broker_id: int) -> str:
        path = self.home(f"broker-{broker_id}") / "log"
        return path.read_text() if path.exists() else ""

    def properties(self, broker_id: int) -> dict[str, object]:
        clients, brokers = self.address(broker_id), f"127.0.0.1:{self._inner[broker_id]}"
        proxy = f"127.0.0.1:{self._proxies[broker_id].port}"
        return {
            **super().properties(broker_id),
            "listeners": f"{CLIENTS}://{clients},{BROKERS}://{brokers}",
            "advertised.listeners": f"{CLIENTS}://{clients},{BROKERS}://{proxy}",
            "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
            "inter.broker.listener.name": BROKERS,
        }

    # ------------------------------------------------------------------------------ the history

    def start(self, broker_id: int) -> None:
        """Start a broker, and wait until it is registered and knows all registered brokers."""
        self.restart_broker(broker_id)
        process = self._processes[broker_id]

        def informed() -> bool:
            assert process.poll() is None, self.last_words()
            alive = self._alive()
            if broker_id in alive:
                with contextlib.suppress(KafkaError):  # its sockets open after its registration
                    response = self.request(MetadataRequest([]), broker_id)
                    return sorted(each.node_id for each in response.brokers) == alive
            return False

        until(informed, f"broker {broker_id} knows the cluster", START_LIMIT_S)

    def suspend(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGCONT)

    def request(self, message: Message, broker_id: int | None = None) -> Any:
        """Send a request to a broker, or to the controller, and return the response."""
        target = self.controller() if broker_id is None else broker_id
        assert target is not None
        connection = BlockingConnection(
            "127.0.0.1", self._ports[PLAINTEXT, target], ClientOptions(())
        )
        connection.open()
        try:
            return connection.request(message)
        finally:
            connection.close()

    def znode(self, path: str) -> Any:
        try:
            return json.loads(self.client.get(path)[0])
        except NoNodeError:
            return None

    def _alive(self) -> list[int]:
        try:
            return sorted(map(int, self.client.get_children("/brokers/ids")))
        except NoNodeError:
            return []  # the first broker is about to create it

    def until_gone(self, broker_id: int) -> None:
        """Wait until a broker is not registered any more."""
        self.until_absent(f"/brokers/ids/{broker_id}")

    def until_absent(self, path: str) -> None:
        """Wait until a znode is deleted."""
        until(lambda: self.client.exists(path) is None, f"{path} is deleted")

    def until_in_sync(self, but: Collection[str] = ()) -> None:
        """Wait until every partition of all topics ``but`` these has a leader, and its live
        replicas in the ISR."""

        def in_sync() -> bool:
            alive = set(self._alive())
            return all(
                state.get("leader", -1) >= 0 and set(state["isr"]) == alive & set(replicas)
                for topic in set(self.client.get_children("/brokers/topics")).difference(but)
                for partition, replicas in self.assignment(topic).items()
                for state in (self.state(topic, partition),)
            )

        until(in_sync, "all replicas are in sync")

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Return the replicas of each partition."""
        partitions = self.znode(f"/brokers/topics/{topic}")["partitions"]
        return {int(partition): replicas for partition, replicas in partitions.items()}

    def settle(self) -> None:
        """Wait until the controller sends nothing and nothing is written to ZooKeeper."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        seen, since = self._progress(), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            assert time.monotonic() < deadline, "the cluster does not settle"
            time.sleep(POLL_S)
            if (now := self._progress()) != seen:
                seen, since = now, time.monotonic()

    def _progress(self) -> tuple[int, int]:
        return len(self._recorded), sum(stat.mzxid for _, _, stat in self._walk())

    # ---------------------------------------------------------------------------- what is seen

    def _walk(self) -> Iterator[tuple[str, bytes | None, Any]]:
        """Yield path, contents and state of each znode. The requests of a level are pipelined."""
        level = ["/"]
        while level:
            asked = [
                (path, self.client.get_async(path), self.client.get_children_async(path))
                for path in level
            ]
            level = []
            for path, contents, children in asked:
                with contextlib.suppress(NoNodeError):  # deleted meanwhile
                    data, stat = contents.get()
                    level += [f"{path.rstrip('/')}/{child}" for child in children.get()]
                    yield path, data, stat

    def tree(self) -> dict[str, Znode]:
        """Return all znodes by path."""
        return {
            path: Znode(
                self._names.in_znode(path, data),
                stat.version,
                stat.cversion,
                stat.ephemeralOwner != 0,
            )
            for path, data, stat in self._walk()
        }

    def requests(self) -> list[ControlRequest]:
        """Return the recorded requests with names in them."""
        found = []
        for broker_id, header, body in list(self._recorded):
            version = header.api_version
            message = decode(REQUESTS[CONTROL_REQUESTS[header.api_key]], version, body)
            assert encode(message, version) == body, f"there is more in it: {message}"
            named = self._names.in_request(broker_id, message)
            found.append(ControlRequest(broker_id, version, header.client_id, named))
        return found

    def forget_requests(self, number: int) -> None:
        """Forget the first ``number`` requests."""
        del self._recorded[:number]


class Names:
    """Names for what chance decides: ports, topic ids, the cluster id, broker epochs and times."""

    def __init__(self, ports: Mapping[int, str]) -> None:
        self._ports = ports
        self._topic_ids: dict[str, list[uuid.UUID]] = {}
        self._epochs: dict[int, list[int]] = {}

    def in_znode(self, path: str, data: bytes | None) -> Any:
        """Return the contents of a znode: text, or the objects of its JSON. None is null, which
        is not the same as no bytes."""
        if data is None:
            return None
        try:
            value = json.loads(data)
        except ValueError:
            return data.decode()
        if not isinstance(value, dict):
            return value
        if path == "/cluster/id":
            value["id"] = f"{len(_uuid(value['id']).bytes)} bytes"
        if "timestamp" in value:
            value["timestamp"] = type(value["timestamp"]).__name__
        if "topic_id" in value:
            value["topic_id"] = self._topic_id(path.rpartition("/")[2], _uuid(value["topic_id"]))
        if "port" in value:
            value["port"] = self._ports[value["port"]]
        if "endpoints" in value:
            value["endpoints"] = [self._endpoint(url) for url in value["endpoints"]]
        return value

    def _endpoint(self, url: str) -> str:
        start, _, port = url.rpartition(":")
        return f"{start}:{self._ports[int(port)]}"

    def in_request(self, broker_id: int, request: Message) -> Message:
        """Return a control request with names. What Kafka sends in the order of its hash tables is
        sorted: topics, partitions, live brokers and live leaders."""
        message: Any = copy.deepcopy(request)
        epochs = self._epochs.setdefault(broker_id, [])
        message.broker_epoch = f"of start {_ordinal(epochs, message.broker_epoch)}"
        message.topic_states.sort(key=lambda topic: topic.topic_name)
        for topic in message.topic_states:
            if hasattr(topic, "topic_id"):
                topic.topic_id = self._topic_id(topic.topic_name, topic.topic_id)
            topic.partition_states.sort(key=lambda state: state.partition_index)
        endpoints: list[Any] = []
        if isinstance(message, LeaderAndIsrRequest):
            message.live_leaders.sort(key=lambda leader: leader.broker_id)
            endpoints += message.live_leaders
        elif isinstance(message, UpdateMetadataRequest):
            message.live_brokers.sort(key=lambda broker: broker.id)
            endpoints += [each for broker in message.live_brokers for each in broker.endpoints]
        for endpoint in endpoints:
            endpoint.port = self._ports[endpoint.port]
        return message  # type: ignore[no-any-return]

    def _topic_id(self, topic: str, id_: uuid.UUID) -> str:
        if id_ == ZERO_UUID:
            return "none"
        return f"{_ordinal(self._topic_ids.setdefault(topic, []), id_)} of {topic}"


def _uuid(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def _ordinal(seen: list[Any], value: Any) -> int:
    """Return which one this is of the values that were seen, in the order in which they came."""
    if value not in seen:
        seen.append(value)
    return seen.index(value) + 1


# --------------------------------------------------------------------- requests to be compared

View = Callable[[Sequence[ControlRequest]], Mapping[str, Sequence[str]]]


def by_broker(requests: Sequence[ControlRequest]) -> Mapping[str, Sequence[str]]:
    """Return the requests to each broker, in their order."""
    found: dict[str, list[str]] = {}
    for request in requests:
        found.setdefault(f"to broker {request.broker_id}", []).append(str(request))
    return found


def by_partition(requests: Sequence[ControlRequest]) -> Mapping[str, Sequence[str]]:
    """Return the requests about each partition to each broker, in their order, as if each request
    had one partition; and those without partitions.

    This is for steps in which leaders change ISRs: which partitions share a request is chance."""
    found: dict[str, list[str]] = {}
    for key, request in _split(requests):
        found.setdefault(key, []).append(str(request))
    return found


def changes_by_partition(requests: Sequence[ControlRequest]) -> Mapping[str, Sequence[str]]:
    """As ``by_partition``, but a request that repeats the last one of its kind takes its place. It
    is a repetition even if the state has the epoch of another controller."""
    found: dict[str, list[str]] = {}
    last: dict[tuple[str, type[Message]], tuple[int, str]] = {}  # place and contents
    for key, request in _split(requests):
        texts = found.setdefault(key, [])
        kind = key, type(request.message)
        contents = str(replace(request, message=_without_epoch(request.message)))
        place, earlier = last.get(kind, (len(texts), None))
        if contents == earlier:
            texts[place] = str(request)
        else:
            last[kind] = len(texts), contents
            texts.append(str(request))
    return found


def _split(requests: Sequence[ControlRequest]) -> Iterator[tuple[str, ControlRequest]]:
    """Yield the requests that have one partition each, or none, with the broker and partition."""
    for request in requests:
        message: Any = request.message
        for topic in message.topic_states:
            for state in topic.partition_states:
                single = replace(message, topic_states=[replace(topic, partition_states=[state])])
                if isinstance(message, LeaderAndIsrRequest):
                    leaders = message.live_leaders
                    single.live_leaders = [e for e in leaders if e.broker_id == state.leader]
                key = f"{topic.topic_name}-{state.partition_index}"
                yield f"to broker {request.broker_id} about {key}", replace(request, message=single)
        if not message.topic_states:
            yield f"to broker {request.broker_id} about no partition", request


def _without_epoch(single: Any) -> Message:
    """Return a request of ``_split`` without the epoch of the controller that wrote the state."""
    message = copy.deepcopy(single)
    for topic in message.topic_states:
        for state in topic.partition_states:
            if hasattr(state, "controller_epoch"):
                state.controller_epoch = 0
    return message  # type: ignore[no-any-return]


def _compact(value: Any) -> str:
    """Return an object as text, without the fields that have their default."""
    if isinstance(value, list):
        return f"[{', '.join(map(_compact, value))}]"
    if not is_dataclass(value):
        return str(value)
    shown = [
        f"{field.name}={_compact(found)}"
        for field in dataclasses.fields(value)
        if (found := getattr(value, field.name)) != _default(field)
    ]
    return f"({', '.join(shown)})"


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
