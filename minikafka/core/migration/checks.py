"""What is against the next step of a migration, as findings.

A finding that blocks would cost acknowledged records, availability or a feature that is in use. One
that warns is for the operator to judge. Each has a name, by which an operator may accept it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.migration.facts import (
    IBP,
    MESSAGE_FORMAT,
    OLDEST,
    BrokerFacts,
    ClusterFacts,
    Goal,
    KafkaVersion,
    Kind,
    Way,
    parse_version,
    version_text,
)
from minikafka.core.migration.steps import Action, Step, largest_factor, missing_bytes, targets
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.settings import ACL_AUTHORIZERS, BROKER_CONFIG

SHOWN: Final = 5  # partitions, topics or files that one finding names
REBALANCE_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
FIRST_WITH_CONSUMER_PROTOCOL: Final[KafkaVersion] = (3, 7)
THROTTLED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)

# What each name means. The order is that of the report.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "kraft": "brokers without ZooKeeper, or a migration to KRaft under way",
        "broker-silent": "a broker does not describe its configuration or its log directories",
        "no-controller": "no controller is known",
        "metadata-differs": "partitions that not all brokers show alike",
        "offline-partitions": "partitions without a leader",
        "offline-log-dirs": "failed log directories",
        "under-replicated": "partitions with replicas out of sync",
        "under-min-isr": "fewer in-sync replicas than min.insync.replicas if the broker stops",
        "reassignment": "reassignments under way, or not known",
        "protocol-too-high": "inter.broker.protocol.version above what the target speaks",
        "protocol-too-low": "inter.broker.protocol.version below 2.0",
        "protocol-differs": "brokers with different inter.broker.protocol.version",
        "protocol-unset": "inter.broker.protocol.version would change with the software",
        "old-message-format": "message formats before 0.11, which minikafka does not read",
        "listeners": "listeners with TLS or SASL, whose stores and mechanisms are to be checked",
        "zookeeper-security": "TLS to ZooKeeper, or znodes with ACLs: credentials are needed",
        "finalized-features": "cluster features that Kafka with ZooKeeper does not know",
        "authorizer": "an authorizer other than AclAuthorizer",
        "tiered-storage": "remote log storage",
        "setting-refused": "a setting with which minikafka does not start",
        "throttle-left": "replication throttles although nothing is reassigned",
        "no-controlled-shutdown": "a broker that stops without moving its leaders",
        "disk-space": "new brokers without the space for the replicas that move to them",
        "too-few-brokers": "fewer new brokers than replicas of a partition",
        "no-directory": "a log directory that does not exist",
        "unclean-shutdown": "log directories of a broker that was killed",
    }
)


@dataclass(frozen=True, slots=True)
class MigrationFinding:
    """Something against a step. ``text`` says what it is, and what to do about it."""

    name: str
    text: str
    blocks: bool = True


def findings(facts: ClusterFacts, goal: Goal, step: Step) -> list[MigrationFinding]:
    """Return what is against ``step``, in the order of NAMES. It is safe if no finding blocks."""
    found = [finding for check in _CHECKS for finding in check(facts, goal, step)]
    order = list(NAMES)
    return sorted(found, key=lambda finding: order.index(finding.name))


def is_safe(found: Iterable[MigrationFinding], accepted: Collection[str] = ()) -> bool:
    return not any(finding.blocks and finding.name not in accepted for finding in found)


# ----------------------------------------------------------------------------------- the cluster


def _kraft(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    for broker in facts.brokers.values():
        if broker.settings.get("process.roles"):
            yield MigrationFinding(
                "kraft", f"broker {broker.broker_id} runs in KRaft mode (process.roles)"
            )
        elif broker.is_on("zookeeper.metadata.migration.enable"):
            yield MigrationFinding(
                "kraft",
                f"broker {broker.broker_id} has zookeeper.metadata.migration.enable=true: a "
                "migration to KRaft has been prepared; finish it or remove the setting",
            )
    if facts.zookeeper is not None and facts.zookeeper.kraft_migration:
        yield MigrationFinding(
            "kraft", "ZooKeeper has /migration: a migration to KRaft is under way"
        )


def _silent(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    for broker in facts.brokers.values():
        if broker.kind is Kind.UNKNOWN or broker.silence:
            yield MigrationFinding(
                "broker-silent",
                f"broker {broker.broker_id} at {broker.address} did not describe itself: "
                f"{broker.silence or 'its kind is not known'}",
            )
    if facts.controller not in facts.brokers:
        yield MigrationFinding("no-controller", "no live broker is the controller; run this again")


def _health(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    """Nothing is moved or stopped while a replica is out of sync. Starting brokers is the cure."""
    for broker in facts.brokers.values():
        if broker.offline_dirs:
            yield MigrationFinding(
                "offline-log-dirs",
                f"broker {broker.broker_id}: {', '.join(broker.offline_dirs)}; mend the disk and "
                "restart the broker",
            )
    if step.action is Action.START:
        return
    if facts.unsettled:
        yield MigrationFinding(
            "metadata-differs",
            f"brokers differ on {_some(facts.unsettled)}: a change is on its way; run this again",
        )
    if step.action is Action.ADD:
        return
    away = {tp for tp, view in facts.partitions.items() if view.leader not in facts.brokers}
    if away:
        yield MigrationFinding("offline-partitions", f"no leader: {_some(away)}")
    if step.action is not Action.WAIT:
        lagging = {
            tp for tp, view in facts.partitions.items() if not set(view.replicas) <= set(view.isr)
        }
        if lagging:
            yield MigrationFinding(
                "under-replicated",
                f"replicas out of sync: {_some(lagging)}; wait until they have caught up",
            )


def _reassignment(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    zookeeper = facts.zookeeper
    if facts.reassigning is None:
        yield MigrationFinding(
            "reassignment",
            "these brokers do not list reassignments (Kafka before 2.4): give --zookeeper",
        )
    elif facts.reassigning and step.action is not Action.START:
        yield MigrationFinding("reassignment", f"under way: {_some(facts.reassigning)}")
    elif zookeeper is not None and zookeeper.reassignment and not facts.reassigning:
        yield MigrationFinding("reassignment", "ZooKeeper has /admin/reassign_partitions")
    if facts.reassigning == frozenset():
        yield from _throttles(facts)


def _throttles(facts: ClusterFacts) -> Iterator[MigrationFinding]:
    topics = sorted(
        topic
        for topic, settings in facts.topic_settings.items()
        if any(settings.get(name) for name in THROTTLED)
    )
    brokers = [
        str(broker.broker_id)
        for broker in facts.brokers.values()
        if LEADER_RATE in broker.given or FOLLOWER_RATE in broker.given
    ]
    if topics or brokers:
        where = [f"topics {_some(topics)}"] if topics else []
        where += [f"brokers {', '.join(brokers)}"] if brokers else []
        yield MigrationFinding(
            "throttle-left",
            f"set on {' and '.join(where)}; `minikafka reassign --verify` removes them",
            blocks=False,
        )


# --------------------------------------------------------------------------------------- one step


def _stopping(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    if step.action not in (Action.REPLACE, Action.STOP):
        return
    (broker_id,) = step.brokers
    too_few = {
        tp
        for tp, view in facts.partitions.items()
        if broker_id in view.replicas and not _can_lose(facts, tp, view, broker_id)
    }
    if too_few:
        yield MigrationFinding(
            "under-min-isr",
            f"without broker {broker_id}, too few in-sync replicas for min.insync.replicas: "
            f"{_some(too_few)}; add replicas, or accept that writes of acks=all fail meanwhile",
        )
    if facts.brokers[broker_id].settings.get("controlled.shutdown.enable", "true") == "false":
        yield MigrationFinding(
            "no-controlled-shutdown",
            f"broker {broker_id} has controlled.shutdown.enable=false: its partitions have no "
            "leader until the controller notices",
            blocks=False,
        )


def _can_lose(facts: ClusterFacts, tp: TopicPartition, view: PartitionView, broker_id: int) -> bool:
    """Return whether a partition can be written with acks=all while a broker is stopped."""
    left = set(view.isr) - {broker_id}
    return len(left) >= max(1, facts.min_isr(tp.topic))


def _moving(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    largest = largest_factor(facts)
    if step.action is Action.REASSIGN and len(step.brokers) < largest:
        yield MigrationFinding(
            "too-few-brokers",
            f"{len(step.brokers)} new brokers, and partitions with {largest} replicas",
        )


def _disk_space(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    if goal.way is not Way.ADD:
        return
    match step.action:
        case Action.REASSIGN if len(step.brokers) >= largest_factor(facts):
            replicas = targets(facts, goal)
        case Action.WAIT:
            replicas = {tp: view.replicas for tp, view in facts.partitions.items()}
        case _:
            return
    for broker_id in facts.of_kind(goal.to):
        missing = missing_bytes(facts, replicas, broker_id)
        usable = facts.brokers[broker_id].usable_bytes
        if missing and usable is None:
            yield MigrationFinding(
                "disk-space",
                f"broker {broker_id} does not tell the free space of its disks; its new replicas "
                f"need {missing:,} bytes",
                blocks=False,
            )
        elif usable is not None and missing > usable:
            yield MigrationFinding(
                "disk-space",
                f"broker {broker_id} has {usable:,} bytes of free disk space, and its new "
                f"replicas need {missing:,} bytes: {missing - usable:,} bytes are missing",
            )


def _directories(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    for directory in facts.directories:
        if not directory.exists:
            yield MigrationFinding(
                "no-directory", f"{directory.path} does not exist on this machine"
            )
        elif not directory.clean_shutdown:
            yield MigrationFinding(
                "unclean-shutdown",
                f"{directory.path} has no .kafka_cleanshutdown: its broker still runs or was "
                "killed; start the old kind once more, let it recover, and stop it by SIGTERM",
            )
        if directory.old_formats and goal.to is Kind.MINIKAFKA:
            yield MigrationFinding(
                "old-message-format",
                f"{directory.path} has segments of message format 0 or 1: "
                f"{_some(directory.old_formats)}",
            )


# --------------------------------------------------------------------------------------- versions


def _protocol(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    known = {
        broker_id: version
        for broker_id, broker in sorted(facts.brokers.items())
        if (version := broker.protocol()) is not None
    }
    if not known:
        return
    texts = {broker_id: version_text(version) for broker_id, version in known.items()}
    if len(set(known.values())) > 1:
        told = ", ".join(f"broker {broker_id} has {text}" for broker_id, text in texts.items())
        yield MigrationFinding(
            "protocol-differs", f"{told}; set {IBP} to the lowest of these everywhere"
        )
    if max(known.values()) > goal.version:
        yield MigrationFinding(
            "protocol-too-high",
            f"{IBP} is {version_text(max(known.values()))}, and {goal.to.value} as the target "
            f"speaks {version_text(goal.version)} at most",
        )
    if min(known.values()) < OLDEST and goal.to is Kind.MINIKAFKA:
        yield MigrationFinding(
            "protocol-too-low",
            f"{IBP} is {version_text(min(known.values()))}; minikafka speaks 2.0 and later",
        )
    yield from _unset_protocol(facts, goal, step, texts)


def _unset_protocol(
    facts: ClusterFacts, goal: Goal, step: Step, texts: Mapping[int, str]
) -> Iterator[MigrationFinding]:
    """A default protocol is that of the software: it changes when another kind starts."""
    unset = [
        broker_id
        for broker_id in facts.old(goal)
        if broker_id in texts
        and IBP not in facts.brokers[broker_id].given
        and texts[broker_id] != version_text(goal.version)
    ]
    if unset and step.action in (Action.REPLACE, Action.ADD, Action.START):
        ids = ", ".join(map(str, sorted(unset)))
        yield MigrationFinding(
            "protocol-unset",
            f"brokers {ids} have {IBP}={texts[unset[0]]} by default, and {goal.to.value} would "
            f"begin with {version_text(goal.version)}: write it into server.properties",
            blocks=goal.way is Way.IN_PLACE and step.action is Action.REPLACE,
        )


def _message_format(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    """From inter.broker.protocol.version 3.0 on, Kafka ignores the message format."""
    if goal.to is not Kind.MINIKAFKA:
        return
    old = facts.old(goal)
    if not any((facts.brokers[b].protocol() or OLDEST) < (3, 0) for b in old):
        return
    for broker_id in old:
        value = facts.brokers[broker_id].settings.get(MESSAGE_FORMAT, "")
        if _is_old_format(value):
            yield MigrationFinding(
                "old-message-format", f"broker {broker_id} has {MESSAGE_FORMAT}={value}"
            )
    topics = sorted(
        topic
        for topic, settings in facts.topic_settings.items()
        if _is_old_format(settings.get("message.format.version", ""))
    )
    if topics:
        yield MigrationFinding(
            "old-message-format", f"topics with message.format.version: {_some(topics)}"
        )


def _is_old_format(value: str) -> bool:
    version = parse_version(value)
    return version is not None and version < (0, 11)


# ----------------------------------------------------------------------- what minikafka has not got


def _features(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    if goal.to is not Kind.MINIKAFKA:
        return
    for broker_id in facts.old(goal):
        yield from _broker_features(facts.brokers[broker_id])
    remote = [
        topic
        for topic, settings in sorted(facts.topic_settings.items())
        if settings.get("remote.storage.enable") == "true"
    ]
    if remote:
        yield MigrationFinding(
            "tiered-storage", f"topics with remote.storage.enable: {_some(remote)}"
        )


def _broker_features(broker: BrokerFacts) -> Iterator[MigrationFinding]:
    name = f"broker {broker.broker_id}"
    secured = sorted(set(_protocols(broker)) - {"PLAINTEXT"})
    if secured:
        protocols = f"{name} has listeners of {', '.join(secured)}"
        needed = "minikafka reads PEM and PKCS12 stores, not JKS, and GSSAPI is an extra"
        yield MigrationFinding("listeners", f"{protocols}: {needed}", blocks=False)
    for key in ("zookeeper.ssl.client.enable", "zookeeper.set.acl"):
        if broker.is_on(key):
            needed = "minikafka needs the same identity at ZooKeeper: see docs/how-to/security.md"
            text = f"{name} has {key}=true: {needed}"
            yield MigrationFinding("zookeeper-security", text, blocks=False)
    used = broker.settings.get("authorizer.class.name")
    if used and used not in ACL_AUTHORIZERS:
        yield MigrationFinding("authorizer", f"{name} has authorizer.class.name={used}")
    if broker.is_on("remote.log.storage.system.enable"):
        yield MigrationFinding(
            "tiered-storage", f"{name} has remote.log.storage.system.enable=true"
        )
    refused = _refused(broker)
    if refused:
        yield MigrationFinding("setting-refused", f"{name}: {refused}")


def _finalized(facts: ClusterFacts, goal: Goal, step: Step) -> Iterator[MigrationFinding]:
    """Kafka with ZooKeeper supports no feature: a broker reads ``/feature`` before it registers,
    and ends if a level is finalized. From 3.7 on it does not start with the consumer protocol."""
    if goal.to is not Kind.KAFKA or step.action is Action.DONE:
        return
    if facts.finalized:
        shown = ", ".join(f"{name}={level}" for name, level in sorted(facts.finalized.items()))
        remove = " ".join(f"--feature {name}=0" for name in sorted(facts.finalized))
        yield MigrationFinding(
            "finalized-features",
            f"{shown}: brokers of Kafka end beside them; run `minikafka features downgrade "
            f"{remove}`",
        )
    if goal.way is not Way.IN_PLACE or goal.kafka_version < FIRST_WITH_CONSUMER_PROTOCOL:
        return
    for broker_id in facts.old(goal):
        protocols = facts.brokers[broker_id].in_file.get(REBALANCE_PROTOCOLS) or ""
        if "consumer" in protocols:
            yield MigrationFinding(
                "finalized-features",
                f"broker {broker_id} has {REBALANCE_PROTOCOLS}={protocols}, with which Kafka does "
                "not start on ZooKeeper: set it to classic",
            )


def _protocols(broker: BrokerFacts) -> Iterator[str]:
    """Return the security protocols of a broker's listeners, and of those between brokers."""
    mapped = dict(
        entry.split(":", 1)
        for entry in broker.settings.get("listener.security.protocol.map", "").split(",")
        if ":" in entry
    )
    for name in re.findall(r"([A-Za-z0-9_.-]+)://", broker.settings.get("listeners", "")):
        yield mapped.get(name, name).strip().upper()
    if "inter.broker.listener.name" not in broker.given:
        yield broker.settings.get("security.inter.broker.protocol", "PLAINTEXT")


# Settings that other findings name.
_NAMED: Final = (
    *("authorizer.class.name", "zookeeper.set.acl", "security.inter.broker.protocol"),
    *("process.roles", "node.id"),  # Kafka lists broker.id as node.id, too
)


def _refused(broker: BrokerFacts) -> str:
    """Return why minikafka would not start with the broker's settings; empty if it would."""
    names = [name for name in broker.in_file if name not in _NAMED]
    values = {"zookeeper.connect": "-"}  # required, and a KRaft broker has none
    values |= {name: value for name in names if (value := broker.in_file[name]) is not None}
    try:
        for name in names:
            BROKER_CONFIG.require_known(name)
        BROKER_CONFIG.parse(values)
    except ConfigError as error:
        return str(error)
    return ""


def _some(names: Iterable[object]) -> str:
    texts = [str(name) for name in sorted(names, key=str)]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more


_CHECKS: tuple[Callable[[ClusterFacts, Goal, Step], Iterator[MigrationFinding]], ...] = (
    *(_kraft, _silent, _health, _stopping, _reassignment, _protocol),
    *(_message_format, _features, _finalized, _moving, _disk_space, _directories),
)
