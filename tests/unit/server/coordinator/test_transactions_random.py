"""Random transactions compared with a naive model, over failovers and lost responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from minikafka.core.transaction.result import ProducerResult
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.coordinator.transaction_markers import MarkerItem, complete_markers
from tests.support.coordinator.transaction_lab import (
    ID,
    P0,
    P1,
    P2,
    TransactionLab,
    marker_response,
)

STEPS = 150
TIMEOUT_MS = 10_000
PARTITIONS = (P0, P1, P2)


@dataclass
class ModelPartition:
    """One producer id in one partition: its epoch, its open transaction, and the epoch of the
    coordinator that wrote the last marker."""

    epoch: int = -1
    coordinator_epoch: int = -1
    open_key: tuple[ProducerIdAndEpoch, int] | None = None


@dataclass
class ModelProducer:
    """A client: its id and epoch, the version of its transactions, and the current one. ``ending``
    is the outcome that it has requested; it writes nothing until that request succeeds."""

    identity: ProducerIdAndEpoch
    version: int
    number: int = 0
    wrote: bool = False
    ending: bool | None = None


@dataclass
class Play:
    """``outcomes`` has the outcomes of each transaction in its markers, over all partitions;
    ``promised`` has the outcome in the response to EndTxn."""

    dice: Random
    lab: TransactionLab
    continues: bool  # a producer that names its epoch goes on with the next one
    producers: list[ModelProducer] = field(default_factory=list)
    given: set[ProducerIdAndEpoch] = field(default_factory=set)
    partitions: dict[tuple[TopicPartition, int], ModelPartition] = field(
        default_factory=lambda: defaultdict(ModelPartition)
    )
    in_flight: list[MarkerItem] = field(default_factory=list)
    outcomes: dict[tuple[ProducerIdAndEpoch, int], set[bool]] = field(
        default_factory=lambda: defaultdict(set)
    )
    promised: dict[tuple[ProducerIdAndEpoch, int], bool] = field(default_factory=dict)

    # -- what clients do

    def begin(self) -> None:
        if self.lab.coordinator.runtime.is_loading:
            return  # the client would retry
        known = self.dice.choice(self.producers).identity if self.producers else None
        expected = known if self.dice.random() < 0.3 else None
        responses = self.lab.init(expected, timeout_ms=TIMEOUT_MS)
        if responses and responses[0].error is ErrorCode.NONE:
            got = ProducerIdAndEpoch(responses[0].producer_id, responses[0].producer_epoch)
            if expected is not None and self.continues:
                self._continue(expected, got)  # who ends its transaction may get the same epoch
                return
            if expected is None:  # a repeated request gets the same epoch
                assert got not in self.given, "two producers with one epoch"
            if got not in self.given:
                self.given.add(got)
                self.producers.append(ModelProducer(got, self.lab.version))

    def write(self) -> None:
        """Add a partition, and write to it if the coordinator has added it."""
        producer = self._someone()
        if producer is None or producer.ending is not None:
            return
        where = self.dice.choice(PARTITIONS)
        self.lab.add(producer.identity, where, client_version=producer.version)
        verified = self.lab.coordinator.verify_partitions(ID, producer.identity, [where])[where]
        log = self.partitions[where, producer.identity.producer_id]
        if verified is ErrorCode.NONE and producer.identity.epoch >= log.epoch:
            if producer.version == 2:
                assert log.open_key in (None, (producer.identity, producer.number))
            log.epoch = producer.identity.epoch
            log.open_key = (producer.identity, producer.number)
            producer.wrote = True

    def end(self) -> None:
        producer = self._someone()
        if producer is None or not producer.wrote:
            return
        commit = self.dice.random() < 0.6 if producer.ending is None else producer.ending
        producer.ending = commit
        key, version = (producer.identity, producer.number), producer.version

        lost = version == 2 and self.dice.random() < 0.2

        def respond(result: ProducerResult) -> None:
            if result.error is ErrorCode.NONE:
                assert self.promised.setdefault(key, commit) is commit
                if version == 2:
                    got = ProducerIdAndEpoch(result.producer_id, result.producer_epoch)
                    assert got == key[0]._replace(epoch=key[0].epoch + 1)
                    if not lost:
                        self._continue(key[0], got)
                elif (producer.identity, producer.number) == key:
                    producer.number, producer.wrote = producer.number + 1, False
                    producer.ending = None

        self.lab.coordinator.end(ID, producer.identity, commit, version, respond)

    def _continue(self, identity: ProducerIdAndEpoch, got: ProducerIdAndEpoch) -> None:
        """Let the producer with this identity continue with another one, in the version of now."""
        self.given.add(got)
        for producer in self.producers:
            if producer.identity == identity:
                producer.identity, producer.wrote, producer.ending = got, False, None
                producer.version = self.lab.version

    def _someone(self) -> ModelProducer | None:
        return self.dice.choice(self.producers[-4:]) if self.producers else None

    # -- what brokers do

    def deliver(self, lossless: bool = False) -> None:
        self._collect()
        self.dice.shuffle(self.in_flight)
        taken = len(self.in_flight) if lossless else self.dice.randrange(len(self.in_flight) + 1)
        for item in [self.in_flight.pop() for _ in range(taken)]:
            fate = 1.0 if lossless else self.dice.random()
            errors = {tp: self._mark(tp, item) for tp in item.partitions} if fate > 0.2 else {}
            response = marker_response(item, errors) if fate > 0.4 else None
            complete_markers([item], response)

    def _collect(self) -> None:
        self.in_flight += [item for _, item in self.lab.sent]
        self.lab.sent.clear()

    def _mark(self, where: TopicPartition, item: MarkerItem) -> ErrorCode:
        markers, log = item.markers, self.partitions[where, item.markers.producer_id]
        if item.context.epoch < log.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if markers.producer_epoch < log.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        version = item.context.shard.marker_version(markers)
        if version == 2 and markers.producer_epoch == log.epoch and log.open_key:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        log.epoch, log.coordinator_epoch = markers.producer_epoch, item.context.epoch
        if log.open_key is not None:
            self.outcomes[log.open_key].add(markers.committed)
            log.open_key = None
        return ErrorCode.NONE

    def hold(self) -> None:
        self.lab.log.held = True

    def release(self) -> None:
        """An append that has timed out is in the log nevertheless."""
        self.lab.log.held = False
        timed_out = self.dice.random() < 0.4
        self.lab.log.release(ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NONE)

    def wait(self) -> None:
        self.lab.clock.advance(self.dice.choice([100, 1000, TIMEOUT_MS + 1]))
        self.lab.coordinator.abort_timed_out()

    def change_version(self) -> None:
        self.lab.version = self.dice.choice([0, 2])

    def fail_over(self) -> None:
        """Another broker becomes leader, possibly without unreplicated records."""
        self._collect()
        self.lab.log.truncate(self.dice.randrange(self.lab.log.unreplicated + 1))
        before = self.lab
        before.log.held = False
        self.lab = before.successor()
        before.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)


# Those beyond the range found markers for decisions that only their coordinator had.
SEEDS = [*range(40), 190, 336]


@pytest.mark.mission("TV2-3")
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_transaction_ends_once_and_with_its_promised_outcome(seed: int, version: int) -> None:
    run(Play(Random(seed), TransactionLab(version=version), continues=version == 2))


@pytest.mark.mission("TV2-3")
@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_end_when_their_version_changes_in_between(seed: int) -> None:
    play = Play(Random(seed), TransactionLab(version=2), continues=True)
    run(play, 3 * [play.change_version])


def run(play: Play, further: Sequence[Callable[[], None]] = ()) -> None:
    events = [play.begin] + 6 * [play.write] + 3 * [play.end] + 4 * [play.deliver]
    events += [play.hold, play.release, play.release, play.wait, play.fail_over, *further]
    for _ in range(STEPS):
        play.dice.choice(events)()
    play.lab.log.held = False
    play.lab.log.release()
    for _ in range(20):
        play.lab.clock.advance(TIMEOUT_MS + 1)
        play.lab.coordinator.abort_timed_out()
        play.deliver(lossless=True)
    assert all(len(found) == 1 for found in play.outcomes.values()), "partly committed"
    for key, committed in play.promised.items():
        assert play.outcomes[key] <= {committed}, f"{key} was promised {committed}"
    hanging = [where for where, log in play.partitions.items() if log.open_key is not None]
    assert not hanging, "transactions that never end"
    if play.lab.size:
        assert not play.lab.state.is_prepared
        assert not play.lab.successor().state.is_prepared
