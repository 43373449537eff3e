"""Regular expressions of clients, in the syntax of RE2: subscriptions (KIP-848), and patterns of
transactional ids (KIP-1152).

RE2 takes linear time for every expression: one of a client cannot stall the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

from minikafka.kernel.errors import ErrorCode, KafkaError

# What Kafka's messages call an expression.
SUBSCRIPTION: Final = "SubscribedTopicRegex"
TRANSACTIONAL_IDS: Final = "Transaction ID pattern"


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> Any:
        """Return None unless all of ``text`` matches."""
        ...


def compile_regex(text: str, subject: str) -> Pattern:
    """Compile an expression, which the message of an error calls ``subject``. Raises KafkaError:
    INVALID_REGULAR_EXPRESSION."""
    try:
        import re2  # a compiled module, which browsers do not have
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "This broker has no google-re2, which regular expressions of clients need.",
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{subject} `{text}` is not a valid regular expression: {reason}.",
        ) from None
    return pattern


def compiled(texts: Iterable[str]) -> dict[str, Pattern]:
    """Return those subscriptions that can be compiled. The log may have been written by another
    implementation."""
    found: dict[str, Pattern] = {}
    for text in texts:
        with suppress(KafkaError):
            found[text] = compile_regex(text, SUBSCRIPTION)
    return found
