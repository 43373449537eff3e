"""The results as a table, JSON and JUnit's XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from minikafka.testing.conformance.check import Check
from minikafka.testing.conformance.run import CheckOutcome, Result

HEADLINE = ("group", "passed", "failed", "not offered")


def identifier(group: str, check: Check) -> str:
    return f"{group}: {check.name}"


def counts_of(results: Sequence[Result]) -> dict[str, Counter[CheckOutcome]]:
    """Return how many checks of each group ended in which way."""
    counts: dict[str, Counter[CheckOutcome]] = {}
    for result in results:
        counts.setdefault(result.group, Counter())[result.outcome] += 1
    return counts


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield each failure with its consequence, and the table of groups behind them."""
    for result in results:
        if result.outcome is CheckOutcome.FAILED:
            yield f"FAILED {identifier(result.group, result.check)} ({result.check.source})"
            yield f"    {result.text}"
            yield f"    {result.check.consequence}"
    counts = counts_of(results)
    rows: list[tuple[str, ...]] = [HEADLINE]
    rows += [
        (group, *(str(count[each]) for each in CheckOutcome)) for group, count in counts.items()
    ]
    total = sum(counts.values(), Counter[CheckOutcome]())
    rows.append(("total", *(str(total[each]) for each in CheckOutcome)))
    for row in rows:
        yield f"{row[0]:<16}" + "".join(f"{cell:>13}" for cell in row[1:])


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    total = Counter(result.outcome for result in results)
    return {
        "ok": not total[CheckOutcome.FAILED],
        "counts": {each.value.replace(" ", "_"): total[each] for each in CheckOutcome},
        "checks": [
            {
                "group": result.group,
                "name": result.check.name,
                "source": result.check.source,
                "consequence": result.check.consequence,
                "outcome": result.outcome.value,
                "text": result.text,
                "seconds": round(result.seconds, 3),
            }
            for result in results
        ],
    }


def as_junit(results: Sequence[Result]) -> bytes:
    """Return a document of JUnit: a suite for each group; what is not offered is skipped."""
    root = ElementTree.Element("testsuites", name="minikafka conformance")
    for group, counts in counts_of(results).items():
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(sum(counts.values())),
            failures=str(counts[CheckOutcome.FAILED]),
            skipped=str(counts[CheckOutcome.NOT_OFFERED]),
        )
        for result in results:
            if result.group == group:
                _add_case(suite, result)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _add_case(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.group,
        name=result.check.name,
        time=f"{result.seconds:.3f}",
    )
    if result.outcome is CheckOutcome.FAILED:
        failure = ElementTree.SubElement(case, "failure", message=result.text)
        failure.text = f"{result.check.consequence} ({result.check.source})"
    elif result.outcome is CheckOutcome.NOT_OFFERED:
        ElementTree.SubElement(case, "skipped", message=result.text)


def listed(groups: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """Yield each check with its source and consequence."""
    for group, checks in groups.items():
        for check in checks:
            yield f"{identifier(group, check)} ({check.source}): {check.consequence}"
