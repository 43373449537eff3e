"""The election of the controller through ``/controller`` (Kafka's ZookeeperLeaderElector).

The broker whose session owns the ephemeral znode ``/controller`` is the controller. To become it, a
broker creates this znode and increments ``/controller_epoch``, both in one multi, so two brokers
can never hold the same epoch. The version of ``/controller_epoch`` after that write is the term's
fence: every later write of the controller is a multi that checks it, so a controller that was
replaced without noticing cannot write any more.

Every broker watches ``/controller``. When the znode disappears, all stand for election. When it
names another broker, an active controller resigns.

Kafka waits without end in two cases in which the znode exists but no broker acts on it: its data is
malformed (R-1), or it names a broker whose registration belongs to another session (R-13). Here the
elector deletes such a node, under the condition that neither it nor the epoch changes meanwhile. A
node with this broker's own id, of another session, gets one session time-out first: it is probably
left from this broker's last session, and ZooKeeper will delete it.

Three conditions keep a broker from standing: the broker has no registration (its session expired),
another broker holds a valid node, or a take-over has just failed here, in which case the others may
try first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.events import ControllerEvent, Reelect
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, NoAuth, SessionExpired, TimerHandle
from minikafka.server.controller.watches import Watches
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.store import ControllerMoved, ControllerNode

NO_CONTROLLER = -1
# After a failed take-over this broker does not stand for this long, so that another one is elected.
STAND_DOWN_MS = 1_000


class ControllerElector:
    """Stands for election on behalf of one broker, and resigns.

    Called by the controller's event task only; watches and timers put events on its queue.
    """

    def __init__(
        self,
        context: ControllerContext,
        on_becoming_leader: Callable[[], Awaitable[None]],
        on_resigning_as_leader: Callable[[], Awaitable[None]],
        broker_id: int,
        *,
        zk: ZkSession,
        watches: Watches,
        clock: Clock,
        put: Callable[[ControllerEvent], None],
        session_timeout_ms: int,
        election_path: str = paths.CONTROLLER,
    ) -> None:
        """``election_path`` exists because Kafka's constructor has it; it must be /controller."""
        assert election_path == paths.CONTROLLER, "the store reads and writes /controller only"
        self.election_path = election_path
        self.active_controller_id = NO_CONTROLLER
        self._context = context
        self._on_becoming_leader = on_becoming_leader
        self._on_resigning_as_leader = on_resigning_as_leader
        self._broker_id = broker_id
        self._zk = zk
        self._watches = watches
        self._clock = clock
        self._put = put
        self._session_timeout_ms = session_timeout_ms
        self._leading = False
        self._may_stand = True
        self._not_before_ms = 0
        self._waited_for: int | None = None  # the old session that was given one time-out to expire
        self._retry: TimerHandle | None = None
        self._log = event_log("controller", broker=broker_id)

    @property
    def am_i_leader(self) -> bool:
        return self._leading

    # -------------------------------------------------------------------------------- elections

    async def startup(self) -> None:
        """Stand for election for the first time. This also arms the watch on ``/controller``."""
        await self.elect()

    async def elect(self) -> bool:
        """Try to become the controller; return whether this broker is the controller now.

        A. ``/controller`` exists: accept its broker as the controller, unless no broker can be
           acting on it (then delete it and try again).
        B. It does not exist: create it and take over. If the take-over fails, resign.
        C. Another broker created it first: accept that. If it is already gone, try again.
        """
        while self._may_stand:
            node = await self._read_and_watch()
            if node is not None and await self._is_held(node):  # case A
                return self._leading
            if self._must_wait():
                return False
            try:
                epoch, zk_version = await self._zk.store.register_controller_and_increment_epoch(
                    self._broker_id, self._clock.wall_ms()
                )
            except ControllerMoved:  # case C
                if await self._has_winner():
                    return False
                continue
            await self._take_over(epoch, zk_version)  # case B
            return self._leading
        return False

    async def _read_and_watch(self) -> ControllerNode | None:
        """Read ``/controller`` and arm the watch on it."""
        store = self._zk.store
        node = await store.controller(self._watches.controller(store.session.session_id))
        known = node.broker_id if node is not None else None
        self.active_controller_id = NO_CONTROLLER if known is None else known
        return node

    async def _is_held(self, node: ControllerNode) -> bool:
        """Return whether a broker acts as the controller that this node names. If none does, delete
        the node."""
        if self._is_own(node) and not self._leading:
            await self._delete_own_node()  # left from a resignation that could not delete it
            return False
        if node.broker_id == self._broker_id and not self._is_own(node):
            return await self._is_held_by_old_session(node)
        if await self._zk.store.is_orphan(node):
            await self._repair(node)
            return False
        self._log.debug("election_stopped", elected_broker=node.broker_id)
        return True

    async def _is_held_by_old_session(self, node: ControllerNode) -> bool:
        """Wait for ZooKeeper to delete a node that has this broker's id and another session: it is
        left from the broker's last session (the "ZK bug" of Kafka's
        createEphemeralPathExpectConflictHandleZKBug). After a session time-out, delete it here.
        Return whether the node still counts."""
        if self._waited_for == node.ephemeral_owner:
            self._waited_for = None
            await self._repair(node)
            return False
        self._waited_for = node.ephemeral_owner
        self._log.info(
            "old_controller_node_found",
            session=f"0x{node.ephemeral_owner:x}",
            wait_ms=self._session_timeout_ms,
        )
        self._try_again_in(self._session_timeout_ms)
        return True

    async def _repair(self, node: ControllerNode) -> None:
        if await self._zk.store.repair_controller():
            self._log.warning(
                "controller_node_repaired",
                named=node.broker_id,
                data=node.data[:100],
                session=f"0x{node.ephemeral_owner:x}",
            )

    async def _has_winner(self) -> bool:
        """Return, after a lost election, whether another broker is the controller now."""
        node = await self._read_and_watch()
        if self.active_controller_id not in (NO_CONTROLLER, self._broker_id):
            self._log.debug("election_lost", elected_broker=self.active_controller_id)
            return True
        if node is None or node.broker_id is None:
            self._log.warning("elected_controller_resigned")
        return False

    def _must_wait(self) -> bool:
        wait_ms = self._not_before_ms - self._clock.monotonic_ms()
        if wait_ms <= 0:
            return False
        self._try_again_in(wait_ms)
        return True

    def _try_again_in(self, delay_ms: int) -> None:
        self.close()
        self._retry = self._clock.call_later(delay_ms, lambda: self._put(Reelect()))

    def close(self) -> None:
        """Cancel the timer of the next attempt."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _is_own(self, node: ControllerNode) -> bool:
        return self._zk.store.is_ours(node)

    async def _take_over(self, epoch: int, zk_version: int) -> None:
        self._context.epoch = epoch
        self._context.epoch_zk_version = zk_version
        self.active_controller_id = self._broker_id
        self._leading = True
        self._waited_for = None
        self._log.info(
            "controller_elected",
            epoch=epoch,
            epoch_zk_version=zk_version,
            message=f"{self._broker_id} successfully elected as leader",
        )
        try:
            await self._on_becoming_leader()
        except (ControllerMoved, SessionExpired, NoAuth):
            raise  # KafkaController handles these for all events
        except Exception:
            self._log.error("controller_failover_failed", exc_info=True)
            await self.on_error()

    # ----------------------------------------------------------------------------- resignations

    async def on_controller_change(self) -> None:
        """Called when ``/controller`` was created, changed or deleted. Resign if the node is no
        longer this broker's; stand for election if there is no valid node."""
        if not self._may_stand:
            return  # the watch of the expired session fired
        node = await self._read_and_watch()
        if self._leading and (
            node is None or node.broker_id != self._broker_id or not self._is_own(node)
        ):
            await self._stop_leading()
        if not self._leading:
            await self.elect()

    async def on_controller_moved(self) -> None:
        """Called when a write was refused because ``/controller_epoch`` has changed: resign."""
        node = await self._read_and_watch()
        if not self._leading:
            return
        if node is not None and self._is_own(node) and node.broker_id == self._broker_id:
            await self.resign()  # no election took place: the epoch was changed by other means
        else:
            await self._stop_leading()

    async def resign(self) -> None:
        """Resign and delete ``/controller``, so that a broker is elected
        (triggerControllerMove)."""
        if not self._leading:
            self._log.warning(
                "controller_moved_already", active_controller=self.active_controller_id
            )
            return
        await self._stop_leading()
        self.active_controller_id = NO_CONTROLLER
        await self._delete_own_node()

    async def _delete_own_node(self) -> None:
        """Delete ``/controller`` if this session owns it."""
        store = self._zk.store
        epoch = await store.controller_epoch()
        node = await store.controller()
        if epoch is None or node is None or not self._is_own(node):
            return
        try:
            await store.delete_controller(epoch[1])
        except ControllerMoved:
            self._log.warning(
                "controller_moved_already", active_controller=self.active_controller_id
            )

    async def on_error(self) -> None:
        """Called when an event failed: resign, and do not stand for ``STAND_DOWN_MS``, so that
        another broker is elected."""
        self._not_before_ms = self._clock.monotonic_ms() + STAND_DOWN_MS
        if self._leading:
            await self.resign()
        else:
            self._try_again_in(STAND_DOWN_MS)

    async def on_session_expired(self) -> None:
        """Called when the session has expired: this broker is not the controller any more, whatever
        ``/controller`` contains. It does not stand until it is registered again."""
        self._may_stand = False
        await self.abdicate()

    async def on_new_session(self) -> None:
        """Called when the broker is registered in its new session: stand for election."""
        self._may_stand = True
        await self.elect()

    async def abdicate(self) -> None:
        """Resign without deleting ``/controller``: the session that owns it has expired, or is
        about to be closed."""
        self.close()
        self.active_controller_id = NO_CONTROLLER
        if self._leading:
            await self._stop_leading()

    async def _stop_leading(self) -> None:
        self._leading = False
        await self._on_resigning_as_leader()
