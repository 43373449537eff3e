"""The hosts of a simulated cluster and the links between them, for a reader's stage."""

from __future__ import annotations

from typing import Any

from minikafka.testing.simulator.cluster import CLIENT, SimCluster, host_name
from minikafka.world.sim.disk import Disk
from minikafka.world.sim.zookeeper import ZOOKEEPER_HOST


def hosts_of(brokers: int) -> tuple[str, ...]:
    """Return the hosts that links connect."""
    return (*(host_name(number) for number in range(1, brokers + 1)), ZOOKEEPER_HOST, CLIENT)


def host_facts(cluster: SimCluster) -> list[dict[str, Any]]:
    """Return each host: whether it is alive, paused (no message passes) or isolated (only those
    with clients do), whether new connections to it are refused, its disk, and the links from it
    that are cut, slow or hold a message. This reads the simulation and changes nothing."""
    hosts = hosts_of(len(cluster.broker_ids))
    return [_facts(cluster, host, hosts) for host in hosts]


def _facts(cluster: SimCluster, host: str, hosts: tuple[str, ...]) -> dict[str, Any]:
    simulation = cluster.simulation
    links = {other: _link(cluster, host, other) for other in hosts if other != host}
    cut = {other for other, state in links.items() if state == "cut"}
    is_broker = host not in (ZOOKEEPER_HOST, CLIENT)
    known = simulation.known_host(host)
    alive = simulation.zookeeper.running if host == ZOOKEEPER_HOST else host == CLIENT
    if known is not None:
        alive = known.alive
    return {
        "name": host,
        "alive": alive,
        "paused": is_broker and len(cut) == len(links),
        "isolated": is_broker and cut == set(links) - {CLIENT},
        "refuses": simulation.fabric.is_refusing(host),
        "disk": "ok" if known is None else _disk(known.disk),
        "links": {other: state for other, state in links.items() if state},
    }


def _link(cluster: SimCluster, one: str, other: str) -> str:
    links = cluster.simulation.links
    both = ((one, other), (other, one))
    if any(links.is_blocked(*direction) for direction in both):
        return "cut"
    if any(links.is_held(*direction) for direction in both):
        return "held"
    return "slow" if any(links.slow_us(*direction) for direction in both) else ""


def _disk(disk: Disk) -> str:
    if disk.broken:
        return "broken"
    if disk.capacity_bytes is not None:
        return "full"
    return "slow" if disk.slow_us else "ok"
