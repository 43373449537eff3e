"""The verb `features`: options and lines of kafka-features 3.9, JSON."""

from __future__ import annotations

import argparse
from typing import Any, cast

import pytest

from minikafka.cli import main
from minikafka.cli.cluster import features
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import VerbParser
from minikafka.core.client.admin.features import FeatureMetadata
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import (
    FEATURES,
    GROUP_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    Levels,
    UpgradeType,
)

SERVER = ("--bootstrap-server", "h:1")
UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def options(action: str, *words: str) -> argparse.Namespace:
    parser = VerbParser()
    features.add_arguments(parser)
    return parser.parse_args([action, *SERVER, *words])


@pytest.mark.parametrize(
    ("words", "updates"),
    [
        ("upgrade --feature a=1", [FeatureUpdate("a", 1, UP)]),
        (
            "upgrade --feature a=1 --feature b=2",
            [FeatureUpdate("a", 1, UP), FeatureUpdate("b", 2, UP)],
        ),
        ("downgrade --feature a=0", [FeatureUpdate("a", 0, SAFE)]),
        ("downgrade --feature a=1 --unsafe", [FeatureUpdate("a", 1, UNSAFE)]),
        ("disable --feature a", [FeatureUpdate("a", 0, SAFE)]),
        ("disable --feature a=1", [FeatureUpdate("a=1", 0, SAFE)]),
        ("disable --feature a --unsafe", [FeatureUpdate("a", 0, UNSAFE)]),
        (
            "upgrade --release-version 4.0.1",
            [FeatureUpdate(GROUP_VERSION, 1, UP), FeatureUpdate(TRANSACTION_VERSION, 2, UP)],
        ),
        ("upgrade --release-version 4.0-IV1", [FeatureUpdate(GROUP_VERSION, 1, UP)]),
        (
            "downgrade --release-version 3.9",
            [FeatureUpdate(feature.name, 0, SAFE) for feature in FEATURES],
        ),
    ],
)
def test_updates_are_those_of_the_options(words: str, updates: list[FeatureUpdate]) -> None:
    assert features.chosen(options(*words.split())) == updates


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("upgrade", "You must specify at least one feature to upgrade"),
        ("disable --dry-run", "You must specify at least one feature to disable"),
        ("upgrade --feature a", "Can't parse feature=level string a: equals sign not found."),
        ("upgrade --feature a=x", "Can't parse .* a=x: unable to parse x as a short."),
        ("upgrade --feature a=32768", "unable to parse 32768 as a short"),
        ("downgrade --feature a=1 --feature a=2", "Feature a was specified more than once."),
        ("upgrade --release-version 4.0 --feature a=1", "Can not specify `release-version` with"),
        ("upgrade --release-version 2.8", "Unknown release version '2.8'. Supported are: 3.3-IV3,"),
        ("upgrade --metadata 4.0", "has no metadata.version: give --release-version"),
    ],
)
def test_wrong_options_are_refused_in_the_words_of_kafka(words: str, reason: str) -> None:
    with pytest.raises(WrongUsage, match=reason):
        features.chosen(options(*words.split()))


def test_an_upgrade_is_never_unsafe(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["features", "upgrade", *SERVER, "--feature", "a=1", "--unsafe"]
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == main.USAGE
    assert "--unsafe" in capsys.readouterr().err


def test_features_are_shown_in_lines_of_kafka() -> None:
    found = FeatureMetadata({"group.version": Levels(0, 1)}, {"group.version": 1, "other": 2}, 3)
    assert features.line_of("group.version", found) == (
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
        "FinalizedVersionLevel: 1\tEpoch: 3"
    )
    assert features.line_of("other", found) == (
        "Feature: other\tSupportedMinVersion: -\tSupportedMaxVersion: -\t"
        "FinalizedVersionLevel: 2\tEpoch: 3"
    )
    assert features.as_object(found) == {
        "epoch": 3,
        "features": [
            {
                "feature": "group.version",
                "supported_min_version": 0,
                "supported_max_version": 1,
                "finalized_version_level": 1,
            },
            {
                "feature": "other",
                "supported_min_version": None,
                "supported_max_version": None,
                "finalized_version_level": 2,
            },
        ],
    }
    off = FeatureMetadata({"f": Levels(0, 1)}, {}, None)
    assert features.line_of("f", off).endswith("FinalizedVersionLevel: 0\tEpoch: -")


class Controller:
    """Refuses the features that it was given."""

    def __init__(self, refused: dict[str, str]) -> None:
        self.refused = refused
        self.asked: list[tuple[list[FeatureUpdate], bool]] = []

    async def update_features(
        self, updates: list[FeatureUpdate], *, validate_only: bool
    ) -> dict[str, KafkaError | None]:
        self.asked.append((updates, validate_only))
        errors = {
            name: KafkaError(ErrorCode.INVALID_REQUEST, text) for name, text in self.refused.items()
        }
        return {update.feature: errors.get(update.feature) for update in updates}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("words", "done", "checked"),
    [
        ("upgrade --feature a=2", "a was upgraded to 2.", "a can be upgraded to 2."),
        ("downgrade --feature a=1", "a was downgraded to 1.", "a can be downgraded to 1."),
        ("disable --feature a", "a was disabled.", "a can be disabled."),
    ],
)
async def test_results_are_told_in_lines_of_kafka(
    words: str, done: str, checked: str, dry_run: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = Controller({})
    args = options(*words.split(), *(["--dry-run"] if dry_run else []))
    updates = features.chosen(args)
    admin = cast(Any, controller)
    assert await features.update(admin, args.action, updates, args.dry_run) == main.OK
    assert capsys.readouterr() == (f"{checked if dry_run else done}\n", "")
    assert controller.asked == [(updates, dry_run)]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            "upgrade --feature b=1 --feature a=2",
            "Could not upgrade a to 2. No.\nb was upgraded to 1.",
        ),
        ("downgrade --feature a=0 --dry-run", "Can not downgrade a to 0. No."),
        ("disable --feature a", "Could not disable a. No."),
    ],
)
async def test_refusals_are_told_and_counted(
    words: str, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    args = options(*words.split())
    updates = features.chosen(args)
    admin = cast(Any, Controller({"a": "No."}))
    assert await features.update(admin, args.action, updates, args.dry_run) == main.FAILED
    failed = f"1 out of {len(updates)} operation(s) failed.\n"
    assert capsys.readouterr() == (f"{lines}\n", failed)
