"""What can go wrong in ZooKeeper beyond the port's own errors."""

from __future__ import annotations


class ControllerMoved(Exception):
    """This broker is not, or no longer, the controller: ``/controller_epoch`` has moved on, or
    another broker won the election. Kafka's ``ControllerMovedException``."""


class MalformedZnode(ValueError):
    """A znode holds bytes that nobody can read as what belongs there."""

    def __init__(self, path: str, data: bytes, reason: str) -> None:
        super().__init__(f"{path}: {reason}: {data[:200]!r}")
        self.path = path
        self.data = data
        self.reason = reason
