"""Which facts about the parts of a broker have changed since a reader looked last."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

# A kind and a name, such as ("partition", "orders-0").
EntityKey: TypeAlias = tuple[str, str]
Facts: TypeAlias = Mapping[str, Any]

MAX_REMOVED: Final = 1000  # which are remembered


class EntityChange(NamedTuple):
    """The facts of an entity, by the number of their last change."""

    number: int
    kind: str
    name: str
    facts: Facts


class Changes(NamedTuple):
    """What is new after a number. With ``reset`` the reader forgets all entities that it knows:
    ``changed`` has all there are."""

    last: int
    reset: bool
    changed: list[EntityChange]
    removed: list[EntityKey]


class EntityChanges:
    """Numbers the changes of entities: from 1, and every change has a larger one.

    ``refresh`` takes the facts of a whole set of entities, and removes those that are not in it any
    more. Entities that the caller follows itself are set with ``put`` and removed with ``remove``;
    ``refresh`` leaves them alone. A kind belongs to one of the two."""

    def __init__(self) -> None:
        self.last = 0
        # In the order of their changes: what is new is at the end.
        self._entities: dict[EntityKey, EntityChange] = {}
        self._refreshed: set[EntityKey] = set()
        self._removed: deque[tuple[int, EntityKey]] = deque()
        self._forgotten = 0  # the largest number of a removal that is not remembered

    def put(self, key: EntityKey, facts: Facts) -> None:
        """Set the facts of an entity; equal ones are no change."""
        known = self._entities.get(key)
        if known is not None:
            if known.facts is facts or known.facts == facts:
                return
            del self._entities[key]
        self.last += 1
        self._entities[key] = EntityChange(self.last, *key, facts)

    def remove(self, key: EntityKey) -> None:
        """Remove an entity that there is."""
        del self._entities[key]
        self.last += 1
        self._removed.append((self.last, key))
        if len(self._removed) > MAX_REMOVED:
            self._forgotten, _ = self._removed.popleft()

    def refresh(self, entities: Iterable[tuple[EntityKey, Facts]]) -> Generator[None, None, None]:
        """Put all entities there are; yields after each."""
        seen: set[EntityKey] = set()
        for key, facts in entities:
            seen.add(key)
            self.put(key, facts)
            yield
        for key in self._refreshed - seen:
            self.remove(key)
        self._refreshed = seen

    def since(self, number: int) -> Changes:
        """Return what has changed after ``number``, which a reader has from ``Changes.last``. 0
        stands for a reader that knows nothing."""
        reset = number == 0 or number < self._forgotten or number > self.last
        after = 0 if reset else number
        changed: list[EntityChange] = []
        for each in reversed(self._entities.values()):
            if each.number <= after:
                break
            changed.append(each)
        changed.reverse()
        removed = [] if reset else [key for at, key in self._removed if at > number]
        return Changes(self.last, reset, changed, removed)
