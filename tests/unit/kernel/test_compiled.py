"""Whether this build of minikafka is compiled."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec

import pytest

from minikafka.kernel import compiled
from minikafka.protocol import codec


def test_the_name_of_this_build() -> None:
    assert codec.__file__ is not None
    source = codec.__file__.endswith(".py")
    assert compiled.build_name() == ("pure Python" if source else "compiled")


@pytest.mark.parametrize(
    ("file", "name"), [(f"codec{EXTENSION_SUFFIXES[0]}", "compiled"), ("codec.py", "pure Python")]
)
def test_the_name_follows_from_the_file_of_a_module(
    file: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModuleSpec("minikafka.protocol.codec", None, origin=f"/minikafka/protocol/{file}")
    monkeypatch.setattr(compiled, "find_spec", {spec.name: spec}.get)
    assert compiled.build_name() == name


def test_an_interpreted_class_is_left_as_it_is() -> None:
    class Base: ...

    assert compiled.mypyc_attr(allow_interpreted_subclasses=True)(Base) is Base
