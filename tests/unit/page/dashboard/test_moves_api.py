"""The progress of reassignments, by the verb and by the page, over brokers in this process."""

from __future__ import annotations

import io
import json
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from minikafka.cli.main import main
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.page_server import page_server

pytestmark = pytest.mark.mission("GLASS-157")


def verb(*words: str) -> str:
    with redirect_stdout(io.StringIO()) as shown:
        assert main(words) == 0
    return shown.getvalue()


def test_a_throttled_move_shows_how_far_it_is(tmp_path: Path) -> None:
    with InsideCluster(2) as cluster, page_server(cluster.client()[1]) as page:
        server = ("--bootstrap-server", cluster.bootstrap)
        assert page.get("/api/moves").json == {"moves": [], "total": 0}
        assert verb("reassign", "--progress", *server) == "No partition reassignments found.\n"
        verb("topics", "create", "--topic", "big", "--replica-assignment", "1", *server)
        for _ in range(20):
            reply = page.post(
                "/api/produce",
                {"topic": "big", "value": "x" * 100_000},
                Content_Type="application/json",
                X_Minikafka_Token=page.token,
            )
            assert reply.status == 200, reply.json
        plan = tmp_path / "plan.json"
        row = {"topic": "big", "partition": 0, "replicas": [2]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        verb(
            *("reassign", "--execute", "--throttle", "1000", *server),
            *("--reassignment-json-file", str(plan)),
        )
        for _ in range(100):
            found = page.get("/api/moves").json
            if found["moves"] and found["moves"][0]["bytes_per_s"] is not None:
                break
            time.sleep(0.1)
        (move,) = found["moves"]
        assert (move["topic"], move["adding"], move["removing"]) == ("big", [2], [1])
        assert 0 <= move["copied"] < move["total"]
        assert move["total"] >= 2_000_000
        head, line = verb("reassign", "--progress", *server).splitlines()
        assert head.split("\t")[:3] == ["partition", "to", "from"]
        assert line.split("\t")[:3] == ["big-0", "2", "1"]
        verb("reassign", "--cancel", *server, "--reassignment-json-file", str(plan))
