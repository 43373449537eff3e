"""One broker node: creates the parts, connects them, and starts and stops them in order.

SIGTERM or ``minikafka stop`` begins the shutdown (``request_stop``), and nothing blocks it: all
attempts of a controlled shutdown together end after ``ControlledShutdownConfig.limit_ms``, or at
once when ZooKeeper is unreachable or a second signal arrives. A third signal ends the process.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import NO_EPOCH, Endpoint
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log, tapped
from minikafka.kernel.listeners import (
    DEBUG_LISTENER,
    METRICS_LISTENER,
    debug_listener,
    debug_listener_text,
    listeners,
    metrics_listener,
)
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import CoordinationError, Network, World
from minikafka.protocol.api_keys import Release
from minikafka.server.broker.admin.delegation_tokens import DelegationTokens
from minikafka.server.broker.admin.dynamic_config import (
    ConfigChanges,
    DynamicBrokerConfig,
    read_broker_configs,
)
from minikafka.server.broker.admin.quota_znodes import QuotaZnodes
from minikafka.server.broker.apis.api_versions import FeatureState
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.table import ApiTable
from minikafka.server.broker.broker_watch import BrokerWatch
from minikafka.server.broker.controlled_shutdown import ShutdownHandover
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.metadata.scram_credentials import ScramCredentialCache
from minikafka.server.broker.metadata.topic_rows import EncodedTopics
from minikafka.server.broker.quotas import ClientQuotas
from minikafka.server.controller.channel_manager import connector
from minikafka.server.controller.kafka_controller import KafkaController
from minikafka.server.listeners.connection_quotas import ConnectionQuotas
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.server import Server
from minikafka.server.node import config_views as views
from minikafka.server.node.authorizer import NodeAuthorizer
from minikafka.server.node.broker_gauges import BrokerLifecycle, IdleShare, register_broker_gauges
from minikafka.server.node.dynamic_settings import ConfigEffects
from minikafka.server.node.entities import BrokerEntities
from minikafka.server.node.event_feed import EventFeed
from minikafka.server.node.listeners import BrokerListeners, Serving
from minikafka.server.node.loop_stalls import LoopStalls
from minikafka.server.node.metric_windows import MetricWindows
from minikafka.server.node.node_tasks import NodeTasks
from minikafka.server.node.registration import BrokerRegistration
from minikafka.server.node.wiring import BrokerParts
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.session import ZkSession
from minikafka.server.zookeeper.session_security import checked_security
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode

if TYPE_CHECKING:
    from minikafka.server.faults.injected import FaultSeam, InjectedFaults
    from minikafka.server.listeners.http_server import HttpServer, Route
    from minikafka.server.node.passwords import StoredPasswords

# Errors that end a node with one line for the user. Any other exception is a bug and shown in full.
EXPECTED_FAILURES = (ConfigError, KafkaError, CoordinationError, OSError)


class BrokerNode:
    """A broker in ZooKeeper mode, in any ``World`` (Kafka's ``KafkaServer``).

    ``run`` returns after ``request_stop``. It raises ConfigError, KafkaError, CoordinationError or
    OSError for problems that the user can solve (ZooKeeper unreachable, port or directory in use),
    and an ExceptionGroup for a bug. ``hostname`` is advertised for listeners that name no host.
    ``entities``, through which others look inside, are set once the broker id is known, before
    ``started``.
    """

    entities: BrokerEntities

    def __init__(
        self,
        world: World,
        config: Config,
        hostname: str = "localhost",
        faults: InjectedFaults | None = None,
    ) -> None:
        """``faults`` are put into the request path; None for any broker outside of a test."""
        self._config = config
        self._faults = faults
        self._hostname = hostname
        listeners(config, hostname)  # before ZooKeeper is asked for more settings
        self._credentials = ScramCredentialCache(lambda: self._zk.store)
        self._tokens = DelegationTokens(
            lambda: self._zk.store,
            world.clock,
            world.entropy,
            views.delegation_tokens(config),
            lambda: self._controller.is_active,
        )
        self._world = world
        self.metrics = Metrics()
        self.broker_id = config.integer("broker.id")
        self._registration: BrokerRegistration | None = None
        self._watch: BrokerWatch | None = None
        self.started = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._skip_handover = False
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        self.feed = EventFeed(world.clock)
        with tapped(self.feed.append):
            self._log = event_log("node", broker=self.broker_id)
            self._zk = ZkSession(
                world.coordination,
                world.clock,
                views.zookeeper(config, checked_security(config, world)),
                self.broker_id,
                self.metrics,
            )
            self._logs = LogManager(
                world.files,
                world.clock,
                world.workers,
                views.log_manager(config, world.network.descriptor_limit()),
                self.fail,
                self.metrics,
            )
        self._passwords = self._make_passwords()
        self._dynamic = DynamicBrokerConfig(config, passwords=self._passwords)
        self._listening: BrokerListeners | None = None
        self._http_servers: list[HttpServer] = []
        self._stalls: LoopStalls | None = None
        self._windows = MetricWindows(world.clock, self.metrics)

    def _make_passwords(self) -> StoredPasswords | None:
        """Return what encrypts passwords in ZooKeeper; None without a secret."""
        if not self._config.optional("password.encoder.secret"):
            return None
        from minikafka.server.node.passwords import StoredPasswords

        return StoredPasswords(self._config, self._world.entropy)

    @property
    def ports(self) -> list[int]:
        """The bound ports, in the order of the listeners."""
        return [server.port for server in self._servers]

    @property
    def _servers(self) -> list[Server]:
        return [] if self._listening is None else self._listening.servers

    def request_stop(self, reason: str = "") -> None:
        """Stop the broker in order. A second call skips the rest of the controlled shutdown: the
        remaining leaderships are not moved to other brokers, but logs are flushed and closed."""
        self._skip_handover = self._stop_requested.is_set()
        event_log("kafka-shutdown-hook", broker=self.broker_id).info(
            "stop_requested", reason=reason, hurried=self._skip_handover
        )
        self._stop_requested.set()

    def serve_clients_as(self, release: Release) -> None:
        """Serve clients as a broker of ``release``, see ``Apis``. Call only after ``started``."""
        self._apis.serve_clients_as(release)

    def create_topics(
        self, topics: Sequence[str], respond: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None:
        """Create topics automatically, as a request that needs them does. Call only after
        ``started``."""
        self._parts.topic_creation.create(topics, respond)

    async def read_settings_again(self) -> None:
        """Read dynamic settings, users, quotas and ACLs although no change of them was announced.
        Call only after ``started``."""
        await self._config_changes.read_again()
        await self._authorizer.read_again()

    def fail(self, error: BaseException) -> None:
        """Make ``run`` raise an error that occurred outside the node's tasks, in a callback."""
        if self._failure is None:
            self._failure = error
            self._failed.set()

    async def run(self) -> None:
        """Start the broker, serve until ``request_stop``, and stop in order."""
        with tapped(self.feed.append):
            await self._run()

    async def _run(self) -> None:
        try:
            async with NodeTasks() as tasks:
                tasks.create_task(self._raise_failure(), name="failure-watch")
                await self._start_unless_stopped(tasks)
                await self._stop_requested.wait()
                await self._stop()
                raise _Stopped  # cancels the tasks that are still waiting
        except BaseExceptionGroup as group:
            found = failures(group, stopping=self._stop_requested.is_set())
            if len(found) == 1 and isinstance(found[0], EXPECTED_FAILURES):
                raise found[0] from None
            if found:
                raise
        finally:
            if self._stalls is not None:
                self._stalls.close()
            self._windows.close()
            self._logs.close()

    async def _raise_failure(self) -> None:
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    async def _start_unless_stopped(self, tasks: asyncio.TaskGroup) -> None:
        """Start the parts, until ``request_stop``: the start may wait for ZooKeeper forever."""
        starting = tasks.create_task(self._start(tasks), name="start")
        stopping = tasks.create_task(self._stop_requested.wait(), name="stop-watch")
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        await asyncio.wait([starting])

    # ------------------------------------------------------------------------------------- start

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        if self._config.without_effect:
            self._log.warning(
                "ineffective_settings_ignored", keys=list(self._config.without_effect)
            )
        await self._zk.start(tasks)
        store = self._zk.store
        await store.create_persistent_paths()
        cluster_id = await self._read_cluster_id(store)
        self.broker_id = await self._identify(store, cluster_id)
        self._log = event_log("node", broker=self.broker_id)
        await self._read_settings(store)
        self._listening = listening = BrokerListeners(
            self._world,
            self._dynamic,
            self._hostname,
            self._credentials.credential,
            self._tokens.credential,
            self.metrics,
        )
        self._registration = registration = self._make_registration(listening)
        plain = self._world.network
        self._world = replace(self._world, network=listening.network())
        self._make_parts(cluster_id, listening)
        self._watch = self._make_watch(plain, listening.current.inter_broker)
        if views.inter_broker_protocol(self._config).has_features:
            await self._features.check()
        self._zk.on_new_session(self._authorizer.on_new_session)
        self._zk.on_new_session(self._tokens.on_new_session)
        await self._authorizer.start(tasks)
        await self._logs.start(tasks, await self._settings_on_disk())
        await self._parts.start(tasks)
        self._apis.start(tasks)
        await self._credentials.refresh_all()
        await self._tokens.start(tasks)
        await self._quota_znodes.read_all()
        await self._parts.telemetry.refresh_all()
        await self._parts.group_configs.refresh_all()
        if self._config.boolean("minikafka.fast.failover"):
            await registration.remove_old()
        await self._listen(tasks, listening)
        self._config_changes.start(tasks)
        self._features.start(tasks)
        await registration.register(self._zk.store)  # another session, if the first one has expired
        registration.start(tasks)
        self._zk.on_session_lost(self._controller.on_session_lost)
        self._zk.on_new_session(registration.register)
        self._zk.on_new_session(self._controller.on_new_session)
        self._zk.on_new_session(self._config_changes.on_new_session)
        self._zk.on_new_session(self._features.on_new_session)
        self._controller.start(tasks)
        listening.enable_request_processing()
        if self._watch is not None:
            self._watch.start(tasks)
        self._log.info(
            "broker_started", cluster=cluster_id, epoch=self.broker_epoch, ports=self.ports
        )
        self.started.set()

    async def _read_settings(self, store: ZkStore) -> None:
        """Read the dynamic settings. Passwords that were encrypted with
        ``password.encoder.old.secret`` are written again with the new secret."""
        cluster, own = await read_broker_configs(store, self.broker_id)
        rewritten = self._passwords.rewritten(own) if self._passwords is not None else None
        if rewritten is not None:
            own, entity = rewritten, str(self.broker_id)
            await store.change_entity_config(paths.BROKER_CONFIGS, entity, rewritten)
            self._log.info("stored_passwords_encrypted_again")
        self._dynamic.update(cluster, own)

    async def _settings_on_disk(self) -> dict[str, LogConfig]:
        """Return the settings of the topics whose logs are on disk: recovery must know which logs
        are compacted. They are not cached, and read again at the first LeaderAndIsr for a topic.
        Raises CoordinationError."""
        topics, configs = self._logs.directories.topics(), self._parts.topic_configs
        await configs.load(sorted(topics))
        found = {topic: configs.get(topic).log for topic in topics}
        for topic in topics:
            configs.forget(topic)
        return found

    async def _read_cluster_id(self, store: ZkStore) -> str:
        """Return the id of the cluster; create it if there is none. If its znode cannot be read,
        return the id that the log directories have. Raises ConfigError if they are new."""
        proposed = base64.urlsafe_b64encode(self._world.entropy.random_bytes(16)).decode()[:22]
        try:
            return await store.get_or_create_cluster_id(proposed)
        except MalformedZnode as error:
            self._log.error("cluster_id_malformed", error=str(error))
            stored = self._logs.cluster_id()
            if stored is None:
                raise ConfigError(
                    f"the cluster id cannot be read: {error}; write it again, it is in "
                    "meta.properties of every broker's log directories"
                ) from error
            return stored

    async def _identify(self, store: ZkStore, cluster_id: str) -> int:
        """Return the broker id: from the configuration, from the log directories, or a new one.

        It is stored in the log directories. Raises ConfigError if they belong to another broker or
        cluster."""
        configured = self.broker_id
        if configured > self._config.integer("reserved.broker.max.id"):
            raise ConfigError(f"broker.id {configured} is above reserved.broker.max.id")
        known = await self._logs.broker_id()
        if configured == -1 and known is None:
            if not self._config.boolean("broker.id.generation.enable"):
                raise ConfigError("broker.id is needed: broker.id.generation.enable is false")
            configured = await store.generate_broker_id(
                self._config.integer("reserved.broker.max.id")
            )
        broker_id = configured if configured != -1 or known is None else known
        await self._logs.claim(broker_id, cluster_id)
        return broker_id

    def _make_parts(self, cluster_id: str, listening: BrokerListeners) -> None:
        world, listener = self._world, listening.current.inter_broker
        dynamic = self._dynamic
        self._controller = self._make_controller(listening)
        self._features = FinalizedFeatures(
            lambda: self._zk.store,
            world.clock,
            self.broker_id,
            views.supported_features(self._config),
        )
        self._authorizer = NodeAuthorizer(
            world, self._config, self.broker_id, lambda: self._zk.store
        )
        self._parts = BrokerParts(
            world,
            dynamic,
            self.broker_id,
            cluster_id,
            listener,
            self._zk,
            self._logs,
            self._controller,
            lambda: self.broker_epoch,
            self.metrics,
            self._tokens,
            listening.protocols,
            self._features,
            self._authorizer.authorization,
        )
        self.feed.start(self.broker_id)
        self._parts.purgatories.add(self.feed.reaper)
        self._quotas = self._make_quotas()
        client_quotas = self._client_quotas = self._make_client_quotas()
        self._quota_znodes = QuotaZnodes(
            lambda: self._zk.store, client_quotas, self._quotas, world.network
        )
        self._config_changes = self._make_config_changes(listening)
        features = self._features
        stalls = self._stalls = self._started_stalls()
        self._apis = Apis(
            self.broker_id,
            ApiTable(),
            self._parts.services(EncodedTopics() if self._faults is None else None, client_quotas),
            release=views.release(self._config),
            stalls=stalls.meter,
            metrics=self.metrics,
            features=lambda: FeatureState(features.supported, features.levels, features.epoch),
            unlisted=lambda: self._parts.telemetry.unlisted_apis,
            quotas=client_quotas,
            seam=self._make_seam(),
        )
        self._controlled_shutdown = ShutdownHandover(
            world.network,
            world.clock,
            self._parts.cache,
            self.broker_id,
            views.controlled_shutdown(self._config, listener),
        )
        self.entities = self._make_entities()

    def _make_registration(self, listening: BrokerListeners) -> BrokerRegistration:
        timeout_ms = self._config.integer("zookeeper.session.timeout.ms")
        world = self._world
        return BrokerRegistration(
            self._zk, world.network, world.clock, self.broker_id, timeout_ms, listening, self._znode
        )

    def _make_watch(self, plain: Network, inter_broker: str) -> BrokerWatch | None:
        """``plain`` is the network without TLS."""
        if not self._config.boolean("minikafka.fast.failover"):
            return None
        world, cache = self._world, self._parts.cache
        return BrokerWatch(
            world.network,
            plain,
            world.clock,
            cache,
            lambda: self._zk.store,
            self.broker_id,
            inter_broker,
        )

    def _make_config_changes(self, listening: BrokerListeners) -> ConfigChanges:
        effects = ConfigEffects(
            self._dynamic,
            self._parts,
            self._controller,
            self._quotas,
            self._world.network,
            self._credentials,
            self._quota_znodes,
            listening.change,
            {
                paths.CLIENT_METRICS_CONFIGS: self._parts.telemetry,
                paths.GROUP_CONFIGS: self._parts.group_configs,
            },
        )
        return ConfigChanges(lambda: self._zk.store, self._world.clock, self.broker_id, effects)

    def _make_entities(self) -> BrokerEntities:
        parts = self._parts
        return BrokerEntities(
            clock=self._world.clock,
            broker_id=self.broker_id,
            broker=self._broker_facts,
            controller=self._controller,
            metadata=parts.cache,
            partitions=parts.replicas.hosted,
            fetchers=parts.replicas.fetchers,
            mending=parts.replicas.mending,
            groups=parts.groups.coordinator,
            transactions=parts.transactions.coordinator,
            shares=parts.shares,
            purgatories=parts.purgatories,
            fetch_sessions=parts.fetch_sessions.cache,
            apis=self._apis,
            servers=lambda: self._servers,
            client_quotas=self._client_quotas,
            throttles=parts.replicas.throttles,
            telemetry=parts.telemetry,
            logs=self._logs,
        )

    def _make_seam(self) -> FaultSeam | None:
        if self._faults is None:
            return None
        names = self._parts.cache.topic_name
        from minikafka.server.faults.injected import FaultSeam

        return FaultSeam(self._faults, self.broker_id, self._world.clock, names)

    def _make_controller(self, listening: BrokerListeners) -> KafkaController:
        world, current = self._world, listening.current
        config = views.controller(
            self._dynamic.current, self.broker_id, current.inter_broker, current.control_plane
        )
        return KafkaController(
            config,
            self._zk,
            connector(world.network, world.clock, config, listening.control_network()),
            world.clock,
            world.entropy,
            self.metrics,
            self._tokens.on_controller_elected,
        )

    def _started_stalls(self) -> LoopStalls:
        config = views.stall_meter(self._config)
        stalls = LoopStalls(self._world.clock, config, self.metrics, self.broker_id)
        stalls.start()
        self._windows.start()
        return stalls

    def _make_client_quotas(self) -> ClientQuotas:
        return ClientQuotas(
            self._world.clock,
            views.quota_rates(self._config),
            views.controller_quota_rates(self._config),
            self.metrics,
        )

    def _make_quotas(self) -> ConnectionQuotas:
        return ConnectionQuotas(
            None,  # until ``_listen``
            None,
            self._world.network.descriptor_limit(),
            views.quota_rates(self._config),
        )

    async def _listen(self, tasks: asyncio.TaskGroup, listening: BrokerListeners) -> None:
        """Open the listeners, which hold requests until this broker is registered: only its broker
        epoch identifies controller requests for an earlier registration. Raises OSError (address
        in use)."""
        assert self._registration is not None
        network = self._world.network
        self._quotas.configure(await views.connection_quotas(self._dynamic.current, network))
        register_memory(self.metrics, self._parts.memory)
        register_broker_gauges(
            self.metrics,
            IdleShare(self._world.clock, lambda: self._apis.busy_ns),
            self._lifecycle,
            lambda: self._servers,
            self._zk,
            self._world.clock,
        )
        self.metrics.gauge(
            "minikafka.network:type=Acceptor,name=AcceptFailuresPerSec",
            lambda: sum(server.accept_failures for server in self._servers),
        )
        serving = Serving(
            self._apis,
            self._apis.on_frame,
            self._quotas,
            self._parts.memory,
            self._registration.update,
        )
        await listening.open(serving, tasks)
        debug = debug_listener(self._config.optional(DEBUG_LISTENER))
        scraped = metrics_listener(self._config.optional(METRICS_LISTENER))
        if debug is not None or scraped is not None:
            await self._open_http(debug, scraped)

    async def _open_http(self, debug: Endpoint | None, scraped: Endpoint | None) -> None:
        from minikafka.server.node.debug import debug_routes, page_routes
        from minikafka.server.node.metrics_listener import metrics_routes

        metrics = metrics_routes(self.metrics, self.entities.partitions.__len__)
        if debug is not None:
            routes = debug_routes(self.entities, self.metrics)
            routes |= metrics | page_routes(self.entities, self.feed)
            port = await self._serve_http(routes, debug)
            self._dynamic.complete(DEBUG_LISTENER, debug_listener_text(debug.host, port))
        if scraped is not None:
            await self._serve_http(metrics, scraped)

    @property
    def broker_epoch(self) -> int:
        """The czxid of the znode of this broker; -1 before it is registered."""
        return NO_EPOCH if self._registration is None else self._registration.epoch

    def _broker_facts(self) -> Mapping[str, Any]:
        total = self._parts.replicas.topic_metrics.total
        return {
            "id": self.broker_id,
            "epoch": self.broker_epoch,
            "state": self._lifecycle().name,
            "zookeeper_connected": self._zk.connected,
            "partitions": len(self._parts.replicas.hosted),
            "messages_in": total("messages_in"),
            "bytes_in": total("bytes_in"),
            "bytes_out": total("bytes_out"),
        }

    def _lifecycle(self) -> BrokerLifecycle:
        if self._stop_requested.is_set():
            return BrokerLifecycle.PENDING_CONTROLLED_SHUTDOWN
        return BrokerLifecycle.RUNNING if self.started.is_set() else BrokerLifecycle.STARTING

    async def _serve_http(self, routes: Mapping[str, Route], endpoint: Endpoint) -> int:
        """Serve the routes until the broker stops, and return the port. Raises OSError (address in
        use)."""
        from minikafka.server.listeners.http_server import HttpServer

        server = HttpServer(self._world.network, self._world.clock, routes)
        self._http_servers.append(server)
        return await server.start(endpoint.host, endpoint.port)

    def _znode(self) -> BrokerZnode:
        assert self._listening is not None, "a broker registers when its listeners are open"
        return BrokerZnode(
            broker_id=self.broker_id,
            endpoints=self._listening.advertised,
            timestamp_ms=self._world.clock.wall_ms(),
            rack=self._config.optional("broker.rack"),
            features=self._features.supported,
            version=views.inter_broker_protocol(self._config).broker_znode_version,
        )

    # -------------------------------------------------------------------------------------- stop

    async def _stop(self) -> None:
        """Stop in the order of ``kafka-shutdown-hook``: controlled shutdown, servers, controller,
        replicas, ZooKeeper session, logs. A broker that has not started has served no request, so
        that only connections and logs are closed."""
        started = self.started.is_set()
        if started:
            self._parts.replicas.fetchers.begin_shutdown()
            await self._controlled_shutdown.run_while(self._can_hand_over, self.broker_epoch)
            if self._watch is not None:
                self._watch.stop()
            if self._registration is not None:
                self._registration.stop()
        for http_server in self._http_servers:
            http_server.close()
        if self._listening is not None:
            await self._listening.close()
        if started:
            await self._config_changes.stop()
            await self._authorizer.stop()
            await self._tokens.stop()
            await self._features.stop()
            await self._controller.stop()
            await self._parts.stop()
            self.feed.reaper.close()
            self._apis.close()
        await self._zk.close()
        await self._logs.shutdown()
        self._log.info("broker_stopped")

    def abandon(self) -> None:
        """Close all listeners and connections at once. With the cancellation of ``run`` that is the
        end of a broker that is killed inside a process which goes on."""
        for http_server in self._http_servers:
            http_server.close()
        for server in self._servers:
            server.abandon()

    def _can_hand_over(self) -> bool:
        """Whether a controlled shutdown can succeed. Without ZooKeeper no leadership moves, and the
        controller does not respond while it waits for ZooKeeper."""
        return self._zk.connected and not self._skip_handover


def register_memory(metrics: Metrics, memory: MemoryBudget) -> None:
    """Register the gauges of the memory that clients make the broker hold."""
    metrics.gauge(
        "kafka.network:type=SocketServer,name=MemoryPoolUsed", lambda: memory.requests.used_bytes
    )
    name = "minikafka.server:type=ClientMemory,name=UsedBytes"
    metrics.gauge(name, lambda: memory.used_bytes)
    metrics.gauge(f"{name},kind=frames", lambda: memory.frame_bytes)
    metrics.gauge(f"{name},kind=requests", lambda: memory.requests.used_bytes)
    metrics.gauge(f"{name},kind=responses", lambda: memory.response_bytes)
    metrics.gauge(f"{name},kind=parkedFetches", lambda: memory.parked_fetch_bytes)
    metrics.gauge(f"{name},kind=fetchSessions", lambda: memory.session_bytes)


class _Stopped(Exception):
    """Raised in the node's TaskGroup to cancel its tasks, once all parts were stopped in order."""


def failures(group: BaseExceptionGroup[BaseException], stopping: bool) -> list[BaseException]:
    """Return the errors in ``group`` that are failures. While the node stops, a CoordinationError
    is none: the node has closed its ZooKeeper session while tasks still used it."""
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            leaves.append(error)
    harmless = (_Stopped, CoordinationError) if stopping else (_Stopped,)
    return [error for error in leaves if not isinstance(error, harmless)]
