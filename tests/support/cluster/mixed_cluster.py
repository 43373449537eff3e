"""A cluster in which each broker is minikafka's or an official Apache Kafka of some version."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.apache_kafka import SMALL_JVM, start_broker, write_properties
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import ClusterState, connected, until
from tests.support.cluster.real_cluster import MINIKAFKA

OURS = "minikafka"
PLAINTEXT = "PLAINTEXT"
START_LIMIT_S = 120.0  # a JVM on a busy machine
STOP_LIMIT_S = 60.0

# A death is noticed within some seconds, and the internal topics are small.
QUICK = {
    "zookeeper.session.timeout.ms": 4000,
    "zookeeper.connection.timeout.ms": 60_000,
    "replica.lag.time.max.ms": 5000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "leader.imbalance.check.interval.seconds": 3600,
    "controlled.shutdown.retry.backoff.ms": 500,
    "group.coordinator.rebalance.protocols": "classic",  # Kafka 3.9 cannot join a cluster with more
}


class MixedCluster(ClusterState):
    """Brokers 1, 2, ... of the given kinds: ``minikafka``, or a version of Apache Kafka.

    A broker keeps its id, port, directory and ``server.properties`` when another kind takes its
    place. ``own`` maps a broker id to properties of that broker alone. ``more_listeners`` are
    names of listeners that each broker has besides PLAINTEXT. ``more_brokers`` are as many as can
    be added later; clients get their addresses at once. ``jvm_options`` are for brokers of Kafka.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        kinds: Sequence[str],
        properties: Mapping[str, object] = {},
        own: Mapping[int, Mapping[str, object]] = {},
        more_listeners: Sequence[str] = (),
        more_brokers: int = 0,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.kinds = dict(enumerate(kinds, start=1))
        self._shared = {**QUICK, **properties}
        self._own = own
        self._jvm = (*SMALL_JVM, *jvm_options)
        self._listeners = (PLAINTEXT, *more_listeners)
        self._addressed = range(1, len(kinds) + more_brokers + 1)
        places = [(name, broker_id) for name in self._listeners for broker_id in self._addressed]
        self._ports = dict(zip(places, free_ports(len(places)), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def broker_ids(self) -> Sequence[int]:
        return list(self.kinds)

    @property
    def bootstrap(self) -> str:
        return self.addresses(PLAINTEXT)

    def addresses(self, listener: str) -> str:
        return ",".join(self.address(broker_id, listener) for broker_id in self._addressed)

    def address(self, broker_id: int, listener: str = PLAINTEXT) -> str:
        return f"127.0.0.1:{self._ports[listener, broker_id]}"

    def __enter__(self) -> Self:
        host, _, chroot = self.zookeeper.partition("/")
        if chroot:
            with connected(host) as client:
                client.ensure_path(f"/{chroot}")
        try:
            for broker_id in self.kinds:
                self.restart_broker(broker_id)
            self.until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            error.add_note(self.last_words())
        self.stop()

    def stop(self) -> None:
        """Kill all brokers: nothing of them is read again."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker on the files that it has, and do not wait."""
        home = self.home(f"broker-{broker_id}")
        home.mkdir(parents=True, exist_ok=True)
        properties = home / "server.properties"
        write_properties(properties, self.properties(broker_id))
        kind = self.kinds[broker_id]
        if kind == OURS:
            with (home / "log").open("ab") as log:
                process = subprocess.Popen(
                    [*MINIKAFKA, "broker", "--config", str(properties)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        else:
            process = start_broker(kind, properties, home / "log", self._jvm)
        self._processes[broker_id] = process
        (home / "pid").write_text(f"{process.pid}\n")

    def until_ready(self) -> None:
        """Wait until all replicas are in sync, and each broker knows all brokers and the
        controller."""
        self.until_whole(START_LIMIT_S)
        for broker_id in self.broker_ids:
            admin = AdminClient({"bootstrap.servers": self.address(broker_id), "log_level": 0})

            def informed(admin: AdminClient = admin) -> bool:
                with contextlib.suppress(KafkaException):
                    found = admin.list_topics(timeout=5)
                    return (sorted(found.brokers), found.controller_id) == (
                        self.broker_ids,
                        self.controller(),
                    )
                return False

            until(informed, f"broker {broker_id} knows the cluster", START_LIMIT_S)

    def properties(self, broker_id: int) -> dict[str, object]:
        """Return the broker's properties; both kinds read the same file."""
        return {
            "broker.id": broker_id,
            "listeners": ",".join(
                f"{name}://{self.address(broker_id, name)}" for name in self._listeners
            ),
            "zookeeper.connect": self.zookeeper,
            "log.dirs": self.data(broker_id),
            **self._shared,
            **self._own.get(broker_id, {}),
        }

    def end_broker(self, broker_id: int, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to a broker, and wait until its process has ended."""
        process = self._processes[broker_id]
        os.kill(process.pid, number)
        process.wait(STOP_LIMIT_S)

    def become(self, broker_id: int, kind: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Put a broker of another kind in its place, on the same data directory."""
        self.end_broker(broker_id, number)
        self.kinds[broker_id] = kind
        self.restart_broker(broker_id)
        self.until_ready()

    def add(self, *kinds: str) -> Sequence[int]:
        """Start brokers with new ids, and return these."""
        first = max(self._processes) + 1
        added = dict(enumerate(kinds, start=first))
        self.kinds |= added
        for broker_id in added:
            self.restart_broker(broker_id)
        self.until_ready()
        return list(added)

    def remove(self, broker_id: int) -> None:
        """Shut down a broker that does not come back."""
        self.end_broker(broker_id)
        del self.kinds[broker_id]
        self.until_ready()

    def create_topic(self, name: str, *assignment: Sequence[int]) -> None:
        """Create a topic with the replicas of each partition, and wait until they are in sync.
        Without ``assignment``: one partition on all brokers."""
        replicas = [list(each) for each in assignment] or [list(self.broker_ids)]
        topic = NewTopic(name, len(replicas), replica_assignment=replicas)
        admin = self.admin()  # until the result is there: without it the request is cancelled
        admin.create_topics([topic])[name].result(60)
        self.until_whole(START_LIMIT_S)

    def elect_preferred_leaders(self) -> None:
        """Make the first replica of each partition its leader, and wait for it."""
        with self.zk() as client:
            topics = client.get_children("/brokers/topics")
        first = {
            (topic, int(partition)): replicas[0]
            for topic in topics
            for partition, replicas in self.znode(f"/brokers/topics/{topic}")["partitions"].items()
        }

        admin = self.admin()

        def elected() -> bool:
            wrong = [p for p, leader in first.items() if self.state(*p)["leader"] != leader]
            if wrong:
                partitions = [TopicPartition(*each) for each in wrong]
                with contextlib.suppress(KafkaException):  # looks again: the controller may move
                    admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
            return not wrong

        until(elected, "preferred leaders lead", 60)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def controller(self) -> int | None:
        """Return the id of the active controller; None while there is none."""
        found = self.znode("/controller")
        return None if found is None else int(found["brokerid"])

    def make_controller(self, broker_id: int) -> None:
        """Delete /controller, and again, until the broker is elected and all brokers know it."""

        def elected() -> bool:
            with self.zk() as client:
                if self.controller() != broker_id:
                    client.delete("/controller")
                    until(self.controller, "a controller is elected")
                return self.controller() == broker_id

        until(elected, f"broker {broker_id} is the controller", 60)
        self.until_ready()

    def pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid
