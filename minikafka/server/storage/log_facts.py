"""The facts about a log and its segments that a cleaning is planned from."""

from __future__ import annotations

from minikafka.core.log.compaction import CleanableSegment, LogFacts
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog


def facts_of(segment: LogSegment) -> CleanableSegment:
    return CleanableSegment(
        segment.base_offset,
        segment.size_bytes,
        segment.offset_index.size_bytes,
        segment.time_index.size_bytes,
        segment.max_timestamp,
    )


def log_facts(log: UnifiedLog, stable_offset: int) -> LogFacts:
    return LogFacts(
        log.log_start_offset,
        log.log_end_offset,
        stable_offset,
        log.cleaned_offset,
        [facts_of(segment) for segment in log.segments],
    )
