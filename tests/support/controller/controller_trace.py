"""What a controller did, in short lines: state changes, epochs, requests, steps."""

from collections.abc import Iterable, Mapping
from typing import Any


def trace(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for entry in logs:
        event = entry["event"]
        if "before" in entry and "reason" not in entry:
            subject = entry["partition"]
            if "replica" in entry:
                subject += f"/{entry['replica']}"
            lines.append(f"{subject} {entry['before']} -> {entry['after']}")
        elif event == "leader_epoch_raised":
            replicas = ",".join(map(str, entry["replicas"]))
            lines.append(f"{event} {entry['partition']} leader {entry['leader']} of {replicas}")
        elif event == "request_queued":
            lines.append(f"{entry['kind'].removesuffix('Request')} to {entry['broker']}")
        elif event == "reassignment_step":
            lines.append(f"{event} {entry['step']}")
    return lines


CALLBACKS = ("New broker startup callback for ", "Broker failure callback for ")
DELETION_STEPS = frozenset(
    {"topic_deletion_started", "topic_deletion_halted", "topic_deletion_completed"}
)


def story(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The trace with call-backs and steps of deletions, and one line for the requests of one kind
    that are queued one after the other."""
    lines = []
    for entry in logs:
        event = entry["event"]
        if event.startswith(CALLBACKS):
            lines.append(event)
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
