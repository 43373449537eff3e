"""The mark ``minikafka``: what it chooses, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.testing.cluster import NotInThisPlace, place
from minikafka.testing.marks import ClusterChoice, MarkError, cluster_choice, settings_of_lines

pytestmark = pytest.mark.mission("IN-41")


def choice(*marks: Mapping[str, Any], **defaults: Any) -> ClusterChoice:
    return cluster_choice([((), keywords) for keywords in marks], defaults)


def test_the_fastest_place_with_all_abilities_is_chosen() -> None:
    assert place() == place(needs=["isolate", "faults"]) == "inside"
    assert place(needs=["clock"]) == "simulated"
    assert place(needs=["real_zookeeper", "pause"]) == "processes"
    assert place("processes", ["pause"]) == "processes"
    with pytest.raises(ValueError, match="no place can do all of this: clock, other_clients"):
        place(needs=["clock", "other_clients"])
    with pytest.raises(ValueError, match="no ability 'clok'; there are other_clients, "):
        place(needs=["clok"])
    with pytest.raises(ValueError, match="no place 'insid'; there are inside, simulated, process"):
        place("insid")


def test_a_place_that_cannot_names_those_that_can() -> None:
    with pytest.raises(NotInThisPlace) as caught:
        place("processes", ["isolate"])
    assert str(caught.value) == (
        'a cluster with where="processes" cannot isolate a broker; '
        'one with where="inside" or where="simulated" can'
    )
    assert caught.value.where == ("inside", "simulated")


def test_the_closest_mark_wins_and_settings_add_up() -> None:
    assert choice() == ClusterChoice("inside", 1)
    near: dict[str, Any] = {"brokers": 3, "settings": {"a": 1, "b": True}}
    far: dict[str, Any] = {"brokers": 2, "where": "processes", "settings": {"a": "2", "c": "3"}}
    found = choice(near, far, brokers=9, settings={"c": "4", "d": "5"})
    settings = (("a", "1"), ("b", "True"), ("c", "3"), ("d", "5"))
    assert found == ClusterChoice("processes", 3, settings)
    assert choice({"needs": ["clock"], "seed": 7}) == ClusterChoice("simulated", 1, (), 7)
    assert choice({"reset": True}).reset
    assert choice({"reset": True}) == choice({}), "they share a cluster"
    assert hash(choice({"settings": {"a": 1, "b": 2}})) == hash(
        choice({"settings": {"b": 2, "a": 1}})
    )


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"reset": 1}, "reset of the mark minikafka is True or False, not 1"),
        ({"reset": True, "where": "processes"}, 'with where="processes" cannot become as good as'),
        (
            {"broker": 3},
            "no keyword 'broker'; there are brokers, where, settings, needs, seed, r",
        ),
        ({"where": "docker"}, "no place 'docker'; there are inside, simulated, processes"),
        ({"needs": ["jvm"]}, "no ability 'jvm'"),
        ({"needs": "clock"}, r'needs of the mark minikafka is a list: \["clock"\]'),
        ({"where": "simulated", "needs": ["other_clients"]}, "cannot serve clients of other lib"),
        ({"brokers": "3"}, "brokers of the mark minikafka is a number, not '3'"),
        ({"brokers": 0}, "at least 1"),
        ({"settings": ["a=b"]}, "settings of the mark minikafka is a dict"),
    ],
)
def test_an_impossible_mark_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(MarkError, match=message):
        choice(keywords)


def test_a_mark_takes_no_arguments_without_a_name() -> None:
    with pytest.raises(MarkError, match="keywords only: brokers, where"):
        cluster_choice([((3,), {})], {})


def test_settings_are_lines() -> None:
    assert settings_of_lines(["a.b=1", "c = d=e"]) == {"a.b": "1", "c": "d=e"}
    with pytest.raises(MarkError, match="lines key=value"):
        settings_of_lines(["a.b"])
