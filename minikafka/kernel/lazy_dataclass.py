"""``dataclass``: the decorator of ``dataclasses``, with methods that are compiled at first use.

``dataclasses`` compiles ``__init__``, ``__repr__``, ``__eq__`` and others while a module is
imported, which takes about half a millisecond a class. A broker has hundreds of such classes, most
of them for messages, and uses few of them soon. With this decorator a class compiles its methods
once: ``__init__`` when it is called or the fields are read, the others when one of them is called.
From then on it is as ``dataclasses`` would have made it, and costs the same.

Only slotted classes without ``InitVar`` fields can be made: ``slots=True`` is required. Type
checkers see the decorator of ``dataclasses``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

# Each class has these itself.
_OWN = frozenset({"__annotations__", "__doc__", "__module__", "__slots__"})
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_FROZEN = ("__setattr__", "__delattr__")
# ``__init__``, which is needed first, and what is made with it.
_SOON = ("__init__", "__dataclass_fields__", "__match_args__", "__signature__")
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__signature__")


class _Options(NamedTuple):
    """What ``dataclasses.dataclass`` is given. Its decorators are made when a class is compiled:
    they take 1.5 KB."""

    frozen: bool
    eq: bool
    order: bool
    kw_only: bool

    def make(self, cls: type) -> type:
        return dataclasses.dataclass(
            slots=True, frozen=self.frozen, eq=self.eq, order=self.order, kw_only=self.kw_only
        )(cls)

    def make_soon(self, cls: type) -> type:
        """Make what is in ``_SOON`` alone."""
        return dataclasses.dataclass(
            slots=True, frozen=self.frozen, repr=False, eq=False, kw_only=self.kw_only
        )(cls)


def _lazy_dataclass(
    *,
    slots: bool = False,
    frozen: bool = False,
    eq: bool = True,
    order: bool = False,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Return a class decorator; see ``dataclasses.dataclass`` for the keywords."""
    if not slots:
        raise TypeError("slots=True is required")
    options = _Options(frozen, eq, order, kw_only)
    methods = ["__init__", "__repr__"]
    if eq:
        methods.append("__eq__")
    if eq and frozen:
        methods.append("__hash__")  # without it a class with __eq__ has no hash
    methods += [*(_ORDER if order else ()), *(_FROZEN if frozen else ())]

    def decorate(cls: type[T]) -> type[T]:
        return _slotted(cls, options, methods)

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _lazy_dataclass


def _slotted(cls: type[T], options: _Options, methods: list[str]) -> type[T]:
    """Return ``cls`` with slots, and with what is compiled later. ``cls`` itself is kept by
    nothing."""
    written = {n: v for n, v in vars(cls).items() if n not in ("__dict__", "__weakref__")}
    written |= {"__qualname__": cls.__qualname__, "__annotations__": cls.__annotations__}
    fields = _fields(cls.__annotations__)
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    blueprint = _Blueprint(options, written)
    namespace = {name: value for name, value in written.items() if name not in fields}
    namespace["__slots__"] = tuple(name for name in fields if name not in inherited)
    later = (name for name in methods if name not in written)
    namespace |= {name: _Later(name, blueprint) for name in (*later, *_FACTS)}
    if options.frozen:  # pickled: the default way would use __setattr__
        namespace = {"__getstate__": _get_state, "__setstate__": _set_state} | namespace
    metaclass: Any = type(cls)
    lazy: type[T] = metaclass(cls.__name__, cls.__bases__, namespace)
    blueprint.lazy = lazy
    return lazy


class _Blueprint:
    """What a lazy class is compiled from: all that is written in it, and the options."""

    __slots__ = ("lazy", "options", "written")

    lazy: Any  # set once the class exists

    def __init__(self, options: _Options, written: dict[str, Any]) -> None:
        self.options = options
        self.written = written

    def compile_for(self, wanted: str) -> None:
        """Let ``dataclasses`` make the class from what is written, and take over its additions:
        those in ``_SOON`` if one of them is wanted, or else all."""
        lazy, written = self.lazy, self.written
        # A class each time: two threads may come here together.
        bare = type(lazy)(lazy.__name__, lazy.__bases__, {**written, "__doc__": "-"})
        left = {*written, *_fields(written["__annotations__"]), *_OWN}
        if wanted in _SOON:
            twin = self.options.make_soon(bare)
            left.add("__dataclass_params__")
        else:
            twin = self.options.make(bare)
        for name, value in vars(twin).items():
            if name not in left:
                setattr(lazy, name, value)
        lazy.__signature__ = None  # inspect finds it in __init__


class _Later:
    """A method of a lazy class, or another attribute that ``dataclasses`` sets. Reading or calling
    it compiles the class, which puts the real one into its place.

    A class has some ten of these, of 48 bytes; functions in a closure would take 2 KB."""

    __slots__ = ("_blueprint", "_name")

    def __init__(self, name: str, blueprint: _Blueprint) -> None:
        self._name = name
        self._blueprint = blueprint

    def __get__(self, instance: object, owner: type) -> Any:
        self._blueprint.compile_for(self._name)
        made = getattr(self._blueprint.lazy, self._name)
        return made if instance is None or self._name in _FACTS else MethodType(made, instance)


def _fields(annotations: Mapping[str, object]) -> list[str]:
    return [name for name, hint in annotations.items() if _is_field(hint)]


def _is_field(hint: object) -> bool:
    kind = (hint if isinstance(hint, str) else repr(hint)).partition("[")[0].rpartition(".")[2]
    if kind == "InitVar":
        raise TypeError("InitVar fields are not supported")
    return kind != "ClassVar"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
