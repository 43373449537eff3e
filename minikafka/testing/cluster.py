"""One interface to a cluster in each of three places: inside the process, as processes, simulated.

``ABILITIES`` is the table of what only some places can do. An operation that a place cannot do
raises ``NotInThisPlace``, which names the places that can.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
)

if TYPE_CHECKING:
    from minikafka.testing.clients import ClusterClients
    from minikafka.testing.inside.environment_faults import EnvironmentFaults
    from minikafka.testing.request_faults import RequestFaults

T = TypeVar("T")
P = ParamSpec("P")

# Undoes what has been done since a moment. Await it on the loop of the cluster's clients.
Undo: TypeAlias = Callable[[], Awaitable[None]]
Where: TypeAlias = Literal["inside", "simulated", "processes"]
PLACES: tuple[Where, ...] = get_args(Where)  # from the one that is up first


class Ability(NamedTuple):
    """What only some places can do. ``phrase`` completes "it can ..."."""

    phrase: str
    places: tuple[Where, ...]


ABILITIES: Mapping[str, Ability] = {
    "other_clients": Ability("serve clients of other libraries", ("inside", "processes")),
    "blocking": Ability("run methods that block", ("inside", "processes")),
    "clock": Ability("move its clock", ("simulated",)),
    "real_zookeeper": Ability("use a real ZooKeeper, and real signals", ("processes",)),
    "reset": Ability("become as good as new", ("inside", "simulated")),
    "pause": Ability("pause a broker", PLACES),
    "isolate": Ability("isolate a broker", ("inside", "simulated")),
    "expire_session": Ability("expire a ZooKeeper session", ("inside", "simulated")),
    "events": Ability("return the events of the brokers' logs", ("inside", "simulated")),
    "add_broker": Ability("add a broker", ("inside",)),
    "compact": Ability("compact a topic at once", ("inside",)),
    "apply_retention": Ability("apply the retention at once", ("inside",)),
    "as_version": Ability("behave as another version", ("inside",)),
    "requests": Ability("return the requests that were served", ("inside",)),
    "faults": Ability("have faults of requests, disks and links", ("inside",)),
}


class NotInThisPlace(RuntimeError):
    """The place of the cluster cannot do this. ``where`` has the places that can."""

    def __init__(self, ability: str, place: Where) -> None:
        phrase, self.where = ABILITIES[ability]
        others = " or ".join(f'where="{each}"' for each in self.where)
        super().__init__(f'a cluster with where="{place}" cannot {phrase}; one with {others} can')


def check_place(where: str) -> Where:
    """Raises ValueError for a name that is no place's."""
    if where not in PLACES:
        raise ValueError(f"no place {where!r}; there are {', '.join(PLACES)}")
    return where


def place(where: str | None = None, needs: Iterable[str] = ()) -> Where:
    """Return the place for a test: ``where``, or else the fastest that has every ability in
    ``needs``, which are keys of ``ABILITIES``.

    Raises ValueError for unknown names and for needs that no place meets, and NotInThisPlace if
    ``where`` does not meet them.
    """
    wanted = list(needs)
    for need in wanted:
        if need not in ABILITIES:
            raise ValueError(f"no ability {need!r}; there are {', '.join(ABILITIES)}")
    if where is not None:
        chosen = check_place(where)
        for need in wanted:
            if chosen not in ABILITIES[need].places:
                raise NotInThisPlace(need, chosen)
        return chosen
    for candidate in PLACES:
        if all(candidate in ABILITIES[need].places for need in wanted):
            return candidate
    raise ValueError(f"no place can do all of this: {', '.join(wanted)}")


class ClusterEvent(Protocol):
    """An event of a broker's log: its name, and the facts logged with it."""

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...


class SimulatedClock(Protocol):
    """The clock of a cluster in simulated time."""

    def advance(self, seconds: float) -> Awaitable[None]:
        """Let simulated time pass, with all that happens in it."""
        ...


