"""The lazy decorator makes the same classes as that of ``dataclasses``, only later."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from minikafka.kernel.lazy_dataclass import dataclass

T = TypeVar("T")
Decorator = Any


def plain(decorator: Decorator) -> type[Any]:
    @decorator(slots=True)
    class Point:
        KIND: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list)

        def sum(self) -> int:
            return self.x + self.y

    return Point


def frozen(decorator: Decorator) -> type[Any]:
    @decorator(frozen=True, slots=True)
    class Frozen:
        x: int
        secret: str = dataclasses.field(default="s", repr=False, compare=False)

    return Frozen


def derived(decorator: Decorator) -> type[Any]:
    base: Any = frozen(decorator)

    @decorator(frozen=True, slots=True, kw_only=True)
    class Derived(base):  # type: ignore[misc]
        z: int = 3

    return Derived


def ordered(decorator: Decorator) -> type[Any]:
    @decorator(order=True, slots=True)
    class Ordered:
        x: int
        b: str = ""

    return Ordered


def by_identity(decorator: Decorator) -> type[Any]:
    @decorator(slots=True, eq=False)
    class ByIdentity:
        x: int
        counted: int = dataclasses.field(default=4, init=False)
        doubled: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.doubled = 2 * self.counted

    return ByIdentity


def written_out(decorator: Decorator) -> type[Any]:
    @decorator(frozen=True, slots=True)
    class WrittenOut:
        x: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    return WrittenOut


def generic(decorator: Decorator) -> type[Any]:
    @decorator(slots=True)
    class Box(Generic[T]):
        x: T

    return Box


def subclassed(decorator: Decorator) -> type[Any]:
    base: Any = plain(decorator)

    class Sub(base):  # type: ignore[misc]
        def __init__(self, x: int) -> None:
            super().__init__(x, y=5)

    return Sub


CLASSES = [plain, frozen, derived, ordered, by_identity, written_out, generic, subclassed]


def bare(cls: type[Any]) -> Any:
    """Return an object that ``__init__`` has not made, as a decoder of messages does."""
    made = object.__new__(cls)
    for name in ("x", "y", "tags", "secret", "z", "b", "counted", "doubled"):
        if any(name in vars(base) for base in cls.__mro__):
            object.__setattr__(made, name, 1)
    return made


def outcome(use: Callable[[], Any]) -> Any:
    try:
        return use()
    except (TypeError, AttributeError, ValueError) as error:
        return type(error), str(error)


USES: dict[str, Callable[[type[Any]], Any]] = {
    "positional": lambda cls: repr(cls(1)),
    "two positional": lambda cls: repr(cls(1, 2)),
    "keyword": lambda cls: repr(cls(x=1, y=3)),
    "missing": lambda cls: cls(),
    "fresh defaults": lambda cls: cls(1).tags is cls(1).tags,
    "equal": lambda cls: (cls(1) == cls(1), cls(1) == cls(2), bare(cls) == bare(cls)),
    "repr": lambda cls: repr(bare(cls)),
    # Both are alive: the second could get the address of the first, and so its hash.
    "hash": lambda cls: len({hash(each) for each in (bare(cls), bare(cls))}),
    "in a set": lambda cls: len({bare(cls), bare(cls)}),
    "less": lambda cls: (bare(cls) < bare(cls), bare(cls) >= bare(cls)),
    "assign": lambda cls: setattr(bare(cls), "x", 2),
    "delete": lambda cls: delattr(bare(cls), "x"),
    "no other attribute": lambda cls: setattr(cls(1), "unknown", 1),
    "fields": lambda cls: [(f.name, f.default, f.init) for f in dataclasses.fields(cls)],
    "is dataclass": dataclasses.is_dataclass,
    "replace": lambda cls: repr(dataclasses.replace(cls(1), x=2)),
    "asdict": lambda cls: dataclasses.asdict(cls(1)),
    "copy": lambda cls: repr(copy.copy(cls(1))),
    "deep copy": lambda cls: repr(copy.deepcopy(bare(cls))),
    "state": lambda cls: hasattr(cls, "__setstate__"),
    "signature": lambda cls: str(inspect.signature(cls)),
    "match": lambda cls: cls.__match_args__,
    "constant": lambda cls: cls.KIND,
    "method": lambda cls: cls(1).sum(),
    "slots": lambda cls: cls.__slots__,
    "names": lambda cls: (cls.__name__, cls.__qualname__, cls.__module__),
}


@pytest.mark.mission("IN-11")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", CLASSES)
def test_a_class_behaves_as_that_of_dataclasses(
    make: Callable[[Decorator], type[Any]], use: str
) -> None:
    lazy, ready = make(dataclass), make(dataclasses.dataclass)
    first = outcome(lambda: USES[use](lazy))
    assert first == outcome(lambda: USES[use](ready))
    assert first == outcome(lambda: USES[use](lazy))  # and so at the second use


@dataclass(frozen=True, slots=True)
class Stored:
    x: int


def test_a_frozen_object_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Stored(3))) == Stored(3)


@pytest.mark.mission("IN-11")
def test_methods_are_compiled_at_first_use_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    original = dataclasses.dataclass

    def counted(**keywords: Any) -> Any:
        decorate = original(**keywords)

        def of(cls: type[Any]) -> type[Any]:
            made.append(cls.__name__)
            return decorate(cls)

        return of

    monkeypatch.setattr(dataclasses, "dataclass", counted)
    cls = plain(dataclass)
    assert made == []
    first, second = cls(1), cls(2)
    assert dataclasses.fields(first) == dataclasses.fields(second)
    assert made == ["Point"]  # __init__ alone
    assert cls.__init__.__code__.co_varnames[:2] == ("self", "x")
    assert first != second
    assert repr(first) != repr(second)
    assert made == ["Point", "Point"]  # all methods
    assert cls.__dataclass_params__.eq


@pytest.mark.mission("RUN-7")
def test_the_class_that_was_decorated_is_not_kept() -> None:
    decorated: list[weakref.ref[type]] = []

    def note(cls: type[Any]) -> type[Any]:
        decorated.append(weakref.ref(cls))
        return dataclass(slots=True)(cls)

    @note
    class Point:
        x: int

    gc.collect()
    assert [each() for each in decorated] == [None]
    assert Point(1) == Point(1)  # type: ignore[call-arg]


def test_threads_may_use_a_class_for_the_first_time_together() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            cls = plain(dataclass)
            found: list[list[str]] = []
            threads = [
                threading.Thread(target=lambda c=cls, f=found: f.append(c(1).tags))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [[], [], [], []]
    finally:
        sys.setswitchinterval(interval)


def test_classes_that_cannot_be_lazy_are_refused() -> None:
    with pytest.raises(TypeError, match="slots=True"):
        dataclass(frozen=True)

    with pytest.raises(TypeError, match="InitVar"):

        @dataclass(slots=True)
        class WithInitVar:
            x: dataclasses.InitVar[int]
