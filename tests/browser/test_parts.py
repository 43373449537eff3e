"""The page's shared parts: axes, rates, numbers in words, sorting, addresses."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

LANE = {
    "broker": 1, "leads": True, "inIsr": True, "alive": True, "own": True, "knownEnd": None,
    "behind": 0, "logStart": 0, "highWatermark": 1000, "lastStable": 990, "logEnd": 1005,
}  # fmt: skip


def call(page: Page, module: str, code: str, given: object = None) -> Any:
    """Run the body of a function with a module of the page as ``m``."""
    body = f'const m = await import("/static/{module}"); {code}'
    return page.evaluate(f"async (given) => {{ {body} }}", given)


@pytest.mark.mission("GLASS-34")
def test_an_axis_shows_where_marks_move(module_page: Page) -> None:
    """Its ends are round; it has the watermark and all log ends that matter, and no more."""
    dead = {**LANE, "broker": 2, "leads": False, "inIsr": False, "alive": False, "logEnd": 10,
            "highWatermark": 10, "lastStable": 10}  # fmt: skip
    axis = call(module_page, "parts/axis.js", "return m.endAxis(given)", {"lanes": [LANE, dead]})
    assert axis["zoomed"]
    assert axis["from"] % 25 == axis["to"] % 25 == 0
    assert 900 < axis["from"] <= 990
    assert 1005 <= axis["to"] < 1100
    whole = call(module_page, "parts/axis.js", "return m.wholeAxis(given)", {"lanes": [LANE, dead]})
    assert whole == {"from": 0, "to": 1005, "zoomed": False}


@pytest.mark.mission("GLASS-34")
def test_an_axis_has_room_for_the_pace_of_its_log(module_page: Page) -> None:
    idle, fast, still, back, known = call(
        module_page,
        "parts/axis.js",
        """
        let pace = m.pace(null, 0, 100);
        const idle = pace.least;
        for (let i = 1; i <= 20; i++) pace = m.pace(pace, i * 1000, 100 + i * 1000);
        const fast = pace.least;
        for (let i = 21; i <= 60; i++) pace = m.pace(pace, i * 1000, 20100);
        const known = m.pace(m.pace(null, 0, null), 500, 9000); // it did not grow by 9,000
        return [idle, fast, pace.least, m.pace(pace, 5, 10).least, m.pace(known, 1000, 9001).least];
        """,
    )
    assert (idle, fast, back, known) == (20, 10_000, 20, 20)
    assert still < 100


@pytest.mark.mission("GLASS-34")
@pytest.mark.parametrize(
    ("offsets", "most"), [((0, 100), 5), ((990, 1010), 10), ((0, 1), 3), ((10**9, 10**9 + 7), 4)]
)
def test_ticks_are_few_and_on_the_axis(
    module_page: Page, offsets: tuple[int, int], most: int
) -> None:
    axis = {"from": offsets[0], "to": offsets[1]}
    ticks = call(module_page, "parts/axis.js", "return m.ticks(given[0], given[1])", [axis, most])
    assert 1 <= len(ticks) <= most + 1
    assert all(offsets[0] <= tick <= offsets[1] for tick in ticks)


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize(("x", "middle"), [(150, 150), (290, 278.4), (4, 21.6)])
def test_the_label_of_a_tick_stays_in_its_picture(module_page: Page, x: int, middle: float) -> None:
    found = call(module_page, "parts/axis.js", "return m.labelMiddle(given, '40,460', 300)", x)
    assert found == pytest.approx(middle)


@pytest.mark.mission("GLASS-35")
def test_a_rate_is_zero_while_a_counter_stands_still(module_page: Page) -> None:
    """Only changes are sent, so no sample means no change; a restarted broker counts from 0."""
    samples = [{"at": at, "n": n} for at, n in [(0, 0), (1000, 50), (2000, 150), (3000, 0)]]
    later = [*samples, {"at": 10_000, "n": 30}]
    rates = call(module_page, "parts/format.js", "return m.rates(given, 'n')", later)
    assert [(rate["at"], rate["value"]) for rate in rates] == [
        (1000, 50), (2000, 100), (3000, 0), (4000, 0), (9000, 0), (10_000, 30),
    ]  # fmt: skip
    assert call(module_page, "parts/format.js", "return m.rate(given, 'n', 10000)", later) == 30
    assert call(module_page, "parts/format.js", "return m.rate(given, 'n', 15000)", later) == 0
    assert call(module_page, "parts/format.js", "return m.rate([], 'n', 5)") is None


@pytest.mark.mission("GLASS-35")
def test_a_rate_breaks_where_no_page_was_open(module_page: Page) -> None:
    """The line breaks, and goes on with the mean of the time that nobody saw."""
    samples = [{"at": at, "n": n} for at, n in [(0, 0), (1000, 50), (26_000, 1300)]]
    code = "return m.rates(given[0], 'n', undefined, given[1])"
    gaps = [{"from": 1200, "to": 25_900}]
    rates = call(module_page, "parts/format.js", code, [samples, gaps])
    assert [(rate["at"], rate["value"]) for rate in rates] == [
        (1000, 50), (2000, None), (26_000, 50),
    ]  # fmt: skip


@pytest.mark.mission("GLASS-30")
def test_a_snapshot_with_old_numbers_makes_no_sample(module_page: Page) -> None:
    """The numbers are from before a pause, stamped with the time of the snapshot."""

    def counted(at: int, n: int, reset: bool) -> dict[str, Any]:
        facts = {"messages_in": n, "bytes_in": 0, "bytes_out": 0}
        return {"type": "state", "at": at, "broker": 1, "reset": reset, "removed": [],
                "changed": [{"kind": "broker", "name": "", "facts": facts}]}  # fmt: skip

    messages = [counted(1000, 5, True), counted(30_000, 5, True), counted(31_000, 90, False)]
    samples, gaps = call(
        module_page,
        "reducer.js",
        """
        const state = m.reduceAll(m.emptyState(), given);
        return [m.samples(state, 1, "broker").map(({at, messages_in}) => [at, messages_in]),
            state.gaps];
        """,
        messages,
    )
    assert samples == [[1000, 5], [31_000, 90]]
    assert gaps == [{"from": 1000, "to": 30_000}]


@pytest.mark.mission("GLASS-45")
def test_groups_with_lag_are_counted_if_they_have_no_members(module_page: Page) -> None:
    def group(name: str, phase: str, members: list[str]) -> dict[str, Any]:
        facts = {"lag": 5, "state": phase, "members": members}
        return {"kind": "consumer_group", "name": name, "facts": facts}

    groups = [group("a", "Empty", []), group("b", "PreparingRebalance", ["m"])]
    message = {"type": "state", "at": 1, "broker": None, "reset": True, "changed": groups}
    again = {**message, "changed": [*groups, group("c", "Empty", [])]}
    script = "return given.map((one) => m.oddStates(r.reduceAll(r.emptyState(), [one])));"
    script = f'const r = await import("/static/reducer.js"); {script}'
    one, two = call(module_page, "parts/partitions.js", script, [message, again])
    assert one == [{"name": "group lags without members", "count": 1, "bad": False}]
    assert two == [{"name": "groups lag without members", "count": 2, "bad": False}]


@pytest.mark.mission("GLASS-33")
def test_numbers_are_written_for_people(module_page: Page) -> None:
    assert call(
        module_page,
        "parts/format.js",
        """return [m.number(1234567), m.number(null), m.brief(12345), m.bytes(1536), m.bytes(900),
            m.duration(0.25), m.duration(61500), m.duration(7200000), m.count(1, "topic"),
            m.count(2, "topic"), m.duration(-5)];""",
    ) == ["1,234,567", "–", "12.3k", "1.5 KiB", "900 B", "250 µs", "1 min 1 s", "2 h", "1 topic",
          "2 topics", "-5 ms"]  # fmt: skip


@pytest.mark.mission("GLASS-33")
def test_rows_sort_by_numbers_and_by_names_with_numbers(module_page: Page) -> None:
    rows = [{"name": "t-10", "n": 9}, {"name": "t-2", "n": None}, {"name": "t-1", "n": 10}]
    names, numbers, falling = call(
        module_page,
        "parts/table.js",
        """
        const columns = [{key: "name"}, {key: "n"}];
        const by = (key, down) => m.sortRows(given, columns, [key, down]).map((row) => row[key]);
        return [by("name", false), by("n", false), by("n", true)];
        """,
        rows,
    )
    assert names == ["t-1", "t-2", "t-10"]
    assert numbers == [None, 9, 10]
    assert falling == [10, 9, None]


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("lanes", {}),
        ("topics", {"name": "a/b c?#", "tab": "acts"}),
        ("events", {"text": "orders-0", "level": "warning"}),
    ],
)
def test_an_address_leads_to_its_view_and_parameters(
    module_page: Page, path: str, params: dict[str, str]
) -> None:
    found = call(
        module_page, "route.js", "return m.parseHash(m.hashOf(given[0], given[1]))", [path, params]
    )
    assert found == {"path": path, "params": params}


@pytest.mark.mission("GLASS-33")
def test_an_unknown_address_leads_to_the_first_view(module_page: Page) -> None:
    code = "return m.parseHash('#/no-such-view').path"
    assert call(module_page, "route.js", code) == "cluster"


@pytest.mark.mission("GLASS-35")
def test_repeated_events_of_a_burst_become_one_line(module_page: Page) -> None:
    """A failover writes two names in turn, hundreds of times; an hour later is another line."""
    events: list[dict[str, Any]] = [
        {"at": 1000 + i, "broker": 1, "number": i, "level": "info", "facts": {},
         "name": "replica_became_leader" if i % 2 else "replica_became_follower"}
        for i in range(40)
    ]  # fmt: skip
    events.append({**events[0], "at": 3_600_000, "number": 41})
    lines = call(module_page, "views/events.js", "return m.folded(given)", events)
    assert [(len(line["events"]), line["events"][0]["name"]) for line in lines] == [
        (1, "replica_became_follower"),
        (20, "replica_became_leader"),
        (20, "replica_became_follower"),
    ]


@pytest.mark.mission("GLASS-35")
@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"topic": "orders", "partition": 3}, "orders-3"),
        ({"partition": "my-topic-12"}, "my-topic-12"),
        ({"partition": 9, "group": "billing"}, None),
        ({"partition": "no number"}, None),
    ],
)
def test_the_partition_of_an_event_is_known(
    module_page: Page, facts: dict[str, object], name: str | None
) -> None:
    assert call(module_page, "views/events.js", "return m.partitionOf(given)", facts) == name
