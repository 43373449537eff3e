"""What happened to single records of a history, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minikafka.testing.verify.append.history import (
    IN_DOUBT,
    SOMEWHERE,
    UNSETTLED,
    History,
    Reading,
    RecordId,
)
from minikafka.testing.verify.finding import Finding

SPELLED: Final = {
    SOMEWHERE: "acknowledged, offset unknown",
    IN_DOUBT: "given up, in doubt",
    UNSETTLED: "not settled",
}


def evidence(history: History, finding: Finding) -> Iterator[str]:
    """Yield when each record of a finding was sent, acknowledged and seen, and by whom."""
    for record in finding.about:
        sent = history.sent(record)
        if sent is None:
            continue
        outcome = SPELLED.get(sent.offset, f"acknowledged at offset {sent.offset}")
        yield (
            f"producer {record.producer} record {record.number} (key {sent.key}): "
            f"sent to partition {sent.partition} at {_time(sent.sent_ms)}, "
            f"{outcome} at {_time(sent.settled_ms)}"
        )
        for reading in [*history.readings, history.final]:
            yield f"  {reading.name}: {_sightings(reading, sent.partition, record)}"


def _sightings(reading: Reading, partition: int, record: RecordId) -> str:
    found = [
        f"offset {seen.offset} at {_time(seen.at_ms)}"
        for seen in reading.seen(partition)
        if seen.id == record
    ]
    return ", ".join(found) or "did not see it"


def _time(at_ms: int) -> str:
    return f"{at_ms / 1000:.3f} s"
