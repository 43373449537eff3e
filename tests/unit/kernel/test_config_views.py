"""Views of the configuration: dataclasses whose fields are named like Kafka's keys."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from minikafka.kernel.config import view_of


@dataclass(frozen=True)
class View:
    num_partitions: int = 1
    listener: str = ""


def test_fields_are_taken_from_the_keys_of_their_names() -> None:
    values = {"num.partitions": 4, "listener": "L", "num.io.threads": 8}
    assert view_of(View, values) == View(4, "L")
    assert view_of(View, values, listener="M") == View(4, "M")
    assert view_of(View, {"a.num.partitions": 5}, "a.", listener="M") == View(5, "M")


def test_a_field_without_a_key_does_not_keep_its_default_silently() -> None:
    with pytest.raises(KeyError, match="listener"):
        view_of(View, {"num.partitions": 4})
