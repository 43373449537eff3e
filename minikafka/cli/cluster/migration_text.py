"""Text and commands of the steps of a migration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from minikafka.cli.output import Table
from minikafka.core.migration.checks import MigrationFinding
from minikafka.core.migration.facts import IBP, MESSAGE_FORMAT, ClusterFacts, Goal, Kind, Way
from minikafka.core.migration.steps import Action, Step
from minikafka.kernel.lazy_dataclass import dataclass

NO_THROTTLE: Final = "BYTES"

# How a broker of each kind is started and stopped, on its machine.
START: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.KAFKA: "kafka-server-start.sh -daemon server.properties",
        Kind.MINIKAFKA: "minikafka broker --config server.properties",
    }
)
STOP: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.KAFKA: "kafka-server-stop.sh",
        Kind.MINIKAFKA: "minikafka stop --config server.properties",
        Kind.UNKNOWN: "kill -TERM PID",
    }
)


@dataclass(frozen=True, slots=True)
class Shell:
    """The options that the printed commands repeat."""

    bootstrap: str
    options: str  # of migrate: --to, --way, --zookeeper, --kafka-version
    file: str
    throttle: int | None

    @property
    def check(self) -> str:
        return f"minikafka migrate check --bootstrap-server {self.bootstrap} {self.options}"


def step_text(step: Step, facts: ClusterFacts, goal: Goal) -> str:
    ids = ", ".join(map(str, step.brokers))
    to = goal.to.value
    match step.action:
        case Action.REPLACE:
            controller = facts.controller in step.brokers
            last = " It is the controller: the cluster then elects another." if controller else ""
            return (
                f"Stop broker {ids} and start {to} with the same server.properties and log.dirs."
                f"{last}"
            )
        case Action.START:
            kind = to if goal.way is Way.IN_PLACE else "the kind that it had"
            return f"Broker {ids} has replicas and is not live: start it ({kind})."
        case Action.ADD:
            return (
                f"Start a broker of {to} for each of the brokers {ids}, with a new broker.id and "
                f"the same zookeeper.connect and {IBP}.{_space(step, facts)}"
            )
        case Action.REASSIGN:
            return f"Move all partitions to the brokers {ids}."
        case Action.WAIT:
            return "Wait until the reassignments under way are complete."
        case Action.STOP:
            return f"Stop broker {ids}, which has no replica any more."
        case Action.ELECT:
            return "Let the preferred replicas lead again."
        case Action.DONE:
            return f"Nothing is left to do: all brokers are {to}."


def _space(step: Step, facts: ClusterFacts) -> str:
    """Return a sentence about the disk space that successors of brokers need, if any."""
    sizes = {b: sum(facts.brokers[b].replica_bytes.values()) for b in step.brokers}
    told = [f"{size:,} bytes for that of broker {b}" for b, size in sizes.items() if size]
    return f" Free disk space that they need: {', '.join(told)}." if told else ""


def step_commands(step: Step, facts: ClusterFacts, goal: Goal, shell: Shell) -> list[str]:
    """Return the commands of a step. Those that start and stop a broker run on its machine."""
    to_brokers = f"--bootstrap-server {shell.bootstrap}"
    move = f"minikafka reassign {to_brokers} --reassignment-json-file {shell.file}"
    match step.action:
        case Action.REPLACE:
            (broker_id,) = step.brokers
            broker = facts.brokers.get(broker_id)
            kind = goal.source if broker is None else broker.kind
            return [STOP[kind], f"{shell.check} --log-dirs LOG.DIRS", START[goal.to]]
        case Action.START:
            return [START[goal.to if goal.way is Way.IN_PLACE else goal.source]]
        case Action.ADD:
            return [START[goal.to]]
        case Action.REASSIGN:
            throttle = NO_THROTTLE if shell.throttle is None else shell.throttle
            plan = f"minikafka migrate plan {to_brokers} {shell.options}"
            return [
                f"{plan} --reassignment-json-file {shell.file}",
                f"{move} --execute --throttle {throttle}",
                f"{move} --verify",
            ]
        case Action.WAIT:
            return [f"minikafka reassign {to_brokers} --list"]
        case Action.STOP:
            return [STOP[goal.source]]
        case Action.ELECT:
            which = "--election-type preferred --all-topic-partitions"
            return [f"minikafka elect-leaders {to_brokers} {which}"]
        case Action.DONE:
            return []


def broker_table(facts: ClusterFacts) -> Table:
    """Kind, role, leaders, replicas, protocol and message format of each broker."""
    columns = (
        *("broker", "kind", "release", "address", "controller"),
        *("leaders", "replicas", "protocol", "message_format"),
    )
    views = facts.partitions.values()
    rows = [
        (
            *(broker_id, broker.kind.value, broker.release, broker.address),
            "yes" if broker_id == facts.controller else "",
            sum(view.leader == broker_id for view in views),
            sum(broker_id in view.replicas for view in views),
            *(broker.settings.get(IBP, ""), broker.settings.get(MESSAGE_FORMAT, "")),
        )
        for broker_id, broker in sorted(facts.brokers.items())
    ]
    return columns, rows


def finding_row(finding: MigrationFinding, accepted: bool) -> dict[str, Any]:
    if accepted:
        weight = "accepted"
    else:
        weight = "blocks" if finding.blocks else "warns"
    return {"finding": finding.name, "weight": weight, "text": finding.text}


def step_row(step: Step, text: str, commands: list[str]) -> dict[str, Any]:
    return {
        "step": step.action.value,
        "brokers": list(step.brokers),
        "text": text,
        "commands": commands,
    }
