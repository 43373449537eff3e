"""The actions of a playback: what a reader can do to a simulated cluster and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.core.topic_names import name_problem
from minikafka.kernel.errno_names import with_errno_names
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import NoNode
from minikafka.learn.recipe import RecipeError, Value
from minikafka.simulator.cluster import CLIENT, SimCluster, host_name
from minikafka.world.sim.process import HostDown
from minikafka.zookeeper import paths

ZOOKEEPER = "zookeeper"
POLL_MS = 200
MAX_PAUSE_MS = 600_000  # between records
_ACKS = {"all": -1, "1": 1, "0": 0}

Arguments: TypeAlias = Mapping[str, Any]


class NotPossible(Exception):
    """An action has no meaning in this state, such as to kill a broker that is down. The playback
    notes it and goes on."""


@dataclass(frozen=True, slots=True)
class ActionArgument:
    """An argument: a whole number from ``least`` to ``most``, or a text.

    ``kind``: broker, number, host, topic, choice, name or text. ``default`` None: it is required.
    """

    name: str
    kind: str
    default: Value | None = None
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    def checked(self, value: Value | None, brokers: int) -> Value:
        """Return the value, or the default for None. Raises RecipeError."""
        if value is None:
            value = self.default
        if value is None:
            raise RecipeError(f"the argument {self.name} is missing")
        least, most = (1, brokers) if self.kind == "broker" else (self.least, self.most)
        if self.kind in ("broker", "number"):
            if type(value) is not int or not least <= value <= most:
                raise RecipeError(f"{self.name} is a whole number from {least} to {most}")
            return value
        if not isinstance(value, str) or (self.kind == "name" and not value):
            raise RecipeError(f"{self.name} is a text")
        if self.kind == "topic" and (problem := name_problem(value)) is not None:
            raise RecipeError(f"the name of the topic is invalid: {problem}")
        choices = self.choices or (hosts_of(brokers) if self.kind == "host" else ())
        if choices and value not in choices:
            raise RecipeError(f"{self.name} is one of {', '.join(choices)}")
        return value


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A row of the table: an action's name, a sentence for the page, and what carries it out."""

    name: str
    title: str
    arguments: tuple[ActionArgument, ...]
    carry_out: Callable[[Stagehand, Arguments], Awaitable[None]]


def hosts_of(brokers: int) -> tuple[str, ...]:
    """Return the hosts that links connect."""
    return (*(host_name(number) for number in range(1, brokers + 1)), ZOOKEEPER, CLIENT)


def check_action(name: str, arguments: Mapping[str, Value], brokers: int) -> Arguments:
    """Return the arguments with defaults. Raises RecipeError in words for a reader."""
    row = ACTIONS.get(name)
    if row is None:
        raise RecipeError(f"there is no action {name}; there are {', '.join(ACTIONS)}")
    known = [argument.name for argument in row.arguments]
    for given in arguments:
        if given not in known:
            raise RecipeError(
                f"{name} has no argument {given}; it has {', '.join(known) or 'none'}"
            )
    try:
        return {
            argument.name: argument.checked(arguments.get(argument.name), brokers)
            for argument in row.arguments
        }
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None


