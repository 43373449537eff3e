"""Compiles two files with mypyc, where there is a C compiler; everything else is in pyproject.toml.

``MINIKAFKA_PURE=1`` builds without it. Python runs the same source then.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup

COMPILED = [
    "minikafka/protocol/records/record_check.py",
    "minikafka/protocol/records/record_columns.py",
]


def extensions() -> list[Extension]:
    if os.environ.get("MINIKAFKA_PURE"):
        return []
    from mypyc.build import mypycify

    found: list[Extension] = []
    for path in COMPILED:  # one by one: together they would share a library beside the package
        found += mypycify(
            ["--follow-imports=skip", "--ignore-missing-imports", path], opt_level="3"
        )
    for extension in found:
        extension.optional = True  # without a compiler the build goes on
    return found


setup(ext_modules=extensions())
