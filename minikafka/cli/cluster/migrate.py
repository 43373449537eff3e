"""The verb `migrate`: plans and checks a rolling migration between Kafka and minikafka.

``core/migration`` decides which steps are left; here they become text and commands.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from minikafka.cli import output
from minikafka.cli.cluster.migration_facts import ZOOKEEPER_TIMEOUT_MS, gather, read_directory
from minikafka.cli.cluster.reassign import reassignment_json
from minikafka.cli.connect import client_config, run_client
from minikafka.cli.output import Table
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import (
    add_action,
    add_bootstrap_argument,
    add_json_argument,
    at_least,
    zookeeper_servers,
)
from minikafka.cli.zookeeper_connect import add_zookeeper_security_argument, zookeeper_security
from minikafka.client.admin.admin import Admin
from minikafka.core.migration.checks import NAMES, MigrationFinding, findings, is_safe
from minikafka.core.migration.facts import (
    IBP,
    MESSAGE_FORMAT,
    NEWEST,
    OLDEST,
    ClusterFacts,
    Goal,
    Kind,
    Way,
    parse_version,
    version_text,
)
from minikafka.core.migration.steps import Action, Step, next_step, plan, targets
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, CoordinationSession, DeleteOp, NoAuth, NoNode, World
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.server.zookeeper import paths

SAFE, UNSAFE = 0, 1
DEFAULT_FILE: Final = "reassignment.json"
ELECTION_POLL_MS: Final = 100
ELECTION_LIMIT_MS: Final = 60_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="plan|check|move-controller"
    )
    steps = add_action(actions, "plan", "show the brokers, the findings and the numbered steps")
    _add_goal(steps)
    steps.add_argument(
        "--throttle",
        type=at_least(1),
        metavar="BYTES",
        help="limit of the moves in bytes a second, in and out of each broker; with --way add",
    )
    steps.add_argument(
        "--reassignment-json-file",
        metavar="FILE",
        help="with --way add, once the new brokers are there: write the reassignment to FILE",
    )
    check = add_action(
        actions,
        "check",
        "show the next step, and what is against it; exit status 0 if it is safe, 1 if not",
    )
    _add_goal(check)
    check.add_argument(
        "--log-dirs",
        metavar="DIR,...",
        help="log.dirs of a stopped broker, on this machine: check that it may be started",
    )
    check.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=list(NAMES),
        metavar="FINDING",
        help="do not let this finding block; may be repeated",
    )
    move = add_action(
        actions, "move-controller", "have a broker elected, by deleting /controller in ZooKeeper"
    )
    move.add_argument(
        "--zookeeper",
        required=True,
        type=zookeeper_servers,
        metavar="HOST:PORT,...[/CHROOT]",
        help="zookeeper.connect of the cluster",
    )
    add_zookeeper_security_argument(move)
    move.add_argument(
        "--broker",
        type=at_least(0),
        required=True,
        metavar="ID",
        help="the broker that becomes the controller",
    )


def _add_goal(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    parser.add_argument("--to", required=True, choices=["minikafka", "kafka"], help="the target")
    parser.add_argument(
        "--way",
        choices=[way.value for way in Way],
        default=Way.IN_PLACE.value,
        help="in-place: each broker is replaced on its directories; add: new brokers take over all "
        "partitions (in-place)",
    )
    parser.add_argument(
        "--kafka-version",
        metavar="MAJOR.MINOR",
        help=f"of the Kafka that is migrated to ({version_text(NEWEST)})",
    )
    parser.add_argument(
        "--zookeeper",
        type=zookeeper_servers,
        metavar="HOST:PORT,...[/CHROOT]",
        help="zookeeper.connect: also check migrations to KRaft and old reassignments",
    )
    add_zookeeper_security_argument(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.action == "move-controller":
        return run_client(
            lambda world: move_controller(
                world, args.zookeeper, args.broker, zookeeper_security(args, world)
            )
        )
    goal = parse_goal(args)
    config = client_config(args)
    words = getattr(args, "log_dirs", None) or ""
    directories = [read_directory(Path(word)) for word in words.split(",") if word]

    async def work(world: World) -> ClusterFacts:
        async with Admin(world, config) as admin:
            security = zookeeper_security(args, world)
            return await gather(admin, world.coordination, args.zookeeper, directories, security)

    facts = run_client(work, config.default_api_timeout_ms)
    return (show_plan if args.action == "plan" else show_check)(args, facts, goal)


def parse_goal(args: argparse.Namespace) -> Goal:
    """Raises WrongUsage for options that do not go together."""
    goal = Goal(Kind(args.to), Way(args.way))
    if args.kafka_version is not None:
        version = parse_version(args.kafka_version)
        if goal.to is not Kind.KAFKA:
            raise WrongUsage("--kafka-version goes with --to kafka")
        if version is None or not OLDEST <= version <= NEWEST:
            raise WrongUsage(
                f"--kafka-version is one of {version_text(OLDEST)} to {version_text(NEWEST)}, "
                f"not {args.kafka_version}"
            )
        goal = Goal(goal.to, goal.way, version)
    if goal.way is Way.IN_PLACE and args.action == "plan":
        for option in ("throttle", "reassignment_json_file"):
            if getattr(args, option) is not None:
                raise WrongUsage(f"--{option.replace('_', '-')} goes with --way add")
    return goal


# ------------------------------------------------------------------------------------------ plan


@dataclass(frozen=True, slots=True)
class Report:
    """The next step and what is against it."""

    step: Step
    found: list[MigrationFinding]
    accepted: frozenset[str]

    @property
    def safe(self) -> bool:
        return is_safe(self.found, self.accepted)

    def rows(self) -> list[dict[str, Any]]:
        return [finding_row(finding, finding.name in self.accepted) for finding in self.found]


def _report(args: argparse.Namespace, facts: ClusterFacts, goal: Goal) -> Report:
    step = next_step(facts, goal)
    accepted = frozenset(getattr(args, "accept", ()))
    return Report(step, findings(facts, goal, step), accepted)


def _shell(args: argparse.Namespace, goal: Goal) -> Shell:
    options = f"--to {args.to} --way {args.way}"
    if goal.to is Kind.KAFKA:
        options += f" --kafka-version {version_text(goal.kafka_version)}"
    if args.zookeeper is not None:
        options += f" --zookeeper {args.zookeeper}"
    file = getattr(args, "reassignment_json_file", None) or DEFAULT_FILE
    return Shell(args.bootstrap_server, options, file, getattr(args, "throttle", None))


def show_plan(args: argparse.Namespace, facts: ClusterFacts, goal: Goal) -> int:
    """Print brokers, findings and steps. The exit status is 0 whatever the findings are."""
    if args.reassignment_json_file is not None:
        write_reassignment(args.reassignment_json_file, facts, goal)
    report, shell = _report(args, facts, goal), _shell(args, goal)
    steps = [
        step_row(step, step_text(step, facts, goal), step_commands(step, facts, goal, shell))
        for step in plan(facts, goal)
    ]
    columns, rows = broker_table(facts)
    if args.json:
        brokers = [dict(zip(columns, row, strict=True)) for row in rows]
        output.show_json(
            {
                "brokers": brokers,
                "controller": facts.controller,
                "findings": report.rows(),
                "steps": [{"number": n, **row} for n, row in enumerate(steps, start=1)],
            }
        )
        return SAFE
    output.show(columns, rows, as_json=False)
    print()
    show_findings(report)
    for number, row in enumerate(steps, start=1):
        print(f"{number}. {row['text']}")
        for command in row["commands"]:
            print(f"     {command}")
    if not steps:
        print(step_text(Step(Action.DONE), facts, goal))
    else:
        print(f"Before each step this must end with exit status 0:\n     {shell.check}")
    return SAFE


def write_reassignment(path: str, facts: ClusterFacts, goal: Goal) -> None:
    """Raises ConfigError if the next step is not the reassignment."""
    step = next_step(facts, goal)
    if step.action is not Action.REASSIGN:
        raise ConfigError(
            f"no reassignment is next: {step_text(step, facts, goal)} {path} is not written"
        )
    Path(path).write_text(reassignment_json(targets(facts, goal)) + "\n")


# ----------------------------------------------------------------------------------------- check


def show_check(args: argparse.Namespace, facts: ClusterFacts, goal: Goal) -> int:
    report, shell = _report(args, facts, goal), _shell(args, goal)
    step = step_row(
        report.step,
        step_text(report.step, facts, goal),
        step_commands(report.step, facts, goal, shell),
    )
    if args.json:
        output.show_json({"safe": report.safe, "next": step, "findings": report.rows()})
    else:
        show_findings(report)
        print(f"{'safe' if report.safe else 'not safe'}: {step['text']}")
        for command in step["commands"]:
            print(f"     {command}")
    return SAFE if report.safe else UNSAFE


def show_findings(report: Report) -> None:
    if report.found:
        columns = ("finding", "weight", "text")
        output.show(columns, [tuple(row.values()) for row in report.rows()], as_json=False)
        print()


# ------------------------------------------------------------------------------- move-controller


async def move_controller(
    world: World, connect: str, broker_id: int, security: CoordinationSecurity = UNSECURED
) -> int:
    """Delete /controller until the broker has won an election. Raises CoordinationError, and
    ConfigError if the broker is not live or is not elected in time."""
    limit_ms = ZOOKEEPER_TIMEOUT_MS
    session = await world.coordination.open(connect, limit_ms, limit_ms, security)
    try:
        await session.get(paths.broker_id(broker_id))
        elections = await _elect(session, world.clock, broker_id)
    except NoNode:
        raise ConfigError(f"broker {broker_id} is not registered in {connect}") from None
    finally:
        await session.close()
    print(f"broker {broker_id} is the controller, after {elections} elections")
    return SAFE


async def _elect(session: CoordinationSession, clock: Clock, broker_id: int) -> int:
    """Return how many elections it took."""
    elections = 0
    limit_ms = clock.monotonic_ms() + ELECTION_LIMIT_MS
    while clock.monotonic_ms() < limit_ms:
        try:
            data, stat = await session.get(paths.CONTROLLER)
        except NoNode:
            await clock.sleep(ELECTION_POLL_MS)
            continue
        if json.loads(data).get("brokerid") == broker_id:
            return elections
        (result,) = await session.multi([DeleteOp(paths.CONTROLLER, stat.version)])
        if isinstance(result, NoAuth):
            raise result
        elections += 1
    raise ConfigError(
        f"broker {broker_id} was not elected within {ELECTION_LIMIT_MS // 1000} s, after "
        f"{elections} elections; try again"
    )


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
