"""The faults of a test: handles, removal at its end, and faults that never struck."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.core.faults.kinds import Select
from minikafka.core.faults.rules import (
    Answer,
    Corrupt,
    Delay,
    DisconnectClient,
    Effect,
    Hold,
    Moment,
    Observe,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.fault_handle import FaultInTest
from minikafka.testing.faults import AddedFaults, AsyncFault, Faults, HasFaults

pytestmark = pytest.mark.mission("IN-46")


class RecordedFault(FaultInTest):
    """In place of a fault in a cluster."""

    def __init__(
        self, name: str | Effect, arguments: tuple[Any, ...], select: dict[str, Any]
    ) -> None:
        self.call = name, arguments, select
        self.struck = 0
        self.ended: list[str] = []

    @property
    def hits(self) -> int:
        return self.struck

    def wait(self, n: int = 1, timeout: float = 10) -> None:
        assert threading.current_thread() is not threading.main_thread() or n <= self.hits

    def remove(self) -> None:
        self.ended.append("removed")

    def describe(self) -> str:
        kind, _, select = self.call
        name = kind if isinstance(kind, str) else type(kind).__name__.lower()
        return f"{name} of {select.get('api')}"


class RecordedHold(RecordedFault):
    def release(self) -> None:
        self.ended.append("released")


class RecordedControl:
    """In place of the faults of a cluster: every method is there."""

    def __init__(self) -> None:
        self.made: list[RecordedFault] = []

    def add_rule(self, effect: Effect, select: Select) -> RecordedFault:
        kind = RecordedHold if isinstance(effect, Hold) else RecordedFault
        self.made.append(kind(effect, (), dict(select)))
        return self.made[-1]

    def __getattr__(self, name: str) -> Any:
        def add(*arguments: Any, **select: Any) -> RecordedFault:
            self.made.append(RecordedFault(name, arguments, select))
            return self.made[-1]

        return add


@pytest.fixture
def control() -> RecordedControl:
    return RecordedControl()


@pytest.fixture
def added() -> AddedFaults:
    return AddedFaults()


def cluster_with(control: RecordedControl) -> HasFaults:
    found = SimpleNamespace(request_faults=control, environment_faults=control)
    return cast(HasFaults, found)


@pytest.fixture
def faults(control: RecordedControl, added: AddedFaults) -> Faults[FaultInTest]:
    return Faults(cluster_with(control), added.add)


def test_each_method_reaches_the_cluster(
    faults: Faults[FaultInTest], control: RecordedControl
) -> None:
    faults.answer("NOT_COORDINATOR", api="JoinGroup", group="g", times=2, must_hit=False)
    faults.delay(0.5, "after", api="fetch")
    faults.disconnect("after", topic="t", partition=0, on_call=3)
    faults.swallow(client_id="app")
    faults.throttle(1.5, transactional_id="x")
    faults.corrupt(broker=1, probability=0.5, seed=4)
    faults.hold(at="before", times=None)
    faults.observe(of_broker=True)
    faults.full_disk(1, 100)
    faults.broken_disk(2, must_hit=False)
    faults.slow_disk(1, 0.1)
    faults.slow_link(1, 2, 0.1)
    faults.cut_link(1, 2)
    after, times = Moment.AFTER, {"times": None}
    corrupted = {"api": ApiKey.FETCH, "broker": 1, "probability": 0.5, "seed": 4}
    assert [made.call for made in control.made] == [
        (Answer(ErrorCode.NOT_COORDINATOR), (), {"api": "JoinGroup", "group": "g", "times": 2}),
        (Delay(500, after), (), {"api": "fetch"}),
        (DisconnectClient(after), (), {"topic": "t", "partition": 0, "on_call": 3}),
        (Swallow(), (), {"client_id": "app"}),
        (ThrottleClient(1500), (), {"transactional_id": "x"}),
        (Corrupt(), (), corrupted),
        (Hold(), (), times),
        (Observe(), (), {"of_broker": True, **times}),
        ("full_disk", (1, 100), {}),
        ("broken_disk", (2,), {}),
        ("slow_disk", (1, 0.1), {}),
        ("slow_link", (1, 2, 0.1), {}),
        ("cut_link", (1, 2), {}),
    ]


def test_faults_that_never_struck_are_named(
    faults: Faults[FaultInTest], control: RecordedControl, added: AddedFaults
) -> None:
    added.check()
    faults.swallow(api="fetch")
    faults.delay(1, api="produce")
    faults.observe(api="heartbeat", must_hit=False)
    with faults.swallow(api="metadata"):
        pass
    control.made[0].struck = 1
    with pytest.raises(AssertionError) as caught:
        added.check()
    message = "never struck: delay of produce; swallow of metadata (must_hit=False allows"
    assert str(caught.value).startswith(message)
    added.remove_all()
    assert [made.ended for made in control.made] == [["removed"]] * 3 + [["removed"] * 2]


def test_a_handle_is_a_context_and_waits(
    faults: Faults[FaultInTest], control: RecordedControl
) -> None:
    with faults.hold(api="fetch") as fault:
        control.made[0].struck = 2
        fault.wait(2)
        assert (fault.hits, fault.describe()) == (2, "hold of fetch")
        fault.release()
    assert control.made[0].ended == ["released", "removed"]
    with pytest.raises(AssertionError):
        fault.wait(3)
    with pytest.raises(TypeError, match=r"only a hold can be released, not: observe of None"):
        faults.observe().release()


async def test_a_handle_waits_in_a_loop(control: RecordedControl, added: AddedFaults) -> None:
    faults = Faults(
        cluster_with(control), lambda fault, must_hit: AsyncFault(added.add(fault, must_hit))
    )
    async with faults.hold(api="fetch") as fault:
        await fault.wait(1)  # in another thread
        await fault.release()
    assert (fault.hits, fault.describe()) == (0, "hold of fetch")
    assert control.made[0].ended == ["released", "removed"]
