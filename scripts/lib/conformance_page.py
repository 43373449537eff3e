"""The page of conformance: all checks, and how each broker that was tried did.

The outcomes are those of runs of the verb, kept in ``conformance.json`` beside the page. A check
that is newer than the run of a column counts as not run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.testing.conformance.groups.catalogue import ALL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "conformance.md"
RESULTS = PAGE.with_suffix(".json")
PASSED, FAILED = "passed", "failed"
Outcomes = Mapping[str, Mapping[str, Mapping[str, str]]]  # by column, group and name

BEGIN = """# Conformance

`minikafka conformance --bootstrap-server HOST:PORT` tries the rules of Kafka's protocol that
clients rely on, at any broker that speaks it: raw requests over TCP, without a client library.
Each check has its source (a KIP, or the class or setting of Kafka that has the rule) and says
what happens to a client of a broker without it.

```
# a table, and each failure
minikafka conformance --bootstrap-server localhost:9092
# what Kafka 3.9 offers must be there
minikafka conformance --bootstrap-server localhost:9092 --profile 3.9
# for CI; --json prints all results
minikafka conformance --bootstrap-server localhost:9092 --junit found.xml
# the checks; --group is repeatable
minikafka conformance --list --group transactions
```

A check whose API, version or feature the broker does not offer is *not offered*, which is no
failure unless the profile demands it. The exit status is 1 with a failure. A broker that hangs or
closes the connection fails that check alone. Topics and groups have names of their own and are
deleted at the end. The listener must be PLAINTEXT without login; the rights of the client must
suffice to create topics.

## Who was tried

One broker each, passed / failed / not offered.
"""
WHY = """
A check that official Kafka fails is a wrong check: the columns of Kafka have no failures. The
mock cluster is the one inside librdkafka, made for tests of producers and consumers. It lists
version 6 of JoinGroup and cannot read it, and it aborts its process at a heartbeat of a consumer
group that names no topics, which changes nothing: checks behind that fail, too.
"""


def page() -> str:
    return "\n".join([*BEGIN.splitlines(), *_lines(json.loads(RESULTS.read_text()))]) + "\n"


def _lines(columns: Outcomes) -> Iterator[str]:
    yield ""
    yield f"| group | checks | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 2) + "|"
    for group, checks in ALL.items():
        names = [check.name for check in checks]
        cells = [_counts(found.get(group, {}), names) for found in columns.values()]
        yield f"| {group} | {len(checks)} | {' | '.join(cells)} |"
    totals = [_total(found) for found in columns.values()]
    yield f"| all | {sum(map(len, ALL.values()))} | {' | '.join(totals)} |"
    yield from WHY.splitlines()
    yield from _failures(columns)
    for group, checks in ALL.items():
        yield from ("", f"## {group}", "", "| rule | source | without it |", "|---|---|---|")
        for check in checks:
            yield f"| {check.name} | {check.source} | {check.consequence} |"


def _counts(found: Mapping[str, str], names: Sequence[str]) -> str:
    outcomes = [found.get(name, "not run") for name in names]
    passed, failed = outcomes.count(PASSED), outcomes.count(FAILED)
    return f"{passed} / {failed} / {len(outcomes) - passed - failed}"


def _total(found: Mapping[str, Mapping[str, str]]) -> str:
    names = [(group, check.name) for group, checks in ALL.items() for check in checks]
    every = {f"{group} {name}": found.get(group, {}).get(name, "not run") for group, name in names}
    return _counts(every, list(every))


def _failures(columns: Outcomes) -> Iterator[str]:
    yield from ("", "## What failed", "")
    for column, found in columns.items():
        failed = {
            group: [
                check.name for check in checks if found.get(group, {}).get(check.name) == FAILED
            ]
            for group, checks in ALL.items()
        }
        if not any(failed.values()):
            yield f"- {column}: nothing."
            continue
        yield f"- {column}:"
        for group, names in failed.items():
            if names:
                yield f"    - {group}: {'; '.join(names)}."


def add(column: str, results: Mapping[str, Any]) -> None:
    """Keep the outcomes of a run as a column. Groups that did not run stay as they are."""
    columns = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = columns.setdefault(column, {})
    fresh: dict[str, dict[str, str]] = {}
    for check in results["checks"]:
        fresh.setdefault(check["group"], {})[check["name"]] = check["outcome"]
    kept.update(fresh)
    RESULTS.write_text(json.dumps(columns, indent=1) + "\n")


if __name__ == "__main__":
    for name, file in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        add(name, json.loads(Path(file).read_text()))
    PAGE.write_text(page())
