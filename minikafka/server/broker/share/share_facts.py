"""Facts about the share-partitions that a broker leads, for the debug listener."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from minikafka.core.share.in_flight import UNLOCKED, RecordState
from minikafka.core.share.in_flight_summary import InFlightRun, in_flight_summary
from minikafka.core.share.share_partition import SharePartition
from minikafka.server.broker.share.share_partitions import LedSharePartition, SharePartitions

MAX_RUNS: Final = 50  # of one share-partition
MAX_DELIVERIES: Final = 50_000  # which one look goes through, without those of the last one


def facts_of_each(
    shares: SharePartitions, limit: int, wall_offset_ms: int
) -> Iterator[dict[str, Any]]:
    """Yield the details of the first ``limit`` share-partitions. Other tasks may run between two of
    them. Share-partitions beyond ``MAX_DELIVERIES`` have no ``records`` and no ``runs``.

    ``wall_offset_ms`` is added to the ends of locks, for the time since 1970."""
    left = MAX_DELIVERIES
    for led in list(islice(shares, limit)):
        facts = {
            "group": led.key.group_id,
            "topic": led.topic_partition.topic,
            "partition": led.topic_partition.partition,
            "leader_epoch": led.leader_epoch,
            "state_epoch": led.state_epoch,
            "error": None if led.error is None else led.error.name,
            "is_read": led.is_read,
        }
        if led.machine is not None:
            facts |= _offsets(led.machine)
            if left > 0:
                details = _in_flight(shares, led, led.machine, wall_offset_ms)
                left -= details.pop("num_deliveries")
                facts |= details
        yield facts


def _offsets(machine: SharePartition) -> dict[str, Any]:
    """``end_offset`` is that of the last record in flight."""
    return {
        "start_offset": machine.start_offset,
        "end_offset": machine.end_offset if machine.in_flight_records else None,
        "in_flight": machine.in_flight_records,
    }


def _in_flight(
    shares: SharePartitions, led: LedSharePartition, machine: SharePartition, wall_offset_ms: int
) -> dict[str, Any]:
    """Return the records by state, and the lag: those up to the high watermark that still need
    delivery, as DescribeShareGroupOffsets has it."""
    found = in_flight_summary(machine.states(), machine.start_offset, MAX_RUNS)
    partition = shares.hosted.get(led.topic_partition)
    done = sum(count for state, count in found.records.items() if state.is_terminal)
    lag = None
    if partition is not None:
        lag = max(0, partition.high_watermark - machine.start_offset - done)
    return {
        "lag": lag,
        "records": {state.name.lower(): found.records.get(state, 0) for state in RecordState},
        "attempts": {str(count): found.attempts[count] for count in sorted(found.attempts)},
        "num_runs": found.num_runs,
        "runs": [_run(run, wall_offset_ms) for run in found.runs],
        "num_deliveries": found.num_deliveries,
    }


def _run(run: InFlightRun, wall_offset_ms: int) -> dict[str, Any]:
    is_locked = run.locked_until_ms != UNLOCKED and run.state is RecordState.ACQUIRED
    return {
        "first": run.first,
        "last": run.last,
        "state": run.state.name.lower(),
        "member": run.member_id or None,
        "deliveries": run.delivery_count,
        "locked_until_ms": run.locked_until_ms + wall_offset_ms if is_locked else None,
        "written": run.is_written,
    }
