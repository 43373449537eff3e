"""JAAS text: the value of ``sasl.jaas.config``, and the sections of a JAAS file.

A property holds one entry, ``module flag key="value" ... ;``. A file holds sections,
``Name { entry... };``. Both are read as Java does: by ``StreamTokenizer``, which makes words of
letters, digits, ``.``, ``-``, ``_`` and ``$``, and makes a number of what begins with a digit, so
that such a value must be quoted. Error messages name keys and not values, which are secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
CLIENT_SECTION: Final = "KafkaClient"

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
# A module that can be made to load code from another machine (CVE-2023-25194).
_DISALLOWED = frozenset({"com.sun.security.auth.module.JndiLoginModule"})
_USER_PREFIX = "user_"


class JaasError(ValueError):
    """A JAAS text that Kafka would not start with. The message names no value of an option."""


@dataclass(frozen=True, slots=True)
class LoginEntry:
    """A login module and its options, which contain secrets. The flag is checked and has no
    effect, as with Kafka."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas_property(text: str) -> LoginEntry:
    """Parse a value of ``sasl.jaas.config``, which has exactly one entry. Raises JaasError."""
    tokens = _Tokens(text, "JAAS config")
    entries = []
    while tokens.peek() is not None:
        entries.append(_parse_entry(tokens))
    if not entries:
        raise JaasError("Login module not specified in JAAS config")
    if len(entries) != 1:
        raise JaasError(
            f"JAAS config property contains {len(entries)} login modules, should be 1 module"
        )
    return entries[0]


def parse_jaas_file(text: str) -> Mapping[str, Sequence[LoginEntry]]:
    """Parse a JAAS file into the entries of each section. Raises JaasError."""
    tokens = _Tokens(text, "JAAS file")
    sections: dict[str, Sequence[LoginEntry]] = {}
    while tokens.peek() is not None:
        name = tokens.text("a section name")
        tokens.symbol("{", f"after section name '{name}'")
        entries = []
        while not tokens.accept("}"):
            entries.append(_parse_entry(tokens))
            for key, value in entries[-1].options.items():
                if "${" in value:
                    raise JaasError(
                        f"The value of key '{key}' in the JAAS file refers to a system property "
                        "of Java, which does not exist here: write the value itself"
                    )
        tokens.symbol(";", f"after section '{name}'")
        if name in sections:
            raise JaasError(f"Section '{name}' occurs twice in the JAAS file")
        sections[name] = entries
    return sections


def plain_users(entry: LoginEntry) -> Mapping[str, str]:
    """Return the users of an entry of PlainLoginModule with their passwords (``user_<name>``)."""
    return {
        key.removeprefix(_USER_PREFIX): value
        for key, value in entry.options.items()
        if key.startswith(_USER_PREFIX)
    }


def _parse_entry(tokens: _Tokens) -> LoginEntry:
    module = tokens.text("a login module")
    if module.strip() in _DISALLOWED:
        raise JaasError(f"{module.strip()} is not allowed")
    flag = tokens.peek()
    if flag is None:
        raise JaasError(f"Login module control flag not specified in {tokens.where}")
    if flag.text is None:
        raise JaasError(f"Login module control flag is not available in the {tokens.where}")
    if flag.text.lower() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag.text}' in {tokens.where}")
    tokens.next()
    options: dict[str, str] = {}
    while not tokens.accept(";"):
        if tokens.peek() is None:
            raise JaasError(f"{tokens.where} entry not terminated by semi-colon")
        key = tokens.text("a key")
        value = tokens.next() if tokens.accept("=") else None
        if value is None or value.text is None:
            raise JaasError(
                f"Value not specified for key '{key}' in {tokens.where}: a value is a word that "
                "begins with a letter, or is quoted"
            )
        options[key] = value.text
    return LoginEntry(module, options)


class _Token(NamedTuple):
    """``text`` is the text of a word or of a quoted string; ``symbol`` is a single character, or a
    number, which JAAS has no use for."""

    text: str | None
    symbol: str
    line: int


class _Tokens:
    """The tokens of a text, with one token of look-ahead."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self._tokens = _tokenize(text, where)
        self._ahead = next(self._tokens, None)

    def peek(self) -> _Token | None:
        return self._ahead

    def next(self) -> _Token | None:
        token, self._ahead = self._ahead, next(self._tokens, None)
        return token

    def accept(self, symbol: str) -> bool:
        """Skip the symbol if it is the next token; return whether it was."""
        found = self._ahead is not None and self._ahead.text is None
        if not found or self._ahead is None or self._ahead.symbol != symbol:
            return False
        self.next()
        return True

    def symbol(self, symbol: str, place: str) -> None:
        if not self.accept(symbol):
            raise JaasError(f"'{symbol}' expected {place} in {self.where}{self._line()}")

    def text(self, what: str) -> str:
        token = self._ahead
        if token is None or token.text is None:
            raise JaasError(f"{what} expected in {self.where}{self._line()}")
        self.next()
        return token.text

    def _line(self) -> str:
        return "" if self._ahead is None else f", line {self._ahead.line}"


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _is_word_start(char: str) -> bool:
    return ("a" <= char.lower() <= "z" and char.isascii()) or char in "_$" or char >= "\xa0"


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"


def _tokenize(text: str, where: str) -> Iterator[_Token]:
    """Yield the tokens as Java's ``StreamTokenizer`` finds them. One difference: a quoted string
    that is open at the end of its line is an error here."""
    at, line = 0, 1
    while at < len(text):
        char = text[at]
        if char <= " ":
            line += char == "\n"
            at += 1
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            end = len(text) if end < 0 else end + 2
            line += text.count("\n", at, end)
            at = end
        elif char == "/":  # one slash is enough for a comment to the end of the line
            while at < len(text) and text[at] not in "\r\n":
                at += 1
        elif char in "\"'":
            value, at = _quoted(text, at, f"{where}, line {line}")
            yield _Token(value, "", line)
        elif _is_word_start(char):
            start = at
            while at < len(text) and (
                _is_word_start(text[at]) or _is_digit(text[at]) or text[at] in ".-"
            ):
                at += 1
            yield _Token(text[start:at], "", line)
        elif _is_digit(char) or char in ".-":
            start = at
            at += 1
            while at < len(text) and (_is_digit(text[at]) or text[at] == "."):
                at += 1
            yield _Token(None, text[start:at], line)
        else:
            yield _Token(None, char, line)
            at += 1


def _quoted(text: str, at: int, where: str) -> tuple[str, int]:
    """Return the string that is quoted from ``at`` on, and the position after it."""
    quote = text[at]
    at += 1
    value = ""
    while at < len(text) and text[at] not in "\r\n":
        char = text[at]
        at += 1
        if char == quote:
            return value, at
        if char == "\\":
            if at == len(text):
                break
            char, at = _escaped(text, at)
        value += char
    raise JaasError(f"Quoted string is not closed in {where}")


def _escaped(text: str, at: int) -> tuple[str, int]:
    """Return the character for what follows a backslash, and the position after it."""
    first = text[at]
    if not "0" <= first <= "7":
        return _ESCAPES.get(first, first), at + 1
    end = at + 1
    longest = 3 if first <= "3" else 2
    while end < len(text) and end - at < longest and "0" <= text[end] <= "7":
        end += 1
    return chr(int(text[at:end], 8)), end
