"""The verb `debug`: shows a broker's internal state from its debug listener."""

from __future__ import annotations

import argparse
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import Table
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import ConfigError
from minikafka.kernel.listeners import DEBUG_LISTENER, debug_listener

DEFAULT_LIMIT = 100
ANSWER_TIMEOUT_S = 10
ASK_ANOTHER_AFTER_MS = 5_000  # a cluster that is being debugged may have brokers that hang
MAX_ANSWER_BYTES = 64 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(VIEWS))
    for name, (_, text, _) in VIEWS.items():
        action = add_action(actions, name, text)
        add_bootstrap_argument(action)
        action.add_argument(
            "--broker", type=int, required=True, metavar="ID", help="the broker to ask"
        )
        action.add_argument(
            "--limit", type=int, default=DEFAULT_LIMIT, help=f"rows of one list ({DEFAULT_LIMIT})"
        )
        add_json_argument(action)


def run(args: argparse.Namespace) -> int:
    path, _, tables = VIEWS[args.action]
    shown = fetch(find_listener(args), args.broker, f"{path}?limit={args.limit}")
    if args.json:
        output.show_json(shown)
    else:
        output.show_tables(tables(shown))
    return 0


def find_listener(args: argparse.Namespace) -> Endpoint:
    """Return the address of a broker's debug listener from its configuration. Raises KafkaError,
    and ConfigError if it has none."""
    config = client_config(args, request_timeout_ms=ASK_ANOTHER_AFTER_MS)

    async def work(admin: Admin) -> Mapping[str, str | None]:
        return await admin.broker_configs(args.broker, [DEBUG_LISTENER])

    endpoint = debug_listener(run_admin(config, work).get(DEBUG_LISTENER))
    if endpoint is None:
        raise ConfigError(f"broker {args.broker} has no {DEBUG_LISTENER} configured")
    return endpoint