class AnyCluster(Protocol):
    """A cluster that runs, in one of the places. Brokers are numbered from 1.

    Coroutines run on the loop that ``run`` and ``call`` use. Those that only some places can do
    raise NotInThisPlace in the others. ``TestView`` and ``AsyncView`` are what tests use.
    """

    where: Where

    # ---------------------------------------------------------------------------- the whole cluster

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        ...

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of all brokers, whether they run or not."""
        ...

    def config(self, client: str) -> dict[str, object]:
        """Return the settings that connect a client. Raises ValueError for an unknown one."""
        return client_settings(client, self.bootstrap)

    def clients(self) -> ClusterClients:
        """Return our own clients, for the loop that ``run`` uses."""
        ...

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` on the loop of the clients; the caller may be on any loop."""
        ...

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop of the clients, and block until it has ended."""
        ...

    def close(self) -> None:
        """End the cluster. Nothing is kept."""
        ...

    @property
    def is_as_started(self) -> bool:
        """Whether the cluster has the brokers that it was started with."""
        return True

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker: int) -> bool:
        """Whether the broker has been started and not ended since; a paused broker runs."""
        ...

    async def stop(self, broker: int) -> None:
        """Stop a broker by controlled shutdown, and wait for its end."""
        ...

    async def kill(self, broker: int) -> None:
        """End a broker as SIGKILL does. Its disk is kept."""
        ...

    async def start(self, broker: int) -> None:
        """Start a broker that has ended, and wait until it serves."""
        ...

    async def pause(self, broker: int) -> None:
        """Stop a broker's time as SIGSTOP does: its connections stay open, and mute."""
        raise NotInThisPlace("pause", self.where)

    async def resume(self, broker: int) -> None:
        """End a pause."""
        raise NotInThisPlace("pause", self.where)

    async def isolate(self, broker: int) -> None:
        """Cut a broker off from ZooKeeper and all other brokers; inside the process from
        clients, too."""
        raise NotInThisPlace("isolate", self.where)

    async def heal(self, broker: int) -> None:
        """Connect an isolated broker again."""
        raise NotInThisPlace("isolate", self.where)

    async def expire_session(self, broker: int) -> None:
        """Expire the broker's ZooKeeper session now."""
        raise NotInThisPlace("expire_session", self.where)

    async def restore(self) -> bool:
        """Undo what was done to brokers: all of them run, in touch with each other. Return whether
        there was anything to undo; then they may still have to find each other."""
        ...

    async def way_back(self) -> Undo:
        """Note what the cluster has now, and return what goes back to it: it deletes the topics and
        groups that were made since. Inside the process it also takes back settings, quotas, users
        and ACLs. It raises AssertionError for topics that it cannot delete."""
        from minikafka.testing import looking

        before = await looking.existing(self.clients())
        return lambda: looking.delete_made(self.clients(), before)

    def renew(self) -> None:
        """Make the cluster equal to a new one, at the same addresses."""
        raise NotInThisPlace("reset", self.where)

    # ------------------------------------------------------------------------ what some places have

    def events(self, name: str | None = None) -> Sequence[ClusterEvent]:
        """Return the last events of the brokers' logs, or those of one name, from the oldest."""
        raise NotInThisPlace("events", self.where)

    async def add_broker(self) -> int:
        """Start another broker, and return its id when it serves."""
        raise NotInThisPlace("add_broker", self.where)

    async def compact(self, topic: str) -> None:
        """Compact the closed segments of a topic now."""
        raise NotInThisPlace("compact", self.where)

    async def apply_retention(self, topic: str | None = None) -> None:
        """Delete now what the retention of a topic, or of all, allows to delete."""
        raise NotInThisPlace("apply_retention", self.where)

    async def as_version(self, version: str | None) -> None:
        """Offer clients only what a release of Kafka has, such as "2.8"; None: everything."""
        raise NotInThisPlace("as_version", self.where)

    def requests(self, **select: Any) -> Sequence[Any]:
        """Return the last requests that were served."""
        raise NotInThisPlace("requests", self.where)

    @property
    def request_faults(self) -> RequestFaults:
        raise NotInThisPlace("faults", self.where)

    @property
    def environment_faults(self) -> EnvironmentFaults:
        raise NotInThisPlace("faults", self.where)

    @property
    def clock(self) -> SimulatedClock:
        raise NotInThisPlace("clock", self.where)


class OnCluster(Protocol):
    """An object with methods that run on the loop of a cluster's clients."""

    cluster: AnyCluster


Self_ = TypeVar("Self_", bound=OnCluster)


def on_cluster(
    method: Callable[Concatenate[Self_, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Self_, P], Coroutine[Any, Any, T]]:
    """Make a coroutine method that may be awaited on any loop."""

    @wraps(method)
    async def hop(self: Self_, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.cluster.run(method(self, *args, **kwargs))

    return hop


# How each client spells the addresses of the brokers.
_SPELLINGS: Mapping[str, Callable[[str], dict[str, object]]] = {
    "confluent": lambda bootstrap: {"bootstrap.servers": bootstrap},
    "java": lambda bootstrap: {"bootstrap.servers": bootstrap},
    "kafka-python": lambda bootstrap: {"bootstrap_servers": bootstrap.split(",")},
    "aiokafka": lambda bootstrap: {"bootstrap_servers": bootstrap},
    "kafkajs": lambda bootstrap: {"brokers": bootstrap.split(",")},
    "spark": lambda bootstrap: {"kafka.bootstrap.servers": bootstrap},
    "minikafka": lambda bootstrap: {"bootstrap_servers": bootstrap},
}


def client_settings(client: str, bootstrap: str) -> dict[str, object]:
    """Return the settings that connect a client: ``confluent``, ``java``, ``kafka-python``,
    ``aiokafka``, ``kafkajs``, ``spark`` or ``minikafka``. Raises ValueError for another name."""
    if client not in _SPELLINGS:
        raise ValueError(f"no client {client!r}; there are {', '.join(_SPELLINGS)}")
    return _SPELLINGS[client](bootstrap)
