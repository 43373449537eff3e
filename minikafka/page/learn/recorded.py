"""Recipes of simulations that no recipe has made: the faults of their traces as actions.

The clients of a test are code of the test, so a recipe cannot repeat a test's simulation exactly.
It has the same seed, settings, topics and faults at the same times, under a load of numbered
records: something to look at, and to change until it shows the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minikafka.kernel.ports import NoNode
from minikafka.page.learn.playback import checked_settings
from minikafka.page.learn.recipe import (
    MAX_ACTIONS,
    MAX_US,
    Recipe,
    RecipeError,
    RecipeReport,
    TimedAction,
    Value,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import TopicZnode
from minikafka.testing.simulator.cluster import SETTINGS, SimCluster

EVERY_MS: Final = 50  # between the records of the load
MAX_RECORDS: Final = 10_000
SETTLING_US: Final = 1_000_000  # from the creation of a topic to its settings and load
KEPT_SETTINGS: Final = ("min.insync.replicas", "unclean.leader.election.enable")

_topic_path = re.compile(r"/brokers/topics/([^/]+)").fullmatch
_broker = re.compile(r"broker-([1-9])").fullmatch


class TraceLine(NamedTuple):
    """A line of a trace: its time, name and facts."""

    t_us: int
    name: str
    facts: dict[str, str]

    @classmethod
    def parse(cls, line: str) -> TraceLine:
        seconds, name, *facts = line.split(" ")
        pairs = (fact.partition("=") for fact in facts)
        return cls(round(float(seconds) * 1_000_000), name, {k: v for k, _, v in pairs})


def report_of(cluster: SimCluster, trace: Sequence[str], t_us: int) -> RecipeReport | None:
    """Return a recipe like the simulation of a cluster until ``t_us``, to be shown there; ``trace``
    is that until then. None if recipes cannot have its settings or its faults, or there are
    none."""
    brokers = len(cluster.broker_ids)
    if t_us > MAX_US or tuple(cluster.broker_ids) != tuple(range(1, brokers + 1)):
        return None
    lines = [TraceLine.parse(line) for line in trace]
    faults = list(_faults(lines))
    if not faults:
        return None
    actions = sorted([*_topics(cluster, lines, t_us), *faults], key=lambda action: action.t_us)
    changed = {k: v for k, v in cluster.settings.items() if SETTINGS.get(k) != v}
    settings = {"minikafka.fast.failover": "true"} | changed  # which learn mode turns off
    try:
        recipe = Recipe("recorded", cluster.simulation.seed, brokers, settings, actions)
        checked_settings(recipe)
        if len(actions) > MAX_ACTIONS:
            return None
    except RecipeError:
        return None
    return RecipeReport(recipe, t_us)


def _faults(lines: Sequence[TraceLine]) -> Iterator[TimedAction]:
    """Yield the actions that the lines of faults stand for. A direction that is blocked on its own,
    and what a disk does, are left out."""
    directions = {
        (line.t_us, line.name, line.facts["source"], line.facts["target"])
        for line in lines
        if line.name in ("clog", "unclog")
    }
    cut: set[tuple[str, str]] = set()
    leaving_us: dict[str, int] = {}
    for line in lines:
        if line.name in ("clog", "unclog"):
            one, other = line.facts["source"], line.facts["target"]
            pair, is_cut = (min(one, other), max(one, other)), line.name == "clog"
            both = (line.t_us, line.name, other, one) in directions
            if both and (pair in cut) != is_cut:
                (cut.add if is_cut else cut.discard)(pair)
                yield TimedAction(line.t_us, "cut" if is_cut else "heal", _link(*pair))
        elif line.name == "heal":
            cut.clear()
            yield TimedAction(line.t_us, "heal_all", {})
        elif line.name == "reset":
            link = _link(line.facts["one"], line.facts["other"])
            yield TimedAction(line.t_us, "reset", link)
        elif line.name in _OF_ZOOKEEPER:
            yield TimedAction(line.t_us, _OF_ZOOKEEPER[line.name], {})
        elif line.name == "controlled_shutdown_requested":
            leaving_us.setdefault(f"broker-{line.facts['leaving_broker']}", line.t_us)
        elif line.name in _OF_BROKERS and (found := _broker(line.facts["host"])) is not None:
            begun_us = leaving_us.pop(line.facts["host"], line.t_us)
            t_us = begun_us if line.name == "exit" else line.t_us
            yield TimedAction(t_us, _OF_BROKERS[line.name], {"broker": int(found[1])})


_OF_ZOOKEEPER: Final = {"zookeeper-stop": "zookeeper_away", "zookeeper-start": "zookeeper_back"}
_OF_BROKERS: Final = {
    "kill": "kill",
    "crash": "power_loss",
    "exit": "stop",
    "restart": "start",
}


def _link(one: str, other: str) -> dict[str, Value]:
    return {"one": one, "other": other}


def _topics(cluster: SimCluster, lines: Sequence[TraceLine], t_us: int) -> Iterator[TimedAction]:
    """Yield the creations of topics, and a load on each."""
    for line in lines:
        found = _topic_path(line.facts.get("path", "")) if "CreateOp" in line.name else None
        if found is None or found[1].startswith("__"):
            continue
        topic = found[1]
        partitions, replicas, settings = _size(cluster, topic)
        size: dict[str, Value] = {"partitions": partitions, "replicas": replicas}
        yield TimedAction(line.t_us, "create_topic", {"topic": topic, **size})
        begin_us = line.t_us + SETTLING_US
        if begin_us > t_us:
            continue
        for name, value in settings.items():
            change: dict[str, Value] = {"topic": topic, "name": name, "value": value}
            yield TimedAction(begin_us, "set_config", change)
        records = min(MAX_RECORDS, max(1, (t_us - begin_us) // (EVERY_MS * 1_000)))
        load: dict[str, Value] = {"topic": topic, "records": records, "every_ms": EVERY_MS}
        yield TimedAction(begin_us, "produce", load)


def _size(cluster: SimCluster, topic: str) -> tuple[int, int, dict[str, str]]:
    """Return how many partitions and replicas a topic has, and those of its settings that a recipe
    keeps."""
    tree = cluster.simulation.zookeeper.tree
    try:
        assignment = TopicZnode.decode(topic, tree.get(paths.topic(topic))[0]).assignment
    except NoNode:
        return 1, min(3, len(cluster.broker_ids)), {}  # it was deleted
    replicas = max((len(each.replicas) for each in assignment.values()), default=1)
    try:
        found = json.loads(tree.get(f"/config/topics/{topic}")[0]).get("config", {})
    except NoNode:
        found = {}
    return len(assignment) or 1, replicas, {k: found[k] for k in KEPT_SETTINGS if k in found}
