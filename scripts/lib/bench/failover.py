"""A broker of three goes: how long clients stand still, beside Kafka with an equal session limit.

``failover`` plays each case of ``CASES`` 30 times, ``failover:ROUNDS`` so often; the kinds take
turns. A producer (librdkafka, acks=all) sends a record every 5 ms to 30 partitions with three
replicas. Each round ends with the broker back in all ISRs and preferred leaders in their place.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, ClassVar, Final, Self

from confluent_kafka import Consumer, ElectionType, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.brokers import LARGE, QUICK, Brokers, kinds, spread
from scripts.lib.bench.harness import PATIENCE_S, wait_until
from scripts.lib.bench.report import Report, Section, Sheet, figure, line
from scripts.lib.bench.requests import decoded, exchange, frame, metadata

ROUNDS = 30
PARTITIONS = 30
CROWD_TOPICS, CROWD_PARTITIONS = 60, 100
PACE_S = 0.005
RECORD = b"x" * 100
IN_FLIGHT = 100  # a broker that is slower than the pace would have an ever longer queue
COMMIT_EVERY_S = 0.05
LOOK_EVERY_S = 0.02
CALM_S = 0.1  # clients succeed more often before a broker goes
CALM_SUCCESSES = 50
CALM_LIMIT_S = 15
SETTLE_S = 0.5
LONG_S = 300  # a client notices a stopped broker by its own time-outs
# An election by the controller's own timer would disturb a later round.
SETTINGS = {
    **LARGE,
    **QUICK,
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "group.initial.rebalance.delay.ms": 0,
}

PAUSE = Section("A broker of three goes: longest time between two successes of a client", "ms")
WAIT = Section("Longest wait of a record of the producer, from produce to acknowledgement", "ms")
GONE = Section("From the signal until the broker's registration is gone from ZooKeeper", "ms")
AFTER = Section("From then until every partition has acknowledged a record", "ms")
LEADERLESS = Section("From the signal until metadata name another leader of partition 0", "ms")
STOP = Section("Stop of one broker, from SIGTERM until the process has ended", "s")
BACK = Section("From the start of the broker until it is in all ISRs again", "s")
RETURN = Section("Longest time without an acknowledged record while preferred leaders return", "ms")
FAILED = Section("Records of the producer that failed", "records")
SECTIONS = (PAUSE, WAIT, GONE, AFTER, LEADERLESS, STOP, BACK, RETURN, FAILED)

GONE_STEP = "registration gone"

Add = Callable[[Section, str, float], None]  # of one kind


# ----------------------------------------------------------------------------------------- clients


class Client:
    """A context: a client that works in a thread. ``seen`` has when what succeeded, in monotonic
    seconds. The end of the context raises what the client has raised."""

    whats: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {what: [] for what in self.whats}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._working = self._pool.submit(self._work)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._working.result()

    def is_calm(self) -> bool:
        """Return whether its last successes followed each other quickly. Raises what it raised."""
        if self._working.done():
            self._working.result()
        last = [[*times[-CALM_SUCCESSES:], time.monotonic()] for times in self.seen.values()]
        return all(len(each) > CALM_SUCCESSES and longest_gap(each, 0) < CALM_S for each in last)

    def goes_on(self, since: float) -> bool:
        """Return whether all that it does has succeeded since then."""
        return all(times and times[-1] > since for times in self.seen.values())

    def _work(self) -> None:
        raise NotImplementedError

    def _saw(self, what: str) -> None:
        self.seen[what].append(time.monotonic())


class Sender(Client):
    """Sends to the partitions of a topic in turn, with librdkafka's defaults (acks=all)."""

    whats = ("records acknowledged",)

    def __init__(self, cluster: Brokers, topic: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._topic = topic
        self.rows: list[tuple[float, float]] = []  # when sent, how long it took
        self.acknowledged = [0.0] * PARTITIONS  # when the newest of each partition was sent
        self.failed = 0
        self._in_flight = 0

    def goes_on(self, since: float) -> bool:
        return min(self.acknowledged) > since

    def longest_wait(self, since: float, until: float) -> float:
        """Return the longest wait of the records that were sent between, or just before, in s."""
        return max(took for sent, took in self.rows if since - 2 * CALM_S < sent < until)

    def _work(self) -> None:
        due = time.monotonic()
        for partition in itertools.cycle(range(PARTITIONS)):
            if self._stop.is_set():
                break
            while self._in_flight == IN_FLIGHT and not self._stop.is_set():
                self._producer.poll(PACE_S)
            self._send(partition, time.monotonic())
            due = max(due + PACE_S, time.monotonic())
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
        self._producer.flush(PATIENCE_S)

    def _send(self, partition: int, sent: float) -> None:
        def settled(error: object, _: object) -> None:
            self._in_flight -= 1
            if error is not None:
                self.failed += 1
                return
            self._saw("records acknowledged")
            self.rows.append((sent, time.monotonic() - sent))
            self.acknowledged[partition] = max(sent, self.acknowledged[partition])

        self._in_flight += 1
        self._producer.produce(self._topic, RECORD, partition=partition, on_delivery=settled)


class Reader(Client):
    """Reads a topic as a member of a group, and commits."""

    whats = ("records read", "commits of offsets")

    def __init__(self, cluster: Brokers, topic: str, group_id: str) -> None:
        super().__init__()
        options = {"group.id": group_id, "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "on_commit": self._committed, **options}
        )
        self._consumer.subscribe([topic])

    def _work(self) -> None:
        due = 0.0
        while not self._stop.is_set():
            record = self._consumer.poll(COMMIT_EVERY_S)
            if record is None or record.error():
                continue
            self._saw("records read")
            if time.monotonic() > due:
                self._consumer.commit(message=record, asynchronous=True)
                due = time.monotonic() + COMMIT_EVERY_S
        self._consumer.close()

    def _committed(self, error: object, _: object) -> None:
        if error is None:
            self._saw("commits of offsets")


class Transactor(Client):
    """Commits a transaction of one record after the other."""

    whats = ("transactions committed",)

    def __init__(self, cluster: Brokers, topic: str, transactional_id: str) -> None:
        super().__init__()
        options = {"transactional.id": transactional_id, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **options})
        self._topic = topic

    def _work(self) -> None:
        self._producer.init_transactions(PATIENCE_S)
        for partition in itertools.cycle(range(PARTITIONS)):
            if self._stop.wait(PACE_S):
                break
            self._producer.begin_transaction()
            self._producer.produce(self._topic, RECORD, partition=partition)
            self._end()

    def _end(self) -> None:
        """Commit, or abort if the transaction cannot be committed. Raises KafkaException."""
        end = self._producer.commit_transaction
        while True:
            try:
                end(PATIENCE_S)
            except KafkaException as raised:
                error = raised.args[0]
                if error.txn_requires_abort():
                    end = self._producer.abort_transaction
                elif not error.retriable():
                    raise
            else:
                break
        if end == self._producer.commit_transaction:
            self._saw("transactions committed")


