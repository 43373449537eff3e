"""Errors of Kafka's use of ZooKeeper; the errors of ZooKeeper itself are in ``kernel.ports``."""

from __future__ import annotations


class ControllerMoved(Exception):
    """This broker is not, or no longer, the controller: ``/controller_epoch`` has moved on, or
    another broker won the election. Kafka's ``ControllerMovedException``."""


class MalformedZnode(ValueError):
    """The data of a znode does not have the format that belongs to its path."""

    def __init__(self, path: str, data: bytes, reason: str) -> None:
        super().__init__(f"{path}: {reason}: {data[:200]!r}")
        self.path = path
        self.data = data
        self.reason = reason
