"""What a reader can run a simulation to: an event, a message, a change, a tick of a timing wheel.

A condition compares the cluster with what it was when the condition was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.core.group.group import Group, GroupState
from minikafka.page.learn.playback import StopOn
from minikafka.page.learn.take import Take
from minikafka.server.coordinator.group_coordinator import GroupCoordinator

TICK_US: Final = 1_000  # of the lowest wheel
GRID_US: Final = 10_000
MESSAGE: Final = "message:"

# What is compared, by a name for each part of it: partitions, groups, wheels.
Parts: TypeAlias = Mapping[Any, Any]


class Condition(NamedTuple):
    """``holds`` is called after each turn with what is in ``stop_on``, and at the multiples of
    ``grid_us``."""

    holds: Callable[[], bool]
    stop_on: StopOn
    grid_us: int = GRID_US


def condition(take: Take, what: str) -> Condition:
    """Return the condition of a name: a change (``CHANGES``), ``message:API``, or an event."""
    if what in CHANGES:
        read = CHANGES[what]
        return Condition(_changed(lambda: read(take)), StopOn.EVENT)
    if what.startswith(MESSAGE):
        api = what.removeprefix(MESSAGE)
        return Condition(_changed(lambda: {"": take.happened.arrived[api]}), StopOn.ARRIVED)
    return Condition(_changed(lambda: {"": take.happened.by_name[what]}), StopOn.EVENT)


def wheel_turns(take: Take, broker: int | None, purgatory: str | None) -> Condition:
    """Return the condition that a timing wheel turns: of any broker and any purgatory if None. A
    wheel turns when a bucket with tasks is due; it skips the empty ones."""

    def read() -> Parts:
        return {
            (broker_id, reaper.purgatory.name): reaper.wake_ups
            for broker_id, node in take.playback.cluster.nodes().items()
            for reaper in node.entities.purgatories
            if broker in (None, broker_id) and purgatory in (None, reaper.purgatory.name)
        } | {
            (1, reaper.purgatory.name): reaper.wake_ups
            for reaper in take.playback.stagehand.wheels
            if broker in (None, 1) and purgatory in (None, reaper.purgatory.name)
        }

    return Condition(_changed(read), StopOn.EVENT, TICK_US)


def _changed(read: Callable[[], Parts]) -> Callable[[], bool]:
    """Return what says whether a part that there was is another one now."""
    before = read()

    def holds() -> bool:
        now = read()
        return any(key in now and now[key] != value for key, value in before.items())

    return holds


def _controller(take: Take) -> Parts:
    return {"": take.playback.cluster.controller_id()}


def _leaders(take: Take) -> Parts:
    return {tp: state.leader for tp, state in take.state.look.leaderships.items()}


def _isrs(take: Take) -> Parts:
    return {tp: state.isr for tp, state in take.state.look.leaderships.items()}


def _rebalances(take: Take) -> Parts:
    """Return how often groups have begun to rebalance, as far as states and generations, or the
    epochs of consumer groups, show."""
    nodes = take.playback.cluster.nodes().values()
    return {"": frozenset(each for node in nodes for each in _phases(node.entities.groups))}


def _phases(coordinator: GroupCoordinator) -> list[tuple[str, int, bool]]:
    return [
        (group.group_id, group.generation_id, group.state is GroupState.PREPARING_REBALANCE)
        if isinstance(group, Group)
        else (group.group_id, group.epoch, False)
        for _, group in coordinator.groups()
    ]


def _violations(take: Take) -> Parts:
    return {"": len(take.score.violations)}


CHANGES: Final[Mapping[str, Callable[[Take], Parts]]] = {
    "controller": _controller,
    "leader": _leaders,
    "isr": _isrs,
    "rebalance": _rebalances,
    "violation": _violations,
}