# ------------------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """Which broker goes, and how. It leads all partitions that the producer sends to, or none.

    ``coordinated`` clients name what the broker coordinates. ``rounds`` is a limit.
    """

    name: str
    number: signal.Signals = signal.SIGKILL
    is_controller: bool = False
    leads: bool = True
    coordinated: type[Reader] | type[Transactor] | None = None
    rounds: int = 1_000


STOPPED = Case("leader, kill -15", signal.SIGTERM)
KILLED = Case("leader, kill -9")
CASES: Final = (
    KILLED,
    Case("controller that leads nothing, kill -9", is_controller=True, leads=False),
    Case("leader and controller, kill -9", is_controller=True),
    STOPPED,
    Case("leader, SIGSTOP", signal.SIGSTOP, rounds=3),
    Case("coordinator of a group, kill -9", leads=False, coordinated=Reader),
    Case("coordinator of a transaction, kill -9", leads=False, coordinated=Transactor),
)
CROWDED: Final = (
    Case("leader, 6,000 partitions, kill -9", rounds=3),
    Case("leader and controller, 6,000 partitions, kill -9", is_controller=True, rounds=3),
)


def run(report: Report, rounds: int = ROUNDS) -> None:
    """Measure minikafka, and Kafka if the environment names its jars."""
    sheet = Sheet(SECTIONS)
    with ExitStack() as stack:
        clusters = {
            kind: stack.enter_context(Brokers(3, SETTINGS, command))
            for kind, command in kinds().items()
        }
        in_turns(CASES, clusters, sheet, rounds)
    for kind, command in kinds().items():
        with Brokers(3, SETTINGS, command) as cluster:
            crowd = spread(CROWD_PARTITIONS, 3, 3)
            for number in range(CROWD_TOPICS):
                cluster.create({f"crowd-{number}": crowd})
            in_turns(CROWDED, {kind: cluster}, sheet, rounds)
    for section in sheet.sections:
        print("\n" + table(sheet, section))


def in_turns(
    cases: Sequence[Case], clusters: Mapping[str, Brokers], sheet: Sheet, rounds: int
) -> None:
    for case in cases:
        for _ in range(min(rounds, case.rounds)):
            for kind, cluster in clusters.items():
                print(f"{case.name}, {kind}:", end=" ", flush=True)
                print(play(case, cluster, partial(sheet.add, kind)), flush=True)


def table(sheet: Sheet, section: Section) -> str:
    """Return the medians and the worst of both kinds as Markdown."""
    sides = list(kinds())
    head = [f"{section.title} ({section.unit})"]
    head += [f"{kind}, {which}" for kind in sides for which in ("p50", "worst")]
    lines = [line(head), line(["---"] + ["--:"] * len(head[1:]))]
    for name, of in sheet.rows(section):
        found = [of[kind] for kind in sides]
        lines.append(line([name, *(figure(f(each)) for each in found for f in (median, max))]))
    return "\n".join(lines)


def leaders_go(add: Add, cluster: Brokers) -> None:
    """Shut down a leader, and kill one."""
    for case in (STOPPED, KILLED):
        play(case, cluster, add)


def play(case: Case, cluster: Brokers, add: Add) -> str:
    """Let a broker go and come back. Return when what happened after the signal, in words."""
    with zookeeper_client(cluster) as zookeeper, ExitStack() as stack:
        victim, topic = choose(case, cluster, zookeeper)
        sender = Sender(cluster, topic)
        clients: list[Client] = [stack.enter_context(sender)]
        if case.coordinated is not None:
            name = coordinated_by(cluster, victim, case.coordinated is Transactor)
            clients.append(stack.enter_context(case.coordinated(cluster, topic, name)))
        calm_down(clients)
        story = strike(case, cluster, victim, topic, clients, zookeeper)
        struck, over = story["signal"], time.monotonic()
        gap = longest_gap(sender.seen["records acknowledged"], struck, over)
        for client in clients:
            for what, times in client.seen.items():
                add(PAUSE, f"{case.name}: {what}", longest_gap(times, struck, over) * 1000)
        if case.leads:
            add(LEADERLESS, case.name, (story["leader in metadata"] - struck) * 1000)
        if case.number is signal.SIGTERM:
            add(STOP, "one of three brokers", story["ended"] - struck)
        else:
            add(GONE, case.name, (story[GONE_STEP] - struck) * 1000)
            add(AFTER, case.name, (story["goes on"] - story[GONE_STEP]) * 1000)
        back_s = come_back(case, cluster, victim)
        add(BACK, case.name, back_s)
    return_ms = preferred_leaders_return(cluster, topic) * 1000
    if case.leads:
        add(RETURN, case.name, return_ms)
    # The sender has flushed by now.
    add(WAIT, case.name, sender.longest_wait(struck, over) * 1000)
    add(FAILED, case.name, sender.failed)
    steps = [f"{what} {(at - struck) * 1000:,.0f}" for what, at in story.items() if at > struck]
    back = f"back in {back_s:.2f} s, preferred leaders {return_ms:.0f} ms"
    return f"gap {gap * 1000:,.0f} ms; {', '.join(steps)}; {back}"


# ------------------------------------------------------------------------------------- before, kill


def choose(case: Case, cluster: Brokers, zookeeper: Any) -> tuple[int, str]:
    """Return the broker that goes, and the topic that it leads or follows."""
    controller = cluster.controller
    victim = controller if case.is_controller else controller % len(cluster.ids) + 1
    one, other = (each for each in cluster.ids if each != victim)
    if case.leads:
        topic, replicas = f"led-by-{victim}", [[victim, one, other], [victim, other, one]]
    else:
        topic, replicas = f"followed-by-{victim}", [[one, other, victim], [other, one, victim]]
    cluster.create({topic: replicas * (PARTITIONS // 2)})
    return victim, topic


def coordinated_by(cluster: Brokers, broker: int, is_transaction: bool) -> str:
    """Return a new name of a group, or a transactional id, that a broker coordinates."""

    def find() -> str:
        names = [f"{time.time_ns()}-{number}" for number in range(100)]
        for name in names:
            request = frame(ApiKey.FIND_COORDINATOR, key=name, key_type=int(is_transaction))
            response = exchange(cluster.ports[0], request)
            if response and decoded(ApiKey.FIND_COORDINATOR, response).node_id == broker:
                return name
        return ""

    name = wait_until(find, f"something that broker {broker} coordinates")
    cluster.wait_in_sync(None)
    return name


def calm_down(clients: Sequence[Client]) -> None:
    """Wait until all succeed quickly: new connections and cold code are no part of what is
    measured. Give up after 15 s, since a busy machine has no calm, if they succeed at all."""
    deadline = time.monotonic() + CALM_LIMIT_S

    def are_calm() -> bool:
        if time.monotonic() > deadline:
            return all(client.goes_on(deadline) for client in clients)
        return all(client.is_calm() for client in clients)

    wait_until(are_calm, "clients succeed")


def strike(
    case: Case,
    cluster: Brokers,
    victim: int,
    topic: str,
    clients: Sequence[Client],
    zookeeper: Any,
) -> dict[str, float]:
    """Send the signal, and return when what happened, as soon as all clients go on."""
    watched = {
        GONE_STEP: changed(zookeeper, f"/brokers/ids/{victim}"),
        "controller gone": changed(zookeeper, "/controller"),
        "controller elected": changed(zookeeper, "/controller_epoch"),
        "state of partition 0": changed(zookeeper, f"/brokers/topics/{topic}/partitions/0/state"),
    }
    other = cluster.port(next(each for each in cluster.ids if each != victim))
    story = {"signal": time.monotonic()}
    cluster.kill(victim, case.number)
    if case.number is signal.SIGTERM:
        cluster.wait(victim)
        story["ended"] = time.monotonic()
    since = time.monotonic()

    def leader() -> int:
        found = metadata(other, [topic])
        parts = found.topics[0].partitions if found else ()
        return next((part.leader_id for part in parts if part.partition_index == 0), 0)

    def is_over() -> bool:
        if "leader in metadata" not in story and leader() not in (-1, 0, victim):
            story["leader in metadata"] = time.monotonic()
        if "goes on" not in story and all(client.goes_on(since) for client in clients):
            story["goes on"] = time.monotonic()
        return bool(watched["registration gone"]()) and {"leader in metadata", "goes on"} <= {
            *story
        }

    wait_until(is_over, "clients go on", LONG_S, LOOK_EVERY_S)
    time.sleep(SETTLE_S)
    return story | {what: at() for what, at in watched.items()}


# --------------------------------------------------------------------------------------- afterwards


def come_back(case: Case, cluster: Brokers, victim: int) -> float:
    """Return how long a broker takes until the others see it in all ISRs, in seconds."""
    if case.number is not signal.SIGSTOP:
        cluster.wait(victim)
    began = time.monotonic()
    if case.number is signal.SIGSTOP:
        cluster.kill(victim, signal.SIGCONT)
    else:
        cluster.restart(victim)
    others = [cluster.port(each) for each in cluster.ids if each != victim]
    cluster.wait_in_sync(None, others, LONG_S)
    took = time.monotonic() - began
    cluster.wait_for_all()
    cluster.wait_in_sync(None)
    return took


def preferred_leaders_return(cluster: Brokers, topic: str) -> float:
    """Elect preferred leaders, and return a producer's longest gap meanwhile, in seconds.

    The producer is a new one. One that has seen a broker's death connects to it again only after
    ``reconnect.backoff.ms``, which has grown meanwhile, to 10 s at most."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def all_lead() -> bool:
        with contextlib.suppress(KafkaException):  # from a broker that is no controller any more
            admin.elect_leaders(ElectionType.PREFERRED, None).result(PATIENCE_S)
        found = metadata(cluster.ports[0], None)
        return found is not None and all(
            part.leader_id == part.replica_nodes[0]
            for topic in found.topics
            for part in topic.partitions
        )

    with Sender(cluster, topic) as sender:
        calm_down([sender])
        began = time.monotonic()
        wait_until(all_lead, "preferred leaders")
        elected = time.monotonic()
        wait_until(lambda: sender.goes_on(elected), "the producer goes on", every_s=LOOK_EVERY_S)
    return longest_gap(sender.seen["records acknowledged"], began)


# ------------------------------------------------------------------------------------------ looking


def longest_gap(times: Sequence[float], since: float, until: float = float("inf")) -> float:
    """Return the longest time between two neighbours of ``times`` (sorted), from the last one
    before ``since`` to the first one after ``until``. Raises ValueError if there are none."""
    return max(
        later - earlier
        for earlier, later in itertools.pairwise(list(times))
        if later > since and earlier < until
    )


@contextmanager
def zookeeper_client(cluster: Brokers) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client: Any = KazooClient(hosts=cluster.zookeeper)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def changed(zookeeper: Any, path: str) -> Callable[[], float]:
    """Return a function that says when the znode was first changed or deleted, by a watch; 0
    before."""
    seen: list[float] = []
    zookeeper.exists(path, watch=lambda _: seen.append(time.monotonic()))
    return lambda: seen[0] if seen else 0.0
