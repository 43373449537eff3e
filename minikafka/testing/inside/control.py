"""Control of a cluster inside the process over HTTP: faults, topics, leaders and brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from minikafka.testing.fault_control import BadControl, HttpFaults, document, fields
from minikafka.testing.fault_handle import FaultInTest
from minikafka.testing.faults import Faults
from minikafka.testing.inside.cluster import InsideCluster

# What is done to one broker: the words of the path, and the methods of the cluster.
VERBS: Final[Mapping[str, Callable[[InsideCluster, int], None]]] = {
    "kill": InsideCluster.kill_broker,
    "stop": InsideCluster.stop_broker,
    "start": InsideCluster.start_broker,
    "pause": InsideCluster.pause_broker,
    "resume": InsideCluster.resume_broker,
    "isolate": InsideCluster.isolate_broker,
    "heal": InsideCluster.heal_broker,
    "expire_session": InsideCluster.expire_session,
}

HELP: Final = {
    "POST /topics": {"example": {"name": "t", "partitions": 3, "replicas": 1}},
    "POST /leaders": {"example": {"topic": "t", "partition": 0, "broker": 2}},
    "POST /coordinators": {"example": {"group": "g", "broker": 2}},
    "POST /compact": {"example": {"topic": "t"}},
    "POST /retention": {"example": {"topic": "t"}, "without a topic": "of all topics"},
    "POST /version": {"example": {"version": "2.8"}, "version null": "serve everything"},
    "GET /brokers": "the brokers, and whether they run",
    f"POST /brokers/ID/{', '.join(VERBS)}": "end a broker, start it again, ...",
    "POST /brokers": "add a broker",
    "POST /reset": "remove faults, topics and groups, and start what was stopped",
}


def cluster_control(cluster: InsideCluster) -> HttpFaults:
    """Return the control of the faults, the topics and the brokers of a cluster."""

    def change(method: str, path: list[str], body: bytes) -> Any:
        if (method, *path) != ("POST", "reset"):
            return _change(cluster, method, path, body)
        control.remove_all()
        cluster.reset()
        return {}

    faults: Faults[FaultInTest] = Faults(cluster, lambda fault, must_hit: fault)
    of_environment = (
        *(faults.full_disk, faults.broken_disk, faults.slow_disk),
        *(faults.slow_link, faults.cut_link),
    )
    control = HttpFaults(cluster.request_faults, change, HELP, of_environment)
    return control


def _change(cluster: InsideCluster, method: str, path: list[str], body: bytes) -> Any:
    """Carry out a request for topics or brokers. None if there is no such path."""
    match method, *path:
        case "POST", "topics":
            wanted = fields(document(body), ["name", "partitions", "replicas"], ["name"])
            name = str(wanted["name"])
            cluster.create_topic(name, int(wanted.get("partitions", 1)), wanted.get("replicas"))
            return {"name": name}
        case "POST", "leaders":
            names = ["topic", "partition", "broker"]
            wanted = fields(document(body), names, names)
            cluster.move_leader(wanted["topic"], wanted["partition"], wanted["broker"])
            return wanted
        case "GET", "brokers":
            return {str(number): cluster.is_running(number) for number in cluster.broker_ids}
        case "POST", "brokers":
            return {"broker": cluster.add_broker(), "bootstrap": cluster.bootstrap}
        case "POST", "coordinators":
            wanted = fields(document(body), ["group", "broker"], ["group", "broker"])
            cluster.move_coordinator(str(wanted["group"]), int(wanted["broker"]))
            return wanted
        case "POST", "compact":
            wanted = fields(document(body), ["topic"], ["topic"])
            cluster.compact(str(wanted["topic"]))
            return wanted
        case "POST", "retention":
            wanted = fields(document(body), ["topic"], [])
            return {"deleted_segments": cluster.apply_retention(wanted.get("topic"))}
        case "POST", "version":
            wanted = fields(document(body), ["version"], ["version"])
            cluster.as_version(wanted["version"])
            return wanted
        case "POST", "brokers", text, verb if verb in VERBS:
            number = int(text) if text.isdecimal() else 0
            if number not in cluster.broker_ids:
                raise BadControl(f"no broker {text!r}; there are {[*cluster.broker_ids]}")
            VERBS[verb](cluster, number)
            return {"broker": number, "runs": cluster.is_running(number)}
    return None
