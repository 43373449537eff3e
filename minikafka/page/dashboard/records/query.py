"""What a reader of records asks for, parsed from the parameters of a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.page.dashboard.records.decoding import AUTO, DECODINGS
from minikafka.page.dashboard.records.expression import SearchCondition, parse_expression

MOST_RECORDS: Final = 1_000  # of one response
DEFAULT_RECORDS: Final = 100
MOST_EXPORTED: Final = 100_000
LONGEST_WAIT_MS: Final = 20_000
MOST_SHOWN_BYTES: Final = 64 * 1024  # of a value in a list
MOST_BYTES: Final = 16 * 1024 * 1024  # of a single value
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POSITIONS: Final = re.compile(r"\d{1,10}:\d{1,19}(?:,\d{1,10}:\d{1,19})*", re.ASCII)
_FROM: Final = re.compile(r"(earliest|latest)|(last|offset|time):(\d{1,18})", re.ASCII)
LAST: Final = "last"
COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"


class Wanted(NamedTuple):
    """Which records match: all of what is set. Texts are compared without regard to case unless
    ``match_case``; ``contains`` is looked for in keys and values."""

    contains: str = ""
    match_case: bool = False
    key: str | None = None
    header: tuple[str, str | None] | None = None  # its name, and its value if that counts
    where: SearchCondition | None = None


class ReadQuery(NamedTuple):
    """Which records to read.

    ``start`` and ``number``: earliest, latest, last N of all partitions, offset N, or time in ms.
    ``positions`` continues an earlier read at these offsets, and ``before`` one of the last N on to
    older records. ``transaction``: only records that readers of committed ones never see (aborted),
    or do not see as yet (open). ``until``: only up to the first record of a partition at this time
    in ms, or later. ``full``: one value whole.
    """

    topic: str
    partition: int | None = None
    start: str = "earliest"
    number: int = 0
    positions: Mapping[int, int] | None = None
    before: Mapping[int, int] | None = None
    until: int | None = None
    limit: int = DEFAULT_RECORDS
    wanted: Wanted = Wanted()
    key_as: str = AUTO
    value_as: str = AUTO
    wait_ms: int = 0
    uncommitted: bool = False
    transaction: str | None = None
    full: bool = False

    @property
    def most_bytes(self) -> int:
        """The bytes of a key or a value that are shown."""
        return MOST_BYTES if self.full else MOST_SHOWN_BYTES

    @property
    def is_newest_first(self) -> bool:
        return self.start == LAST and self.positions is None

    @property
    def is_search(self) -> bool:
        """Whether some records may not match."""
        everything = Wanted(match_case=self.wanted.match_case)
        return self.wanted != everything or self.transaction == ABORTED


def is_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None


def parse_query(words: Mapping[str, str], most: int = MOST_RECORDS) -> ReadQuery:
    """Parse the parameters of a request; empty ones count as missing. Raises ValueError, with a
    sentence for the user."""
    given = {name: text for name, text in words.items() if text != ""}
    topic = given.get("topic", "")
    if not is_topic(topic):
        raise ValueError("topic needs the name of a topic")
    found = _FROM.fullmatch(given.get("from", "earliest"))
    if found is None:
        raise ValueError("from needs earliest, latest, last:N, offset:N or time:MS")
    start, number = found[1] or found[2], int(found[3] or 0)
    newest = start == LAST and "next" not in given
    full, until = _flag(given, "full"), _number(given, "until", None, 2**63 - 1)
    default = min(number if newest else DEFAULT_RECORDS, most)
    limit = 1 if full else _number(given, "limit", default, most) or 1
    transaction = _transaction(given)
    ends = until is not None or transaction in (ABORTED, OPEN)
    wait_ms = 0 if ends else _number(given, "wait", 0, LONGEST_WAIT_MS) or 0
    return ReadQuery(
        topic=topic,
        partition=_number(given, "partition", None, 2**31 - 1),
        start=start,
        number=number,
        positions=_positions(given, "next"),
        before=_positions(given, "before"),
        until=until,
        limit=min(limit, max(1, number)) if newest else limit,
        wanted=_wanted(given),
        key_as=_decoding(given, "key_as"),
        value_as=_decoding(given, "value_as"),
        wait_ms=wait_ms,
        uncommitted=_flag(given, "uncommitted") and transaction != COMMITTED,
        transaction=None if transaction == COMMITTED else transaction,
        full=full,
    )


def _wanted(given: Mapping[str, str]) -> Wanted:
    header = where = None
    if "header" in given:
        name, equals, value = given["header"].partition("=")
        header = (name, value if equals else None)
    if "where" in given:
        where = parse_expression(given["where"])
    contains, match_case = given.get("contains", ""), _flag(given, "case")
    return Wanted(contains, match_case, given.get("key"), header, where)


def _transaction(given: Mapping[str, str]) -> str | None:
    found = given.get("transaction")
    if found is not None and found not in (COMMITTED, ABORTED, OPEN):
        raise ValueError("transaction needs committed, aborted or open")
    if found in (ABORTED, OPEN) and not _flag(given, "uncommitted"):
        raise ValueError(f"transaction={found} needs uncommitted=1")
    return found


def _decoding(given: Mapping[str, str], name: str) -> str:
    found = given.get(name, AUTO)
    if found not in DECODINGS:
        raise ValueError(f"{name} needs one of {', '.join(DECODINGS)}")
    return found


def _number(given: Mapping[str, str], name: str, default: int | None, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{name} needs a number")
    return min(int(text), most)


def _flag(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "0") not in ("0", "false")


def _positions(given: Mapping[str, str], name: str) -> dict[int, int] | None:
    text = given.get(name)
    if text is None:
        return None
    if not _POSITIONS.fullmatch(text):
        raise ValueError(f"{name} needs PARTITION:OFFSET,...")
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}
