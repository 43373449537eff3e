"""Who is the controller: the struggle for /controller (Kafka's ZookeeperLeaderElector)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from minikafka.controller.watches import Watches
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.events import ControllerEvent, Reelect
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, SessionExpired, TimerHandle
from minikafka.zookeeper import paths
from minikafka.zookeeper.store import ControllerMoved, ControllerNode, ZkStore

NO_CONTROLLER = -1
# Who failed to take office lets the others try first.
STAND_DOWN_MS = 1_000


class StoreSource(Protocol):
    """Gives the store on the node's current ZooKeeper session (``ZkSession`` does)."""

    @property
    def store(self) -> ZkStore: ...


class ControllerElector:
    """Stands for election on behalf of one broker, and resigns.

    Whoever creates the ephemeral /controller is the controller. Called from the controller's event
    task only; watches and timers put events on its queue.

    Beyond Kafka it clears away a node under which nobody can be acting: data that cannot be read
    (R-1), or a name that is not that of the session's owner (R-13). There Kafka waits for ever.
    """

    def __init__(
        self,
        context: ControllerContext,
        on_becoming_leader: Callable[[], Awaitable[None]],
        on_resigning_as_leader: Callable[[], Awaitable[None]],
        broker_id: int,
        *,
        zk: StoreSource,
        watches: Watches,
        clock: Clock,
        put: Callable[[ControllerEvent], None],
        session_timeout_ms: int,
        election_path: str = paths.CONTROLLER,
    ) -> None:
        """``election_path`` completes Kafka's signature; the store knows no other path."""
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
        self._waited_for: int | None = None  # the old session whose node we gave time to go
        self._retry: TimerHandle | None = None
        self._log = event_log("controller", broker=broker_id)

    @property
    def am_i_leader(self) -> bool:
        return self._leading

    # -------------------------------------------------------------------------------- elections

    async def startup(self) -> None:
        """The first election; /controller is watched from before it on."""
        await self.elect()

    async def elect(self) -> bool:
        """Try to become the controller, unless there is one; whether this broker is it.

        A. somebody is: stop. Unless nobody can be acting under that node: clear it away.
        B. nobody is: create the node. Won: take office. An error there: give the office up.
        C. lost: somebody else was faster (or has already gone: try again at once).
        """
        while self._may_stand:
            node = await self._look()
            if node is not None and await self._holds(node):  # case A
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
            await self._take_office(epoch, zk_version)  # case B
            return self._leading
        return False

    async def _look(self) -> ControllerNode | None:
        """Read /controller, watching it."""
        store = self._zk.store
        node = await store.controller(self._watches.controller(store.session.session_id))
        known = node.broker_id if node is not None else None
        self.active_controller_id = NO_CONTROLLER if known is None else known
        return node

    async def _holds(self, node: ControllerNode) -> bool:
        """Whether the node is to be respected. One that is not goes away, or already went."""
        if self._is_mine(node) and not self._leading:
            await self._delete_mine()  # an office that was left, and the node with it
            return False
        if node.broker_id == self._broker_id and not self._is_mine(node):
            return await self._old_session_holds(node)
        if await self._zk.store.is_orphan(node):
            await self._repair(node)
            return False
        self._log.debug(
            f"Broker {node.broker_id} has been elected as leader, so stopping the election process."
        )
        return True

    async def _old_session_holds(self, node: ControllerNode) -> bool:
        """Our own id, in a node of a session that is not ours: ZooKeeper has not yet taken back
        what our last session left (the "ZK bug" of createEphemeralPathExpectConflictHandleZKBug).
        It gets a session time-out to do so; then we do it."""
        if self._waited_for == node.ephemeral_owner:
            self._waited_for = None
            await self._repair(node)
            return False
        self._waited_for = node.ephemeral_owner
        self._log.info(
            "controller_node_of_old_session",
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
        """After a lost election: whether another broker is the controller now."""
        node = await self._look()
        if self.active_controller_id not in (NO_CONTROLLER, self._broker_id):
            self._log.debug(
                f"Broker {self.active_controller_id} was elected as leader instead of broker "
                f"{self._broker_id}"
            )
            return True
        if node is None or node.broker_id is None:
            self._log.warning(
                "A leader has been elected but just resigned, this will result in another round "
                "of election"
            )
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
        """No more elections by the clock."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _is_mine(self, node: ControllerNode) -> bool:
        return self._zk.store.is_ours(node)

    async def _take_office(self, epoch: int, zk_version: int) -> None:
        self._context.epoch = epoch
        self._context.epoch_zk_version = zk_version
        self.active_controller_id = self._broker_id
        self._leading = True
        self._waited_for = None
        self._log.info(
            f"{self._broker_id} successfully elected as leader",
            epoch=epoch,
            epoch_zk_version=zk_version,
        )
        try:
            await self._on_becoming_leader()
        except (ControllerMoved, SessionExpired):
            raise  # the event's owner knows what these mean
        except Exception:
            self._log.error(
                f"Error while electing or becoming leader on broker {self._broker_id}",
                exc_info=True,
            )
            await self.on_error()

    # ----------------------------------------------------------------------------- resignations

    async def on_controller_change(self) -> None:
        """/controller was made, changed or deleted: note who it names now. The old controller
        resigns if that is not itself; without a node (or with one that nobody can be acting under)
        all elect."""
        if not self._may_stand:
            return  # said by the session that is over
        node = await self._look()
        if self._leading and (
            node is None or node.broker_id != self._broker_id or not self._is_mine(node)
        ):
            await self._leave_office()
        if not self._leading:
            await self.elect()

    async def on_controller_moved(self) -> None:
        """A write of ours was refused because /controller_epoch has moved on."""
        node = await self._look()
        if not self._leading:
            return
        if node is not None and self._is_mine(node) and node.broker_id == self._broker_id:
            await self.resign()  # nobody was elected: the epoch was raised by hand
        else:
            await self._leave_office()

    async def resign(self) -> None:
        """Give the office up, so that another is elected (Kafka's triggerControllerMove)."""
        if not self._leading:
            self._log.warning("controller_moved_already", now=self.active_controller_id)
            return
        await self._leave_office()
        self.active_controller_id = NO_CONTROLLER
        await self._delete_mine()

    async def _delete_mine(self) -> None:
        """Delete /controller if this session owns it."""
        store = self._zk.store
        epoch = await store.controller_epoch()
        node = await store.controller()
        if epoch is None or node is None or not self._is_mine(node):
            return
        try:
            await store.delete_controller(epoch[1])
        except ControllerMoved:
            self._log.warning("controller_moved_already", now=self.active_controller_id)

    async def on_error(self) -> None:
        """An event failed: resign if in office, and in any case let others go first."""
        self._not_before_ms = self._clock.monotonic_ms() + STAND_DOWN_MS
        if self._leading:
            await self.resign()
        else:
            self._try_again_in(STAND_DOWN_MS)

    async def on_session_expired(self) -> None:
        """The session is over; whatever /controller says, it is not this broker's any more. No
        election before the broker is registered again."""
        self._may_stand = False
        await self.abdicate()

    async def on_new_session(self) -> None:
        """The broker is registered in its next session."""
        self._may_stand = True
        await self.elect()

    async def abdicate(self) -> None:
        """Leave office without a word to ZooKeeper: the session that owns /controller is over, or
        about to be."""
        self.close()
        self.active_controller_id = NO_CONTROLLER
        if self._leading:
            await self._leave_office()

    async def _leave_office(self) -> None:
        self._leading = False
        await self._on_resigning_as_leader()
