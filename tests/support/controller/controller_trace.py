"""What a controller did, in short lines: state changes, epochs, requests, steps."""

from collections.abc import Iterable, Mapping
from typing import Any


def trace(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for entry in logs:
        event = entry["event"]
        if "before" in entry and "error" not in entry:
            subject = entry["partition"]
            if "replica" in entry:
                subject += f"/{entry['replica']}"
            lines.append(f"{subject} {entry['before']} -> {entry['after']}")
        elif event == "leader_epoch_raised":
            replicas = ",".join(map(str, entry["replicas"]))
            lines.append(f"{event} {entry['partition']} leader {entry['leader']} of {replicas}")
        elif event == "request_queued":
            lines.append(f"{entry['kind'].removesuffix('Request')} to {entry['broker']}")
        elif event == "reassignment_step_completed":
            lines.append(f"{event} {entry['step']}")
    return lines


CALLBACKS = frozenset({"brokers_started", "brokers_failed"})
DELETION_STEPS = frozenset(
    {"topic_deletion_started", "topic_deletion_halted", "topic_deletion_completed"}
)


def story(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The trace with call-backs and steps of deletions, and one line for the requests of one kind
    that are queued one after the other."""
    lines = []
    for entry in logs:
        event = entry["event"]
        if event in CALLBACKS:
            lines.append(entry["message"])
        elif event in DELETION_STEPS:
            topics = entry.get("topics") or [entry["topic"]]
            lines.append(f"{event} {','.join(topics)}")
        for line in trace([entry]):
            kind, to, broker = line.partition(" to ")
            if to and lines and lines[-1].startswith(f"{kind} to "):
                lines[-1] += f",{broker}"
            else:
                lines.append(line)
    return lines
