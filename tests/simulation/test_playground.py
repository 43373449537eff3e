"""The playground is toured with faults: the checkers hold, and its score is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minikafka.page.learn import looks
from minikafka.page.learn.chapters import chapter
from minikafka.page.learn.chapters.playground import PARTITIONS, TOPIC
from minikafka.page.learn.session import PLAYGROUND
from minikafka.page.learn.story import StoryState
from minikafka.page.learn.take import Take
from minikafka.testing.simulator.checkers import (
    ElectionChecker,
    check_context,
    check_leadership_known,
)

S = 1_000_000
EVERYBODY = (1, 2, 3)
# Each fault, how many seconds it lasts, and what ends it.
TOUR: tuple[tuple[str, dict[str, int | str], int, str, dict[str, int | str]], ...] = (
    ("kill", {"broker": 1}, 8, "start", {"broker": 1}),
    ("isolate", {"broker": 2}, 9, "heal_all", {}),
    ("zookeeper_away", {}, 10, "zookeeper_back", {}),
    ("cut", {"one": "broker-1", "other": "broker-3"}, 12, "heal_all", {}),
    ("full_disk", {"broker": 3}, 3, "repair_disk", {"broker": 3}),
    ("slow_link", {"one": "broker-1", "other": "broker-2", "ms": 50}, 4, "heal_all", {}),
    ("pause", {"broker": 1}, 7, "resume", {"broker": 1}),
    ("expire_session", {"broker": 2}, 1, "reset", {"one": "broker-1", "other": "broker-2"}),
    ("stop", {"broker": 3}, 3, "start", {"broker": 3}),
    ("power_loss", {"broker": 2}, 8, "start", {"broker": 2}),
    ("delete_znode", {"path": "/controller"}, 1, "heal_all", {}),
)


@contextmanager
def playground() -> Iterator[Take]:
    """Play the story of the chapter to its end."""
    found = chapter(PLAYGROUND)
    take = Take(found.recipe(), found)
    try:
        while take.story is not StoryState.DONE:
            take.go_on()
            take.run(take.now_us + S)
            assert take.failed is None
        yield take
    finally:
        take.close()


def wait_until_whole(take: Take) -> None:
    """Play until every replica is in sync, at most for 30 s."""
    for _ in range(300):
        take.run(take.now_us + S // 10)
        assert take.failed is None
        cluster = take.playback.cluster
        if looks.is_up(cluster) and all(
            looks.in_sync(cluster, tp) == EVERYBODY for tp in PARTITIONS
        ):
            return
    raise AssertionError("the cluster is not whole within 30 s")


@pytest.mark.mission("LEARN-59")
def test_a_tour_of_faults_loses_nothing() -> None:
    with playground() as take:
        cluster = take.playback.cluster
        checker = ElectionChecker(cluster, PARTITIONS)
        cluster.observers.append(checker)
        written = take.score.acknowledged
        assert written > 0
        for fault, arguments, seconds, end, of_end in TOUR:
            take.act(fault, arguments)
            take.run(take.now_us + seconds * S)
            take.act(end, of_end)
            wait_until_whole(take)
            take.run(take.now_us + 2 * S)
            assert take.score.acknowledged > written, f"nothing was written during {fault}"
            written = take.score.acknowledged
        take.run(take.now_us + 3 * S)
        assert len(checker.leaders) > len(PARTITIONS), "there were elections"
        check_context(cluster)
        for partition in PARTITIONS:
            check_leadership_known(cluster, partition)
        assert take.score.violations == []
        assert take.score.lost == 0


@pytest.mark.mission("LEARN-59")
def test_a_record_that_only_a_zombie_has_acknowledged_stops_the_score() -> None:
    with playground() as take:
        zombie = take.playback.cluster.leader(PARTITIONS[0])
        take.act("isolate", {"broker": zombie})
        take.run(take.now_us + S)
        record: dict[str, int | str] = {"topic": TOPIC, "partition": 0, "acks": "1", "to": zombie}
        take.act("produce", record)
        take.run(take.now_us + 9 * S)
        [(lost_us, facts)] = take.score.violations
        assert facts["kind"] == "records_lost"
        assert facts["partition"] == str(PARTITIONS[0])
        assert take.score.kept_us(take.now_us) < lost_us < take.now_us
