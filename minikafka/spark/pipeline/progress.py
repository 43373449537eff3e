"""Tells the progress of a pipeline's flows, and keeps the offsets of each in a group of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka.spark.progress import ProgressListener


class FlowsListener(StreamingQueryListener):
    """A line for each batch of each flow; the offsets that flow has read are committed, where it
    read them, to the group ``spark-<pipeline>-<flow>``. Spark calls it in a thread, a little
    after the event."""

    def __init__(self, pipeline: str, show: Callable[[str], object]) -> None:
        self._pipeline = pipeline
        self._show = show
        self._of_flows: dict[str, ProgressListener] = {}
        self._running: set[str] = set()
        self._all_told = threading.Event()
        self._all_told.set()

    def expect(self, flow: str, bootstrap_servers: str) -> None:
        """A query with the flow's name is going to be started."""
        self._of_flows[flow] = ProgressListener(
            bootstrap_servers, self._show, f"spark-{self._pipeline}"
        )

    def wait(self, seconds: float) -> None:
        """Until all that came before the end of the queries is told, or no longer."""
        self._all_told.wait(seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        if event.name in self._of_flows:
            self._running.add(str(event.id))
            self._all_told.clear()
            self._of_flows[event.name].onQueryStarted(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        name = event.progress.name
        if name in self._of_flows:
            self._of_flows[name].onQueryProgress(event)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new is to be told."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._running.discard(str(event.id))
        if not self._running:
            self._all_told.set()


def bootstrap_servers_of(frame: Any) -> str:
    """Of the brokers that a streaming DataFrame of a classic session reads from; empty if it reads
    no topic. Of several clusters the first."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            servers = leaf.extraOptions().get("kafka.bootstrap.servers")
            if servers:
                return str(servers)
    return ""
