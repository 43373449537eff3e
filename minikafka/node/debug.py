"""What a broker shows of itself over HTTP: the paths of its debug listener."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.kernel.metrics import Metrics
from minikafka.network.http_server import BadQuery, Query, Route
from minikafka.node.purgatories import BrokerPurgatories

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000  # rows of one list; the broker serves nobody else while it gathers them


def debug_routes(
    broker_id: int,
    purgatories: BrokerPurgatories,
    metrics: Metrics,
    controller_facts: Callable[[int], Mapping[str, Any]],
    controller_context: Callable[[int], Mapping[str, Any]],
    group_facts: Callable[[int, str | None], Mapping[str, Any]],
) -> dict[str, Route]:
    """One row a path. Each answer is an object that names the broker; lists end at ``limit``."""

    def show_purgatories(query: Query) -> Any:
        return {"broker": broker_id, "purgatories": purgatories.facts(limit(query))}

    def show_tasks(query: Query) -> Any:
        """Reapers are threads in Kafka, hence listed here; in this house each is a timer."""
        names = Counter(task.get_name() for task in asyncio.all_tasks())
        rows = sorted(names.items())[: limit(query)]
        return {
            "broker": broker_id,
            "num_tasks": names.total(),
            "tasks": [{"name": name, "count": count} for name, count in rows],
            "reapers": [{"name": r.name, "wake_ups": r.wake_ups} for r in purgatories],
        }

    def show_metrics(query: Query) -> Any:
        """With ``prefix``, of those whose name begins so: some gauges count ten thousand things."""
        return {"broker": broker_id, "metrics": metrics.snapshot(query.get("prefix", ""))}

    def show_controller(query: Query) -> Any:
        return {"broker": broker_id, **controller_facts(limit(query))}

    def show_controller_context(query: Query) -> Any:
        """What the active controller knows of the cluster; nearly empty on the other brokers."""
        return {"broker": broker_id, "context": controller_context(limit(query))}

    def show_groups(query: Query) -> Any:
        """Those coordinated here; with ``group``, that one."""
        return {"broker": broker_id, **group_facts(limit(query), query.get("group"))}

    return {
        "/controller.json": show_controller,
        "/controller-context.json": show_controller_context,
        "/groups.json": show_groups,
        "/purgatories.json": show_purgatories,
        "/tasks.json": show_tasks,
        "/metrics.json": show_metrics,
    }


def limit(query: Query) -> int:
    """The parameter ``limit``. Raises BadQuery."""
    text = query.get("limit", str(DEFAULT_LIMIT))
    if not text.isdecimal() or len(text) > len(str(MAX_LIMIT)) or int(text) > MAX_LIMIT:
        raise BadQuery(f"limit must be a number up to {MAX_LIMIT}")
    return int(text)
