"""The verb `conformance`: try the wire rules that clients rely on, at any cluster."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.cli.output import show_json
from minikafka.cli.usage import WrongUsage
from minikafka.client.config import parse_bootstrap_servers
from minikafka.testing.conformance import report
from minikafka.testing.conformance.check import Check
from minikafka.testing.conformance.expectations import Broken
from minikafka.testing.conformance.groups.catalogue import ALL
from minikafka.testing.conformance.run import LIMIT_S, PROFILES, Result, run_checks
from minikafka.testing.conformance.subject import Address


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="a broker with a listener PLAINTEXT"
    )
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        help="what this release of Kafka offers must be offered (what the broker lists)",
    )
    parser.add_argument(
        "--group", action="append", choices=ALL, help="only this group; repeatable (all)"
    )
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, help=f"seconds for a check ({LIMIT_S})"
    )
    parser.add_argument("--list", action="store_true", help="print the checks and try nothing")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the results for JUnit")


def run(args: argparse.Namespace) -> int:
    groups = {name: ALL[name] for name in ALL if not args.group or name in args.group}
    if args.list:
        print("\n".join(report.listed(groups)))
        return 0
    results = _results(args, groups)
    if args.junit:
        args.junit.write_bytes(report.as_junit(results))
    found = report.as_json(results)
    if args.json:
        show_json(found)
    else:
        print("\n".join(report.lines(results)))
    return 0 if found["ok"] else 1


def _results(args: argparse.Namespace, groups: Mapping[str, Sequence[Check]]) -> list[Result]:
    from minikafka.world.real.loop import run as run_loop
    from minikafka.world.real.world import RealClock

    if not args.bootstrap_server:
        raise WrongUsage("--bootstrap-server is missing")
    try:
        (bootstrap, *_) = parse_bootstrap_servers(args.bootstrap_server)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    release = PROFILES.get(args.profile)
    try:
        return run_loop(
            run_checks(Address(*bootstrap), RealClock().wall_ms(), groups, release, args.limit_s)
        )
    except Broken as broken:
        raise ConnectionError(f"{args.bootstrap_server}: {broken}") from None
