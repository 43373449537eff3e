"""The versions that Kafka 3.9 does not have are documented."""

import re
from pathlib import Path

from minikafka.protocol.api_keys import ApiKey

PAGE = Path(__file__).parents[2] / "docs/reference/differences.md"
ROW = re.compile(r"^\| (\w+) \| (\d+) \| ([\w ]+) \| ([\w ]+) \| .*KIP-\d+", re.MULTILINE)


def text_of(last: int | None, first: int = 0) -> str:
    return "none" if last is None else f"{first}" if last == first else f"{first} to {last}"


def test_each_version_later_than_3_9_has_a_row() -> None:
    behind = PAGE.read_text().partition("\n## Versions of Kafka 4\n")[2]
    assert ROW.findall(behind.partition("\n## ")[0]) == [
        (
            key.api_name,
            str(int(key)),
            text_of(key.max_version_3_9),
            text_of(key.max_version, key.first_version),
        )
        for key in sorted(ApiKey)
        if key.max_version != key.max_version_3_9
    ]
