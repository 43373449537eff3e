"""The verb `features`: cluster features, with the options and output of kafka-features.

A cluster with ZooKeeper has no ``metadata.version``, and no feature that needs KRaft."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.features import FeatureMetadata
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.features import (
    FEATURES,
    METADATA_VERSIONS,
    FeatureUpdate,
    Levels,
    UpgradeType,
    levels_of_release,
)

MAX_LEVEL: Final = 2**15 - 1
DISABLE: Final = "disable"
MAPPING: Final = "version-mapping"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    metavar = "describe|upgrade|downgrade|disable|version-mapping|feature-dependencies"
    actions = parser.add_subparsers(dest="action", required=True, metavar=metavar)
    described = add_action(actions, "describe", "show supported features and finalized levels")
    add_bootstrap_argument(described)
    add_json_argument(described)
    upgrade = add_action(actions, "upgrade", "raise the finalized levels of features")
    _add_levels(upgrade)
    downgrade = add_action(actions, "downgrade", "lower the finalized levels of features")
    _add_levels(downgrade)
    _add_unsafe(downgrade)
    disable = add_action(actions, DISABLE, "remove finalized features, as level 0 does")
    add_bootstrap_argument(disable)
    _add_features(disable, "NAME", "a feature to remove; may be repeated")
    _add_dry_run(disable)
    _add_unsafe(disable)
    mapping = add_action(actions, MAPPING, "show the levels of features in a release of Kafka")
    _add_release(mapping, METADATA_VERSIONS[-1])
    needs = add_action(actions, "feature-dependencies", "show what levels of features require")
    _add_features(needs, "NAME=LEVEL", "a feature and its level; may be repeated")
    for offline in (mapping, needs):
        offline.add_argument(
            "--bootstrap-server", metavar="HOST:PORT,...", help="not used, as in kafka-features"
        )


def _add_levels(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    _add_features(parser, "NAME=LEVEL", "a feature and its level, group.version=1; repeatable")
    _add_release(parser, None)
    parser.add_argument("--metadata", help=argparse.SUPPRESS)
    _add_dry_run(parser)


def _add_features(parser: argparse.ArgumentParser, metavar: str, text: str) -> None:
    parser.add_argument("--feature", action="append", default=[], metavar=metavar, help=text)


def _add_release(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--release-version",
        default=default,
        metavar="VERSION",
        help="the levels that features have in this release, such as 4.0",
    )


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="check only, and change nothing")


def _add_unsafe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="even if metadata may be lost; brokers with ZooKeeper permit it for removals only",
    )


def run(args: argparse.Namespace) -> int:
    if args.action == MAPPING:
        return show_mapping(args.release_version)
    if args.action == "feature-dependencies":
        return show_dependencies(args.feature)
    config = client_config(args)
    if args.action == "describe":
        return run_admin(config, lambda admin: describe(admin, args.json))
    updates = chosen(args)
    return run_admin(config, lambda admin: update(admin, args.action, updates, args.dry_run))


# ----------------------------------------------------------------------------------------- options


def chosen(args: argparse.Namespace) -> list[FeatureUpdate]:
    """Return the updates that the options name. Raises WrongUsage."""
    if args.action == "upgrade":
        kind = UpgradeType.UPGRADE
    else:
        kind = UpgradeType.UNSAFE_DOWNGRADE if args.unsafe else UpgradeType.SAFE_DOWNGRADE
    if args.action != DISABLE and args.metadata is not None:
        raise WrongUsage(
            "A cluster with ZooKeeper has no metadata.version: give --release-version or --feature"
        )
    if args.action != DISABLE and args.release_version is not None:
        if args.feature:
            raise WrongUsage("Can not specify `release-version` with other feature flags.")
        # As in Kafka, an upgrade leaves out what the release does not have.
        return [
            FeatureUpdate(name, level, kind)
            for name, level in _levels_of(args.release_version).items()
            if level or kind is not UpgradeType.UPGRADE
        ]
    found: dict[str, FeatureUpdate] = {}
    for text in args.feature:
        name, level = (text, 0) if args.action == DISABLE else _name_and_level(text)
        if name in found:
            raise WrongUsage(f"Feature {name} was specified more than once.")
        found[name] = FeatureUpdate(name, level, kind)
    if not found:
        raise WrongUsage(f"You must specify at least one feature to {args.action}")
    return list(found.values())


def _levels_of(version: str) -> Mapping[str, int]:
    try:
        return levels_of_release(version)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


def _name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise WrongUsage(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        number = int(level)
    except ValueError:
        number = MAX_LEVEL + 1
    if not -MAX_LEVEL - 1 <= number <= MAX_LEVEL:
        raise WrongUsage(
            f"Can't parse feature=level string {text}: unable to parse {level} as a short."
        )
    return name, number


# ----------------------------------------------------------------------------------------- actions


async def describe(admin: Admin, as_json: bool) -> int:
    """Print Kafka's lines, also for finalized features that the broker does not support."""
    found = await admin.describe_features()
    if as_json:
        output.show_json(as_object(found))
    elif sys.stdout.isatty():
        output.show_table(("feature", "supported", "finalized", "epoch"), table_rows(found))
    else:
        for name in sorted({*found.supported, *found.finalized}):
            print(line_of(name, found))
    return 0


