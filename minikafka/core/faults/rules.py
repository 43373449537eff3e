"""Rules of faults: which requests a rule concerns, what it does to them, and how often.

A request is described by its rows: one for each partition, group or transactional id that it names.
The rules are looked at in the order in which they were added. Rules that let a request pass
(``Observe``, ``Delay``, ``Hold``) add up; the first rule of any other effect is the last one that
is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey


class Row(NamedTuple):
    """What one row of a request names. None: the API has no such thing, or the row names none."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """A request, as rules see it. ``rows`` has at least one row; ``request`` is the decoded
    message, which ``Selector.when`` may read. ``of_broker`` is true of requests that brokers and
    the controller send to each other."""

    broker: int
    api_key: ApiKey
    version: int
    client_id: str
    rows: Sequence[Row]
    request: Any = None
    of_broker: bool = False


class Moment(Enum):
    """When a fault strikes: before the request is served, or after that and before the response is
    sent."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Observe:
    """Count the request, and do nothing to it."""


@dataclass(frozen=True, slots=True)
class Delay:
    delay_ms: int
    moment: Moment = Moment.BEFORE


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the request, or its response, until the rule is released or removed."""

    moment: Moment = Moment.BEFORE


@dataclass(frozen=True, slots=True)
class Answer:
    """Respond with an error for the rows concerned, and serve the others. ``moment`` AFTER serves
    all of them first, as with errors that do not mean that nothing was done."""

    error: ErrorCode
    moment: Moment = Moment.BEFORE


@dataclass(frozen=True, slots=True)
class DisconnectClient:
    """Close the connection. AFTER: the work is done, and the response is lost."""

    moment: Moment = Moment.BEFORE


@dataclass(frozen=True, slots=True)
class Swallow:
    """Neither serve the request nor respond. Its connection stays open, and mute."""


@dataclass(frozen=True, slots=True)
class ThrottleClient:
    """Serve the request, and throttle the client as a quota does (KIP-219)."""

    throttle_ms: int


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Damage the record batches of the rows concerned in the response, so that the CRC fails. A
    response without records of theirs does not count: the rule strikes when a response is there
    (``Rule.count``), so that a fetch that waits for records does not keep it from others."""


Passing: TypeAlias = Observe | Delay | Hold
Final: TypeAlias = Answer | DisconnectClient | Swallow | ThrottleClient | Corrupt
Effect: TypeAlias = Passing | Final

# Errors of Produce after which the records are in the log all the same.
DONE_ALL_THE_SAME = frozenset(
    {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)


@dataclass(frozen=True, slots=True)
class Selector:
    """Concerns a request if every field that is set fits. ``topic``, ``partition``, ``group`` and
    ``transactional_id`` must fit the same row. Requests of brokers are concerned only with
    ``of_broker``, and then only they."""

    api_key: ApiKey | None = None
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    of_broker: bool = False
    when: Callable[[RequestFacts], bool] | None = None

    def concerns(self, facts: RequestFacts) -> bool:
        """Whether the fields of the whole request fit; see ``chosen`` for its rows."""
        return (
            self.api_key in (None, facts.api_key)
            and self.broker in (None, facts.broker)
            and self.client_id in (None, facts.client_id)
            and self.of_broker == facts.of_broker
        )

    def chosen(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that fit."""
        return [
            row
            for row in rows
            if self.topic in (None, row.topic)
            and self.partition in (None, row.partition)
            and self.group in (None, row.group)
            and self.transactional_id in (None, row.transactional_id)
        ]


@dataclass(slots=True, eq=False)
class Rule:
    """One fault. It strikes ``times`` requests (None: until it is removed), from the one numbered
    ``on_call`` of those that it concerns (1 is the first). With ``probability`` each of them is
    struck by chance: ``chance`` returns a random number from 0 to 1, from a seed that the test
    knows. Raises ValueError for a number that makes no sense."""

    effect: Effect
    selector: Selector = Selector()
    times: int | None = 1
    on_call: int = 1
    probability: float = 1.0
    chance: Callable[[], float] | None = None
    calls: int = field(default=0, init=False)  # requests concerned so far
    hits: int = field(default=0, init=False)  # of these, those that were struck

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}: a fault strikes at least once")
        if self.on_call < 1:
            raise ValueError(f"on_call is {self.on_call}: the first request is number 1")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability is {self.probability}: not above 0 and at most 1")
        if self.probability < 1 and self.chance is None:
            raise ValueError("a probability needs a seed, so that a failing test can be repeated")

    def describe(self) -> str:
        """Return the rule in the words with which a test adds it:
        ``answer LEADER_NOT_AVAILABLE before (api=Produce, partition=0)``."""
        words = [type(self.effect).__name__.removesuffix("Client").lower()]
        words += [
            _shown(each.name, getattr(self.effect, each.name)) for each in fields(self.effect)
        ]
        chosen = [
            f"{each.name.removesuffix('_key')}={_shown(each.name, value)}"
            for each in fields(self.selector)
            if (value := getattr(self.selector, each.name)) is not None and value is not False
        ]
        return f"{' '.join(words)} ({', '.join(chosen) or 'any request'})"

    @property
    def is_spent(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def strikes(self, facts: RequestFacts) -> list[Row]:
        """Return the rows of a request that the rule strikes, and count it; an empty list if it
        does not strike. The requests of ``Corrupt`` are not counted yet."""
        selector = self.selector
        if self.is_spent or not selector.concerns(facts):
            return []
        chosen = selector.chosen(facts.rows)
        if not chosen or not (selector.when is None or selector.when(facts)):
            return []
        return chosen if isinstance(self.effect, Corrupt) or self.count() else []

    def count(self) -> bool:
        """Count a request that the rule concerns, and return whether it strikes that request."""
        if self.is_spent:
            return False
        self.calls += 1
        if self.calls < self.on_call:
            return False
        if self.chance is not None and self.chance() >= self.probability:
            return False
        self.hits += 1
        return True


def _shown(field_name: str, value: object) -> str:
    if isinstance(value, ApiKey):
        return value.api_name
    if isinstance(value, Moment):
        return value.value
    if field_name.endswith("_ms"):
        return f"{value} ms"
    return str(getattr(value, "name", getattr(value, "__name__", value)))


class Strike(NamedTuple):
    """A rule, and the rows of a request that it strikes."""

    rule: Rule
    rows: Sequence[Row]


class FaultDecision(NamedTuple):
    """What happens to one request: ``passing`` in this order, and then ``final``, if any."""

    passing: Sequence[Strike]
    final: Strike | None


class RuleBook:
    """The rules of a cluster, in order."""

    def __init__(self) -> None:
        self._rules: dict[Rule, None] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __contains__(self, rule: Rule) -> bool:
        return rule in self._rules

    def add(self, rule: Rule) -> None:
        self._rules[rule] = None

    def remove(self, rule: Rule) -> None:
        """A rule that is not there is none any more."""
        self._rules.pop(rule, None)

    def may_concern(self, api_key: ApiKey) -> bool:
        """Whether a rule may strike a request of this API."""
        return any(
            rule.selector.api_key in (None, api_key) and not rule.is_spent for rule in self._rules
        )

    def decide(self, facts: RequestFacts) -> FaultDecision | None:
        """Return what happens to a request; None if nothing does. Counts the strikes."""
        passing: list[Strike] = []
        for rule in list(self._rules):
            rows = rule.strikes(facts)
            if not rows:
                continue
            if not isinstance(rule.effect, Observe | Delay | Hold):
                return FaultDecision(passing, Strike(rule, rows))
            passing.append(Strike(rule, rows))
        return FaultDecision(passing, None) if passing else None
