"""The routes of the debug listener: the state of a broker as JSON over HTTP.

The listener is off unless ``debug.listener`` is set, and on a loopback address only, since there is
no login. ``minikafka debug`` learns the address by DescribeConfigs. Every response is bounded
whatever is waiting.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from minikafka.core.controller.states import machines
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import in_slices
from minikafka.server.broker.share.share_facts import facts_of_each as share_facts_of_each
from minikafka.server.coordinator.group_facts import all_group_facts, group_facts
from minikafka.server.listeners.http_server import BadQuery, HttpText, Query, Route
from minikafka.server.node.entities import BrokerEntities
from minikafka.server.node.event_feed import MAX_WAIT_MS, EventFeed

if TYPE_CHECKING:
    from minikafka.server.node.state_facts import StateFacts

DEFAULT_LIMIT = 100
MAX_NUMBER = 2**53  # which JSON's numbers can be
REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec"
_FETCH_PART = re.compile("request=Fetch(Consumer|Follower)")
MAX_LIMIT = 1000  # rows of one list; building it blocks the event loop


def debug_routes(entities: BrokerEntities, metrics: Metrics) -> dict[str, Route]:
    """Return the handler of each path. Each response is an object that names the broker. The query
    parameter ``limit`` bounds its lists."""
    broker_id, purgatories = entities.broker_id, entities.purgatories
    controller, groups = entities.controller, entities.groups

    def show_purgatories(query: Query) -> Any:
        return {"broker": broker_id, "purgatories": purgatories.facts(limit(query))}

    def show_tasks(query: Query) -> Any:
        """Return the running tasks by name, and the reapers, which are threads in Kafka and timers
        here."""
        names = Counter(task.get_name() for task in asyncio.all_tasks())
        rows = sorted(names.items())[: limit(query)]
        return {
            "broker": broker_id,
            "num_tasks": names.total(),
            "tasks": [{"name": name, "count": count} for name, count in rows],
            "reapers": [{"name": r.name, "wake_ups": r.wake_ups} for r in purgatories],
        }

    def show_metrics(query: Query) -> Any:
        """Return the metrics whose names begin with the parameter ``prefix``. Reading all is slow:
        some gauges count ten thousand items."""
        return {"broker": broker_id, "metrics": metrics.snapshot(query.get("prefix", ""))}

    def show_controller(query: Query) -> Any:
        return {"broker": broker_id, **controller.facts(limit(query))}

    def show_controller_context(query: Query) -> Any:
        """Return the controller's context. It is nearly empty unless this broker is the
        controller."""
        return {"broker": broker_id, "context": controller.context_dump(limit(query))}

    def show_groups(query: Query) -> Any:
        """Return the groups coordinated by this broker, or the one in the parameter ``group``."""
        most, group_id = limit(query), query.get("group")
        if group_id is None:
            return {"broker": broker_id, **all_group_facts(groups, most)}
        return {"broker": broker_id, **group_facts(groups, most, group_id)}

    def show_share_partitions(query: Query) -> Any:
        """Return the share-partitions that this broker leads."""
        clock = entities.clock
        offset_ms = clock.wall_ms() - clock.monotonic_ms()
        rows = list(share_facts_of_each(entities.shares, limit(query), offset_ms))
        return {"broker": broker_id, "share_partitions": rows}

    def show_state_machines(query: Query) -> Any:
        """Return the states of partitions and replicas, and the transitions that the controller
        allows; a page draws them, and lights up those of ``/controller.json``."""
        return {"broker": broker_id, "machines": machines()}

    def show_scrubber(query: Query) -> Any:
        """Return the progress of the scrubber, and the damaged batches that it has found."""
        return {"broker": broker_id, **entities.mending.facts(limit(query))}

    return {
        "/scrubber.json": show_scrubber,
        "/controller.json": show_controller,
        "/controller-context.json": show_controller_context,
        "/state-machines.json": show_state_machines,
        "/groups.json": show_groups,
        "/share-partitions.json": show_share_partitions,
        "/purgatories.json": show_purgatories,
        "/tasks.json": show_tasks,
        "/metrics.json": show_metrics,
        "/counters.json": lambda query: counters(entities, metrics),
    }


def counters(entities: BrokerEntities, metrics: Metrics) -> Any:
    """Return the totals whose rates a page keeps over time. A Fetch counts once, and not again as
    that of a consumer or follower."""
    counted = metrics.snapshot(REQUESTS)
    requests = sum(count for name, count in counted.items() if not _FETCH_PART.search(name))
    shown = {**entities.broker(), "requests": requests}
    return {"broker": entities.broker_id, "counters": shown}


def page_routes(entities: BrokerEntities, feed: EventFeed) -> dict[str, Route]:
    """Return the paths by which a page follows the broker: its log, and the state of its entities.
    What follows them is imported when a page first looks: most brokers have no page."""
    broker_id = entities.broker_id

    @cache
    def state() -> StateFacts:
        from minikafka.server.node.state_facts import StateFacts

        return StateFacts(entities)

    async def read_events(since: int, wait_ms: int, limit: int) -> Any:
        await feed.wait(since, wait_ms)
        events, missed = feed.since(since, limit)
        return {
            "broker": broker_id,
            "last": events[-1].number if events else min(since, feed.last),
            "missed": missed,
            "events": [event._asdict() for event in events],
        }

    def show_events(query: Query) -> Any:
        """Return the events of the log after the one with the number ``since``. If there is none,
        wait for one, up to ``wait`` ms."""
        since = _number(query, "since", 0, MAX_NUMBER)
        return read_events(since, _number(query, "wait", 0, MAX_WAIT_MS), limit(query))

    async def read_state(since: int, topics: list[str]) -> Any:
        changes = await state().since(since, topics)
        others = {
            "broker": broker_id,
            "last": changes.last,
            "reset": changes.reset,
            "removed": [{"kind": kind, "name": name} for kind, name in changes.removed],
        }
        return await object_with_rows(
            others, "changed", (change._asdict() for change in changes.changed)
        )

    def show_state(query: Query) -> Any:
        """Return the entities that have changed since the response whose ``last`` is ``since``. All
        partitions of the topics in ``partitions``, separated by commas, are among them for a while,
        however many partitions there are."""
        topics = [topic for topic in query.get("partitions", "").split(",") if topic]
        return read_state(_number(query, "since", 0, MAX_NUMBER), topics)

    return {"/events.json": show_events, "/state.json": show_state}


async def object_with_rows(
    others: Mapping[str, Any], name: str, rows: Iterable[Mapping[str, Any]]
) -> HttpText:
    """Return a JSON object with a list under ``name`` besides ``others``, which is not empty.

    The rows are encoded in slices: all the facts of a broker at once would take milliseconds."""
    encoded = [json.dumps(row) async for row in in_slices(rows)]
    text = f"{json.dumps(others)[:-1]}, {json.dumps(name)}: [{', '.join(encoded)}]}}\n"
    return HttpText(text.encode(), "application/json")


def limit(query: Query) -> int:
    """Return the query parameter ``limit``. Raises BadQuery unless it is a number up to
    ``MAX_LIMIT``."""
    return _number(query, "limit", DEFAULT_LIMIT, MAX_LIMIT)


def _number(query: Query, name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not is_number or int(text) > most:
        raise BadQuery(f"{name} must be a number up to {most}")
    return int(text)
