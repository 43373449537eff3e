"""The consumer's loop over records: compiled or not, it reads what the plain decoder reads."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.records import record_columns
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.record import encode_record
from minikafka.protocol.records.record_layout import read_plainly


def interpreted() -> ModuleType:
    """The module as Python runs it where it was not compiled."""
    source = Path(__file__).parents[4] / "minikafka/protocol/records/record_columns.py"
    loader = SourceFileLoader("interpreted_record_columns", str(source))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


MODULES = (record_columns, interpreted())
NUMBERS = st.sampled_from((0, 1, -1, 63, 64, -65, 8_191, 8_192, 2**31, 2**62, -(2**63)))
contents = st.none() | st.sampled_from([b"", b"k", b"x" * 63, b"y" * 64, b"z" * 9_000])
headers = st.lists(st.tuples(st.sampled_from(["", "h", "ключ"]), contents), max_size=2)
DELTAS = st.sampled_from((0, 1, -1, 63, 64, 8_191, 8_192, 2**31 - 1, -(2**31)))
rows = st.lists(st.tuples(DELTAS, NUMBERS, contents, contents, headers), min_size=1, max_size=6)


def encoded(records: list[Any]) -> bytes:
    return b"".join(encode_record(*record) for record in records)


def read(module: ModuleType, data: bytes, count: int) -> Any:
    try:
        offsets, times, keys, values, pairs = module.read_columns(data, count, True)
    except CorruptRecordError as error:
        return str(error)
    return list(zip(offsets, times, keys, values, map(list, pairs), strict=True))


@given(rows)
@settings(max_examples=100, deadline=None)
@pytest.mark.mission("ARW-8")
def test_both_read_the_records_that_were_written(records: list[Any]) -> None:
    data = encoded(records)
    for module in MODULES:
        assert read(module, data, len(records)) == records
        assert module.read_columns(data, len(records), False)[0] == []


@given(rows, st.data())
@settings(max_examples=200, deadline=None)
def test_both_refuse_the_same_bytes(records: list[Any], draw: st.DataObject) -> None:
    data = bytearray(encoded(records))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] = draw.draw(st.integers(0, 255))
    damaged = bytes(data[: draw.draw(st.sampled_from([len(data), len(data) - 1]))])
    compiled, plain = (read(module, damaged, len(records)) for module in MODULES)
    assert compiled == plain
    position = 0
    try:
        for _ in records:
            _, position = read_plainly(damaged, position)
    except (IndexError, ValueError):
        position = -1
    assert (position == len(damaged)) == (not isinstance(plain, str))
