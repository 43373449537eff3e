"""The collaborators that the parts of an elected controller share."""

from __future__ import annotations

from dataclasses import field

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Entropy
from minikafka.server.controller.channel_manager import ControllerChannels
from minikafka.server.controller.config import ControllerConfig
from minikafka.server.controller.state_machines import StateMachines
from minikafka.server.controller.watches import Watches
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.store import ZkStore


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """One instance per controller. Use it from the controller's event task only."""

    config: ControllerConfig
    context: ControllerContext
    zk: ZkSession = field(repr=False)
    watches: Watches = field(repr=False)
    machines: StateMachines = field(repr=False)
    channels: ControllerChannels = field(repr=False)
    entropy: Entropy = field(repr=False)
    log: EventLog = field(repr=False)

    @property
    def store(self) -> ZkStore:
        """The store on the current ZooKeeper session."""
        return self.zk.store

    @property
    def fence(self) -> int:
        """The version of ``/controller_epoch`` that every write of this term is conditional on."""
        return self.context.fence
