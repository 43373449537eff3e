"""The file spark-pipeline.yml of a project, as spark-pipelines reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from minikafka.kernel.config import ConfigError

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
# Spark refuses a storage without a scheme, or one that means another place wherever it is run.
_STORAGE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(?P<path>/.*)")
_LOCAL: Final = re.compile(r"file:(?://[^/]*)?(/.*)")
# What URIs leave as it is. With other characters spark-pipelines keeps the checkpoints of tables in
# the folder of the escaped name, ``my%20shop``, and continuous runs would begin anew.
_PLAIN_PATH: Final = re.compile(r"[\w/.~!'()*,;:$&+=@-]*")
_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
NOT_PLAIN: Final = "Spark takes no spaces and no %, #, ? in the path of its checkpoints"


@dataclass(frozen=True)
class Spec:
    """``storage``: where checkpoints lie, a URI. ``includes``: globs of definitions,
    relative to ``folder``."""

    path: Path
    name: str
    storage: str
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.path.parent

    def definition_files(self) -> Iterator[Path]:
        """Python and SQL files, in order of their names. Raises ConfigError for other files."""
        for include in self.includes:
            pattern = f"{include}/*" if include.endswith("/**") else include
            for file in sorted(self.folder.glob(pattern)):
                if not file.is_file() or "__pycache__" in file.parts:
                    continue
                if file.suffix not in (".py", ".sql"):
                    raise ConfigError(f"{file}: definitions are .py and .sql files")
                yield file

    def local_storage(self) -> Path | None:
        """None if the storage is not in a file system of this machine."""
        found = _LOCAL.fullmatch(self.storage)
        return None if found is None else Path(found[1])


def is_plain(path: str) -> bool:
    """Spark can keep checkpoints there."""
    return _PLAIN_PATH.fullmatch(path) is not None


def load_spec(path: Path) -> Spec:
    """From the file, or from the one in the folder. Raises ConfigError, OSError."""
    if path.is_dir():
        there = [path / name for name in FILE_NAMES if (path / name).is_file()]
        if len(there) != 1:
            found = "both are" if there else "none is"
            raise ConfigError(f"{path}: of {' and '.join(FILE_NAMES)} one is wanted, {found} there")
        path = there[0]
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: no fields")
    return parse_spec(path.resolve(), data)


def parse_spec(path: Path, data: Mapping[str, Any]) -> Spec:
    """Raises ConfigError."""
    for name in data:
        if name not in _FIELDS:
            raise ConfigError(f"{path}: unknown field {name}; known are {', '.join(_FIELDS)}")
    for name in ("name", "storage"):
        if not isinstance(data.get(name), str):
            raise ConfigError(f"{path}: field {name} is missing")
    configuration = data.get("configuration") or {}
    if not isinstance(configuration, dict) or not all(
        isinstance(text, str) for pair in configuration.items() for text in pair
    ):
        raise ConfigError(f"{path}: configuration must map strings to strings (quote numbers)")
    try:
        includes = tuple(str(each["glob"]["include"]) for each in data.get("libraries") or ())
    except (TypeError, KeyError):
        raise ConfigError(f"{path}: libraries must be a list of glob: include: PATTERN") from None
    storage = _STORAGE.fullmatch(data["storage"])
    if storage is None:
        raise ConfigError(
            f"{path}: storage {data['storage']} must be an absolute path with a scheme, such as "
            f"file://{path.parent}/state"
        )
    if not is_plain(storage["path"]):
        raise ConfigError(f"{path}: storage {data['storage']}: {NOT_PLAIN}")
    return Spec(
        path=path,
        name=data["name"],
        storage=data["storage"].rstrip("/"),
        catalog=data.get("catalog"),
        database=data.get("database", data.get("schema")),
        configuration=configuration,
        includes=includes,
    )
