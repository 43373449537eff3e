"""Control of a cluster inside the process over HTTP: faults, topics and brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from minikafka.faults.control import HttpFaults
from minikafka.faults.documents import BadControl, document, fields
from minikafka.inside.cluster import InsideCluster

HELP: Final = {
    "POST /topics": {"example": {"name": "t", "partitions": 3, "replicas": 1}},
    "POST /leaders": {"example": {"topic": "t", "partition": 0, "broker": 2}},
    "GET /brokers": "the brokers, and whether they run",
    "POST /brokers/ID/kill, stop or start": "end a broker, or start it again",
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

    control = HttpFaults(cluster.request_faults, change, HELP)
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
        case "POST", "brokers", text, ("kill" | "stop" | "start") as verb:
            number = int(text) if text.isdecimal() else 0
            if number not in cluster.broker_ids:
                raise BadControl(f"no broker {text!r}; there are {[*cluster.broker_ids]}")
            changes: dict[str, Callable[[int], None]] = {
                "kill": cluster.kill_broker,
                "stop": cluster.stop_broker,
                "start": cluster.start_broker,
            }
            changes[verb](number)
            return {"broker": number, "runs": cluster.is_running(number)}
    return None
