"""The actions of a playback: what a reader can do to a simulated cluster and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from minikafka.client import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.client.assignors.catalogue import ASSIGNORS
from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.core.group.consumer.assignors import ASSIGNORS as REMOTE_ASSIGNORS
from minikafka.core.purgatory import DelayedOperation
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, CoordinationError, NoNode
from minikafka.page.learn import clients
from minikafka.page.learn.clients import (
    ACKNOWLEDGEMENTS,
    ACKS,
    ANY_PARTITION,
    BY_HAND,
    DEFAULT_ASSIGNOR,
    OWN_EPOCH,
    SESSION_MS,
    PlayedMember,
    PlayedProducer,
    PlayedShareMember,
    reason,
)
from minikafka.page.learn.hosts import hosts_of
from minikafka.page.learn.lesson import LessonTimers
from minikafka.page.learn.messages import MessageLog
from minikafka.page.learn.recipe import MAX_BROKERS, RecipeError, Value
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import CLIENT, SimCluster, host_name
from minikafka.world.sim.process import HostDown
from minikafka.world.sim.zookeeper import SimZookeeper

MAX_PAUSE_MS = 600_000  # between records
MAX_LINGER_MS = 10_000
MAX_SLOW_MS = 60_000
MAX_TIMERS = 50
MAX_DELAY_MS = 600_000
MAX_REVOKE_MS = 600_000
MAX_WORK_MS = 600_000
MAX_PARTITION = 999
MAX_OFFSET = 2**31
MAX_EPOCH = 2**31 - 1
_TOPIC_SETTINGS = """
    cleanup.policy compression.type delete.retention.ms file.delete.delay.ms flush.messages flush.ms
    follower.replication.throttled.replicas index.interval.bytes
    leader.replication.throttled.replicas max.compaction.lag.ms max.message.bytes
    message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas
    retention.bytes retention.ms segment.bytes segment.ms unclean.leader.election.enable
