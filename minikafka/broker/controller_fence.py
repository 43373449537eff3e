"""The door for controller requests: is it the controller of today, does it mean this broker?"""

from __future__ import annotations

from collections.abc import Callable

from minikafka.kernel.cluster import NO_EPOCH
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log


class ControllerFence:
    """Remembers the highest controller epoch heard of, for all requests of controllers.

    A controller says one thing at a time, and what was not answered again over its next
    connection. So an order that a later one overtook, as it waited for something here, came over a
    connection that is gone: it is refused, or it would undo what the later ones did (Kafka does
    obey it). ``broker_epoch`` is the epoch of this broker's current registration."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self.controller_epoch = 0
        self._arrived = 0
        self._obeyed = 0
        self._broker_epoch = broker_epoch
        self._log = event_log("state-change", broker=broker_id)

    def arrived(self) -> int:
        """The number of an order that comes in."""
        self._arrived += 1
        return self._arrived

    def check(
        self,
        api: str,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        number: int | None = None,
    ) -> ErrorCode:
        """STALE_BROKER_EPOCH for a request that was meant for an earlier life of this broker,
        STALE_CONTROLLER_EPOCH for one of a controller of the past, or one overtaken by another
        order (``number``: see ``arrived``). Otherwise NONE, and the controller's epoch is
        remembered. ``broker_epoch`` -1: too old a version to tell."""
        error = ErrorCode.NONE
        if broker_epoch != NO_EPOCH and broker_epoch < self._broker_epoch():
            error = ErrorCode.STALE_BROKER_EPOCH
        elif controller_epoch < self.controller_epoch or (
            number is not None and number < self._obeyed
        ):
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error is ErrorCode.NONE:
            self.controller_epoch = controller_epoch
            self._obeyed = number or self._obeyed
        else:
            self._log.warning(
                "controller_request_refused",
                api=api,
                error=error.name,
                controller=controller_id,
                controller_epoch=controller_epoch,
                known_controller_epoch=self.controller_epoch,
                broker_epoch=broker_epoch,
            )
        return error
