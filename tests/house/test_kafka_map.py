"""docs/kafka-map.md names things that exist."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from minikafka.controller.watches import event_of
from minikafka.kernel.ports import WatchEvent, WatchKind

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "kafka-map.md").read_text()
PACKAGES = [*(p.name for p in (ROOT / "minikafka").iterdir() if p.is_dir()), "node"]
OURS = re.compile(rf"`((?:{'|'.join(PACKAGES)})[./][^`]*)`")
LISTENER = re.compile(r"^\| `([\w.]+)` \| `(/\S+)` \| (.+) \|$", re.MULTILINE)


def test_some_of_our_names_are_found() -> None:
    assert len(OURS.findall(TEXT)) > 20


@pytest.mark.parametrize("name", OURS.findall(TEXT))
def test_a_name_of_ours_exists(name: str) -> None:
    if "/" in name:
        assert list((ROOT / "minikafka").glob(name))
        return
    module, _, last = f"minikafka.{name}".rpartition(".")
    if last[0].isupper():
        assert hasattr(import_module(module), last)
    else:
        assert find_spec(f"{module}.{last}") is not None


@pytest.mark.mission("CDU-13")
def test_the_old_listeners_and_what_their_watches_mean_here() -> None:
    listeners = LISTENER.findall(TEXT)
    assert {name for name, _, _ in listeners} == {
        "registerControllerChangedListener",
        "registerPartitionChangeListener",
        "registerPreferredReplicaElectionListener",
        "registerReassignedPartitionsListener",
        "partitionStateMachine.registerListeners",
        "replicaStateMachine.registerListeners",
    }
    for _, path, told in listeners:
        events = {type(event_of(WatchEvent(kind, path))).__name__ for kind in WatchKind}
        assert events - {"NoneType"} == set(re.findall(r"`(\w+)`", told)), path
