"""The plan of a nemesis: from a seed, which faults follow each other, at whom, for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from random import Random
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass


class FaultKind(Enum):
    """The kinds of faults, by their names on the command line."""

    KILL9 = "kill9"
    TERM = "term"
    STOP = "stop"
    CUT = "cut"
    ONEWAY = "oneway"
    SLOW_DISK = "slow-disk"
    FULL_DISK = "full-disk"
    CLOCK = "clock"
    ZOOKEEPER = "zookeeper"
    REASSIGN = "reassign"
    ELECT = "elect"
    RESTART_ALL = "restart-all"


MEANINGS: Final[Mapping[FaultKind, str]] = {
    FaultKind.KILL9: "SIGKILL to a broker, which starts again later",
    FaultKind.TERM: "SIGTERM to a broker, which starts again later",
    FaultKind.STOP: "SIGSTOP to a broker, and SIGCONT later",
    FaultKind.CUT: "no packet to or from a broker",
    FaultKind.ONEWAY: "no packet from a broker; it receives",
    FaultKind.SLOW_DISK: "writes of a broker take long",
    FaultKind.FULL_DISK: "no space on the disk of a broker",
    FaultKind.CLOCK: "the wall clock of a broker jumps",
    FaultKind.ZOOKEEPER: "SIGSTOP to ZooKeeper, and SIGCONT later",
    FaultKind.REASSIGN: "replicas move to other brokers and back",
    FaultKind.ELECT: "other replicas become leaders, by elections",
    FaultKind.RESTART_ALL: "all brokers end together, by SIGKILL or SIGTERM, and start again",
}
# No broker is away meanwhile: the controller is asked for it.
BY_REQUEST: Final = (FaultKind.REASSIGN, FaultKind.ELECT)
ZOOKEEPER: Final = -1  # as a victim

# The shortest faults end before anybody has noticed them, the longest ones after sessions are over.
SHORTEST_MS: Final = 200
SHORT_SHARE: Final = 0.2  # of the longest one, for every second fault on average
ALL_AWAY_SHARE: Final = 0.3  # of the longest one, while no broker is there


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault. ``choice`` is a random number for what only its place can decide."""

    number: int  # from 1
    kind: FaultKind
    victims: tuple[int, ...]  # brokers, or ZOOKEEPER; none of a fault by request
    calm_ms: int  # before it, with the cluster whole
    duration_ms: int
    choice: int

    def __str__(self) -> str:
        brokers = [str(victim) for victim in self.victims if victim != ZOOKEEPER]
        if not brokers:
            return self.kind.value
        return f"{self.kind.value} of broker{'s' * (len(brokers) > 1)} {', '.join(brokers)}"


def spare_brokers(replication_factor: int, min_insync_replicas: int) -> int:
    """Return how many brokers may be away at once, at least one.

    With more away, writes with acks=all are impossible. One may always be: its partitions are away
    with it, and come back with their records.
    """
    return max(1, replication_factor - min_insync_replicas)


def plan(
    seed: int,
    victims: Mapping[FaultKind, Sequence[int]],
    spare: int,
    longest_ms: int,
    calm_ms: int,
) -> Iterator[PlannedFault]:
    """Yield faults without end. The same arguments give the same faults.

    ``victims`` are the brokers that a fault of each kind may meet. Every kind occurs once in each
    round of all kinds, in another order each time. At most ``spare`` brokers are away at once,
    except for RESTART_ALL, which keeps what is on their disks. ``calm_ms`` is the mean time between
    the recovery from a fault and the next one.
    """
    dice = Random(seed)
    kinds = list(victims)
    number = 0
    while kinds:
        dice.shuffle(kinds)
        for kind in kinds:
            number += 1
            yield PlannedFault(
                number,
                kind,
                _victims(dice, kind, victims[kind], spare),
                dice.randint(calm_ms // 2, calm_ms * 3 // 2),
                _duration_ms(dice, kind, longest_ms),
                dice.getrandbits(32),
            )


def _victims(
    dice: Random, kind: FaultKind, candidates: Sequence[int], spare: int
) -> tuple[int, ...]:
    if kind in BY_REQUEST:
        return ()
    if kind is FaultKind.RESTART_ALL:
        return tuple(sorted(candidates))
    count = dice.randint(1, min(spare, len(candidates)))
    return tuple(sorted(dice.sample(sorted(candidates), count)))


def _duration_ms(dice: Random, kind: FaultKind, longest_ms: int) -> int:
    if kind is FaultKind.ELECT:
        return 0
    most_ms = longest_ms
    if kind is FaultKind.RESTART_ALL:
        most_ms = int(longest_ms * ALL_AWAY_SHARE)
    elif dice.random() < 0.5:
        most_ms = int(longest_ms * SHORT_SHARE)
    return dice.randint(min(SHORTEST_MS, most_ms), most_ms)
