"""The Coordination port over kazoo. Kazoo's threads call into this module only.

Kazoo has two threads and calls back on both. ``_on_kazoo_state`` and the callbacks of requests and
watches do one thing there: they pass the result to the event loop by ``_post``. Everything else
runs on the loop. Four of kazoo's habits are corrected: it reopens an expired session silently,
waits for a silent server until the session is over, and keeps a session alive whose event loop
stands still (``_OneSessionHandler``); it forgets watches when the connection is lost (``_fire``).
With a login, a session is connected when the login has succeeded, which kazoo reports too early.
"""

from __future__ import annotations

import asyncio
import logging
import select
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError, WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from minikafka.kernel.ports import (
    ConnectionLost,
    CoordinationError,
    CoordinationOp,
    CoordinationSession,
    CreateOp,
    NodeExists,
    NoNode,
    OpResult,
    SessionExpired,
    SessionState,
    StateListener,
    Watcher,
    WatchEvent,
    WatchKind,
    ZnodeStat,
    ZookeeperLoginFailed,
    require_path,
    require_version,
)
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity, ZnodeAcl
from minikafka.world.real.tls import client_context
from minikafka.world.real.zookeeper_multi_read import MultiRead
from minikafka.world.real.zookeeper_values import (
    STATES,
    WATCH_KINDS,
    Unimplemented,
    add_operation,
    kazoo_acl,
    op_results,
    port_acl,
    port_error,
    port_stat,
    read_results,
)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 1.0
WAITS_PER_SESSION = 3  # so many silent servers, one after the other, a session survives
CLOSE_LIMIT_S = 2.0  # without a response until then, the session ends by its time-out
SIGNS_PER_SESSION = 10  # the event loop shows so often that it runs
# ZooKeeper's closeSession: the length, an xid that kazoo does not use, the type.
_CLOSE_SESSION = struct.pack(">iii", 8, -100, -11)


class RealCoordination:
    """Opens sessions on a ZooKeeper ensemble."""

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        """Open a session, as the port specifies. It may take a little longer than
        ``connection_timeout_ms`` if the chroot must be created first. Raises TlsError for TLS
        settings that cannot be used."""
        session = await _open(connect, session_timeout_ms, connection_timeout_ms, security)
        servers, slash, chroot = connect.partition("/")
        if slash and chroot and await session.exists("/") is None:
            await session.close()
            await _make_chroot(servers, f"/{chroot.strip('/')}", connection_timeout_ms, security)
            session = await _open(connect, session_timeout_ms, connection_timeout_ms, security)
        return session


async def _open(
    connect: str,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    security: CoordinationSecurity,
) -> _Session:
    tls = None if security.tls is None else client_context(security.tls)
    handler = _OneSessionHandler(session_timeout_ms / 1000, tls)
    try:
        client = _client(connect, session_timeout_ms, handler, security)
    except (ValueError, OverflowError) as error:
        raise CoordinationError(
            f"{connect[:200]!a} is no list of ZooKeeper servers: {error}"
        ) from error
    session = _Session(client, handler, security, asyncio.get_running_loop())
    await session.start(connect, connection_timeout_ms)
    return session


def _client(
    connect: str,
    session_timeout_ms: int,
    handler: _OneSessionHandler,
    security: CoordinationSecurity,
) -> KazooClient:
    """Raises ValueError. Kazoo's own thread would end when it looks up an impossible host."""
    client = KazooClient(
        hosts=connect,
        timeout=session_timeout_ms / 1000,
        handler=handler,
        connection_retry=KazooRetry(
            max_tries=-1, delay=RECONNECT_FIRST_S, max_delay=RECONNECT_MAX_S
        ),
        # Lost connections are reported by the session's owner, once; kazoo would tell every try.
        logger=logging.Logger("kazoo", level=logging.ERROR),
    )
    for host, _ in client.hosts:
        host.encode("idna")
    require_path(client.chroot or "/")
    if security.login is not None:
        from minikafka.world.real.zookeeper_login import LoginConnection

        client._connection = LoginConnection(client, security.login, client._connection)
    return client


