"""What a controller did, in short lines: state changes, epochs, requests, steps."""


def trace(logs):
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
