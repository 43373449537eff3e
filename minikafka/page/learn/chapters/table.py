"""The table of chapters: the name of each by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TABLE: Final[Mapping[int, str]] = {
    1: "a-records-way",
    2: "timing-wheel",
    3: "purgatory",
    4: "controller-election",
    5: "a-broker-dies",
    6: "controlled-shutdown",
    7: "four-elections",
    8: "reassignment",
    9: "topic-deletion",
    10: "rebalance",
    11: "fetch-sessions",
    12: "zombies",
    13: "transactions",
    14: "partitioners",
    15: "assignors",
    16: "consumer-groups",
    17: "share-groups",
    18: "noticing-deaths",
    19: "playground",
}
