"""The error that a route raises to respond with one sentence."""

from __future__ import annotations


class HttpError(Exception):
    """Becomes a response with ``status`` and the JSON ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
