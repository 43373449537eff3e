"""Learn mode in the page, over a session by hand: what the page sends, and what it draws."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import OpenPage
from tests.support.hand_learning import HandLearning
from tests.support.page_site import PageSite

NARROW = {"width": 320, "height": 700}


@pytest.fixture
def hand(site: PageSite) -> HandLearning:
    learning = HandLearning()
    site.responses["mode"] = {"mode": "learn"}
    site.learn = learning.request
    return learning


def opened(site: PageSite, open_page: OpenPage, place: str = "#/stage", **options: Any) -> Page:
    page = open_page(f"{site.url}learn{place}", **options)
    expect(page.locator(".story h2")).to_contain_text("By hand")
    return page


def sent(hand: HandLearning, do: str) -> list[dict[str, Any]]:
    return [request for request in hand.requests if request["do"] == do]


def sentence(page: Page) -> Locator:
    return page.locator(".beat.current")


def serious(page: Page) -> list[str]:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:300]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


# ---- the story


@pytest.mark.mission("LEARN-30")
def test_a_story_is_read_by_keys_alone(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    expect(sentence(page)).to_contain_text("One record goes to orders.")
    page.keyboard.press("Space")
    expect(sentence(page)).to_contain_text("Broker 1 has the record.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="The follower")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("Right. It leads.")
    expect(page.locator(".beat.check")).to_contain_text("The high watermark has moved.")
    expect(sentence(page)).to_contain_text("That was all.")
    page.keyboard.press("Space")
    expect(page.locator(".story-foot")).to_contain_text("This chapter has ended.")
    assert [request["do"] for request in hand.requests if request["do"] != "advance"] == [
        "catalogue", "open", "continue", "continue", "answer", "continue",
    ]  # fmt: skip
    assert sent(hand, "answer") == [{"do": "answer", "choice": 1}]


@pytest.mark.mission("LEARN-30")
def test_a_sentence_opens_its_view_and_marks_its_entity(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    expect(page.locator("[data-focus]")).to_have_attribute("data-entity", "host|broker-1")
    page.keyboard.press("Space")
    expect(page.locator("main h1")).to_have_text("Partition lanes")
    expect(page.locator("[data-focus]")).to_have_attribute("data-entity", "partition|1|orders-0")


@pytest.mark.mission("LEARN-35")
def test_a_sentence_stays_on_a_narrow_screen(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    """The story is above the view, which is scrolled to what the sentence is about."""
    page = opened(site, open_page, viewport={"width": 390, "height": 560})
    page.get_by_role("button", name="Continue").click()
    expect(sentence(page)).to_contain_text("Broker 1 has the record.")
    expect(page.locator("[data-focus]")).to_have_attribute("data-entity", "partition|1|orders-0")
    expect(sentence(page)).to_be_in_viewport()
    top = page.locator("header.top").evaluate("node => node.getBoundingClientRect().bottom")
    list_top = page.locator(".beats").evaluate("node => node.getBoundingClientRect().top")
    own_top = sentence(page).evaluate("node => node.getBoundingClientRect().top")
    assert max(list_top, own_top) >= top


@pytest.mark.mission("LEARN-30")
def test_progress_and_language_are_remembered(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.get_by_role("button", name="中文").click()
    expect(sentence(page)).to_contain_text("一条记录发往 orders。")
    expect(page.get_by_role("button", name="继续")).to_be_visible()
    page.reload()
    expect(sentence(page)).to_contain_text("一条记录发往 orders。")
    assert sent(hand, "open")[-1] == {"do": "open", "chapter": "by-hand", "language": "zh"}
    page.keyboard.press("c")
    listed = page.get_by_role("dialog").get_by_role("listitem")
    expect(listed).to_have_count(2)
    expect(listed.first).to_contain_text("已开始")
    listed.nth(1).get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".story h2")).to_contain_text("2. ")  # it has been opened
    assert sent(hand, "open")[-1]["chapter"] == "another"


# ---- the transport


@pytest.mark.mission("LEARN-31")
def test_the_slider_of_speed_is_logarithmic_and_speaks(module_page: Page) -> None:
    found = module_page.evaluate(
        """async () => {
            const pace = await import("/static/learn/pace.js");
            const { wordsOf } = await import("/static/learn/words.js");
            const say = (n) => pace.paceText(n, wordsOf("en"));
            return {
                ends: [pace.paceAt(0), pace.paceAt(30), pace.paceAt(pace.STEPS)],
                back: [1, 50, 1000, 2000].map((n) => pace.paceAt(pace.placeOf(n))),
                said: [50, 1000, 10000, 1].map(say),
                clock: pace.clockText(12345678),
            };
        }"""
    )
    assert found == {
        "ends": [1, 1000, 1_000_000],
        "back": [1, 50, 1000, 2000],
        "said": [
            "1 ms of the cluster takes 20 ms", "real time", "1 s of the cluster takes 100 ms",
            "1 ms of the cluster takes 1 s",
        ],
        "clock": "12.345 678 s",
    }  # fmt: skip


@pytest.mark.mission("LEARN-31")
def test_keys_step_play_and_go_back(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.keyboard.press("Space")
    expect(sentence(page)).to_contain_text("Broker 1 has the record.")
    hand.story = "left"  # the cluster goes on without the story
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("t")
    expect(page.locator(".player-time")).to_have_text("0.055 000 s")
    assert [step["what"] for step in sent(hand, "step")] == ["event", "message", "tick"]
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".player-time")).to_have_text("0.050 000 s")
    expect(page.locator(".in-the-past")).to_contain_text("begins another branch")
    page.keyboard.press("Home")
    expect(page.locator(".player-time")).to_have_text("0.000 000 s")
    page.keyboard.press("End")
    expect(page.locator(".player-time")).to_have_text("0.055 000 s")
    expect(page.locator(".in-the-past")).to_have_count(0)


@pytest.mark.mission("LEARN-31")
def test_scrubbing_back_forgets_later_beats(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.keyboard.press("Space")
    expect(page.locator(".beat")).to_have_count(2)
    page.get_by_role("button", name="Go back to here: 0.000 000 s").click()
    expect(page.locator(".beat")).to_have_count(1)
    expect(page.locator(".learn-marks .beat-mark")).to_have_count(1)
    place = page.get_by_label("Place in the playback")
    expect(place).to_have_attribute("aria-valuetext", "0.000 000 s / 0.040 000 s")


# ---- the stage


@pytest.mark.mission("LEARN-32")
def test_a_broker_is_killed_from_its_menu_by_keyboard(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    broker = page.get_by_role("button", name="broker 2", exact=True)
    broker.focus()
    page.keyboard.press("Enter")
    menu = page.get_by_role("menu", name="broker 2")
    expect(menu.get_by_role("menuitem")).to_have_text(["Kill", "Start (it runs)"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="broker 2, down")).to_be_visible()
    assert sent(hand, "act") == [{"do": "act", "name": "kill", "arguments": {"broker": 2}}]
    expect(page.locator(".story-foot")).to_contain_text("You have left the story")
    page.get_by_role("button", name="Start: broker 2").click()
    page.locator(".touched").get_by_text("broker 2").wait_for()


@pytest.mark.mission("LEARN-32")
def test_a_link_is_cut_by_the_context_menu_and_shown(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.get_by_role("button", name="link client – broker 1").dispatch_event("contextmenu")
    page.get_by_role("menuitem", name="Cut").click()
    expect(page.get_by_role("button", name="link client – broker 1, cut")).to_be_attached()
    assert sent(hand, "act")[-1]["arguments"] == {"one": "client", "other": "broker-1"}
    page.get_by_role("button", name="as table").first.click()
    expect(page.get_by_role("figure").first).to_contain_text("link client – broker 1")


@pytest.mark.mission("LEARN-32")
def test_the_form_of_an_action_comes_from_the_catalogue(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Actions")
    dialog.locator("[name=action]").select_option("produce")
    dialog.locator("[name=topic]").fill("")
    dialog.locator("[name=topic]").evaluate("field => { field.required = false; }")
    dialog.get_by_role("button", name="Do it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the name of the topic is invalid")
    dialog.locator("[name=topic]").fill("orders")
    dialog.locator("[name=records]").fill("5")
    dialog.get_by_role("button", name="Do it").click()
    expect(dialog).to_have_count(0)
    arguments = {"topic": "orders", "records": 5}
    assert sent(hand, "act")[-1] == {"do": "act", "name": "produce", "arguments": arguments}


@pytest.mark.mission("LEARN-32")
def test_messages_fly_between_their_times(module_page: Page) -> None:
    found = module_page.evaluate(
        """async () => {
            const { inTheAir, progressOf } = await import("/static/learn/flights.js");
            const wire = (number, sent_us, arrived_us, more = {}) =>
                [number, {number, sent_us, arrived_us, lost: false, held: false, ...more}];
            const all = new Map([wire(1, 0, 1000), wire(2, 500, null),
                wire(3, 900, null, {lost: true}),
                ...Array.from({length: 200}, (_, i) => wire(i + 4, 5000, 6000))]);
            return {
                half: progressOf(all.get(1), 500, 0), over: progressOf(all.get(1), 1001, 0),
                longer: progressOf(all.get(1), 1001, 2002), early: progressOf(all.get(2), 400, 0),
                unknown: progressOf(all.get(2), 1e9, 0) < 1,
                air: inTheAir(all, 600, 0).map(({wire}) => wire.number),
                many: inTheAir(all, 5500, 0).length,
            };
        }"""
    )
    assert found == {
        "half": 0.5, "over": None, "longer": 0.5, "early": None, "unknown": True, "air": [2, 1],
        "many": 80,
    }  # fmt: skip


# ---- the diagram of messages


@pytest.mark.mission("LEARN-33")
def test_the_diagram_draws_edges_and_their_table(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page)
    page.keyboard.press("Space")
    expect(page.locator(".beat")).to_have_count(2)
    page.keyboard.press("m")
    edges = page.locator(".wire-edge")
    expect(edges).to_have_count(4)
    expect(page.locator(".wire-edge.held")).to_have_count(1)
    edges.last.focus()
    page.keyboard.press("ArrowUp")
    chosen = page.get_by_label("The chosen message")
    expect(chosen).to_contain_text("Produce request 3 from client to broker-1, held")
    chosen.get_by_role("button", name="Release message").click()
    expect(page.locator(".story-foot")).to_contain_text("You have left the story")
    assert sent(hand, "act")[-1]["arguments"] == {"number": 3}
    chosen.get_by_role("button", name="Go to its sending").click()
    expect(page.locator(".player-time")).to_have_text("0.020 001 s")
    page.get_by_role("button", name="as table").click()
    expect(page.get_by_role("figure").locator("tbody tr")).to_have_count(3)


@pytest.mark.mission("LEARN-33")
def test_idle_time_is_folded_and_the_order_is_kept(module_page: Page) -> None:
    found = module_page.evaluate(
        """async () => {
            const { foldedScale } = await import("/static/learn/wire_model.js");
            const wire = (sent_us, arrived_us) => ({sent_us, arrived_us});
            const shown = [wire(1000, 2000), wire(2100, 3000), wire(90000, 91000)];
            const { y, gaps, lines } = foldedScale(shown, {from: 0, to: 92000}, 92000);
            const places = [1000, 2000, 2100, 3000, 50000, 90000, 91000, 92000].map(y);
            return [places.every((one, i) => i === 0 || one > places[i - 1]),
                places.every((one) => one >= 0 && one <= 1), gaps, lines,
                (places[5] - places[3]) / (places[6] - places[5])];
        }"""
    )
    rising, within, gaps, lines, idle = found
    assert rising
    assert within
    assert gaps == [{"us": 46_500, "lasts": 87_000}]
    assert lines == [1000, 90_000]
    assert idle == pytest.approx(1.5)  # 87 ms without messages are drawn as 1.5 ms


@pytest.mark.mission("LEARN-33")
def test_the_diagram_draws_some_hundreds_of_edges_at_most(module_page: Page) -> None:
    found = module_page.evaluate(
        """async () => {
            const model = await import("/static/learn/wire_model.js");
            const all = Array.from({length: 5000}, (_, i) =>
                ({number: i, api: i % 2 ? "Fetch" : "Produce", sent_us: i * 10,
                    arrived_us: i * 10 + 5, lost: false}));
            const { shown, hidden } = model.inSpan(all, {from: 0, to: 49990}, 50000);
            const few = model.inSpan(all, {from: 100, to: 132}, 50000).shown;
            return [shown.length, hidden, shown.at(-1).number,
                model.filtered(all, "calm").length, model.roundSpan(1234),
                model.autoSpan(all, 50000), few.map(({number}) => number)];
        }"""
    )
    assert found == [300, 4700, 4999, 2500, 2000, 2000, [10, 11, 12, 13]]


# ---- links and recipes


@pytest.mark.mission("LEARN-34")
def test_a_link_opens_the_same_moment(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page, "#/lanes?chapter=by-hand&t=40000")
    expect(page.locator(".player-time")).to_have_text("0.040 000 s")
    expect(page).to_have_url(re.compile(r"#/(lanes|stage)$"))
    page.keyboard.press("l")
    dialog = page.get_by_role("dialog", name="Link and test")
    expect(dialog.get_by_label("Link to this moment").first).to_contain_text(
        "chapter=by-hand&t=40000"
    )
    expect(dialog.get_by_label("As a test").first).to_contain_text("def test_it")


@pytest.mark.mission("LEARN-34")
def test_a_file_opens_a_recipe(site: PageSite, open_page: OpenPage, hand: HandLearning) -> None:
    page = opened(site, open_page)
    page.keyboard.press("l")
    recipe = {"name": "r.json", "mimeType": "application/json", "buffer": b'{"seed": 7}'}
    page.get_by_label("Open a file").set_input_files(recipe)  # type: ignore[arg-type]
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".story-foot")).to_contain_text("You have left the story")
    assert sent(hand, "open")[-1]["recipe"] == {"seed": 7}
    page.keyboard.press("l")
    shown = page.get_by_label("Link to this moment").first
    expect(shown).to_contain_text("recipe=FRAGMENT&t=0")


# ---- for everybody


@pytest.mark.mission("LEARN-35")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["stage", "wire"])
def test_axe_finds_nothing_serious(
    site: PageSite, open_page: OpenPage, hand: HandLearning, view: str, scheme: str
) -> None:
    page = opened(site, open_page, color_scheme=scheme)
    page.keyboard.press("Space")
    expect(page.locator(".beat")).to_have_count(2)
    expect(page.locator("main h1")).to_have_text("Partition lanes")
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.locator("main .twin")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("l")
    expect(page.get_by_label("As a test").first).to_be_visible()
    assert serious(page) == []


@pytest.mark.mission("LEARN-35")
@pytest.mark.parametrize("view", ["stage", "wire"])
def test_learn_mode_fits_320_pixels(
    site: PageSite, open_page: OpenPage, hand: HandLearning, view: str
) -> None:
    page = opened(site, open_page, f"#/{view}", viewport=NARROW)
    page.keyboard.press("Space")
    expect(page.locator(".beat")).to_have_count(2)
    expect(page.locator("main h1")).to_have_text("Partition lanes")
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.locator("main .twin")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.mission("LEARN-35")
def test_a_failure_of_the_process_is_one_sentence(
    site: PageSite, open_page: OpenPage, hand: HandLearning
) -> None:
    page = opened(site, open_page, errors=("500", "404"))
    site.learn = None
    page.keyboard.press("Home")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("There is no such path"))
