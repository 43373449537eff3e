"""The progress of Spark's batch jobs: a line for the user every few seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError

from minikafka.spark.pipeline.run_log import ShowLine
from minikafka.world.real.wall_clock import WallClock

PAUSE_S: Final = 5.0
_GROUP: Final = "spark.jobGroup.id"


@contextmanager
def tasks_shown(
    session: Any, name: str, show: ShowLine, pause_s: float = PAUSE_S
) -> Iterator[None]:
    """Show a line every ``pause_s`` seconds within the block, in another thread: how many tasks of
    the jobs that this thread starts there are done.

    The line begins with ``name``, which is also the group of the jobs."""
    context = session.sparkContext
    group_before = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, name)
    earlier = frozenset(context.statusTracker().getJobIdsForGroup(name))
    clock = WallClock()
    begun_ms = clock.monotonic_ms()
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(pause_s):
            try:
                done, count = _tasks(context.statusTracker(), name, earlier)
            except (Py4JError, OSError):
                return  # the JVM has ended: the job fails with an error that says so
            seconds = (clock.monotonic_ms() - begun_ms) // 1000
            show(f"{name} s={seconds} tasks={done}/{count}")

    follower = threading.Thread(target=follow, name="job-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()
        context.setLocalProperty(_GROUP, group_before)


def _tasks(tracker: Any, group: str, earlier: frozenset[int]) -> tuple[int, int]:
    """Return how many tasks are done, and how many there are, in the jobs of the group without
    ``earlier`` ones."""
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    stages = [
        tracker.getStageInfo(stage)
        for job in jobs
        if job is not None and job.jobId not in earlier
        for stage in job.stageIds
    ]
    known = [stage for stage in stages if stage is not None]
    return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)