def fetch(endpoint: Endpoint, broker_id: int, path: str) -> Any:
    """Return the JSON of the debug listener. Raises ConfigError if the response is not that
    broker's: the address is a loopback one, and the broker may run on another machine."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    url = f"http://{host}:{endpoint.port}{path}"
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with no_proxy.open(url, timeout=ANSWER_TIMEOUT_S) as answer:
            shown = json.loads(answer.read(MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise ConfigError(f"{url}: {complaint(error)}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"no answer from {url} ({reason}); is broker {broker_id} on this machine?"
        ) from None
    if not isinstance(shown, dict) or shown.get("broker") != broker_id:
        raise ConfigError(f"{url} on this machine is not broker {broker_id}'s")
    return shown


def complaint(error: urllib.error.HTTPError) -> str:
    """Return the reason in the body of an error, if it is one of the debug listener's."""
    try:
        return str(json.loads(error.read(MAX_ANSWER_BYTES))["error"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return f"HTTP status {error.code}"


def purgatory_tables(shown: Any) -> list[Table]:
    purgatories = shown["purgatories"]
    summary = [
        (
            *(row["name"], row["reaper"], row["purgatory_size"], row["num_delayed_operations"]),
            *(row["watched_keys"], row["wake_ups"], row["next_wake_up_in_ms"]),
        )
        for row in purgatories
    ]
    operations = [
        (row["name"], op["kind"], keys_text(op), op["age_ms"], op["remaining_ms"])
        for row in purgatories
        for op in row["operations"]
    ]
    wheels = [
        (
            *(row["name"], wheel["level"], wheel["tick_ms"], wheel["wheel_size"]),
            *(wheel["interval_ms"], wheel["current_time_ms"], buckets_text(wheel)),
        )
        for row in purgatories
        for wheel in row["wheels"]
    ]
    return [
        (
            ("purgatory", "reaper", "size", "delayed", "keys", "wake_ups", "next_wake_up_in_ms"),
            summary,
        ),
        (("purgatory", "kind", "keys", "age_ms", "remaining_ms"), operations),
        (
            (
                *("purgatory", "level", "tick_ms", "wheel_size", "interval_ms"),
                *("current_time_ms", "slot:tasks"),
            ),
            wheels,
        ),
    ]


def keys_text(operation: Any) -> str:
    return ",".join(operation["keys"]) + (",..." if operation["more_keys"] else "")


def buckets_text(wheel: Any) -> str:
    """``3:1 17:100+``: slot and tasks of each bucket in use."""
    return " ".join(
        f"{bucket['slot']}:{bucket['tasks']}{'+' if bucket['more'] else ''}"
        for bucket in wheel["buckets"]
    )


def task_tables(shown: Any) -> list[Table]:
    tasks = [(row["name"], row["count"]) for row in shown["tasks"]]
    reapers = [(row["name"], row["wake_ups"]) for row in shown["reapers"]]
    return [(("task", "count"), tasks), (("reaper", "wake_ups"), reapers)]


def group_tables(shown: Any) -> list[Table]:
    """The generation of a consumer group (KIP-848) is its epoch."""
    columns = ("group", "state", "generation", "protocol", "members", "offsets", "last_eviction")
    rows = [
        (
            *(row["group"], row["state"], row.get("generation", row.get("epoch"))),
            *(row.get("protocol"), row["num_members"], row["offsets"]),
            eviction_text(row.get("last_eviction")),
        )
        for row in shown["groups"]
    ]
    return [(columns, rows)]


def share_partition_tables(shown: Any) -> list[Table]:
    """Return the share-partitions, and their records in flight."""
    rows = shown["share_partitions"]
    states = ("available", "acquired", "acknowledged", "archived")
    columns = ("group", "topic", "partition", "state_epoch", "start_offset", "end_offset", "lag")
    summary = [
        (*(row.get(name) for name in columns), *(row.get("records", {}).get(s) for s in states))
        for row in rows
    ]
    fields = ("first", "last", "state", "member", "deliveries")
    runs = [
        (row["group"], row["topic"], row["partition"], *(run[name] for name in fields))
        for row in rows
        for run in row.get("runs", ())
    ]
    return [((*columns, *states), summary), ((*columns[:3], *fields), runs)]


def eviction_text(last: Any) -> str | None:
    """Format the members that were removed from a group, with reason and time."""
    if last is None:
        return None
    at = datetime.fromtimestamp(last["at_ms"] / 1000, UTC).isoformat(timespec="seconds")
    return f"{last['member']}: {last['reason']} ({at})"


def scrubber_tables(shown: Any) -> list[Table]:
    summary = [(shown["bytes_per_second"], shown["rounds"], shown["bytes_read"])]
    damaged = [
        (
            *(row["topic"], row["partition"], row["offset"], row["state"]),
            *(row["fault"], row["file"], row["position"]),
        )
        for row in shown["damaged"]
    ]
    columns = ("topic", "partition", "offset", "state", "fault", "file", "position")
    return [(("bytes_per_second", "rounds", "bytes_read"), summary), (columns, damaged)]


def metric_tables(shown: Any) -> list[Table]:
    return [(("metric", "value"), list(shown["metrics"].items()))]


# Action: path of the debug listener, what it is, how it becomes tables.
VIEWS: Mapping[str, tuple[str, str, Callable[[Any], list[Table]]]] = {
    "purgatories": (
        "/purgatories.json",
        "show parked requests and timing wheels",
        purgatory_tables,
    ),
    "tasks": ("/tasks.json", "show tasks and reapers by name", task_tables),
    "groups": ("/groups.json", "show the groups that the broker coordinates", group_tables),
    "share-partitions": (
        "/share-partitions.json",
        "show the share-partitions that the broker leads, and their records in flight",
        share_partition_tables,
    ),
    "scrubber": (
        "/scrubber.json",
        "show damaged batches that the scrubber has found, and what becomes of them",
        scrubber_tables,
    ),
    "metrics": ("/metrics.json", "show counters and gauges", metric_tables),
}
