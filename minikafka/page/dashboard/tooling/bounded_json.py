"""JSON values that are cut to a number of characters, with a sentence that says what was cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

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