def _reason(error: BaseException | None) -> str:
    """Return the text of an error, or of the first one in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "" if error is None else with_errno_names(str(error) or type(error).__name__)


class Stagehand:
    """Carries out actions on a cluster, and keeps the consumers that they have started."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self._consumers: dict[tuple[str, str], _GroupMember] = {}

    async def carry_out(self, name: str, arguments: Arguments) -> None:
        """Carry out an action whose arguments are checked, to its end. Failures of clients, and an
        action that is not possible, become events."""
        self.cluster.note("action", do=name, **arguments)
        try:
            await self._attempt(name, arguments)
        except* HostDown:
            pass  # the simulation ends amid the action

    async def _attempt(self, name: str, arguments: Arguments) -> None:
        try:
            await ACTIONS[name].carry_out(self, arguments)
        except NotPossible as error:
            self.cluster.note("action_not_possible", do=name, reason=str(error))
        except KafkaError as error:
            self.cluster.note("client_failed", do=name, error=_reason(error))

    # ------------------------------------------------------------------------------------ brokers

    async def start(self, given: Arguments) -> None:
        if self.cluster.host(given["broker"]).alive:
            raise NotPossible(f"broker {given['broker']} runs")
        await self.cluster.bring_up(given["broker"])

    async def kill(self, given: Arguments) -> None:
        await self.cluster.host(self._running(given)).kill()

    async def stop(self, given: Arguments) -> None:
        if self._running(given) not in self.cluster.nodes():
            raise NotPossible(f"broker {given['broker']} is still starting")
        stopping = asyncio.ensure_future(self.cluster.stop(given["broker"]))
        await asyncio.wait([stopping])  # it is cancelled if the broker is killed meanwhile

    async def power_loss(self, given: Arguments) -> None:
        await self.cluster.host(self._running(given)).crash()

    async def pause(self, given: Arguments) -> None:
        for other in self._others(given):
            self.cluster.simulation.partition(host_name(given["broker"]), other)

    async def resume(self, given: Arguments) -> None:
        for other in self._others(given):
            self._open(host_name(given["broker"]), other)

    async def isolate(self, given: Arguments) -> None:
        for other in self._others(given):
            if other != CLIENT:
                self.cluster.simulation.partition(host_name(given["broker"]), other)

    # -------------------------------------------------------------------------------------- links

    async def cut(self, given: Arguments) -> None:
        self.cluster.simulation.partition(*self._pair(given))

    async def heal(self, given: Arguments) -> None:
        self._open(*self._pair(given))

    async def heal_all(self, given: Arguments) -> None:
        self.cluster.simulation.heal()

    async def reset(self, given: Arguments) -> None:
        self.cluster.simulation.reset(*self._pair(given))

    # ---------------------------------------------------------------------------------- ZooKeeper

    async def zookeeper_away(self, given: Arguments) -> None:
        self.cluster.simulation.zookeeper.stop()

    async def zookeeper_back(self, given: Arguments) -> None:
        self.cluster.simulation.zookeeper.start()

    async def expire_session(self, given: Arguments) -> None:
        zookeeper = self.cluster.simulation.zookeeper
        if not zookeeper.running:
            raise NotPossible("ZooKeeper is stopped")
        try:
            _, registration = zookeeper.tree.get(paths.broker_id(given["broker"]))
        except NoNode:
            raise NotPossible(f"broker {given['broker']} is not registered") from None
        zookeeper.expire(registration.ephemeral_owner)

    # -------------------------------------------------------------------------------------- disks

    async def full_disk(self, given: Arguments) -> None:
        disk = self.cluster.host(given["broker"]).disk
        disk.capacity_bytes = disk.used_bytes

    async def broken_disk(self, given: Arguments) -> None:
        """The only log directory fails: the broker ends by itself when it writes to it."""
        broker = self._running(given)
        self.cluster.host(broker).disk.broken.append("/data")
        ended = asyncio.ensure_future(self.cluster.end_of(broker))
        await asyncio.wait([ended])
        if not ended.cancelled():
            self.cluster.note("broker_ended", broker=broker, error=_reason(ended.result()))

    async def repair_disk(self, given: Arguments) -> None:
        disk = self.cluster.host(given["broker"]).disk
        disk.capacity_bytes = None
        disk.broken.clear()

    # ------------------------------------------------------------------------------------ clients

    async def create_topic(self, given: Arguments) -> None:
        if given["replicas"] > len(self.cluster.broker_ids):
            raise NotPossible(f"there are not {given['replicas']} brokers")
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            await admin.create_topic(given["topic"], given["partitions"], given["replicas"])
            await admin.wait_for_topic(given["topic"], given["partitions"])

    async def delete_topic(self, given: Arguments) -> None:
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            await admin.delete_topic(given["topic"])

    async def produce(self, given: Arguments) -> None:
        """Send numbered records, and note how many were acknowledged."""
        world = self.cluster.client_host.world
        config = ProducerConfig(acks=_ACKS[given["acks"]])
        key = given["key"].encode() or None
        promises = []
        async with Producer(world, self.cluster.client_config, config) as producer:
            for number in range(given["records"]):
                value = f"{given['value']}{number}".encode()
                promises.append(await producer.send(given["topic"], value, key))
                if given["every_ms"]:
                    await world.clock.sleep(given["every_ms"])
        outcomes = await asyncio.gather(*promises, return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        facts = {"error": _reason(failed[0])} if failed else {}
        acknowledged = len(outcomes) - len(failed)
        self.cluster.note("produced", topic=given["topic"], records=acknowledged, **facts)

    async def join_group(self, given: Arguments) -> None:
        """Start a consumer, and return when it has ended."""
        name = (given["group"], given["member"])
        if name in self._consumers:
            raise NotPossible(f"the member {given['member']} is in the group {given['group']}")
        member = self._consumers[name] = _GroupMember(self.cluster, *name)
        try:
            await member.read(given["topic"], given["session_ms"])
        finally:
            del self._consumers[name]

    async def leave_group(self, given: Arguments) -> None:
        self._member(given).stopping = True

    async def vanish(self, given: Arguments) -> None:
        self._member(given).vanish()

    # ------------------------------------------------------------------------------------ helpers

    def _running(self, given: Arguments) -> int:
        broker: int = given["broker"]
        if not self.cluster.host(broker).alive:
            raise NotPossible(f"broker {broker} is down")
        return broker

    def _others(self, given: Arguments) -> list[str]:
        hosts = hosts_of(len(self.cluster.broker_ids))
        return [other for other in hosts if other != host_name(given["broker"])]

    def _pair(self, given: Arguments) -> tuple[str, str]:
        if given["one"] == given["other"]:
            raise NotPossible("a link has two hosts")
        return given["one"], given["other"]

    def _open(self, one: str, other: str) -> None:
        self.cluster.simulation.unclog(one, other)
        self.cluster.simulation.unclog(other, one)

    def _member(self, given: Arguments) -> _GroupMember:
        member = self._consumers.get((given["group"], given["member"]))
        if member is None:
            raise NotPossible(f"the group {given['group']} has no member {given['member']}")
        return member


class _GroupMember:
    """A consumer of a group that reads until it is stopped or vanishes."""

    def __init__(self, cluster: SimCluster, group: str, name: str) -> None:
        self.stopping = False
        self._cluster = cluster
        self._group = group
        self._name = name
        self._consumer: Consumer | None = None
        self._reading: asyncio.Task[None] | None = None

    async def read(self, topic: str, session_ms: int) -> None:
        config = ConsumerConfig(
            group_id=self._group,
            auto_offset_reset="earliest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 3,
        )
        world = self._cluster.client_host.world
        self._consumer = Consumer(world, self._cluster.client_config, config)
        self._consumer.subscribe([topic])
        self._reading = asyncio.ensure_future(self._poll(self._consumer))
        self._reading.add_done_callback(_retrieve)  # also when this task is cancelled meanwhile
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()

    def vanish(self) -> None:
        """End as if killed: the group gets no LeaveGroup request."""
        assert self._consumer is not None
        assert self._reading is not None
        self._consumer.session.connections.close()
        self._reading.cancel()

    async def _poll(self, consumer: Consumer) -> None:
        async with consumer:
            while not self.stopping:
                records = await consumer.poll(POLL_MS)
                if records:
                    facts = {"group": self._group, "member": self._name, "records": len(records)}
                    self._cluster.note("consumed", **facts)


def _retrieve(ended: asyncio.Task[None]) -> None:
    if not ended.cancelled():
        ended.exception()


BROKER = ActionArgument("broker", "broker")
LINK = (ActionArgument("one", "host"), ActionArgument("other", "host"))
TOPIC = ActionArgument("topic", "topic", "t")
MEMBER = (ActionArgument("group", "name", "g"), ActionArgument("member", "name", "m1"))

_ROWS = (
    ActionRow("start", "Start a broker that is down.", (BROKER,), Stagehand.start),
    ActionRow("kill", "Kill a broker, as kill -9 does.", (BROKER,), Stagehand.kill),
    ActionRow("stop", "Stop a broker by controlled shutdown (SIGTERM).", (BROKER,), Stagehand.stop),
    ActionRow("power_loss", "Switch a broker's power off.", (BROKER,), Stagehand.power_loss),
    ActionRow("pause", "Hold all messages of a broker.", (BROKER,), Stagehand.pause),
    ActionRow("resume", "Deliver the held messages of a broker.", (BROKER,), Stagehand.resume),
    ActionRow("isolate", "Cut a broker off, but not from clients.", (BROKER,), Stagehand.isolate),
    ActionRow("cut", "Cut the link between two hosts.", LINK, Stagehand.cut),
    ActionRow("heal", "Heal the link between two hosts.", LINK, Stagehand.heal),
    ActionRow("heal_all", "Heal all links.", (), Stagehand.heal_all),
    ActionRow("reset", "Reset the connections between two hosts.", LINK, Stagehand.reset),
    ActionRow("zookeeper_away", "Stop ZooKeeper.", (), Stagehand.zookeeper_away),
    ActionRow("zookeeper_back", "Start ZooKeeper again.", (), Stagehand.zookeeper_back),
    ActionRow("expire_session", "Expire a broker's session.", (BROKER,), Stagehand.expire_session),
    ActionRow("full_disk", "Fill a broker's disk.", (BROKER,), Stagehand.full_disk),
    ActionRow("broken_disk", "Break a broker's disk.", (BROKER,), Stagehand.broken_disk),
    ActionRow("repair_disk", "Empty or repair a disk.", (BROKER,), Stagehand.repair_disk),
    ActionRow(
        "create_topic",
        "Create a topic.",
        (
            TOPIC,
            ActionArgument("partitions", "number", 1, 1, 50),
            ActionArgument("replicas", "number", 1, 1, 9),
        ),
        Stagehand.create_topic,
    ),
    ActionRow("delete_topic", "Delete a topic.", (TOPIC,), Stagehand.delete_topic),
    ActionRow(
        "produce",
        "Produce numbered records.",
        (
            TOPIC,
            ActionArgument("records", "number", 1, 1, 10_000),
            ActionArgument("acks", "choice", "all", choices=tuple(_ACKS)),
            ActionArgument("every_ms", "number", 0, 0, MAX_PAUSE_MS),
            ActionArgument("key", "text", ""),
            ActionArgument("value", "text", ""),
        ),
        Stagehand.produce,
    ),
    ActionRow(
        "join_group",
        "Start a consumer of a group.",
        (TOPIC, *MEMBER, ActionArgument("session_ms", "number", 10_000, 6_000, 300_000)),
        Stagehand.join_group,
    ),
    ActionRow("leave_group", "Stop a consumer in order.", MEMBER, Stagehand.leave_group),
    ActionRow("vanish", "Kill a consumer.", MEMBER, Stagehand.vanish),
)

ACTIONS: Mapping[str, ActionRow] = {row.name: row for row in _ROWS}
