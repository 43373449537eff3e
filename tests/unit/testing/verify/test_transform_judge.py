"""The judge of consume-transform-produce: clean histories, and one thing wrong in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from minikafka.testing.verify.append.history import Reading, RecordId
from minikafka.testing.verify.transform.judge import Transformed, TransformKind, judge_transform

SEEDS = 1_000
PARTITIONS = 2


@dataclass(slots=True)
class Stage:
    """Two partitions whose inputs a group has consumed: ``inputs`` by partition with their offsets,
    ``outputs`` those visible in the end, in order."""

    seed: int
    transformed: Transformed = field(default_factory=Transformed)
    inputs: dict[int, list[tuple[int, RecordId]]] = field(default_factory=dict)
    outputs: dict[int, list[RecordId]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        number = 0
        for partition in range(PARTITIONS):
            offsets = sorted(dice.sample(range(40), dice.randrange(4, 20)))
            self.inputs[partition] = [(o, RecordId(partition, o)) for o in offsets]
            self.ends[partition] = offsets[-1] + 1
            outputs = self.outputs[partition] = []
            position = 0
            while position < len(offsets):
                taken = self.inputs[partition][position : position + dice.randrange(1, 5)]
                self.transformed.consumed[number] = [record for _, record in taken]
                if dice.randrange(4):  # else aborted, and consumed again
                    position += len(taken)
                    outputs += [RecordId(number, index) for index in range(len(taken))]
                    self.transformed.note_offset(partition, taken[-1][0] + 1, number)
                number += 1

    def kinds(self) -> set[object]:
        inputs, outputs = Reading("inputs"), Reading("outputs")
        for partition, rows in self.inputs.items():
            for offset, record in rows:
                inputs.see(partition, offset, record, 0)
        for partition, records in self.outputs.items():
            for offset, output in enumerate(records):
                outputs.see(partition, 2 * offset, output, 0)
        found = judge_transform(self.transformed, inputs, outputs, self.ends)
        return {finding.kind for finding in found}


@pytest.mark.mission("JUDGE-12")
def test_nothing_is_found_in_clean_histories() -> None:
    for seed in range(SEEDS):
        assert Stage(seed).kinds() == set(), f"seed {seed}"


def lost(stage: Stage, dice: random.Random) -> None:
    stage.outputs[0].pop(dice.randrange(len(stage.outputs[0])))


def doubled(stage: Stage, dice: random.Random) -> None:
    """Two workers consumed the same input and committed both."""
    record = stage.inputs[0][-1][1]
    stage.transformed.consumed[1_000] = [record]
    stage.outputs[0].append(RecordId(1_000, 0))


def reordered(stage: Stage, dice: random.Random) -> None:
    stage.outputs[0].reverse()


def phantom(stage: Stage, dice: random.Random) -> None:
    stage.outputs[0].append(RecordId(2_000, 0))


def moved_to_another_partition(stage: Stage, dice: random.Random) -> None:
    stage.outputs[1].append(stage.outputs[0].pop())


def offset_back(stage: Stage, dice: random.Random) -> None:
    stage.transformed.note_offset(0, stage.inputs[0][0][0], 0)
    stage.transformed.note_offset(0, stage.ends[0], 0)


def not_consumed(stage: Stage, dice: random.Random) -> None:
    stage.ends[0] += 1


PLANTED: dict[Callable[[Stage, random.Random], None], set[TransformKind]] = {
    lost: {TransformKind.OUTPUT_LOST},
    doubled: {TransformKind.OUTPUT_DOUBLED},
    reordered: {TransformKind.OUTPUT_REORDERED},
    phantom: {TransformKind.OUTPUT_PHANTOM},
    moved_to_another_partition: {TransformKind.OUTPUT_PHANTOM, TransformKind.OUTPUT_LOST},
    offset_back: {TransformKind.OFFSET_BACK},
    not_consumed: {TransformKind.NOT_CONSUMED},
}


@pytest.mark.mission("JUDGE-12")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_anomaly_is_found_and_no_other(
    plant: Callable[[Stage, random.Random], None],
) -> None:
    for seed in range(50):
        stage = Stage(seed)
        plant(stage, random.Random(seed))
        assert stage.kinds() == PLANTED[plant], f"seed {seed}"


def test_every_anomaly_is_planted() -> None:
    assert set().union(*PLANTED.values()) == set(TransformKind)


def test_what_is_not_consumed_yet_is_not_lost() -> None:
    stage = Stage(3)
    del stage.transformed.offsets[0]
    stage.outputs[0].clear()
    assert stage.kinds() == {TransformKind.NOT_CONSUMED}
