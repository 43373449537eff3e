"""The SASL of a listener: the logins of its connections, and their counts.

``ConnectionLogin`` is a stage of a connection before its request handler. It calls ``ServerLogin``
for each frame and performs the actions that this returns. When no later frame can belong to a
login, the connection calls the request handler without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.core.security.sasl.exchange import Send
from minikafka.core.security.sasl.server_login import (
    SERVE,
    Action,
    Close,
    CloseAfterDelay,
    CloseCause,
    LoggedIn,
    ServerLogin,
    ServerLoginConfig,
)
from minikafka.kernel.events import EventLog, EventRates
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Entropy, TimerHandle
from minikafka.server.listeners.flow_control import Pause
from minikafka.server.listeners.server_connection import FrameHandler, ServerConnection

# A connection that has not logged in by then is closed, like an unfinished TLS handshake. Kafka
# waits for connections.max.idle.ms, ten minutes.
LOGIN_TIMEOUT_MS: Final = 30_000
_SEED_BYTES: Final = 32


@dataclass(slots=True)
class LoginCounts:
    """The totals of a listener, by the names of Kafka's ``socket-server-metrics``."""

    successful_authentication: int = 0
    failed_authentication: int = 0
    successful_reauthentication: int = 0
    failed_reauthentication: int = 0
    successful_authentication_no_reauth: int = 0  # by clients that are not told the session's end
    expired_connections_killed: int = 0


class ListenerSasl:
    """The settings, counts and events of the logins of one listener.

    ``failure_delay_ms`` is ``connection.failed.authentication.delay.ms``. New ``config`` counts for
    connections to come. Events about failures are bounded for each client.
    """

    def __init__(
        self,
        config: ServerLoginConfig,
        failure_delay_ms: int,
        clock: Clock,
        entropy: Entropy,
        log: EventLog,
    ) -> None:
        self.config = config
        self.failure_delay_ms = failure_delay_ms
        self.clock = clock
        self.counts = LoginCounts()
        self._entropy = entropy
        self._log = log
        self._events = EventRates(burst=1)

    def begin(self, connection: ServerConnection, serve: FrameHandler) -> None:
        """Begin the login of a new connection; ``serve`` is its request handler."""
        login = ServerLogin(self.config, self._entropy.random_bytes(_SEED_BYTES))
        connection.begin_login(ConnectionLogin(self, login, connection, serve))
        connection.limit_frames(login.max_frame_bytes)

    # -- for the connections' logins

    def logged_in(self, host: str, action: LoggedIn) -> None:
        counts = self.counts
        if action.reauthentication_ms is None:
            counts.successful_authentication += 1
            if not action.can_reauthenticate:
                counts.successful_authentication_no_reauth += 1
        else:
            counts.successful_reauthentication += 1
        self._log.debug(
            "authentication_succeeded",
            client=host,
            principal=str(action.principal),
            mechanism=action.mechanism,
            reauthentication_ms=action.reauthentication_ms,
        )

    def failed(self, host: str, action: CloseAfterDelay) -> None:
        event = "authentication_failed"
        if action.reauthentication:
            self.counts.failed_reauthentication += 1
            event = "reauthentication_failed"
        else:
            self.counts.failed_authentication += 1
        suppressed = self._admit(host, event)
        if suppressed is not None:
            self._log.info(
                event,
                client=host,
                mechanism=action.mechanism,
                reason=action.reason,
                detail=action.detail,
                suppressed=suppressed,
            )

    def closed(self, host: str, action: Close) -> None:
        if action.cause is CloseCause.SESSION_EXPIRED:
            self.counts.expired_connections_killed += 1
        if action.cause is not CloseCause.UNEXPECTED_REQUEST:
            self._log.debug("authentication_ended", client=host, reason=action.reason)
            return
        suppressed = self._admit(host, "unexpected")
        if suppressed is not None:
            self._log.warning(
                "connection_refused", client=host, reason=action.reason, suppressed=suppressed
            )

    def timed_out(self, host: str) -> None:
        self.counts.failed_authentication += 1
        suppressed = self._admit(host, "timeout")
        if suppressed is not None:
            reason = f"no login within {LOGIN_TIMEOUT_MS} ms"
            self._log.info(
                "authentication_failed", client=host, reason=reason, suppressed=suppressed
            )

    def _admit(self, host: str, cause: str) -> int | None:
        return self._events.admit(host, cause, self.clock.monotonic_ms())


class ConnectionLogin:
    """The login of one connection: its ``LoginStage``."""

    __slots__ = ("_connection", "_listener", "_login", "_timer", "serve")

    def __init__(
        self,
        listener: ListenerSasl,
        login: ServerLogin,
        connection: ServerConnection,
        serve: FrameHandler,
    ) -> None:
        self._listener = listener
        self._login = login
        self._connection = connection
        self.serve = serve
        # Of the time-out of the first login, or of the delay after a failure.
        self._timer: TimerHandle | None = None
        self._set_timer()

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool | None:
        """Process a frame as a ``FrameHandler``."""
        clock, login = self._listener.clock, self._login
        now_ms = clock.monotonic_ms()
        if connection.unanswered and login.waits_for_replies(frame, now_ms):
            return True
        actions = login.receive(frame, now_ms, clock.wall_ms())
        if actions is SERVE:
            return self.serve(connection, frame)
        self._perform(actions)
        return False

    def refuse_frame(self, detail: str) -> None:
        """Process a frame whose size is invalid. All requests before it have their replies."""
        self._perform(self._login.refuse_frame(detail))

    def close(self) -> None:
        """Release the timer. The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _perform(self, actions: Sequence[Action]) -> None:
        connection, listener = self._connection, self._listener
        for action in actions:
            match action:
                case Send():
                    connection.open_slot().send(action.frame)
                case LoggedIn():
                    self.close()
                    connection.principal = action.principal
                    if self._login.software is not None:
                        connection.clients.identify(connection, *self._login.software)
                    listener.logged_in(connection.client_host, action)
                case Close():
                    listener.closed(connection.client_host, action)
                    connection.close()
                case CloseAfterDelay():
                    listener.failed(connection.client_host, action)
                    self._close_later(action.frame)
        if self._login.serves_everything:
            connection.end_login()
        else:
            connection.limit_frames(self._login.max_frame_bytes)

    def _close_later(self, frame: bytes | None) -> None:
        def close() -> None:
            self._timer = None
            if frame is not None:
                connection.open_slot().send(frame)
            connection.close()

        connection = self._connection
        connection.stop_serving()
        self.close()
        self._timer = self._listener.clock.call_later(self._listener.failure_delay_ms, close)

    def _set_timer(self) -> None:
        self._timer = self._listener.clock.call_later(LOGIN_TIMEOUT_MS, self._time_out)

    def _time_out(self) -> None:
        if (
            Pause.STARTING in self._connection.flow.reasons
        ):  # the broker does not serve requests yet
            self._set_timer()
            return
        self._timer = None
        self._listener.timed_out(self._connection.client_host)
        self._connection.close()