async def _make_chroot(
    servers: str, chroot: str, connection_timeout_ms: int, security: CoordinationSecurity
) -> None:
    session = await _open(servers, connection_timeout_ms, connection_timeout_ms, security)
    try:
        path = ""
        for name in chroot.strip("/").split("/"):
            path = f"{path}/{name}"
            try:
                await session.create(path)
            except NodeExists:
                continue
    finally:
        await session.close()


class _OneSessionHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Connects to no server after its session has expired. Kazoo would silently open a second
    session and run requests in it that were made for the first one.

    It also waits at most a third of the session for a server. A ZooKeeper server that is just
    starting may accept a connection and never respond to it; kazoo would wait for it as long as the
    session may last.

    And it gives the session up if the event loop has not called ``loop_runs`` for as long as the
    session may last without a sign of life. Kazoo's thread would otherwise keep alive a broker that
    serves nobody. A JVM in a pause of that length loses its session as well. ZooKeeper is asked to
    close the session, so that the ephemeral znodes go at once; the event loop learns of it when it
    runs again, as of any expiry.

    With ``tls`` its connections are secured by our own context, since kazoo's would read keys from
    files only, choose no versions and trust every authority of the system.

    ``loop_runs`` is called on the event loop, ``session_over`` and ``last_error`` are read there;
    everything else runs on kazoo's connection thread."""

    def __init__(self, session_timeout_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls
        self.last_error: OSError | None = None  # of the latest attempt to connect
        self.logged_in: Callable[[], None] = lambda: None
        self._max_wait_s = session_timeout_s / WAITS_PER_SESSION
        self.max_stall_s = session_timeout_s
        self._loop_seen_s = time.monotonic()
        self._session_over = False

    @property
    def session_over(self) -> bool:
        return self._session_over

    def loop_runs(self) -> None:
        self._loop_seen_s = time.monotonic()

    def end_session(self) -> None:
        self._session_over = True

    def select(
        self,
        reading: Sequence[Any],
        writing: Sequence[Any],
        _: Sequence[Any],
        timeout_s: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as ``select.select`` does. Kazoo waits about six times for each request; its own
        implementation creates an epoll object each time, which takes longer than the request.

        Raises SessionExpiredError when the session was given up."""
        if self._tls is not None:  # what is decrypted already wakes no poll
            decrypted = [file for file in reading if getattr(file, "pending", int)()]
            if decrypted:
                return decrypted, [], []
        waiting = select.poll()
        for files, events in ((reading, select.POLLIN), (writing, select.POLLOUT)):
            for file in files:
                waiting.register(file, events)
        wait_s = self._max_wait_s if timeout_s is None else min(timeout_s, self._max_wait_s)
        end_s = time.monotonic() + wait_s
        while True:
            now_s = time.monotonic()
            if self._is_stalled(now_s):
                self._give_up(reading[0] if reading else None)
            until_s = min(end_s, self._loop_seen_s + self.max_stall_s)
            ready = {fd for fd, _ in waiting.poll(max(0.0, until_s - now_s) * 1000)}
            if ready or time.monotonic() >= end_s:
                break
        return (
            [file for file in reading if file.fileno() in ready],
            [file for file in writing if file.fileno() in ready],
            [],
        )

    def _is_stalled(self, now_s: float) -> bool:
        return not self._session_over and now_s - self._loop_seen_s > self.max_stall_s

    def _give_up(self, connection: Any) -> None:
        """``connection`` is None while a request is being written: nothing can be sent after a part
        of it, and the session ends by its time-out."""
        self._session_over = True
        if connection is not None:
            _close_session(connection)
        raise SessionExpiredError("the event loop stood still")

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self._session_over:
            raise ConnectionRefusedError("the session is over")
        if self._is_stalled(time.monotonic()):
            self._give_up(None)
        self.last_error = None
        try:
            return self._connect(*args, **kwargs)
        except OSError as error:
            self.last_error = error
            raise

    def _connect(self, *args: Any, **kwargs: Any) -> Any:
        connection = super().create_connection(*args, **kwargs)
        if self._tls is None:
            return connection
        connection.settimeout(self._max_wait_s)
        try:
            return self._tls.wrap_socket(connection, server_hostname=kwargs["hostname"])
        except BaseException:
            connection.close()
            raise


def _close_session(connection: Any) -> None:
    """Send ZooKeeper's closeSession and wait until the server has hung up, at most
    ``CLOSE_LIMIT_S``. To close the socket at once could discard the request."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    end_s = time.monotonic() + CLOSE_LIMIT_S
    try:
        connection.send(_CLOSE_SESSION)
        while waiting.poll(max(0.0, end_s - time.monotonic()) * 1000):
            try:
                if not connection.recv(65536):
                    return
            except ssl.SSLWantReadError:  # a part of a TLS record
                continue
    except OSError:  # the connection is lost: the session ends by its time-out
        return


class _Session:
    """One ZooKeeper session. Only ``_on_kazoo_state`` and ``_post`` run on other threads than the
    event loop's."""

    def __init__(
        self,
        client: Any,
        handler: _OneSessionHandler,
        security: CoordinationSecurity,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._client = client
        self._handler = handler
        self._security = security
        self._sign_interval_s = handler.max_stall_s / SIGNS_PER_SESSION
        self._sign: asyncio.TimerHandle | None = None
        self._loop = loop
        self._state = SessionState.SUSPENDED
        self._session_id = 0
        self._opened = asyncio.Event()  # or refused by the server
        self._listeners: list[StateListener] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        self._armed: dict[tuple[Watcher, WatchKind, str], Callable[[WatchedEvent], None]] = {}
        self._lost_watches: list[tuple[Watcher, WatchEvent]] = []
        self._stopping: asyncio.Future[None] | None = None
        self._reads_singly = False  # the server is older than MultiRead

    async def start(self, connect: str, connection_timeout_ms: int) -> None:
        """Raises ``ConnectionLost``, ``ZookeeperLoginFailed``."""
        self._give_sign()
        self._handler.logged_in = lambda: self._report(KazooState.CONNECTED)
        self._client.add_listener(self._on_kazoo_state)
        self._client.start_async()
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await self._opened.wait()
        except TimeoutError:
            await self.close()
            why = self._handler.last_error
            raise ConnectionLost(
                f"no ZooKeeper server at {connect} responded within {connection_timeout_ms} ms"
                + (f": {why}" if isinstance(why, ssl.SSLError) else "")
            ) from None
        except asyncio.CancelledError:
            self._stop()
            raise
        refusal = self._refusal()
        if refusal is not None:
            await self.close()
            raise ZookeeperLoginFailed(refusal)

    def _refusal(self) -> str | None:
        """Return why the server has refused the login; None if it has not."""
        connection, login = self._client._connection, self._security.login
        if login is None or connection.refusal is None:
            return None
        return f"the SASL login of {login.username} at ZooKeeper has failed: {connection.refusal}"

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def add_state_listener(self, listener: StateListener) -> None:
        self._listeners.append(listener)

    # ----------------------------------------------------------------------------- operations

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, ZnodeStat]:
        created, stat = await self._ask(
            path,
            self._client.create_async,
            data or None,  # null, as Java's clients make bare nodes
            kazoo_acl(self._security.acl_of(path)),
            ephemeral=ephemeral,
            sequence=sequential,
            include_data=True,
        )
        return created, port_stat(stat)

    async def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        watch = self._arm(watcher, WatchKind.CHANGED, path)
        try:
            data, stat = await self._ask(path, self._client.get_async, watch=watch)
        except CoordinationError:
            self._disarm(watcher, WatchKind.CHANGED, path)
            raise
        return data or b"", port_stat(stat)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        if not paths:
            return []
        for path in paths:
            require_path(path)
        if self._reads_singly:
            return list(await asyncio.gather(*map(self._get_or_none, paths)))
        try:
            return read_results(paths, await self._ask(paths[0], self._read_many, paths))
        except Unimplemented:  # and the server, an old one, has hung up
            self._reads_singly = True
            raise ConnectionLost(paths[0]) from None

    def _read_many(self, _: str, paths: Sequence[str]) -> Any:
        result = self._client.handler.async_result()
        self._client._call(MultiRead([self._client.chroot + path for path in paths]), result)
        return result

    async def _get_or_none(self, path: str) -> tuple[bytes, ZnodeStat] | None:
        try:
            return await self.get(path)
        except NoNode:
            return None

    async def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        watch = self._arm(watcher, WatchKind.CHANGED, path)
        try:
            stat = await self._ask(path, self._client.exists_async, watch=watch)
        except CoordinationError:
            self._disarm(watcher, WatchKind.CHANGED, path)
            raise
        return None if stat is None else port_stat(stat)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        watch = self._arm(watcher, WatchKind.CHILDREN, path)
        try:
            names = await self._ask(path, self._client.get_children_async, watch=watch)
        except CoordinationError:
            self._disarm(watcher, WatchKind.CHILDREN, path)
            raise
        return sorted(names)

    async def set(self, path: str, data: bytes, version: int = -1) -> ZnodeStat:
        require_version(path, version)
        return port_stat(await self._ask(path, self._client.set_async, data, version))

    async def delete(self, path: str, version: int = -1) -> None:
        require_version(path, version)
        await self._ask(path, self._client.delete_async, version)

    async def get_acl(self, path: str) -> ZnodeAcl:
        entries, _ = await self._ask(path, self._client.get_acls_async)
        return port_acl(entries)

    async def set_acl(self, path: str, acl: ZnodeAcl) -> None:
        await self._ask(path, self._client.set_acls_async, kazoo_acl(acl))

    async def multi(self, ops: Sequence[CoordinationOp]) -> list[OpResult]:
        if not ops:
            return []
        transaction = self._client.transaction()
        for op in ops:
            require_path(op.path)
            if not isinstance(op, CreateOp):
                require_version(op.path, op.version)
            add_operation(transaction, op, self._security.acl_of)
        results = await self._ask(ops[0].path, lambda _: transaction.commit_async())
        return op_results(ops, results)

    def _ask(
        self, path: str, call: Callable[..., Any], *args: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Pass a request to kazoo; return the future of its result, or of an error of the port."""
        if self._state is SessionState.EXPIRED or self._handler.session_over:
            raise SessionExpired(path)  # the state is changed by the loop, maybe a little later
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost(path)
        require_path(path)
        try:
            result = call(path, *args, **options)
        except Exception as error:  # kazoo refuses the arguments, with many types of errors
            raise port_error(error, path) from error
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.add(answer)
        result.rawlink(partial(self._post, self._settle, answer, path))
        return answer

    def _settle(self, answer: asyncio.Future[Any], path: str, result: Any) -> None:
        self._waiting.discard(answer)
        if answer.done():
            return
        if result.exception is None:
            answer.set_result(result.value)
        else:
            answer.set_exception(port_error(result.exception, path))

    # -------------------------------------------------------------------------------- watches

    def _arm(
        self, watcher: Watcher | None, kind: WatchKind, path: str
    ) -> Callable[[WatchedEvent], None] | None:
        """Return the callback for kazoo. It is the same object for the same watcher and znode, so
        that kazoo, which keeps a set, calls it once."""
        if watcher is None:
            return None
        key = (watcher, kind, path)
        if key not in self._armed:
            self._armed[key] = partial(self._post, self._fire, watcher, WatchEvent(kind, path))
        return self._armed[key]

    def _disarm(self, watcher: Watcher | None, kind: WatchKind, path: str) -> None:
        if watcher is not None:
            self._armed.pop((watcher, kind, path), None)

    def _fire(self, watcher: Watcher, hint: WatchEvent, event: WatchedEvent) -> None:
        """Call a watcher. When the connection is lost, kazoo drops its watches with an event of no
        known kind. Changes during the interruption would be missed, so the watcher is called when
        the connection is back, as if the znode had changed."""
        self._disarm(watcher, hint.kind, hint.path)
        if self._state is SessionState.EXPIRED:
            return
        kind = WATCH_KINDS.get(event.type)
        if kind is not None:
            watcher(WatchEvent(kind, event.path))
        elif self._state is SessionState.SUSPENDED:
            self._lost_watches.append((watcher, hint))
        else:
            watcher(hint)

    # ---------------------------------------------------------------------------------- state

    def _on_kazoo_state(self, state: KazooState) -> None:
        """Called on kazoo's connection thread."""
        if state == KazooState.CONNECTED and self._security.login is not None:
            return  # until it is logged in
        self._report(state)

    def _report(self, state: KazooState) -> None:
        """Called on kazoo's connection thread."""
        if state == KazooState.LOST:
            self._handler.end_session()
        identity = self._client.client_id
        self._post(self._change_state, STATES[state], identity[0] if identity else 0)

    def _give_sign(self) -> None:
        """Show the handler that the event loop runs, now and from time to time."""
        self._handler.loop_runs()
        self._sign = self._loop.call_later(self._sign_interval_s, self._give_sign)

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        """Schedule a call on the event loop, from any thread."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: the process is ending
            return

    def _change_state(self, state: SessionState, session_id: int = 0) -> None:
        if state is self._state or self._state is SessionState.EXPIRED:
            return
        self._state = state
        if state is SessionState.CONNECTED:
            self._session_id = session_id or self._session_id
            self._opened.set()
        elif state is SessionState.EXPIRED:
            self._opened.set()
            self._stop()
            self._end_all()
        for listener in list(self._listeners):
            listener(state)
        if state is SessionState.CONNECTED:
            lost, self._lost_watches = self._lost_watches, []
            for watcher, hint in lost:
                watcher(hint)

    def _end_all(self) -> None:
        """Fail all open requests with SessionExpired, also those that kazoo dropped silently."""
        waiting, self._waiting = self._waiting, set()
        self._armed.clear()
        self._lost_watches.clear()
        for answer in waiting:
            if not answer.done():
                answer.set_exception(SessionExpired())

    # ---------------------------------------------------------------------------------- close

    async def close(self) -> None:
        stopping = self._stop()
        await asyncio.wait([stopping], timeout=CLOSE_LIMIT_S)
        if stopping.done():
            stopping.result()
        self._change_state(SessionState.EXPIRED)

    def _stop(self) -> asyncio.Future[None]:
        if self._stopping is None:
            self._stopping = self._loop.create_future()
            threading.Thread(target=self._stop_client, name="zookeeper-close", daemon=True).start()
        return self._stopping

    def _stop_client(self) -> None:
        """Stop kazoo; runs on a daemon thread. Kazoo joins its threads, and one of them may be
        waiting for a server that does not respond."""
        error: Exception | None = None
        try:
            self._client.stop()
            self._client.close()
        except WriterNotClosedException:
            pass
        except Exception as found:
            error = found
        self._post(self._stopped, error)

    def _stopped(self, error: Exception | None) -> None:
        assert self._stopping is not None
        if self._sign is not None:
            self._sign.cancel()
        if error is None:
            self._stopping.set_result(None)
        else:
            self._stopping.set_exception(error)