"""

# The default of the protocol, those of classic clients, and those of the coordinator.
_ASSIGNORS = (DEFAULT_ASSIGNOR, *dict.fromkeys((*ASSIGNORS, *REMOTE_ASSIGNORS)))

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


@dataclass(slots=True, eq=False)
class ActionHandle:
    """An action that has begun: ``number`` is its index in the recipe. ``problem`` says in a
    sentence that it was not possible, or that a client has failed."""

    number: int
    name: str
    arguments: Arguments
    ended: bool = False
    problem: str | None = None


class Stagehand:
    """Carries out actions on a cluster, and keeps the clients and timers that they have started.
    ``log`` sees the messages on the wire. ``acts`` lists what has begun. ``ack_observers`` are
    called with partition and offset of each record that was acknowledged outside transactions."""

    def __init__(self, cluster: SimCluster, log: MessageLog) -> None:
        self.cluster = cluster
        self.acts: list[ActionHandle] = []
        self.ack_observers: list[clients.Acknowledged] = []
        self._log = log
        self._consumers: dict[tuple[str, str], PlayedMember | PlayedShareMember] = {}
        self._producers: dict[tuple[str, int], PlayedProducer] = {}
        self._timers: LessonTimers | None = None

    @property
    def wheels(self) -> list[Reaper[DelayedOperation]]:
        """The purgatory of the last action ``timers``, if there was one."""
        return [] if self._timers is None else [self._timers.reaper]

    @property
    def lesson_clock(self) -> Clock | None:
        """The clock of the purgatory in ``wheels``."""
        return None if self._timers is None else self._timers.clock

    def begin(self, name: str, arguments: Arguments) -> ActionHandle:
        """Begin an action whose arguments are checked, on the client host. Failures of clients, and
        an action that is not possible, become events."""
        act = ActionHandle(len(self.acts), name, arguments)
        self.acts.append(act)
        self.cluster.spawn_client(self._carry_out(act), f"action-{act.number}")
        return act

    async def _carry_out(self, act: ActionHandle) -> None:
        self.cluster.note("action", do=act.name, **act.arguments)
        try:
            await self._attempt(act)
        except* HostDown:
            pass  # the simulation ends amid the action
        act.ended = True

    async def _attempt(self, act: ActionHandle) -> None:
        try:
            await ACTIONS[act.name].carry_out(self, act.arguments)
        except NotPossible as error:
            act.problem = str(error)
            self.cluster.note("action_not_possible", do=act.name, reason=act.problem)
        except KafkaError as error:
            act.problem = reason(error)
            self.cluster.note("client_failed", do=act.name, error=act.problem)

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
        """Open a link, at its normal delay, and release what is held there."""
        one, other = self._pair(given)
        self._open(one, other)
        self.cluster.simulation.links.normalize(one, other)
        self.cluster.simulation.links.normalize(other, one)

    async def heal_all(self, given: Arguments) -> None:
        self.cluster.simulation.heal()

    async def reset(self, given: Arguments) -> None:
        self.cluster.simulation.reset(*self._pair(given))

    async def refuse(self, given: Arguments) -> None:
        self.cluster.simulation.refuse(host_name(given["broker"]))

    async def accept(self, given: Arguments) -> None:
        self.cluster.simulation.refuse(host_name(given["broker"]), False)

    async def slow_link(self, given: Arguments) -> None:
        self.cluster.simulation.slow(*self._pair(given), given["ms"] * 1_000)

    async def normal_link(self, given: Arguments) -> None:
        self.cluster.simulation.slow(*self._pair(given), 0)

    async def hold_message(self, given: Arguments) -> None:
        """Hold a message, and with it all bytes behind it in that direction of the connection."""
        if not self._log.hold(given["number"]):
            raise NotPossible(f"the message {given['number']} is not on its way")

    async def release_message(self, given: Arguments) -> None:
        if not self._log.release(given["number"]):
            raise NotPossible(f"the message {given['number']} is not held")

    # ---------------------------------------------------------------------------------- ZooKeeper

    async def zookeeper_away(self, given: Arguments) -> None:
        self.cluster.simulation.zookeeper.stop()

    async def zookeeper_back(self, given: Arguments) -> None:
        self.cluster.simulation.zookeeper.start()

    async def expire_session(self, given: Arguments) -> None:
        zookeeper = self._running_zookeeper()
        try:
            _, registration = zookeeper.tree.get(paths.broker_id(given["broker"]))
        except NoNode:
            raise NotPossible(f"broker {given['broker']} is not registered") from None
        zookeeper.expire(registration.ephemeral_owner)

    async def delete_znode(self, given: Arguments) -> None:
        path = given["path"]
        try:
            self._running_zookeeper().delete(path)
        except CoordinationError as error:
            raise NotPossible(f"{path} cannot be deleted: {type(error).__name__}") from None

    async def write_znode(self, given: Arguments) -> None:
        """Create a znode, or replace its data."""
        path = given["path"]
        try:
            self._running_zookeeper().put(path, given["text"].encode())
        except CoordinationError as error:
            raise NotPossible(f"{path} cannot be written: {type(error).__name__}") from None

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
            self.cluster.note("broker_ended", broker=broker, error=reason(ended.result()))

    async def slow_disk(self, given: Arguments) -> None:
        """Each flush, and each read that is not in the page cache, takes longer."""
        self.cluster.host(given["broker"]).disk.slow_us = given["ms"] * 1_000

    async def repair_disk(self, given: Arguments) -> None:
        disk = self.cluster.host(given["broker"]).disk
        disk.capacity_bytes = None
        disk.slow_us = 0
        disk.broken.clear()

    # ------------------------------------------------------------------------------------ clients

    async def create_topic(self, given: Arguments) -> None:
        brokers = len(self.cluster.broker_ids)
        if given["replicas"] > brokers:
            raise NotPossible(f"there are not {given['replicas']} brokers")
        name, partitions = given["topic"], given["partitions"]
        topic = NewTopic(name, partitions, given["replicas"])
        if given["assignment"]:
            rows = [_numbers("a row", row, 1, brokers) for row in given["assignment"].split(";")]
            partitions, topic = len(rows), NewTopic(name, assignments=dict(enumerate(rows)))
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            outcome = (await admin.create_topics([topic]))[name]
            if isinstance(outcome, KafkaError):
                raise outcome
            await admin.wait_for_topic(name, partitions)

    async def add_partitions(self, given: Arguments) -> None:
        """Grow a topic to so many partitions in all, and return when all brokers know them."""
        name, partitions = given["topic"], given["partitions"]
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            _raise_failure((await admin.create_partitions({name: partitions}))[name])
            await admin.wait_for_topic(name, partitions)

    async def delete_topic(self, given: Arguments) -> None:
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            await admin.delete_topic(given["topic"])

    async def set_config(self, given: Arguments) -> None:
        """Set a setting of a topic; an empty value returns it to its default."""
        operation = AlterOperation.SET if given["value"] else AlterOperation.DELETE
        change = ConfigAlteration(given["name"], given["value"] or None, operation)
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            await admin.incremental_alter_configs(ResourceType.TOPIC, given["topic"], [change])

    async def reassign(self, given: Arguments) -> None:
        """Begin to move a partition; no replicas cancel the move."""
        partition = _partition(given)
        brokers = _numbers("replicas", given["replicas"], 1, len(self.cluster.broker_ids))
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            outcomes = await admin.alter_partition_reassignments({partition: brokers or None})
        _raise_failure(outcomes[partition])

    async def elect_leaders(self, given: Arguments) -> None:
        partition, election = _partition(given), ElectionType[given["election"].upper()]
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            outcomes = await admin.elect_leaders(election, [partition])
        _raise_failure(outcomes[partition])

    async def delete_records(self, given: Arguments) -> None:
        """Delete the records before an offset, and note where the log starts now."""
        partition = _partition(given)
        async with Admin(self.cluster.client_host.world, self.cluster.client_config) as admin:
            outcomes = await admin.delete_records({partition: given["offset"]})
        start = outcomes[partition]
        if isinstance(start, KafkaError):
            raise start
        self.cluster.note("records_deleted", partition=str(partition), low_watermark=start)

    async def produce(self, given: Arguments) -> None:
        if given["to"] > len(self.cluster.broker_ids):
            raise NotPossible(f"there is no broker {given['to']}")
        send = clients.send_to_broker if given["to"] else clients.send
        await send(self.cluster, given, self._acknowledged)

    def _acknowledged(self, partition: TopicPartition, offset: int) -> None:
        for observe in self.ack_observers:
            observe(partition, offset)

    async def read(self, given: Arguments) -> None:
        await (clients.fetch if given["max_wait_ms"] else clients.read)(self.cluster, given)

    async def join_group(self, given: Arguments) -> None:
        """Start a consumer, and return when it has ended."""
        try:
            member = PlayedMember(self.cluster, given)
        except ValueError as error:
            raise NotPossible(f"the {given['protocol']} protocol refuses this: {error}") from None
        await self._join(given, member)

    async def join_share_group(self, given: Arguments) -> None:
        """Start a share consumer, and return when it has ended."""
        await self._join(given, PlayedShareMember(self.cluster, given))

    async def _join(self, given: Arguments, member: PlayedMember | PlayedShareMember) -> None:
        name = (given["group"], given["member"])
        known = self._consumers.get(name)
        if known is not None and not known.has_ended:
            raise NotPossible(f"the member {given['member']} is in the group {given['group']}")
        self._consumers[name] = member
        await member.read()

    async def acknowledge(self, given: Arguments) -> None:
        """Acknowledge all records that a share consumer holds."""
        member = self._member(given)
        if not isinstance(member, PlayedShareMember) or not member.holds_records:
            raise NotPossible(f"{given['member']} holds no records to be acknowledged by hand")
        member.acknowledge(given["acknowledgement"])

    async def leave_group(self, given: Arguments) -> None:
        self._member(given).stop()

    async def vanish(self, given: Arguments) -> None:
        self._member(given).vanish()

    async def commit_offset(self, given: Arguments) -> None:
        """Commit an offset as a member, which may have been killed, as a client does that has
        missed what happened to its group."""
        consumer = self._started_member(given)
        if not isinstance(consumer, PlayedMember):
            raise NotPossible("a share group has no committed offsets")
        member = consumer.membership
        if given["epoch"] != OWN_EPOCH:
            member = member._replace(generation=given["epoch"])
        await clients.commit(self.cluster, member, _partition(given), given["offset"])

    # ------------------------------------------------------------------------------- transactions

    async def begin_transaction(self, given: Arguments) -> None:
        name = (given["transactional_id"], given["instance"])
        producer = self._producers.get(name)
        if producer is None or producer.has_failed:
            producer = PlayedProducer(self.cluster, *name, given["timeout_ms"])
            self._producers[name] = producer
            await producer.live()
        elif producer.in_transaction:
            raise NotPossible(f"instance {name[1]} of {name[0]} is in a transaction")
        await producer.begin()

    async def send_in_transaction(self, given: Arguments) -> None:
        await self._in_transaction(given).send(given)

    async def commit_transaction(self, given: Arguments) -> None:
        await self._in_transaction(given).commit()

    async def abort_transaction(self, given: Arguments) -> None:
        await self._in_transaction(given).abort()

    async def vanish_producer(self, given: Arguments) -> None:
        self._in_transaction(given).vanish()

    # ------------------------------------------------------------------------------------- timers

    async def timers(self, given: Arguments) -> None:
        """Set timers in the lesson's purgatory, and return when all have expired. Its clock starts
        at 0 with the first of them."""
        delays_ms = _numbers("delays", given["delays"], 1, MAX_DELAY_MS)
        if not 0 < len(delays_ms) <= MAX_TIMERS:
            raise NotPossible(f"delays are 1 to {MAX_TIMERS} numbers")
        if self._timers is None:
            clock = self.cluster.client_host.world.clock
            self._timers = LessonTimers(clock, self._note_timer)
        await self._timers.wait(delays_ms)

    def _note_timer(self, delay_ms: int, after_ms: int) -> None:
        self.cluster.note("timer_fired", delay_ms=delay_ms, after_ms=after_ms)

    # ------------------------------------------------------------------------------------ helpers

    def _running(self, given: Arguments) -> int:
        broker: int = given["broker"]
        if not self.cluster.host(broker).alive:
            raise NotPossible(f"broker {broker} is down")
        return broker

    def _running_zookeeper(self) -> SimZookeeper:
        zookeeper = self.cluster.simulation.zookeeper
        if not zookeeper.running:
            raise NotPossible("ZooKeeper is stopped")
        return zookeeper

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

    def _started_member(self, given: Arguments) -> PlayedMember | PlayedShareMember:
        """Return the last member of this name, also if it has ended."""
        member = self._consumers.get((given["group"], given["member"]))
        if member is None:
            raise NotPossible(f"the group {given['group']} has no member {given['member']}")
        return member

    def _member(self, given: Arguments) -> PlayedMember | PlayedShareMember:
        member = self._started_member(given)
        if member.has_ended:
            raise NotPossible(f"the group {given['group']} has no member {given['member']}")
        return member

    def _in_transaction(self, given: Arguments) -> PlayedProducer:
        name = (given["transactional_id"], given["instance"])
        producer = self._producers.get(name)
        if producer is None or not producer.in_transaction:
            raise NotPossible(f"instance {name[1]} of {name[0]} is in no transaction")
        return producer


def _partition(given: Arguments) -> TopicPartition:
    return TopicPartition(given["topic"], given["partition"])


def _numbers(what: str, text: str, least: int, most: int) -> list[int]:
    """Return the numbers of a list such as ``4,5,6``. Raises NotPossible."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise NotPossible(f"{what} are numbers with commas between them, not {text!r}")
    numbers = [int(part) for part in parts]
    if any(not least <= number <= most for number in numbers):
        raise NotPossible(f"{what} are numbers from {least} to {most}")
    return numbers


