"""Transactions of kafkajs 2.2.4: consumed in a group, committed with its offsets, and aborted."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.clients.places import Cluster, in_both_places

pytestmark = pytest.mark.compat

PROGRAM = Path(__file__).parents[2] / "support" / "clients" / "transactions.js"
COUNT = 20


@in_both_places
@pytest.mark.mission("IN-95")
def test_records_of_a_group_are_copied_in_transactions(
    cluster: Cluster, topic: str, node_modules: Path
) -> None:
    options = {
        "bootstrap": cluster.bootstrap,
        "source": topic,
        "target": f"{topic}-copy",
        "group": f"g-{topic}",
        "count": COUNT,
    }
    done = subprocess.run(
        ["node", str(PROGRAM), json.dumps(options)],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    copied = [str(number) for number in range(COUNT)]
    assert json.loads(done.stdout) == {"copied": copied, "offset": str(COUNT)}
