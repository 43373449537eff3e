"""A session of learn mode: requests of a page move a simulated cluster, messages describe it.

A session is synchronous and knows no network: the server's process and the worker of a browser tab
use the same one. Every request has a bound of work: of wall time, of simulated time or of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from minikafka.page.dashboard.messages import Hello, Message, hello_message
from minikafka.page.learn.actions import ACTIONS, check_action
from minikafka.page.learn.chapters import chapter as chapter_named
from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.conditions import Condition, condition, wheel_turns
from minikafka.page.learn.playback import STEP_LIMIT_US, StopOn
from minikafka.page.learn.recipe import MAX_US, Recipe, RecipeError
from minikafka.page.learn.source_text import source_of
from minikafka.page.learn.story import Beat, Chapter, StoryState
from minikafka.page.learn.take import Take
from minikafka.page.learn.texts import LANGUAGES, SUMMARY, TITLE, Catalogue, CodeLink

ADVANCE_MS: Final = 40  # of wall time, unless the request says otherwise
MAX_ADVANCE_MS: Final = 5_000
RUN_UNTIL_MS: Final = 1_000
SCRUB_MS: Final = 60_000
SLICE_US: Final = 20_000  # the wall time is read after each slice
MAX_BRANCHES: Final = 20
PLAYGROUND: Final = "playground"

MAX_NUMBER: Final = 2**53

Body = Mapping[str, Any]
Messages = list[Message]


class RequestError(ValueError):
    """A request is wrong, or not possible now. The message is a sentence for a reader."""


class Branch(NamedTuple):
    """What the reader has replaced by acting in the past, at ``fork_us``; it was played until
    ``end_us``. ``left`` are the beats of its story if that was left."""

    number: int
    fork_us: int
    end_us: int
    recipe: Recipe
    is_told: bool
    left: list[Beat] | None


class CarriedSession(NamedTuple):
    """What a session takes back in time, beside the simulation: the rest of a request to go back to
    ``to_us``, and what the reader has seen, chosen and done until now."""

    to_us: int
    budget_ms: int
    is_told: bool
    language: str
    chapter: str | None
    whole: Recipe
    end_us: int
    branches: list[Branch]
    chosen: dict[int, int]
    left: list[Beat] | None


class Session:
    """``wall_ms`` returns the time of a clock that does not go back, in milliseconds.

    ``request`` never raises. Every request is an object with ``do``; ``_requests`` lists them.
    """

    def __init__(self, wall_ms: Callable[[], float]) -> None:
        self.checkpoints: list[int] = []  # for the page: times to which the way back is short
        self._wall_ms = wall_ms
        self._language = LANGUAGES[0]
        self._take: Take | None = None
        self._chapter: Chapter | None = None
        self._catalogue: Catalogue | None = None
        self._whole = Recipe()  # with the actions after now, if the reader has gone back
        self._end_us = 0
        self._branches: list[Branch] = []
        self._chosen: dict[int, int] = {}  # by the number of the question
        self._sent_beats = 0
        self._requests: Mapping[str, Callable[[Body], Messages]] = {
            "open": self._open,
            "advance": self._advance,
            "step": self._step,
            "run_until": self._run_until,
            "scrub": self._scrub,
            "continue": self._continue,
            "answer": self._answer,
            "act": self._act,
            "branch": self._go_to_branch,
            "recipe": self._recipe,
            "catalogue": self._list,
            "language": self._change_language,
            "source": self._source,
        }

    def request(self, body: object) -> Messages:
        """Carry out a request, and return the messages for the page. The last one is ``playback``;
        an error is a ``problem`` before it."""
        try:
            if not isinstance(body, Mapping):
                raise RequestError("a request is a JSON object")
            do = body.get("do")
            handle = self._requests.get(do) if isinstance(do, str) else None
            if handle is None:
                raise RequestError(f"a request does one of {', '.join(self._requests)}")
            return handle(body)
        except (RequestError, RecipeError) as error:
            problem = {"type": "problem", "text": str(error)}
            return [problem, self._playback()]

    def close(self) -> None:
        """End the simulation."""
        if self._take is not None:
            self._take.close()
            self._take = None

    # -------------------------------------------------------------------------------- checkpoints
    # A server keeps copies of a session at earlier times, and goes back to the last one that fits.

    @property
    def now_us(self) -> int | None:
        """The simulated time; None if nothing is opened."""
        return None if self._take is None else self._take.now_us

    @property
    def is_told(self) -> bool:
        """Whether what happens is the matter of a story."""
        return self._take is not None and self._take.is_told

    @property
    def has_failed(self) -> bool:
        return self._take is not None and self._take.failed is not None

    @property
    def language(self) -> str:
        return self._language

    def carried(self, body: Body, near_us: int) -> CarriedSession | None:
        """Return what a copy of this session needs for a ``scrub`` or a ``branch``. None for a
        scrub forwards by at most ``near_us``, and for what is wrong: ``request`` is for these."""
        if body.get("do") == "branch":
            try:
                return self._carried_to_branch(body)
            except RequestError:
                return None
        take, to_us = self._take, body.get("to_us")
        if take is None or type(to_us) is not int or to_us < 0:
            return None
        try:
            budget_ms = _budget(body, SCRUB_MS, SCRUB_MS)
        except RequestError:
            return None
        if take.now_us <= to_us <= take.now_us + near_us and take.failed is None:
            return None
        chapter = None if self._chapter is None else self._chapter.name
        left = take.beats if take.was_left else None
        return CarriedSession(
            to_us, budget_ms, take.is_told, self._language, chapter, self._whole, self._end_us,
            self._branches, self._chosen, left,
        )  # fmt: skip

    def take_over(self, carried: CarriedSession) -> None:
        """Go on in place of a later copy of this session, in which nothing may be opened yet."""
        self._language, self._whole = carried.language, carried.whole
        self._end_us, self._branches = carried.end_us, carried.branches
        self._chosen = carried.chosen
        self._chapter = None if carried.chapter is None else chapter_named(carried.chapter)
        name = self._whole.chapter
        self._catalogue = Catalogue.of(name) if name in TABLE.values() else None
        if self._take is None:
            self._take = self._retaken(carried.is_told, carried.left)
        elif not carried.is_told:
            self._take.playback.recipe = carried.whole

    def travel(self, to_us: int, budget_ms: float) -> bool:
        """Play until ``to_us``, or the budget of wall time is used up. A story goes on by itself.
        Return whether the time is reached, or never will be."""
        take = self._opened_take()
        self._play(take, to_us, budget_ms, goes_on=True)
        return take.now_us >= to_us or take.failed is not None  # a story may wait at that very time

    def picture(self) -> Messages:
        """Return everything that a page needs to know."""
        return self._picture()

    # ------------------------------------------------------------------------------------ opening

    def _open(self, body: Body) -> Messages:
        language = _language(body) if "language" in body else self._language
        recipe, found = _opened(body)
        take = Take(recipe, found)  # before anything changes: it may be refused
        problems = self._drop_take()
        self._take, self._language = take, language
        self._chapter = found
        self._catalogue = Catalogue.of(recipe.chapter) if recipe.chapter in TABLE.values() else None
        self._whole = take.playback.recipe
        self._end_us = max((action.t_us for action in self._whole.actions), default=0)
        self._branches, self._chosen = [], {}
        return [*problems, *self._picture()]

    def _drop_take(self) -> Messages:
        """End the simulation; return the failure that it hid until now, if there is one."""
        failure = self._take.close() if self._take is not None else None
        return [] if failure is None else [{"type": "problem", "text": failure}]

    # ------------------------------------------------------------------------------------- moving

    def _advance(self, body: Body) -> Messages:
        take = self._opened_take()
        to_us = min(MAX_US, _number(body, "to_us", 0, MAX_NUMBER, MAX_US))
        self._play(take, max(take.now_us, to_us), _budget(body, ADVANCE_MS))
        return self._news()

    def _step(self, body: Body) -> Messages:
        take = self._moving_take()
        what = body.get("what", "event")
        end_us = min(MAX_US, take.now_us + STEP_LIMIT_US)
        if what == "event":
            self._play(take, end_us, RUN_UNTIL_MS, StopOn.EVENT)
        elif what == "message":
            self._play(take, end_us, RUN_UNTIL_MS, StopOn.ARRIVED)
        elif what == "tick":
            broker = None
            if body.get("broker") is not None:
                broker = _number(body, "broker", 1, take.playback.recipe.brokers, None)
            purgatory = body.get("purgatory")
            if purgatory is not None and not isinstance(purgatory, str):
                raise RequestError("a purgatory has a name")
            self._until(take, wheel_turns(take, broker, purgatory), end_us, RUN_UNTIL_MS)
        else:
            raise RequestError("a step is to the next event, message or tick")
        return self._news()

    def _run_until(self, body: Body) -> Messages:
        take = self._moving_take()
        what = body.get("what")
        if not isinstance(what, str) or not what or len(what) > 100:
            raise RequestError("run_until names an event, a message or a change")
        budget_ms = _budget(body, RUN_UNTIL_MS)
        reached = self._until(take, condition(take, what), MAX_US, budget_ms)
        found = self._news()
        found[-1]["reached"] = reached
        return found

    def _scrub(self, body: Body) -> Messages:
        take = self._opened_take()
        to_us = _number(body, "to_us", 0, MAX_US, None)
        budget_ms = _budget(body, SCRUB_MS, SCRUB_MS)
        problems: Messages = []
        is_back = to_us < take.now_us or take.failed is not None
        if is_back:
            problems = self._drop_take()
            take = self._again(take)
        self._play(take, to_us, budget_ms, goes_on=True)
        return [*problems, *(self._picture() if is_back else self._news())]

    def _again(self, before: Take) -> Take:
        """Begin again: with the story, or with the recipe that the reader made after it."""
        take = self._retaken(before.is_told, before.beats if before.was_left else None)
        self._take = take
        return take

    def _retaken(self, is_told: bool, left: list[Beat] | None) -> Take:
        if is_told and self._chapter is not None:
            return Take(self._chapter.recipe(), self._chapter)
        return Take(self._whole, None, left)

    def _play(
        self,
        take: Take,
        to_us: int,
        budget_ms: float,
        stop_on: StopOn = StopOn.NOTHING,
        goes_on: bool = False,
    ) -> bool:
        """Play until ``to_us``, the budget of wall time is used up, the story stops, or one of
        ``stop_on`` happens. With ``goes_on`` the story goes on by itself until then. Return whether
        everything that is due by ``to_us`` has run."""
        deadline_ms = self._wall_ms() + budget_ms
        while True:
            has_run = take.run(min(to_us, take.now_us + SLICE_US), stop_on)
            if take.failed is not None or (has_run and take.now_us >= to_us):
                break
            if not has_run:
                if not goes_on or take.now_us >= to_us:
                    break
                take.go_on()
            if self._wall_ms() >= deadline_ms:
                break
        self._moved(take)
        return has_run and take.now_us >= to_us

    def _until(self, take: Take, wanted: Condition, end_us: int, budget_ms: float) -> bool:
        """Play until a condition holds; return whether it does."""
        deadline_ms = self._wall_ms() + budget_ms
        while not (reached := wanted.holds()) and take.now_us < end_us:
            grid_us = wanted.grid_us
            next_us = min(end_us, take.now_us // grid_us * grid_us + grid_us)
            take.run(next_us, wanted.stop_on)
            if take.failed is not None or take.is_paused or self._wall_ms() >= deadline_ms:
                reached = wanted.holds()
                break
        self._moved(take)
        return reached

    def _moved(self, take: Take) -> None:
        self._end_us = max(self._end_us, take.now_us)
        recipe = take.playback.recipe
        if self._whole.actions[: len(recipe.actions)] != recipe.actions:
            self._whole = recipe

    # -------------------------------------------------------------------------------------- story

    def _continue(self, body: Body) -> Messages:
        take = self._opened_take()
        if not take.is_paused:
            raise RequestError("the story does not wait")
        take.go_on()
        self._moved(take)
        return self._news()

    def _answer(self, body: Body) -> Messages:
        take = self._opened_take()
        if take.story is not StoryState.ASKING:
            raise RequestError("the story has no question now")
        beat = take.beats[-1]
        options = self._words(beat).options
        self._chosen[beat.number] = _number(body, "choice", 0, len(options) - 1, None)
        take.go_on()
        self._moved(take)
        return [self._beat(beat), *self._news()]

    def _act(self, body: Body) -> Messages:
        take = self._opened_take()
        name, arguments = body.get("name"), body.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RequestError("an action has a name and arguments")
        if take.failed is not None:
            raise RequestError("the simulation has failed; go back to act")
        check_action(name, arguments, take.playback.recipe.brokers)
        take.playback.recipe.until(take.now_us).then(take.now_us, name, arguments)  # or RecipeError
        before, end_us, was_told = self._whole, self._end_us, take.is_told
        left = list(take.beats) if take.was_left else None
        take.act(name, arguments)
        recipe = take.playback.recipe
        if before.actions != recipe.actions[:-1]:
            number = max((branch.number for branch in self._branches), default=0) + 1
            self._branches.append(Branch(number, take.now_us, end_us, before, was_told, left))
            del self._branches[:-MAX_BRANCHES]
        self._whole, self._end_us = recipe, take.now_us
        return self._news()

    def _go_to_branch(self, body: Body) -> Messages:
        """Exchange what is played for a branch, and go to the moment before the two part."""
        carried = self._carried_to_branch(body)
        problems = self._drop_take()
        self._take = None
        self.take_over(carried)
        self.travel(carried.to_us, carried.budget_ms)
        return [*problems, *self._picture()]

    def _carried_to_branch(self, body: Body) -> CarriedSession:
        take, number = self._opened_take(), body.get("number")
        branch = next((it for it in self._branches if it.number == number), None)
        if branch is None:
            raise RequestError("there is no such branch")
        left = list(take.beats) if take.was_left else None
        here = branch._replace(
            end_us=self._end_us, recipe=self._whole, is_told=take.is_told, left=left
        )
        return CarriedSession(
            max(0, _parting_us(here, branch) - 1), _budget(body, SCRUB_MS, SCRUB_MS),
            branch.is_told, self._language, None if self._chapter is None else self._chapter.name,
            branch.recipe, branch.end_us,
            [here if it is branch else it for it in self._branches], self._chosen, branch.left,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------ reading

    def _recipe(self, body: Body) -> Messages:
        take = self._opened_take()
        recipe, now_us = take.playback.recipe, take.now_us
        try:
            fragment: str | None = recipe.to_fragment()
        except RecipeError:
            fragment = None  # too long for a link
        message = {
            "type": "recipe",
            "json": recipe.to_json(),
            "fragment": fragment,
            "pytest": recipe.until(now_us).as_pytest(now_us, self._digest(take)),
        }
        return [message, self._playback()]

    def _digest(self, take: Take) -> str | None:
        """Return the digest when everything that is due by now has run, as in the test of a recipe.
        A step, and a sentence, may be amid that: then a copy is played, or None is returned if that
        takes too long."""
        if take.is_settled:
            return take.playback.digest()
        deadline_ms = self._wall_ms() + MAX_ADVANCE_MS
        copy = Take(take.playback.recipe.until(take.now_us), None)
        try:
            while (
                not copy.run(min(take.now_us, copy.now_us + SLICE_US)) or copy.now_us < take.now_us
            ):
                if copy.failed is not None or self._wall_ms() >= deadline_ms:
                    return None
            return copy.playback.digest()
        finally:
            copy.close()

    def _list(self, body: Body) -> Messages:
        language = _language(body) if "language" in body else self._language
        chapters = [_chapter_row(number, name, language) for number, name in sorted(TABLE.items())]
        actions = [
            {
                "name": row.name,
                "title": row.title,
                "arguments": [
                    {
                        "name": argument.name,
                        "kind": argument.kind,
                        "default": argument.default,
                        "least": argument.least,
                        "most": argument.most,
                        "choices": list(argument.choices),
                    }
                    for argument in row.arguments
                ],
            }
            for row in ACTIONS.values()
        ]
        message = {"type": "catalogue", "chapters": chapters, "actions": actions}
        return [message, self._playback()]

    def _change_language(self, body: Body) -> Messages:
        self._language = _language(body)
        beats = [] if self._take is None else [self._beat(beat) for beat in self._shown_beats()]
        return [*beats, self._playback()]

    def _source(self, body: Body) -> Messages:
        path, name = body.get("path"), body.get("name", "")
        if not isinstance(path, str) or not isinstance(name, str):
            raise RequestError("a source has a path and a name")
        try:
            found = source_of(CodeLink(path, name))
        except LookupError as error:
            raise RequestError(str(error)) from None
        return [{"type": "source", "path": path, "name": name, **found._asdict()}, self._playback()]

    # ----------------------------------------------------------------------------------- messages

    def _picture(self) -> Messages:
        """Return everything that a page needs to know."""
        take = self._opened_take()
        servers = take.playback.cluster.client_config.bootstrap_servers
        hello = Hello(take.state.look.cluster_id, servers, minikafka=True, read_only=True)
        first = {**hello_message(hello, take.state.at_ms), "learn": True}
        beats = self._shown_beats()
        self._sent_beats = len(beats)
        return [first, *take.whole(), *map(self._beat, beats), self._playback()]

    def _news(self) -> Messages:
        """Return what is new since the last messages."""
        take = self._opened_take()
        if take.happened.is_much:
            return self._picture()
        beats = self._shown_beats()
        new = beats[self._sent_beats :]
        self._sent_beats = len(beats)
        return [*take.changes(), *map(self._beat, new), self._playback()]

    def _shown_beats(self) -> list[Beat]:
        take = self._opened_take()
        return [beat for beat in take.beats if take.is_told or beat.t_us <= take.now_us]

    def _beat(self, beat: Beat) -> Message:
        assert self._catalogue is not None
        words, entry = self._words(beat), self._catalogue.entry(beat.key)
        message: Message = {
            "type": beat.kind,
            "at": self._opened_take().state.at_ms,
            "t_us": beat.t_us,
            "number": beat.number,
            "key": beat.key,
            "text": words.text,
            "focus": list(beat.focus),
            "code": [link._asdict() for link in entry.code],
            "missions": list(entry.missions),
        }
        if beat.kind == "ask":
            chosen = self._chosen.get(beat.number)
            message |= {"options": list(words.options), "right": beat.right, "why": words.why}
            message["chosen"] = chosen
        elif beat.kind == "check":
            message["held"] = True
        return message

    def _words(self, beat: Beat) -> Any:
        assert self._catalogue is not None
        return self._catalogue.words(beat.key, self._language, beat.values)

    def _playback(self) -> Message:
        take = self._take
        if take is None:
            return {
                "type": "playback", "at": 0, "now_us": 0, "end_us": 0, "chapter": None,
                "title": None, "story": None, "pace": None, "actions": [], "branches": [],
                "checkpoints": [], "failed": None, "score": None, "language": self._language,
            }  # fmt: skip
        recipe = take.playback.recipe
        title = None
        if self._catalogue is not None:
            title = self._catalogue.words(TITLE, self._language).text
        story = take.story
        is_free = recipe.chapter == PLAYGROUND or not take.is_told
        return {
            "type": "playback",
            "at": take.state.at_ms,
            "now_us": take.now_us,
            "end_us": max(self._end_us, take.now_us),
            "chapter": recipe.chapter,
            "title": title,
            "story": None if story is None else story.value,
            "pace": take.pace,
            "actions": [[a.t_us, a.name, dict(a.arguments)] for a in self._whole.actions],
            "branches": [
                {"number": it.number, "fork_us": it.fork_us, "end_us": it.end_us}
                for it in self._branches
            ],
            "checkpoints": self.checkpoints,
            "failed": take.failed,
            "score": take.score.facts(take.now_us) if is_free else None,
            "language": self._language,
        }

    # ------------------------------------------------------------------------------------ helpers

    def _opened_take(self) -> Take:
        if self._take is None:
            raise RequestError("open a chapter or a recipe first")
        return self._take

    def _moving_take(self) -> Take:
        take = self._opened_take()
        if take.failed is not None:
            raise RequestError("the simulation has failed; go back")
        if take.is_paused:
            raise RequestError("continue the story first")
        return take


def _opened(body: Body) -> tuple[Recipe, Chapter | None]:
    """Return the recipe that a request opens, and the chapter unless its story is left out."""
    given = [key for key in ("chapter", "recipe", "fragment") if body.get(key) is not None]
    if len(given) != 1:
        raise RequestError("open a chapter, a recipe or a fragment")
    what = body[given[0]]
    if given == ["recipe"]:
        if not isinstance(what, Mapping):
            raise RequestError("a recipe is a JSON object")
        try:
            recipe = Recipe.from_json(json.dumps(what))
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestError(str(error) or "the recipe is not JSON") from error
    elif not isinstance(what, str):
        raise RequestError(f"the {given[0]} is a text")
    elif given == ["fragment"]:
        recipe = Recipe.from_fragment(what)
    elif what not in TABLE.values():
        raise RequestError(f"there is no chapter {what[:100]}")
    else:
        recipe = chapter_named(what).recipe()
    if recipe.chapter not in TABLE.values():
        return recipe, None
    found = chapter_named(recipe.chapter)
    is_untouched = replace(recipe, version="") == found.recipe()
    return recipe, found if is_untouched else None


def _parting_us(one: Branch, other: Branch) -> int:
    """Return the time of the first action that the two do not share."""
    for mine, theirs in zip(one.recipe.actions, other.recipe.actions, strict=False):
        if mine != theirs:
            return min(mine.t_us, theirs.t_us)
    shared = min(len(one.recipe.actions), len(other.recipe.actions))
    rest = [*one.recipe.actions[shared:], *other.recipe.actions[shared:]]
    return rest[0].t_us if rest else min(one.fork_us, one.end_us)


def _chapter_row(number: int, name: str, language: str) -> dict[str, Any]:
    catalogue = Catalogue.of(name)
    missions = [*chapter_named(name).missions, *catalogue.missions()]
    return {
        "name": name,
        "number": number,
        "title": catalogue.words(TITLE, language).text,
        "summary": catalogue.words(SUMMARY, language).text,
        "missions": list(dict.fromkeys(missions)),
    }


def _language(body: Body) -> str:
    language = body.get("language")
    if not isinstance(language, str) or language not in LANGUAGES:
        raise RequestError(f"the language is one of {', '.join(LANGUAGES)}")
    return language


def _number(body: Body, name: str, least: int, most: int, default: int | None) -> int:
    """Return a whole number of a request; without ``default`` it is required."""
    value = body.get(name, default)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise RequestError(f"{name} is a whole number from {least} to {most}")
    return value


def _budget(body: Body, default_ms: int, most_ms: int = MAX_ADVANCE_MS) -> int:
    return _number(body, "budget_ms", 1, most_ms, default_ms)