def _raise_failure(outcome: KafkaError | None) -> None:
    if outcome is not None:
        raise outcome


BROKER = ActionArgument("broker", "broker")
LINK = (ActionArgument("one", "host"), ActionArgument("other", "host"))
TOPIC = ActionArgument("topic", "topic", "t")
MEMBER = (ActionArgument("group", "name", "g"), ActionArgument("member", "name", "m1"))
PARTITION = ActionArgument("partition", "number", 0, 0, MAX_PARTITION)
PRODUCER = (
    ActionArgument("transactional_id", "name", "tx"),
    ActionArgument("instance", "number", 1, 1, 9),
)
NUMBER = ActionArgument("number", "number", None, 1, 2**31)
SLOW = ActionArgument("ms", "number", 100, 1, MAX_SLOW_MS)

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
    ActionRow(
        "refuse",
        "Refuse new connections to a broker, which runs, as a firewall may do.",
        (BROKER,),
        Stagehand.refuse,
    ),
    ActionRow("accept", "Accept connections to a broker again.", (BROKER,), Stagehand.accept),
    ActionRow("slow_link", "Slow the link between two hosts.", (*LINK, SLOW), Stagehand.slow_link),
    ActionRow("normal_link", "End the slowness of a link.", LINK, Stagehand.normal_link),
    ActionRow(
        "hold_message",
        "Hold a message and all bytes behind it in its direction.",
        (NUMBER,),
        Stagehand.hold_message,
    ),
    ActionRow("release_message", "Release a held message.", (NUMBER,), Stagehand.release_message),
    ActionRow("zookeeper_away", "Stop ZooKeeper.", (), Stagehand.zookeeper_away),
    ActionRow("zookeeper_back", "Start ZooKeeper again.", (), Stagehand.zookeeper_back),
    ActionRow("expire_session", "Expire a broker's session.", (BROKER,), Stagehand.expire_session),
    ActionRow(
        "delete_znode",
        "Delete a znode by hand.",
        (ActionArgument("path", "name", paths.CONTROLLER),),
        Stagehand.delete_znode,
    ),
    ActionRow(
        "write_znode",
        "Create a znode by hand, or replace its data.",
        (ActionArgument("path", "name", paths.CONTROLLER), ActionArgument("text", "text", "")),
        Stagehand.write_znode,
    ),
    ActionRow("full_disk", "Fill a broker's disk.", (BROKER,), Stagehand.full_disk),
    ActionRow("broken_disk", "Break a broker's disk.", (BROKER,), Stagehand.broken_disk),
    ActionRow("slow_disk", "Slow a broker's disk.", (BROKER, SLOW), Stagehand.slow_disk),
    ActionRow("repair_disk", "Empty or repair a disk.", (BROKER,), Stagehand.repair_disk),
    ActionRow(
        "create_topic",
        "Create a topic.",
        (
            TOPIC,
            ActionArgument("partitions", "number", 1, 1, MAX_PARTITION + 1),
            ActionArgument("replicas", "number", 1, 1, 9),
            ActionArgument("assignment", "text", ""),  # such as 1,2;2,3 instead of the two
        ),
        Stagehand.create_topic,
    ),
    ActionRow(
        "add_partitions",
        "Add partitions to a topic, so that it has so many in all.",
        (TOPIC, ActionArgument("partitions", "number", None, 1, MAX_PARTITION + 1)),
        Stagehand.add_partitions,
    ),
    ActionRow("delete_topic", "Delete a topic.", (TOPIC,), Stagehand.delete_topic),
    ActionRow(
        "produce",
        "Produce numbered records.",
        (
            TOPIC,
            ActionArgument("records", "number", 1, 1, 10_000),
            ActionArgument("acks", "choice", "all", choices=tuple(ACKS)),
            ActionArgument("every_ms", "number", 0, 0, MAX_PAUSE_MS),
            ActionArgument("key", "text", ""),
            ActionArgument("value", "text", ""),
            ActionArgument("partition", "number", ANY_PARTITION, ANY_PARTITION, MAX_PARTITION),
            ActionArgument("to", "number", 0, 0, MAX_BROKERS),
            ActionArgument("partitioner", "choice", "sticky", choices=("sticky", "round_robin")),
            ActionArgument("linger_ms", "number", 0, 0, MAX_LINGER_MS),
        ),
        Stagehand.produce,
    ),
    ActionRow(
        "read",
        "Read a topic from its beginning to its end, or wait for one fetch of a partition.",
        (
            TOPIC,
            PARTITION,
            ActionArgument("offset", "number", 0, 0, 2**31),
            ActionArgument("min_bytes", "number", 1, 1, 2**20),
            ActionArgument("max_wait_ms", "number", 0, 0, 60_000),
            ActionArgument(
                "isolation",
                "choice",
                "read_committed",
                choices=("read_committed", "read_uncommitted"),
            ),
        ),
        Stagehand.read,
    ),
    ActionRow(
        "join_group",
        "Start a consumer of a group.",
        (
            TOPIC,
            *MEMBER,
            ActionArgument("protocol", "choice", "classic", choices=("classic", "consumer")),
            ActionArgument("session_ms", "number", SESSION_MS, 6_000, 300_000),
            ActionArgument("assignor", "choice", DEFAULT_ASSIGNOR, choices=_ASSIGNORS),
            ActionArgument("second_topic", "text", ""),
            ActionArgument("revoke_ms", "number", 0, 0, MAX_REVOKE_MS),
        ),
        Stagehand.join_group,
    ),
    ActionRow(
        "join_share_group",
        "Start a consumer of a share group.",
        (
            TOPIC,
            *MEMBER,
            ActionArgument("max_records", "number", 500, 1, 500),
            ActionArgument(
                "acknowledgement", "choice", "accept", choices=(*ACKNOWLEDGEMENTS, BY_HAND)
            ),
            ActionArgument("work_ms", "number", 0, 0, MAX_WORK_MS),
        ),
        Stagehand.join_share_group,
    ),
    ActionRow(
        "acknowledge",
        "Acknowledge the records that a share consumer holds.",
        (
            *MEMBER,
            ActionArgument("acknowledgement", "choice", "accept", choices=tuple(ACKNOWLEDGEMENTS)),
        ),
        Stagehand.acknowledge,
    ),
    ActionRow("leave_group", "Stop a consumer in order.", MEMBER, Stagehand.leave_group),
    ActionRow("vanish", "Kill a consumer.", MEMBER, Stagehand.vanish),
    ActionRow(
        "commit_offset",
        "Commit an offset for a consumer, in its generation or epoch or in another.",
        (
            TOPIC,
            PARTITION,
            ActionArgument("offset", "number", None, 0, MAX_OFFSET),
            *MEMBER,
            ActionArgument("epoch", "number", OWN_EPOCH, OWN_EPOCH, MAX_EPOCH),
        ),
        Stagehand.commit_offset,
    ),
    ActionRow(
        "set_config",
        "Change a setting of a topic; no value removes it.",
        (
            TOPIC,
            ActionArgument(
                "name", "choice", "min.insync.replicas", choices=tuple(_TOPIC_SETTINGS.split())
            ),
            ActionArgument("value", "text", ""),
        ),
        Stagehand.set_config,
    ),
    ActionRow(
        "reassign",
        "Move a partition to other brokers, such as 4,5,6; none cancel the move.",
        (TOPIC, PARTITION, ActionArgument("replicas", "text")),
        Stagehand.reassign,
    ),
    ActionRow(
        "delete_records",
        "Delete the records of a partition before an offset.",
        (TOPIC, PARTITION, ActionArgument("offset", "number", None, 0, MAX_OFFSET)),
        Stagehand.delete_records,
    ),
    ActionRow(
        "elect_leaders",
        "Elect the leader of a partition.",
        (
            TOPIC,
            PARTITION,
            ActionArgument("election", "choice", "preferred", choices=("preferred", "unclean")),
        ),
        Stagehand.elect_leaders,
    ),
    ActionRow(
        "begin_transaction",
        "Begin a transaction.",
        (*PRODUCER, ActionArgument("timeout_ms", "number", 60_000, 1_000, 900_000)),
        Stagehand.begin_transaction,
    ),
    ActionRow(
        "send_in_transaction",
        "Produce numbered records in a transaction.",
        (
            *PRODUCER,
            TOPIC,
            ActionArgument("records", "number", 1, 1, 1_000),
            ActionArgument("value", "text", ""),
        ),
        Stagehand.send_in_transaction,
    ),
    ActionRow(
        "commit_transaction", "Commit a transaction.", PRODUCER, Stagehand.commit_transaction
    ),
    ActionRow("abort_transaction", "Abort a transaction.", PRODUCER, Stagehand.abort_transaction),
    ActionRow(
        "vanish_producer",
        "Kill a producer in its transaction.",
        PRODUCER,
        Stagehand.vanish_producer,
    ),
    ActionRow(
        "timers",
        "Set timers in the purgatory of the lesson.",
        (ActionArgument("delays", "name", "2,8,19,350,450"),),
        Stagehand.timers,
    ),
)

ACTIONS: Mapping[str, ActionRow] = {row.name: row for row in _ROWS}
