"""Going far ahead ends at a moment at which the story waits."""

from __future__ import annotations

import itertools

import pytest

from minikafka.page.learn.session import Session


@pytest.mark.mission("LEARN-34")
def test_going_to_the_moment_of_a_sentence_arrives() -> None:
    ticks = itertools.count()
    session = Session(lambda: float(next(ticks)))
    try:
        session.request({"do": "open", "chapter": "a-broker-dies"})
        session.request({"do": "continue"})
        found = session.request({"do": "advance", "to_us": 10_000_000, "budget_ms": 5_000})
        at = found[-1]["now_us"]
        assert found[-1]["story"] == "waiting"
        session.request({"do": "open", "chapter": "a-broker-dies"})
        assert session.travel(at, 1_000_000)
    finally:
        session.close()
