"""The progress of a pipeline's flows: a line for each batch, and offsets in a consumer group.

For a batch job of Spark the user gets a line every few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka.kernel.client_security import security_keys
from minikafka.spark.pipeline.run_log import ShowLine
from minikafka.spark.progress import ProgressListener
from minikafka.spark.query_metrics import QueryMetrics
from minikafka.world.real.wall_clock import WallClock

SERVERS: Final = "kafka.bootstrap.servers"
GROUP: Final = "kafka.group.id"


class FlowsListener(StreamingQueryListener):
    """Shows a line for each batch of each flow, and commits the offsets that the batch has read.

    It commits them to the cluster that the flow reads, in the group ``spark-<pipeline>-<flow>``,
    unless the flow's source commits them itself to its ``kafka.group.id``.
    Spark calls this listener in a separate thread, shortly after each event."""

    def __init__(self, pipeline: str, show: ShowLine, metrics: QueryMetrics) -> None:
        self._pipeline = pipeline
        self._metrics = metrics
        self._show = show
        self._listeners: dict[str, ProgressListener] = {}
        self._running: dict[str, str] = {}  # the flow of each query, by its id
        self._all_terminated = threading.Event()
        self._all_terminated.set()

    def expect(self, flow: str, source: Mapping[str, str]) -> None:
        """Prepare for a query with the flow's name, whose source has these options ``kafka.*``.
        Call this before the query is started."""
        prefix = None if GROUP in source else f"spark-{self._pipeline}"
        self._listeners[flow] = ProgressListener(
            source.get(SERVERS, ""), self._show, prefix, source, self._metrics
        )

    def wait(self, seconds: float) -> None:
        """Wait at most ``seconds`` until the events of all stopped queries have been handled."""
        self._all_terminated.wait(seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        if event.name in self._listeners:
            self._running[str(event.id)] = event.name
            self._all_terminated.clear()
            self._listeners[event.name].onQueryStarted(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        name = event.progress.name
        if name in self._listeners:
            self._listeners[name].onQueryProgress(event)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore the event: an idle query has read nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        flow = self._running.pop(str(event.id), None)
        if flow is not None:
            self._metrics.ended(flow, failed=bool(event.exception))
        if not self._running:
            self._all_terminated.set()


def kafka_options_of(frame: Any) -> dict[str, str]:
    """Return the bootstrap servers that a streaming DataFrame of a classic session reads from, and
    its options for the consumer group, TLS and the login there.

    Returns those of the first source if several clusters are read, none if the DataFrame reads no
    topic."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            options = leaf.extraOptions()
            if options.get(SERVERS):
                names = (SERVERS, GROUP, *(f"kafka.{key}" for key in security_keys()))
                found = ((name, options.get(name)) for name in names)
                return {name: str(text) for name, text in found if text is not None}
    return {}


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
