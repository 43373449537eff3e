"""Check that each input has one output, and that a group's committed offsets do not go back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.append.history import Reading, RecordId
from minikafka.testing.verify.finding import Finding


class TransformKind(Enum):
    """What ``judge_transform`` finds, each with its meaning."""

    OUTPUT_LOST = "an input was consumed, and has no output"
    OUTPUT_DOUBLED = "an input has more than one output"
    OUTPUT_REORDERED = "outputs are in another order than their inputs"
    OUTPUT_PHANTOM = "an output has no input"
    OFFSET_BACK = "a committed offset moved back"
    NOT_CONSUMED = "inputs were not consumed by workers that had the time"


@dataclass(slots=True)
class Transformed:
    """What the workers consumed and committed.

    ``consumed`` has the input of each record of a transaction, by the transaction's number.
    ``offsets`` has each change of a committed offset that one client saw, by partition, as (time,
    offset).
    """

    consumed: dict[int, list[RecordId | None]] = field(default_factory=dict)
    offsets: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def note_offset(self, partition: int, offset: int, now_ms: int) -> None:
        seen = self.offsets.setdefault(partition, [])
        if not seen or seen[-1][1] != offset:
            seen.append((now_ms, offset))

    def committed(self, partition: int) -> int:
        """Return the last committed offset."""
        seen = self.offsets.get(partition)
        return seen[-1][1] if seen else 0

    def input_of(self, output: RecordId | None) -> RecordId | None:
        consumed = [] if output is None else self.consumed.get(output.producer, [])
        return consumed[output.number] if output and output.number < len(consumed) else None


def judge_transform(
    transformed: Transformed, inputs: Reading, outputs: Reading, ends: Mapping[int, int]
) -> list[Finding]:
    """Return all violations. ``inputs`` and ``outputs`` are the final readings of both topics, the
    latter with ``read_committed``; an output is in the partition of its input. ``ends`` are the
    ends of the inputs."""
    consumers: dict[RecordId, list[int]] = defaultdict(list)
    for number, consumed in transformed.consumed.items():
        for record in consumed:
            if record is not None:
                consumers[record].append(number)
    findings: list[Finding] = []
    for partition, end in sorted(ends.items()):
        findings.extend(_partition(transformed, inputs, outputs, partition, consumers))
        findings.extend(_offsets(transformed, partition, end))
    return findings


def _partition(
    transformed: Transformed,
    inputs: Reading,
    outputs: Reading,
    partition: int,
    consumers: Mapping[RecordId, list[int]],
) -> Iterator[Finding]:
    where = f"partition {partition}"
    offsets = {seen.id: seen.offset for seen in inputs.seen(partition) if seen.id is not None}
    places: dict[RecordId, list[int]] = {}  # of outputs, by input
    last = -1
    for seen in outputs.seen(partition):
        source = transformed.input_of(seen.id)
        if source not in offsets or source is None:
            text = f"the output at offset {seen.offset} has no input"
            yield Finding(TransformKind.OUTPUT_PHANTOM, where, text, _transactions(seen.id))
            continue
        first = source not in places
        places.setdefault(source, []).append(seen.offset)
        if first and offsets[source] < last:
            text = f"the output at {seen.offset} is of input {offsets[source]}, after one of {last}"
            yield Finding(TransformKind.OUTPUT_REORDERED, where, text, _transactions(seen.id))
        last = max(last, offsets[source])
    for source, offset in offsets.items():
        found, about = places.get(source, []), tuple(consumers.get(source, ()))
        if len(found) > 1:
            text = f"input {offset} has outputs at offsets {', '.join(map(str, found))}"
            yield Finding(TransformKind.OUTPUT_DOUBLED, where, text, about)
        elif not found and offset < transformed.committed(partition):
            text = f"input {offset} has no output, and the committed offset is "
            text += str(transformed.committed(partition))
            yield Finding(TransformKind.OUTPUT_LOST, where, text, about)


def _offsets(transformed: Transformed, partition: int, end: int) -> Iterator[Finding]:
    where, highest = f"partition {partition}", 0
    for at_ms, offset in transformed.offsets.get(partition, []):
        if offset < highest:
            text = f"from {highest} to {offset} at {at_ms} ms"
            yield Finding(TransformKind.OFFSET_BACK, where, text)
        highest = max(highest, offset)
    if (committed := transformed.committed(partition)) < end:
        text = f"the committed offset is {committed}, and the end of the inputs {end}"
        yield Finding(TransformKind.NOT_CONSUMED, where, text)


def _transactions(output: RecordId | None) -> tuple[int, ...]:
    return () if output is None else (output.producer,)
