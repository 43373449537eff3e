"""JSON that is cut to a number of characters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.page.dashboard.tooling.tool_calls import fitted, size, to_json

pytestmark = pytest.mark.mission("GLASS-62")

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=300)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=8), inner, max_size=8)
    ),
    max_leaves=60,
)


@given(VALUES, st.integers(10, 2000))
def test_a_cut_value_fits_and_an_uncut_one_is_whole(value: Any, most: int) -> None:
    found, cut = fitted(value, most)
    assert size(found) <= most
    assert json.loads(to_json(found)) == found or "\\ud" in to_json(found)
    assert (cut == "") == (size(value) <= most)
    if not cut:
        assert found == value


def test_lists_lose_their_end() -> None:
    rows = [{"topic": f"t{number}", "isr": [1, 2, 3]} for number in range(1000)]
    found, cut = fitted(rows, 1000)
    assert found == rows[: len(found)]
    assert 20 <= len(found) < 1000
    assert cut == f"cut to fit: lists to {len(found)} entries (the longest has 1,000)"
    assert size(rows[: len(found) + 1]) > 1000  # no entry less than fits


def test_a_list_within_one_entry_is_cut_too() -> None:
    topic = {"topic": "t", "partitions": [{"partition": number} for number in range(10_000)]}
    ((found,), cut) = fitted([topic], 2000)
    assert found["topic"] == "t"
    assert found["partitions"] == topic["partitions"][: len(found["partitions"])]
    assert "the longest has 10,000" in cut


def test_a_long_text_is_cut_before_entries_are_lost() -> None:
    records = [{"offset": number, "value": "x" * 100_000} for number in range(5)]
    found, cut = fitted(records, 5000)
    assert [row["offset"] for row in found] == [0, 1, 2, 3, 4]
    assert found[0]["value"] == "x" * 200 + "…"
    assert cut == "cut to fit: texts to 200 characters (the longest has 100,000)"


def test_a_map_is_cut_and_an_object_with_few_keys_is_not() -> None:
    metrics = {"broker": 1, "metrics": {f"metric {number}": number for number in range(5000)}}
    found, cut = fitted(metrics, 3000)
    assert found["broker"] == 1
    assert list(found["metrics"]) == [f"metric {n}" for n in range(len(found["metrics"]))]
    assert 20 <= len(found["metrics"]) < 5000
    assert "the longest has 5,000" in cut


def test_text_ends_with_a_whole_line() -> None:
    table = "".join(f"row {number}\n" for number in range(1000))
    found, cut = fitted(table, 500)
    assert table.startswith(found)
    assert found.endswith("\n")
    assert cut == f"cut to fit: the first {len(found)} of {len(table):,} characters"
    assert len(fitted("head\n" + "x" * 9999, 500)[0]) > 400  # a long line is cut within


def test_half_a_surrogate_pair_can_be_sent() -> None:
    text = to_json({"value": json.loads('"\\ud83d"'), "whole": "😀"})
    assert json.loads(text.encode()) == {"value": "\ud83d", "whole": "😀"}
