"""The verdict on deletions of records: clean histories, and those in which one thing is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.deletions.judge import (
    DeletionKind,
    Deletions,
    SeenStart,
    SentDeletion,
    judge_deletions,
)

pytestmark = pytest.mark.mission("JUDGE-2")
LOG_END = 1_000


class Played:
    """Deletions in one partition by a broker that keeps its promises, and the final reading.

    Some requests fail: then the leader has deleted, and another one that has not may lead."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.history = Deletions()
        self.now_ms = 0
        self.confirmed = self.start = 0
        for _ in range(dice.randrange(3, 30)):
            self.now_ms += dice.randrange(1, 50)
            if dice.random() < 0.4:
                self.see(self.start)
            else:
                self.delete(dice.randrange(self.start, LOG_END), fails=dice.random() < 0.3)
            if dice.random() < 0.2:
                self.start = self.confirmed  # of a leader without what was not confirmed
        self.see(self.start)

    def delete(self, before: int, fails: bool = False) -> None:
        self.start = max(self.start, before)
        if not fails:
            self.confirmed = self.start
        start = -1 if fails else self.start
        self.history.deletions.append(SentDeletion(0, before, self.now_ms, start, self.now_ms + 5))
        self.now_ms += 10

    def see(self, start: int) -> None:
        self.history.starts.append(SeenStart(0, start, self.now_ms, self.now_ms + 2))
        self.now_ms += 5

    def kinds(self, first: int | None = None) -> set[object]:
        final = Reading("final reading")
        for offset in range(self.start if first is None else first, LOG_END):
            final.see(0, offset, None, self.now_ms)
        return {finding.kind for finding in judge_deletions(self.history, final)}


def test_clean_histories() -> None:
    assert [seed for seed in range(1_000) if Played(seed).kinds()] == []


def short(played: Played) -> set[object]:
    played.history.deletions.append(SentDeletion(0, played.start + 5, 0, played.start, 1))
    return played.kinds()


def back(played: Played) -> set[object]:
    played.delete(played.start + 1)
    played.see(played.start - 1)
    return played.kinds()


def undeleted(played: Played) -> set[object]:
    played.delete(played.start + 1)
    return played.kinds(first=played.start - 1)


def too_much(played: Played) -> set[object]:
    played.see(LOG_END + 1)
    return played.kinds()


PLANTED: dict[DeletionKind, Callable[[Played], set[object]]] = {
    DeletionKind.SHORT: short,
    DeletionKind.BACK: back,
    DeletionKind.UNDELETED: undeleted,
    DeletionKind.TOO_MUCH: too_much,
}


@pytest.mark.parametrize("kind", DeletionKind)
def test_what_is_planted_is_found(kind: DeletionKind) -> None:
    for seed in range(200):
        assert kind in PLANTED[kind](Played(seed))