def table_rows(found: FeatureMetadata) -> list[tuple[object, ...]]:
    """Return a row for each feature. A finalized level that the broker does not support is sick."""
    rows: list[tuple[object, ...]] = []
    for name in sorted({*found.supported, *found.finalized}):
        lowest, highest = found.supported.get(name, (0, 0))
        level = found.finalized.get(name, 0)
        known = name in found.supported and level <= highest
        supported = f"{lowest} to {highest}" if name in found.supported else output.MISSING
        rows.append((name, supported, str(level) if known else output.Sick(level), found.epoch))
    return rows


def line_of(name: str, found: FeatureMetadata) -> str:
    levels = found.supported.get(name)
    lowest, highest = (output.MISSING,) * 2 if levels is None else map(str, levels)
    epoch = output.MISSING if found.epoch is None else str(found.epoch)
    return (
        f"Feature: {name}\tSupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}\t"
        f"FinalizedVersionLevel: {found.finalized.get(name, 0)}\tEpoch: {epoch}"
    )


def as_object(found: FeatureMetadata) -> Mapping[str, object]:
    def shown(levels: Levels | None) -> Mapping[str, int | None]:
        lowest, highest = (None, None) if levels is None else levels
        return {"supported_min_version": lowest, "supported_max_version": highest}

    names = sorted({*found.supported, *found.finalized})
    return {
        "epoch": found.epoch,
        "features": [
            {
                "feature": name,
                **shown(found.supported.get(name)),
                "finalized_version_level": found.finalized.get(name, 0),
            }
            for name in names
        ],
    }


def show_mapping(version: str) -> int:
    for name, level in _levels_of(version).items():
        print(f"{name}={level}")
    return 0


def show_dependencies(levels: Sequence[str]) -> int:
    """Print that levels require no other feature: Kafka has such levels of KRaft's features only.
    Raises WrongUsage."""
    highest = {feature.name: feature.levels.highest for feature in FEATURES}
    if not levels:
        raise WrongUsage("You must specify at least one feature")
    for name, level in map(_name_and_level, levels):
        if name not in highest:
            raise WrongUsage(f"Unknown feature: {name}")
        if not 0 <= level <= highest[name]:
            raise WrongUsage(f"No feature:{name} with feature level {level}")
        print(f"{name}={level} has no dependencies.")
    return 0


async def update(admin: Admin, action: str, updates: Sequence[FeatureUpdate], dry_run: bool) -> int:
    outcomes = await admin.update_features(updates, validate_only=dry_run)
    failed = 0
    for each in sorted(updates, key=lambda each: each.feature):
        error = outcomes.get(each.feature)
        failed += error is not None
        print(result_of(action, each, error, dry_run))
    if failed:
        print(f"{failed} out of {len(updates)} operation(s) failed.", file=sys.stderr)
    return 1 if failed else 0


def result_of(action: str, update: FeatureUpdate, error: KafkaError | None, dry_run: bool) -> str:
    """Return the line of kafka-features about one update."""
    name, to = update.feature, "" if action == DISABLE else f" to {update.level}"
    if error is not None:
        return (
            f"{'Can' if dry_run else 'Could'} not {action} {name}{to}. "
            f"{error.message or error.code.name}"
        )
    done = "disabled" if action == DISABLE else f"{action}d"
    return f"{name} {'can be' if dry_run else 'was'} {done}{to}."
