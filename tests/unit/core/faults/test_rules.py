"""The rules of faults: selectors, budgets, and what adds up."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.faults.rules import (
    Answer,
    Delay,
    DisconnectClient,
    Effect,
    Hold,
    Observe,
    RequestFacts,
    Row,
    Rule,
    RuleBook,
    Selector,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey

TOPICS = st.sampled_from(["a", "b"])
ROWS = st.builds(Row, st.none() | TOPICS, st.none() | st.integers(0, 2), st.none() | TOPICS)
FACTS = st.builds(
    RequestFacts,
    st.integers(1, 3),
    st.sampled_from([ApiKey.PRODUCE, ApiKey.FETCH]),
    st.just(9),
    TOPICS,
    st.lists(ROWS, min_size=1, max_size=4),
    of_broker=st.booleans(),
)
SELECTORS = st.builds(
    Selector,
    st.none() | st.sampled_from([ApiKey.PRODUCE, ApiKey.FETCH]),
    st.none() | st.integers(1, 3),
    st.none() | TOPICS,
    st.none() | st.integers(0, 2),
    st.none() | TOPICS,
    client_id=st.none() | TOPICS,
    of_broker=st.booleans(),
)
EFFECTS: st.SearchStrategy[Effect] = st.sampled_from(
    [
        Observe(),
        Delay(5),
        Hold(),
        Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Swallow(),
        ThrottleClient(9),
    ]
)
RULES = st.builds(
    Rule, EFFECTS, SELECTORS, st.none() | st.integers(1, 3), on_call=st.integers(1, 3)
)
PRODUCE = RequestFacts(1, ApiKey.PRODUCE, 9, "app", [Row("t", 0), Row("t", 1)])


def fits(selector: Selector, facts: RequestFacts, row: Row) -> bool:
    """The twin: every field that is set equals the request's."""
    pairs = [
        (selector.api_key, facts.api_key),
        (selector.broker, facts.broker),
        (selector.client_id, facts.client_id),
        (selector.topic, row.topic),
        (selector.partition, row.partition),
        (selector.group, row.group),
    ]
    return selector.of_broker == facts.of_broker and all(
        wanted is None or wanted == found for wanted, found in pairs
    )


@given(st.lists(RULES, max_size=4), st.lists(FACTS, max_size=12))
def test_the_first_final_rule_decides_and_passing_ones_before_it_add_up(
    rules: list[Rule], requests: list[RequestFacts]
) -> None:
    book = RuleBook()
    for rule in rules:
        book.add(rule)
    calls = dict.fromkeys(rules, 0)
    hits = dict.fromkeys(rules, 0)
    for facts in requests:
        expected: list[tuple[Rule, list[Row]]] = []
        for rule in rules:
            rows = [row for row in facts.rows if fits(rule.selector, facts, row)]
            if not rows or (rule.times is not None and hits[rule] == rule.times):
                continue
            calls[rule] += 1
            if calls[rule] < rule.on_call:
                continue
            hits[rule] += 1
            expected.append((rule, rows))
            if not isinstance(rule.effect, Observe | Delay | Hold):
                break
        decision = book.decide(facts)
        found = [] if decision is None else [*decision.passing]
        if decision is not None and decision.final is not None:
            found.append(decision.final)
        assert [(strike.rule, list(strike.rows)) for strike in found] == expected
    assert [rule.hits for rule in rules] == [hits[rule] for rule in rules]


def test_a_removed_rule_strikes_no_more_and_may_be_removed_again() -> None:
    book = RuleBook()
    rule = Rule(DisconnectClient(), times=None)
    book.add(rule)
    assert book.may_concern(ApiKey.PRODUCE)
    assert book.decide(PRODUCE) is not None
    book.remove(rule)
    book.remove(rule)
    assert book.decide(PRODUCE) is None
    assert not book


def test_a_condition_of_the_test_is_evaluated_last() -> None:
    seen: list[RequestFacts] = []

    def when(facts: RequestFacts) -> bool:
        seen.append(facts)
        return len(seen) > 1

    rule = Rule(Observe(), Selector(ApiKey.PRODUCE, topic="t", when=when), times=None)
    assert rule.strikes(RequestFacts(1, ApiKey.PRODUCE, 9, "app", [Row("other", 0)])) == []
    assert seen == []
    assert rule.strikes(PRODUCE) == []
    assert rule.strikes(PRODUCE) == [Row("t", 0), Row("t", 1)]
    assert (rule.calls, rule.hits) == (1, 1)


def test_chance_is_repeated_with_its_seed() -> None:
    def run(seed: int) -> list[bool]:
        rule = Rule(Observe(), times=None, probability=0.5, chance=Random(seed).random)
        return [bool(rule.strikes(PRODUCE)) for _ in range(64)]

    assert run(7) == run(7)
    assert 0 < sum(run(7)) < 64


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"times": 0}, "times is 0"),
        ({"on_call": 0}, "on_call is 0"),
        ({"probability": 0.0}, "probability is 0.0"),
        ({"probability": 1.5}, "probability is 1.5"),
        ({"probability": 0.5}, "needs a seed"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Rule(Observe(), **numbers)
