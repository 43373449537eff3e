"""Which records a search finds. Pure."""

from __future__ import annotations

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.decoder import Decoder
from minikafka.page.dashboard.records.expression import ABSENT, Json
from minikafka.page.dashboard.records.query import Wanted


class Matching:
    """Tells whether records match what is wanted of their decoded keys and values."""

    def __init__(self, wanted: Wanted, decoder: Decoder) -> None:
        self._wanted = wanted
        self._decoder = decoder
        self._contains = _Contains(wanted.contains, wanted.match_case)

    def matches(self, record: ConsumerRecord) -> bool:
        """Whether all that is wanted is fulfilled; the cheapest is looked at first."""
        wanted = self._wanted
        if wanted.contains and not (
            self._contains.is_in(record.value) or self._contains.is_in(record.key)
        ):
            return False
        if wanted.header is not None and not self._has_header(record, *wanted.header):
            return False
        if wanted.key is not None and not self._is_key(record, wanted.key):
            return False
        return wanted.where is None or wanted.where.holds(_Row(record, self._decoder).root)

    def _has_header(self, record: ConsumerRecord, name: str, value: str | None) -> bool:
        return any(
            name == given and (value is None or self._same(_text(data), value))
            for given, data in record.headers
        )

    def _is_key(self, record: ConsumerRecord, wanted: str) -> bool:
        found = self._decoder.key_text(record)
        return found is not None and self._same(found, wanted)

    def _same(self, found: str, wanted: str) -> bool:
        if self._wanted.match_case:
            return found == wanted
        return found.casefold() == wanted.casefold()


class _Contains:
    """Looks for a text in bytes. ASCII is looked for without decoding them."""

    def __init__(self, text: str, match_case: bool) -> None:
        self._match_case = match_case
        self._folded = text if match_case else text.casefold()
        self._bytes = self._folded.encode(errors="replace")
        self._in_bytes = match_case or text.isascii()

    def is_in(self, data: bytes | None) -> bool:
        if data is None:
            return False
        if self._in_bytes:
            return self._bytes in (data if self._match_case else data.lower())
        return self._folded in data.decode(errors="replace").casefold()


class _Row:
    """The roots of expressions for one record, each decoded once."""

    def __init__(self, record: ConsumerRecord, decoder: Decoder) -> None:
        self._record = record
        self._decoder = decoder
        self._known: dict[str, Json] = {}

    def root(self, name: str) -> Json:
        if name not in self._known:
            self._known[name] = self._found(name)
        return self._known[name]

    def _found(self, name: str) -> Json:
        record = self._record
        match name:
            case "$":
                return self._decoder.value_json(record)
            case "$key":
                return self._decoder.key_json(record)
            case "key":
                return _or_absent(self._decoder.key_text(record))
            case "value":
                return _or_absent(self._decoder.value_text(record))
            case "header":
                headers: dict[str, list[str]] = {}
                for header, data in record.headers:
                    headers.setdefault(header, []).append(_text(data))
                return headers
            case "size":
                return len(record.key or b"") + len(record.value or b"")
        return getattr(record, name)  # partition, offset, timestamp


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


def _or_absent(text: str | None) -> Json:
    return ABSENT if text is None else text
