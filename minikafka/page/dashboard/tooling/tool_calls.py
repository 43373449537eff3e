"""Calls of tools: each one runs its verb, and its output becomes a reply of bounded size.

JSON is cut to a number of characters, with a sentence that says what was cut.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from minikafka.kernel.errors import KafkaError
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import Act, command, shown_command
from minikafka.page.dashboard.acting.running import Finished, run_command
from minikafka.page.dashboard.tooling.tools import DRY_RUN, Tool, refusal

TEXT_LIMITS: Final = (2000, 200, 20)  # characters of one text, tried in this order
ENOUGH: Final = 20  # entries of a list; for fewer, texts are cut shorter first
# An object with so many keys is a map, such as one of metrics by name. Others are never cut.
MAP_KEYS: Final = 100


def size(value: Any) -> int:
    return len(to_json(value))


def to_json(value: Any) -> str:
    """Return compact JSON that can always be encoded: half a surrogate pair stays an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace").decode()


def fitted(value: Any, most: int) -> tuple[Any, str]:
    """Return the value with at most ``most`` characters of JSON, and what was cut from it.

    Long texts lose their end, then lists their last entries, all to one length. The sentence is
    empty if nothing was cut. A value of another form ends as the beginning of its JSON.
    """
    if size(value) <= most:
        return value, ""
    if isinstance(value, str):
        return _text_fitted(value, most)
    longest_text, widest = _measures(value)
    for text_limit in TEXT_LIMITS:
        shortened = _texts_cut(value, text_limit)
        kept = _most_fitting(partial(_entries_size, shortened), widest, most)
        found = _entries_cut(shortened, kept)
        few = kept < min(widest, ENOUGH)
        if size(found) > most or (few and text_limit != TEXT_LIMITS[-1]):
            continue
        parts = []
        if longest_text > text_limit:
            parts.append(f"texts to {text_limit:,} characters (the longest has {longest_text:,})")
        if kept < widest:
            parts.append(f"lists to {kept:,} entries (the longest has {widest:,})")
        return found, f"cut to fit: {', '.join(parts)}"
    return _text_fitted(to_json(value), most)


def _text_fitted(text: str, most: int) -> tuple[str, str]:
    length = _most_fitting(lambda length: size(text[:length]), min(len(text), most), most)
    kept = text[:length]
    whole_lines = kept[: kept.rfind("\n") + 1]
    kept = whole_lines if len(whole_lines) > len(kept) // 2 else kept
    return kept, f"cut to fit: the first {len(kept):,} of {len(text):,} characters"


def _measures(value: Any) -> tuple[int, int]:
    """Return the length of the longest text, and of the longest list or map."""
    texts = [0]
    entries = [0]
    for each in _walk(value):
        if isinstance(each, str):
            texts.append(len(each))
        elif isinstance(each, list) or (isinstance(each, Mapping) and len(each) > MAP_KEYS):
            entries.append(len(each))
    return max(texts), max(entries)


def _walk(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _most_fitting(size_of: Callable[[int], int], largest: int, most: int) -> int:
    """Return the largest number whose size is at most ``most``, by bisection; 0 if none fits."""
    least, beyond = 0, largest + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if size_of(middle) <= most:
            least = middle
        else:
            beyond = middle
    return least


def _entries_size(value: Any, kept: int) -> int:
    return size(_entries_cut(value, kept))


def _texts_cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}…"
    if isinstance(value, Mapping):
        return {key: _texts_cut(each, limit) for key, each in value.items()}
    if isinstance(value, list):
        return [_texts_cut(each, limit) for each in value]
    return value


def _entries_cut(value: Any, kept: int) -> Any:
    if isinstance(value, Mapping):
        some = max(kept, 1) if len(value) > MAP_KEYS else len(value)
        return {key: _entries_cut(each, kept) for key, each in islice(value.items(), some)}
    if isinstance(value, list):
        return [_entries_cut(each, kept) for each in value[:kept]]
    return value


