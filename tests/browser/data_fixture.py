"""A cluster as the page's process describes it, for the views of the data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import ACTS, command, shown_command
from tests.browser.fake_page_process import FakePageProcess, Query, Refusal
from tests.support.page_site import OWNER

BOOTSTRAP = "127.0.0.1:9092"
NUM_TOPICS = 10_000
MEMBERS = ("consumer-1-aaaa", "consumer-2-bbbb")


def hello(**more: Any) -> dict[str, Any]:
    return {
        "type": "hello",
        "version": 1,
        "at": now(),
        "cluster_id": "0KcVh6zp1ENXODJEoT2WeQ",
        "bootstrap": BOOTSTRAP,
        "minikafka": True,
        "live": True,
        "read_only": False,
        "supervised": ["start", "stop", "kill", "pause", "resume"],
        "brokers_supervised": [1, 2, 3],
        **more,
    }


def now() -> int:
    return int(time.time() * 1000)


def state(
    broker: int | None, *changed: tuple[str, str, Any], reset: bool = False
) -> dict[str, Any]:
    return {
        "type": "state",
        "at": now(),
        "broker": broker,
        "reset": reset,
        "changed": [{"kind": kind, "name": name, "facts": facts} for kind, name, facts in changed],
        "removed": [],
    }


def node(id: int) -> tuple[str, str, Any]:
    return (
        "node",
        str(id),
        {
            "id": id,
            "host": "127.0.0.1",
            "port": 9091 + id,
            "rack": None,
            "online": True,
            "controller": id == 1,
            "version": "minikafka 0.2",
            "debug": None,
        },
    )


def group_inside(phase: str, **member: Any) -> tuple[str, str, Any]:
    """The group `billing` as its coordinator reports it."""
    members = [
        {
            "member": name,
            "instance": None,
            "client": f"billing-{i}",
            "host": "/127.0.0.1",
            "session_timeout_ms": 45000,
            "awaits_join": False,
            "awaits_sync": False,
            **member,
        }
        for i, name in enumerate(MEMBERS)
    ]
    return (
        "group",
        "billing",
        {
            "group": "billing",
            "state": phase,
            "since_ms": now() - 12_000,
            "generation": 7,
            "protocol": "range",
            "leader": MEMBERS[0],
            "num_members": 2,
            "members": members,
            "pending_members": 0,
            "offsets": 3,
            "last_eviction": {
                "member": "consumer-0-old",
                "reason": "session time-out",
                "at_ms": now(),
            },
        },
    )


def heartbeats() -> tuple[str, str, Any]:
    operations = [
        {
            "kind": "DelayedHeartbeat",
            "keys": [f"billing-{name}"],
            "delay_ms": 45000,
            "age_ms": 3000,
            "remaining_ms": 42000 - 20_000 * i,
        }
        for i, name in enumerate(MEMBERS)
    ]
    return ("purgatory", "Heartbeat", {"name": "Heartbeat", "operations": operations, "wheels": []})


def group_facts(phase: str = "Stable", lead: int = 0) -> dict[str, Any]:
    """The group `billing` as the protocol describes it. ``lead`` moves the ends."""
    ends = [1000 + lead, 820 + 2 * lead, 400]
    committed = [940 + lead, 500, 400]
    return {
        "group": "billing",
        "state": phase,
        "protocol_type": "consumer",
        "protocol": "range",
        "coordinator": 2,
        "members": [
            {
                "member_id": name,
                "client_id": f"billing-{i}",
                "host": "/127.0.0.1",
                "instance_id": None,
                "assignment": {"orders": [0, 1] if i == 0 else [2]},
            }
            for i, name in enumerate(MEMBERS)
        ]
        if phase == "Stable"
        else [],
        "offsets": [
            {
                "topic": "orders",
                "partition": p,
                "committed": committed[p],
                "log_end_offset": ends[p],
                "lag": ends[p] - committed[p],
                "metadata": "",
            }
            for p in range(3)
        ],
        "lag": sum(ends) - sum(committed),
    }


def share_group() -> dict[str, Any]:
    """The group `returns` as the protocol describes it."""
    members = [
        {
            "member_id": f"share-{name}",
            "client_id": f"clerk-{name}",
            "host": "/127.0.0.1",
            "instance_id": None,
            "epoch": 4,
            "assignment": {"orders": [0, 1]},
        }
        for name in "ab"
    ]
    starts = [
        {
            "topic": "orders",
            "partition": partition,
            "leader": partition + 1,
            "leader_epoch": 4,
            "start_offset": 100,
            "lag": 60 - 20 * partition,
        }
        for partition in range(2)
    ]
    return {
        "group": "returns",
        "type": "share",
        "state": "Stable",
        "protocol_type": "share",
        "protocol": "simple",
        "coordinator": 2,
        "epoch": 4,
        "target_epoch": 4,
        "members": members,
        "share_partitions": starts,
        "offsets": [],
        "lag": 100,
    }


def share_partition() -> tuple[str, str, Any]:
    """The share-partition `orders-0` of `returns` as its leader reports it."""
    states = [
        (100, 109, "acquired", "share-a", 1, True),
        (110, 111, "archived", None, 5, True),
        (112, 119, "acknowledged", None, 1, True),
        (120, 123, "acknowledged", None, 1, False),
        (124, 131, "available", None, 2, True),
        (132, 139, "acquired", "share-b", 1, True),
    ]
    runs = [
        {
            "first": first,
            "last": last,
            "state": state,
            "member": member,
            "deliveries": deliveries,
            "locked_until_ms": now() + 20_000 if member else None,
            "written": written,
        }
        for first, last, state, member, deliveries, written in states
    ]
    facts = {
        "group": "returns",
        "topic": "orders",
        "partition": 0,
        "leader_epoch": 4,
        "state_epoch": 3,
        "error": None,
        "is_read": False,
        "start_offset": 100,
        "end_offset": 139,
        "in_flight": 40,
        "lag": 46,
        "records": {"available": 8, "acquired": 18, "acknowledged": 12, "archived": 2},
        "attempts": {"1": 18, "2": 8},
        "num_runs": len(runs),
        "runs": runs,
    }
    return ("share_partition", "returns:orders-0", facts)


def streams_group() -> dict[str, Any]:
    """The group `counts` as the protocol describes it."""
    tasks = [
        ({"0": [0, 1], "1": [0]}, {"1": [1]}, "10.0.0.1:7070"),
        ({"0": [2], "1": [1]}, {"1": [0]}, None),
    ]
    members = [
        {
            "member_id": f"thread-{number}",
            "client_id": f"counter-{number}",
            "host": "/127.0.0.1",
            "instance_id": None,
            "epoch": 7,
            "topology_epoch": 2,
            "process_id": f"process-{number}",
            "endpoint": endpoint,
            "tasks": {"active": active, "standby": standby, "warmup": {}},
            "target_tasks": {"active": active, "standby": standby, "warmup": {}},
        }
        for number, (active, standby, endpoint) in enumerate(tasks)
    ]
    return {
        **group_facts(),
        "group": "counts",
        "type": "streams",
        "protocol_type": "streams",
        "protocol": "",
        "epoch": 7,
        "target_epoch": 7,
        "topology_epoch": 2,
        "subtopologies": {"0": ["orders"], "1": ["counts-by-customer-repartition"]},
        "members": members,
    }


def topic_facts(name: str) -> dict[str, Any]:
    config = [
        {
            "name": "cleanup.policy",
            "value": "delete",
            "default": "delete",
            "source": "DEFAULT_CONFIG",
            "sensitive": False,
            "read_only": False,
        },
        {
            "name": "retention.ms",
            "value": "3600000",
            "default": "604800000",
            "source": "DYNAMIC_TOPIC_CONFIG",
            "sensitive": False,
            "read_only": False,
        },
        {
            "name": "segment.bytes",
            "value": "1073741824",
            "default": "1073741824",
            "source": "DEFAULT_CONFIG",
            "sensitive": False,
            "read_only": False,
        },
    ]
    return {
        "name": name,
        "internal": False,
        "configs": config,
        "partitions": [
            {
                "partition": p,
                "leader": p + 1,
                "leader_epoch": 4,
                "replicas": [1, 2, 3],
                "isr": [1, 2, 3] if p else [1, 2],
                "offline": [],
                "log_start_offset": 0,
                "high_watermark": 1000 - p,
                "last_stable_offset": 990 - p,
            }
            for p in range(3)
        ],
    }


def transaction(name: str, phase: str, partitions: int = 3, **more: Any) -> tuple[str, str, Any]:
    names = [f"orders-{p}" for p in range(partitions)]
    return (
        "transaction",
        name,
        {
            "state": phase,
            "pending": None,
            "producer_id": 1000,
            "producer_epoch": 3,
            "timeout_ms": 60_000,
            "start_ms": now() - 9_000,
            "partitions": names,
            "num_partitions": partitions,
            "unmarked": 0,
            **more,
        },
    )


def record(offset: int, **more: Any) -> dict[str, Any]:
    value = f'{{"order":{offset},"id":12345678901234567890,"items":["a","b"],"paid":true}}'
    return {
        "partition": offset % 3,
        "offset": offset,
        "timestamp": now(),
        "key": f"customer-{offset % 7}",
        "value": value,
        "headers": [["trace", f"t-{offset}"]] if offset % 5 == 0 else [],
        "key_size": 10,
        "value_size": len(value),
        "encoding": {"key": "utf8", "value": "utf8"},
        "truncated": False,
        **more,
    }


def listed_topics(query: Query, _: Any) -> dict[str, Any]:
    """10,000 names, searched and paged as `GET /api/topics` does, by name or by size."""
    names = ["orders", *(f"topic-{i:05}" for i in range(NUM_TOPICS - 1))]
    matching = [name for name in names if query.get("search", "").lower() in name]
    if query.get("sick") == "1":
        matching = [name for name in matching if name == "orders"]
    if query.get("descending") == "1":
        matching.reverse()
    rest = matching[int(query.get("skip", 0)) :]
    limit = int(query.get("limit", 100))
    rows = [
        {
            "name": name,
            "internal": False,
            "partitions": 3,
            "replication_factor": 3,
            "under_replicated": int(name == "orders"),
            "offline": 0,
            "records_per_s": 12.5,
            "size_bytes": 1_000_000 + names.index(name),
        }
        for name in rest[:limit]
    ]
    return {
        "topics": rows,
        "matching": len(matching),
        "total": len(names),
        "more": len(rest) > limit,
    }


def listed_groups(query: Query, _: Any) -> dict[str, Any]:
    types = {"billing": "classic", "counts": "streams", "returns": "share"}
    rows = [
        {
            "group": name,
            "type": group_type,
            "state": "Stable",
            "protocol_type": "consumer" if group_type == "classic" else group_type,
            "coordinator": 2,
        }
        for name, group_type in types.items()
    ]
    found = [row for row in rows if query.get("search", "") in str(row["group"])]
    return {"groups": found, "matching": len(found), "total": len(rows), "more": False}


class Records:
    """A growing topic whose offsets go over its partitions: `GET /api/records` and `POST
    /api/produce`. One request looks at ``step`` records at most."""

    def __init__(self, count: int = 250, step: int = 5_000) -> None:
        self.rows = [record(offset) for offset in range(count)]
        self.step = step

    def read(self, query: Query, _: Any) -> dict[str, Any]:
        how, _, number = query.get("from", "earliest").partition(":")
        if "before" in query or (how == "last" and "next" not in query):
            return self._newest(query)
        end = len(self.rows)
        if "next" in query:
            start = _offset(query["next"])
        else:
            starts = {"earliest": 0, "latest": end, "offset": int(number or 0), "time": 0}
            start = starts[how]
        found: list[dict[str, Any]] = []
        at = start
        while at < end and at < start + self.step and len(found) < int(query.get("limit", 100)):
            found += [self.rows[at]] if matches(self.rows[at], query) else []
            at += 1
        return {
            "records": [decoded(row, query) for row in found],
            "next": {"0": at},
            "more": at < end,
            "looked_at": at - start,
            "progress": {"done": at, "of": end},
            "order": "oldest",
            "older": None,
        }

    def _newest(self, query: Query) -> dict[str, Any]:
        end = len(self.rows)
        start = at = min(_offset(query.get("before", f"0:{end}")), end)
        found: list[dict[str, Any]] = []
        while at > 0 and at > start - self.step and len(found) < int(query.get("limit", 100)):
            at -= 1
            found += [self.rows[at]] if matches(self.rows[at], query) else []
        return {
            "records": [decoded(row, query) for row in found],
            "next": {"0": end},
            "more": at > 0,
            "looked_at": start - at,
            "progress": {"done": end - at, "of": end},
            "order": "newest",
            "older": {"0": at} if at > 0 else None,
        }

    def produce(self, _: Query, body: Any) -> dict[str, Any]:
        if body["topic"] == "missing":
            raise Refusal("The topic missing does not exist.")
        offset = len(self.rows)
        self.rows.append(
            record(offset, key=body["key"], value=body["value"], headers=body["headers"])
        )
        return {"partition": 0, "offset": offset}


def _offset(text: str) -> int:
    return int(text.split(":")[1])


def matches(row: Mapping[str, Any], query: Query) -> bool:
    """Whether a record has what a query names; an expression is looked for as a text."""
    text = f"{row['key']} {row['value']}"
    wanted = query.get("contains", "")
    if "case" not in query:
        text, wanted = text.lower(), wanted.lower()
    header = query.get("header", "")
    return (
        wanted in text
        and query.get("key", row["key"]) == row["key"]
        and (not header or header in ["=".join(one[:2]) for one in row["headers"]])
        and query.get("where", "") in row["value"]
    )


def decoded(row: Mapping[str, Any], query: Query) -> dict[str, Any]:
    """The record as it is decoded: as a schema, or named as what the query wishes."""
    schema = {"id": 7, "subject": "orders-value", "version": 3, "type": "AVRO"}
    parts = {}
    for part in ("key", "value"):
        how = query.get(f"{part}_as", "auto")
        text = row[part] if how == "auto" else f"{how} of {row['offset']}"
        as_it_is = {"as": "text" if how == "auto" else how, "text": text, "error": None}
        parts[f"{part}_decoded"] = {**as_it_is, "schema": schema if how == "schema" else None}
    return {**parts, **row}


DECODINGS = {
    "decodings": [
        {"name": "auto", "label": "Automatic"},
        {"name": "int64", "label": "Integer, 64 bits"},
        {"name": "schema", "label": "By its schema"},
    ],
    "registry": "http://127.0.0.1:8081",
}


def topic_use() -> dict[str, Any]:
    """What belongs to the topic `orders`, as `GET /api/topic-use/orders` has it."""
    rule = {"principal": "User:alice", "host": "*", "operation": "READ", "permission": "ALLOW"}
    return {
        "records_per_s": 12.5,
        "has_registry": False,
        "sizes": {str(p): {"1": 1024 * (p + 1), "2": 1024, "3": 1000} for p in range(3)},
        "groups": [
            {"group": "billing", "partitions": 3, "lag": 1_380, "lag_ms": 65_000,
             "lag_exact": False}
        ],
        "acls": [
            {"pattern_type": "LITERAL", "resource": "orders", **rule},
            {"pattern_type": "PREFIXED", "resource": "ord", **rule, "permission": "DENY"},
        ],
        "no_acls": "",
        "errors": [],
    }  # fmt: skip


def history(query: Query, _: Any) -> dict[str, Any]:
    """An hour of whatever is wished, as `GET /api/history` has it."""
    minutes = int(query["minutes"])
    whats = {
        "cluster": ["records", "size"],
        "broker": ["messages_in", "size"],
        "topic": ["records", "size"],
        "group": ["lag", "lag_ms"],
    }[query["of"]]
    names = ["1", "2", "3"] if query["of"] == "broker" else [query.get("name", "")]
    steps = range(minutes * 6 if minutes <= 60 else minutes)
    step_ms = 60_000 * minutes // len(steps)
    first_ms = now() // step_ms * step_ms - len(steps) * step_ms
    return {
        "step_ms": step_ms,
        "at": [first_ms + step * step_ms for step in steps],
        "lines": [
            {"name": name, "what": what, "values": [1000 + step for step in steps]}
            for name in names
            for what in whats
        ],
    }


def act(name: str) -> Any:
    """Previews with the real command line; an act that is carried out succeeds."""

    def reply(_: Query, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = command(name, body["arguments"], BOOTSTRAP, dry_run=body["dry_run"])
        except ActError as error:
            raise Refusal(str(error)) from None
        line = {"command": shown_command(found)}
        if body["preview"]:
            return line
        more = {"fill": {"plan": '{"version":1,"partitions":[]}'}} if name == "reassign" else {}
        if name == "groups-delete":
            return {**line, "status": 1, "output": None, "errors": "The group is not empty."}
        return {
            **line,
            "status": 0,
            "output": [{"what": name, "result": "done"}],
            "errors": "",
            **more,
        }

    return reply


def supervised(verb: str) -> Any:
    return lambda _, body: {
        "command": f"kill broker {body['arguments'].get('broker')}",
        "status": 0,
        "output": None,
        "errors": "",
    }


def cluster(**more: Any) -> FakePageProcess:
    """A fake page process of a cluster of three brokers. ``more`` goes into `hello`."""
    records = Records()
    replies = {
        "/api/session": lambda query, body: OWNER,
        "/api/acts": lambda query, body: [one.facts(BOOTSTRAP) for one in ACTS.values()],
        "/api/topics": listed_topics,
        "/api/topics/orders": lambda query, body: topic_facts("orders"),
        "/api/topic-use/orders": lambda query, body: topic_use(),
        "/api/history": history,
        "/api/groups": listed_groups,
        "/api/groups/billing": lambda query, body: group_facts(lead=now() // 250 % 400),
        "/api/groups/returns": lambda query, body: share_group(),
        "/api/groups/counts": lambda query, body: streams_group(),
        "/api/records": records.read,
        "/api/decodings": lambda query, body: DECODINGS,
        "/api/produce": records.produce,
        **{f"/api/do/{name}": act(name) for name in ACTS},
        **{
            f"/api/do/broker-{verb}": supervised(verb)
            for verb in ("stop", "kill", "start", "pause", "resume")
        },
    }
    messages = [
        hello(**more),
        state(
            None,
            node(1),
            node(2),
            node(3),
            ("topic", "orders", topic_facts("orders")),
            ("consumer_group", "billing", group_facts()),
            reset=True,
        ),
        state(
            2,
            group_inside("Stable"),
            heartbeats(),
            transaction("payments-1", "Ongoing"),
            transaction(
                "payments-2", "PrepareCommit", unmarked=1, unmarked_partitions=["orders-2"]
            ),
            transaction("refunds", "CompleteAbort", partitions=0),
            reset=True,
        ),
    ]
    return FakePageProcess(messages, replies)
