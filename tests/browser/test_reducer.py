"""The reducer and the player, in a browser: any way through the messages ends in the same state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.page_site import RECORDINGS

MESSAGES = [json.loads(line) for line in (RECORDINGS / "failover.ndjson").read_text().splitlines()]
HELP = """
    const reducer = await import("/static/reducer.js");
    const player = await import("/static/player.js");
    const text = (state) => JSON.stringify({
        ...state, entities: [...state.entities].sort(), history: [...state.history].sort(),
        trails: [...state.trails].sort(),
    });
"""


def run(page: Page, code: str, given: object = None) -> Any:
    """Run code of an async function with ``given``, the reducer's and the player's modules."""
    return page.evaluate(f"async (given) => {{ {HELP} {code} }}", given)


@pytest.mark.mission("GLASS-30")
def test_messages_one_by_one_and_at_once_make_the_same_state(module_page: Page) -> None:
    same, entities, events = run(
        module_page,
        """
        let one = reducer.emptyState();
        for (const message of given) one = reducer.reduce(one, message);
        const all = reducer.reduceAll(reducer.emptyState(), given);
        return [text(one) === text(all), all.entities.size, all.events.length];
        """,
        MESSAGES,
    )
    assert same
    assert entities > 30
    assert events > 100


@pytest.mark.mission("GLASS-30")
@pytest.mark.parametrize("part", [0.1, 0.5, 1.0])
def test_a_snapshot_of_a_state_makes_the_state(module_page: Page, part: float) -> None:
    until = int(len(MESSAGES) * part)
    assert run(
        module_page,
        """
        const state = reducer.reduceAll(reducer.emptyState(), given);
        const other = reducer.reduceAll(reducer.emptyState(), reducer.snapshotOf(state));
        return text(state) === text(other);
        """,
        MESSAGES[:until],
    )


@pytest.mark.mission("GLASS-30")
def test_a_state_is_not_changed_by_later_messages(module_page: Page) -> None:
    assert run(
        module_page,
        """
        const half = reducer.reduceAll(reducer.emptyState(), given.slice(0, 200));
        const before = text(half);
        reducer.reduceAll(half, given.slice(200));
        return text(half) === before;
        """,
        MESSAGES,
    )


@pytest.mark.mission("GLASS-30")
def test_a_repeated_snapshot_adds_no_event_twice(module_page: Page) -> None:
    events = [message for message in MESSAGES if message["type"] == "event"]
    once, twice = run(
        module_page,
        """
        const once = reducer.reduceAll(reducer.emptyState(), given);
        return [once.events.length, reducer.reduceAll(once, given.slice(-80)).events.length];
        """,
        MESSAGES[:1] + events,
    )
    assert once == twice == len(events)


@pytest.mark.mission("GLASS-35")
def test_events_are_in_the_order_of_their_time(module_page: Page) -> None:
    """A page that opens gets all events of one broker before those of the next."""
    first = [message for message in MESSAGES if message["type"] == "event"][:60]
    by_broker = sorted(first, key=lambda message: message["broker"])
    assert by_broker != first
    shown = run(
        module_page,
        """
        const state = reducer.reduceAll(reducer.emptyState(), given);
        return state.events.map(({ at, broker, number }) => [at, broker, number]);
        """,
        by_broker,
    )
    assert [row[0] for row in shown] == sorted(message["at"] for message in first)
    assert sorted(map(tuple, shown)) == sorted(
        (message["at"], message["broker"], message["number"]) for message in first
    )


@pytest.mark.mission("GLASS-30")
def test_a_reset_forgets_one_broker_only(module_page: Page) -> None:
    def state(broker: int | None, names: list[str], reset: bool) -> dict[str, object]:
        changed = [{"kind": "partition", "name": name, "facts": {}} for name in names]
        return {"type": "state", "at": 1, "broker": broker, "reset": reset, "changed": changed,
                "removed": []}  # fmt: skip

    messages = [state(1, ["a-0", "a-1"], True), state(2, ["a-0"], True), state(1, ["b-0"], True)]
    assert run(
        module_page,
        """
        const state = reducer.reduceAll(reducer.emptyState(), given);
        return reducer.all(state, "partition").map(({broker, name}) => [broker, name]);
        """,
        messages,
    ) == [[1, "b-0"], [2, "a-0"]]


@pytest.mark.mission("GLASS-31")
def test_a_player_that_seeks_has_the_state_of_a_replay(module_page: Page) -> None:
    """In any order of places, forward and back over checkpoints."""
    assert (
        run(
            module_page,
            """
        const recording = new player.Player(given);
        const wrong = [];
        for (const part of [0.7, 0.2, 1, 0, 0.45, 0.46, 0.9, 0.1]) {
            recording.seek(recording.start + part * (recording.end - recording.start));
            const replay = reducer.reduceAll(
                reducer.emptyState(), given.slice(0, recording.index));
            if (text(replay) !== text(recording.state)) wrong.push(part);
        }
        return wrong;
        """,
            MESSAGES,
        )
        == []
    )


@pytest.mark.mission("GLASS-31")
def test_a_player_steps_by_messages_in_both_directions(module_page: Page) -> None:
    assert run(
        module_page,
        """
        const recording = new player.Player(given);
        recording.seek(recording.start);
        const first = recording.index;
        for (let i = 0; i < 5; i++) recording.step(1);
        const there = recording.index - first;
        recording.step(-2);
        const replay = reducer.reduceAll(reducer.emptyState(), given.slice(0, recording.index));
        return [there, recording.index - first, text(replay) === text(recording.state)];
        """,
        MESSAGES,
    ) == [5, 3, True]


@pytest.mark.mission("GLASS-31")
def test_a_player_plays_by_its_speed_and_stops_at_the_end(module_page: Page) -> None:
    begun, slow, fast, playing = run(
        module_page,
        """
        const recording = new player.Player(given);
        recording.seek(recording.start);
        recording.play();
        const begun = recording.playing;
        recording.speed = 0.5;
        recording.tick(1000);
        const slow = recording.clock - recording.start;
        recording.speed = 4;
        recording.tick(1000);
        const fast = recording.clock - recording.start - slow;
        recording.tick(1e9);
        return [begun, slow, fast, recording.playing || !recording.atEnd];
        """,
        MESSAGES,
    )
    assert (begun, slow, fast, playing) == (True, 500, 4000, False)


@pytest.mark.mission("GLASS-31")
def test_a_wrong_line_of_a_recording_is_named(module_page: Page) -> None:
    assert (
        run(
            module_page,
            """
        try { player.parseRecording('{"type":"hello"}\\n{oops}\\n'); } catch (error) {
            return error.message;
        }
        """,
        )
        == "Line 2 of the recording is not JSON."
    )
