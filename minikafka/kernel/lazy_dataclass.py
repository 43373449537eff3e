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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

# Each class has these itself.
_OWN = frozenset({"__annotations__", "__doc__", "__module__", "__slots__"})
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_FROZEN = ("__setattr__", "__delattr__")
# ``__init__``, which is needed first, and what is made with it.
_SOON = ("__init__", "__dataclass_fields__", "__match_args__", "__signature__")
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")


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
    """Return ``cls`` with slots, and with stubs of ``methods``. Later what is in ``_SOON`` is
    compiled, or everything. ``cls`` itself is kept by nothing."""
    metaclass: Any = type(cls)
    class_name, bases = cls.__name__, cls.__bases__
    written = {n: v for n, v in vars(cls).items() if n not in ("__dict__", "__weakref__")}
    written |= {"__qualname__": cls.__qualname__, "__annotations__": cls.__annotations__}
    fields = [name for name, hint in cls.__annotations__.items() if _is_field(hint)]
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}

    def compile_for(wanted: str) -> None:
        """Let ``dataclasses`` make the class from what is written, and take over its additions."""
        soon = wanted in _SOON
        # A class each time: two threads may come here together.
        bare = metaclass(class_name, bases, {**written, "__doc__": "-"})
        twin = options.make_soon(bare) if soon else options.make(bare)
        left = {*written, *fields, *_OWN, *(["__dataclass_params__"] if soon else [])}
        for name, value in vars(twin).items():
            if name not in left:
                setattr(lazy, name, value)
        lazy.__signature__ = None  # type: ignore[attr-defined]  # inspect finds it in __init__

    def stub(method: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **keywords: Any) -> Any:
            compile_for(method)
            return getattr(lazy, method)(self, *args, **keywords)

        return call

    namespace = {name: value for name, value in written.items() if name not in fields}
    namespace["__slots__"] = tuple(name for name in fields if name not in inherited)
    namespace |= {name: stub(name) for name in methods if name not in written}
    namespace |= {name: _Fact(name, compile_for) for name in _FACTS}
    namespace["__signature__"] = _Signature(compile_for)
    if options.frozen:  # pickled: the default way would use __setattr__
        namespace = {"__getstate__": _get_state, "__setstate__": _set_state} | namespace
    lazy: type[T] = metaclass(class_name, bases, namespace)
    return lazy


def _is_field(hint: object) -> bool:
    kind = (hint if isinstance(hint, str) else repr(hint)).partition("[")[0].rpartition(".")[2]
    if kind == "InitVar":
        raise TypeError("InitVar fields are not supported")
    return kind != "ClassVar"


class _Fact:
    """An attribute of a lazy class that ``dataclasses`` sets. Reading it compiles the class."""

    __slots__ = ("_compile_for", "_name")

    def __init__(self, name: str, compile_for: Callable[[str], None]) -> None:
        self._name = name
        self._compile_for = compile_for

    def __get__(self, instance: object, owner: type) -> Any:
        self._compile_for(self._name)
        return getattr(owner, self._name)


class _Signature:
    """``__signature__`` of a lazy class: compiles the class, then lets ``inspect`` find it."""

    __slots__ = ("_compile_for",)

    def __init__(self, compile_for: Callable[[str], None]) -> None:
        self._compile_for = compile_for

    def __get__(self, instance: object, owner: type) -> None:
        self._compile_for("__signature__")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
