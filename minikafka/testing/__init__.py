"""Clusters for the tests of applications, in three places: inside the process, as processes, or in
simulated time.

``plugin.py`` has the fixtures and the mark of pytest, ``standalone.py`` the ways without it. Start
reading at ``view.py``, which is what a test sees, and ``cluster.py``, which is what a place offers.
Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.testing.async_view import AsyncView
    from minikafka.testing.cluster import AnyCluster, NotInThisPlace, place
    from minikafka.testing.fault_handle import FaultInTest
    from minikafka.testing.faults import AsyncFault, Faults
    from minikafka.testing.inside.cluster import InsideCluster
    from minikafka.testing.looking import GroupView
    from minikafka.testing.processes import ClusterNotStarted, ClusterProcesses
    from minikafka.testing.proxy.fault_proxy import FaultProxy
    from minikafka.testing.simulated import SimulatedCluster, play
    from minikafka.testing.standalone import MiniKafkaTestCase, running
    from minikafka.testing.view import BrokerHandle, GroupHandle, TestView

__all__ = [
    "AnyCluster",
    "AsyncFault",
    "AsyncView",
    "BrokerHandle",
    "ClusterNotStarted",
    "ClusterProcesses",
    "FaultInTest",
    "FaultProxy",
    "Faults",
    "GroupHandle",
    "GroupView",
    "InsideCluster",
    "MiniKafkaTestCase",
    "NotInThisPlace",
    "SimulatedCluster",
    "TestView",
    "place",
    "play",
    "running",
]

_MODULES = {
    "minikafka.testing.inside.cluster": ("InsideCluster",),
    "minikafka.testing.proxy.fault_proxy": ("FaultProxy",),
    "minikafka.testing.async_view": ("AsyncView",),
    "minikafka.testing.cluster": ("AnyCluster", "NotInThisPlace", "place"),
    "minikafka.testing.fault_handle": ("FaultInTest",),
    "minikafka.testing.faults": ("AsyncFault", "Faults"),
    "minikafka.testing.looking": ("GroupView",),
    "minikafka.testing.processes": ("ClusterNotStarted", "ClusterProcesses"),
    "minikafka.testing.standalone": ("MiniKafkaTestCase", "running"),
    "minikafka.testing.simulated": ("SimulatedCluster", "play"),
    "minikafka.testing.view": ("BrokerHandle", "GroupHandle", "TestView"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
