"""The options of the verb `verify` that let it break the cluster itself."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import pairs
from minikafka.client import ClientConfig
from minikafka.kernel.ports import World
from minikafka.testing.verify.nemesis.commands import CommandPlace
from minikafka.testing.verify.nemesis.compose import ComposePlace, is_privileged
from minikafka.testing.verify.nemesis.nemesis import ClusterNemesis, NemesisConfig
from minikafka.testing.verify.nemesis.places import NemesisPlace, run_command
from minikafka.testing.verify.nemesis.plan import MEANINGS, FaultKind
from minikafka.testing.verify.nemesis.up import UpPlace
from minikafka.testing.verify.workload import TOPIC_PREFIX

ALL = "all"
COMMAND, END_COMMAND = "--nemesis-command", "--nemesis-end-command"
COMMAND_LIMIT_S = 180  # more than a controlled shutdown takes
LONGEST_S, CALM_S, LIMIT_S = 15, 5, 300
SEEDS = 1 << 31


def add_nemesis_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("faults")
    kinds = "; ".join(f"{kind.value}: {text}" for kind, text in MEANINGS.items())
    group.add_argument(
        "--nemesis",
        type=fault_kinds,
        metavar="KIND,...",
        help=f"break the cluster while it is verified, and wait until it is whole between two "
        f"faults ({kinds}); {ALL}: those that are possible",
    )
    group.add_argument("--nemesis-seed", type=int, help="the same seed causes the same faults")
    group.add_argument(
        "--nemesis-data-dir", metavar="DIR", help="break the processes of this minikafka up"
    )
    group.add_argument(
        "--nemesis-compose", metavar="PROJECT", help="break the containers of this docker-compose"
    )
    group.add_argument(
        COMMAND,
        metavar="KIND=COMMAND",
        action="append",
        default=[],
        help="a shell command that causes a fault at a broker, with {broker}, {host} and {port}; "
        "repeatable",
    )
    group.add_argument(
        END_COMMAND,
        metavar="KIND=COMMAND",
        action="append",
        default=[],
        help="a shell command that ends a fault; repeatable",
    )
    group.add_argument(
        "--nemesis-longest-s",
        type=float,
        default=LONGEST_S,
        help=f"length of the longest fault ({LONGEST_S})",
    )
    group.add_argument(
        "--nemesis-calm-s",
        type=float,
        default=CALM_S,
        help=f"mean time between a recovery and the next fault ({CALM_S})",
    )
    group.add_argument(
        "--nemesis-limit-s",
        type=float,
        default=LIMIT_S,
        help=f"give up on a cluster that is not whole so long after a fault ({LIMIT_S})",
    )


def fault_kinds(text: str) -> list[str]:
    """Check a list of kinds, as an argparse type."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name != ALL and name not in _names()]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"there are {', '.join(_names())} and {ALL}")
    return names


def _names() -> list[str]:
    return [kind.value for kind in FaultKind]


def nemesis_of(
    args: argparse.Namespace, world: World, client: ClientConfig
) -> ClusterNemesis | None:
    """Return the nemesis that the options describe; None without --nemesis. Raises WrongUsage."""
    begins = _commands(args.nemesis_command, COMMAND)
    ends = _commands(args.nemesis_end_command, END_COMMAND)
    if args.nemesis is None:
        if begins or ends or args.nemesis_data_dir or args.nemesis_compose:
            raise WrongUsage("--nemesis says which faults to cause")
        return None
    if args.nemesis_data_dir and args.nemesis_compose:
        raise WrongUsage("--nemesis-data-dir and --nemesis-compose are two places of one cluster")
    lonely = [kind.value for kind in ends if kind not in begins]
    if lonely:
        raise WrongUsage(f"{END_COMMAND} {lonely[0]}: {COMMAND} must say how it begins")
    seed = args.nemesis_seed
    if seed is None:
        seed = world.entropy.randrange(SEEDS)
    is_choosy = ALL in args.nemesis
    kinds = tuple(kind for kind in FaultKind if is_choosy or kind.value in args.nemesis)
    config = NemesisConfig(
        kinds,
        seed,
        args.replication_factor,
        int(pairs(args.topic_config, "--topic-config").get("min.insync.replicas", 0)),
        int(args.nemesis_longest_s * 1000),
        int(args.nemesis_calm_s * 1000),
        int(args.nemesis_limit_s * 1000),
        is_choosy,
    )
    places = _places(args, world, begins, ends)
    return ClusterNemesis(world, client, config, places, args.topic or TOPIC_PREFIX)


def _places(
    args: argparse.Namespace,
    world: World,
    begins: Mapping[FaultKind, str],
    ends: Mapping[FaultKind, str],
) -> list[NemesisPlace]:
    places: list[NemesisPlace] = []
    if begins:
        shell = partial(run_command, "sh", "-c", limit_s=COMMAND_LIMIT_S)
        places.append(CommandPlace(begins, ends, shell))
    if args.nemesis_data_dir:
        places.append(UpPlace(world.clock, Path(args.nemesis_data_dir)))
    if args.nemesis_compose:
        execute = partial(run_command, limit_s=COMMAND_LIMIT_S)
        places.append(ComposePlace(args.nemesis_compose, execute, is_privileged()))
    return places


def _commands(values: Collection[str], option: str) -> dict[FaultKind, str]:
    given = pairs(values, option)
    for name in given:
        if name not in _names():
            raise WrongUsage(f"{option}: no fault {name}; there are {', '.join(_names())}")
    return {FaultKind(name): command for name, command in given.items()}
