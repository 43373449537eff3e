"""The command line that runs a verb or a module of this minikafka in a new process."""

from __future__ import annotations

import sys
from pathlib import Path


def own_command(*words: str) -> list[str]:
    """Return the words of ``minikafka WORDS`` for a new process."""
    return own_module("minikafka.cli.main", *words)


def own_module(module: str, *words: str) -> list[str]:
    """Return the words that run a module of this package in a new process.

    ``python -m`` would import modules of the working directory before those of the standard
    library, such as a ``random.py`` beside a user's scripts. ``-P`` prevents that. It is left out
    where the working directory is what this package is imported from.
    """
    safe_path = [] if Path(__file__).parents[2] == Path.cwd() else ["-P"]
    return [sys.executable, *safe_path, "-m", module, *words]
