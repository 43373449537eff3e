"""The examples of docs/how-to/client.md on a real broker, started by our own pytest plugin."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.testing.processes import ClusterProcesses

# One worker: later examples read what earlier ones wrote, and each worker has a cluster of its own.
pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("client-docs")]

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/client.md").read_text(), re.DOTALL)
# The login with tokens is shown by tests/simulation/test_sasl.py.
EXAMPLES = [block for block in BLOCKS if "def test_" not in block and "sasl_" not in block]
# The example with a secured cluster is run by tests/compat/test_secured_cluster.py.
TESTS = [block for block in BLOCKS if "def test_" in block and "_secure_" not in block]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("docs")) as cluster:
        cluster.create_topic("orders", partitions=3)
        yield cluster


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
async def test_an_example(number: int, shop: ClusterProcesses) -> None:
    """In the order of the page: later ones read what earlier ones wrote."""
    names: dict[str, object] = {}
    exec(EXAMPLES[number], names)
    (main,) = (each for name, each in names.items() if name in ("produce", "read", "administrate"))
    await main(shop.bootstrap)  # type: ignore[operator]


def test_the_fixtures_in_a_users_own_test_run(tmp_path: Path) -> None:
    """The documented fixtures work in a user's project. Each of two workers has its cluster."""
    assert len(TESTS) == 5
    for number, block in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(block)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "each", str(tmp_path)]
    installed = subprocess.run([*command, "--fixtures"], capture_output=True, text=True)
    if "minikafka_cluster" not in installed.stdout:
        command += ["-p", "minikafka.testing.plugin"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:]