AT_ONCE: Final = 4  # verbs that run at the same time; others wait
MOST_OUTPUT: Final = 16 * 1024 * 1024  # bytes that one verb may print
MAX_MESSAGES: Final = 4000  # characters of what a verb prints besides its output
PATIENCE_S: Final = 1.0  # a verb that takes longer makes us check whether the cluster responds
NOTE: Final = 300  # characters that the sentence on what was cut may take
_LINES: Final = frozenset({"consume"})  # verbs that print one JSON object a line
# What the verbs print on standard error while all is well.
_NOISE: Final = ("Processed a total of", "; trying on", "the output was cut after")


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a reply; ``failed`` if it is the reason why there is no result."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Runs the tools against one cluster.

    ``reach`` returns if the cluster responds, and otherwise raises within seconds; the verbs
    themselves try for half a minute. ``most`` bounds the characters of a reply.
    """

    tools: Mapping[str, Tool]
    bootstrap: str
    command_config: str | None
    reach: Callable[[], Awaitable[object]]
    most: int
    patience_s: float = PATIENCE_S
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Reply:
        """Run one tool. Errors that the user or the model can mend are replies, not exceptions."""
        tool = self.tools.get(name)
        if tool is None:
            return Reply(refusal(name), failed=True)
        given = dict(arguments)
        dry_run = given.pop(DRY_RUN, False)
        try:
            if not isinstance(dry_run, bool):
                raise ActError(f"{DRY_RUN}: true or false is needed")
            wanted = command(tool.act.name, given, self.bootstrap, self.command_config, dry_run)
        except ActError as error:
            return Reply(f"{name}: {error}", failed=True)
        async with self.slots:
            running = asyncio.create_task(run_command(wanted, tool.act.timeout_s, MOST_OUTPUT))
            try:
                unreachable = await self._unreachable(running)
                if unreachable:
                    return Reply(_with_doubt(unreachable, tool.act, dry_run), failed=True)
                finished = await running
            except OSError as error:
                return Reply(f"{name}: the command cannot run: {error}", failed=True)
            finally:
                running.cancel()  # ends its process, too
        if finished.status is None and not finished.cut:
            late = f"{name} took longer than {tool.act.timeout_s} s and was ended"
            return Reply(_with_doubt(late, tool.act, dry_run), failed=True)
        return reply(tool.act, shown_command(wanted), finished, self.most)

    async def _unreachable(self, running: asyncio.Task[Finished]) -> str:
        """Return why the cluster cannot be reached; an empty text if it can, or if the verb ends
        before that is known."""
        reaching = asyncio.ensure_future(self._check(running))
        try:
            await asyncio.wait({running, reaching}, return_when=asyncio.FIRST_COMPLETED)
            return reaching.result() if reaching.done() and not running.done() else ""
        finally:
            reaching.cancel()

    async def _check(self, running: asyncio.Task[Finished]) -> str:
        await asyncio.wait({running}, timeout=self.patience_s)
        try:
            await self.reach()
        except (KafkaError, OSError, TimeoutError) as error:
            return f"the cluster at {self.bootstrap} does not respond: {error or 'no response'}"
        return ""


def _with_doubt(reason: str, act: Act, dry_run: bool) -> str:
    if act.changes and not dry_run:
        return f"{reason}; it is not known whether the change was made"
    return reason


def reply(act: Act, shown: str, finished: Finished, most: int) -> Reply:
    """Return the reply for what a verb has printed: JSON with the command and its output."""
    output = finished.output
    messages = "\n".join(
        line for line in finished.errors.splitlines() if not any(each in line for each in _NOISE)
    )[-MAX_MESSAGES:]
    failed = finished.status != 0 and not finished.cut
    if failed and not output.strip():
        reason = messages.strip().splitlines()[-1:] or ["no reason was given"]
        return Reply(f"{reason[0].removeprefix('minikafka: ')} (command: {shown})"[:most], True)
    facts: dict[str, Any] = {"command": fitted(shown, most // 4)[0]}
    if messages.strip():
        facts["messages"] = fitted(messages.strip(), most // 4)[0]
    value = _value(act, output)
    room = max(most - size(facts) - NOTE, 100)
    facts["output"], cut = fitted(value, room)
    if finished.cut:
        cut = f"the verb was ended after {MOST_OUTPUT:,} bytes; {cut}"
    if cut:
        facts["cut"] = f"{cut}; narrower arguments show the rest"
    return Reply(to_json(facts), failed)


def _value(act: Act, output: str) -> Any:
    if not act.json:
        return with_json_lines(output)
    if not output.strip() and act.changes:
        return ""
    return parsed(output, act.name in _LINES)


def with_json_lines(output: str) -> Any:
    """Return text as it is; or, if some of its lines are JSON objects, its lines with those."""
    lines: list[Any] = []
    for line in filter(str.strip, output.splitlines()):
        try:
            lines.append(json.loads(line) if line.startswith("{") else line)
        except ValueError:
            lines.append(line)
    return lines if any(not isinstance(line, str) for line in lines) else output


def parsed(output: str, lines: bool) -> Any:
    """Return the JSON that a verb printed: one document, or a list of one a ``lines``. What is not
    JSON is returned as text; a last line that was cut off is left out."""
    if not lines:
        try:
            return json.loads(output) if output.strip() else []
        except ValueError:
            return output
    values = []
    rows = output.splitlines(keepends=True)
    for row in rows:
        try:
            values.append(json.loads(row))
        except ValueError:
            return values if not row.endswith("\n") else output
    return values
