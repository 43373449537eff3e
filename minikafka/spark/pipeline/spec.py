"""The spec of a pipeline: the file ``spark-pipeline.yml``, read as ``spark-pipelines`` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from minikafka.kernel.config import ConfigError

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
# Spark rejects a storage without a scheme, and a relative one, which depends on the working folder.
_STORAGE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(?P<path>/.*)")
_LOCAL: Final = re.compile(r"file:(?://[^/]*)?(/.*)")
# The characters that URIs do not escape. If a path has others, spark-pipelines keeps the
# checkpoints of tables in a folder with the escaped name (``my%20shop``), and a continuous run
# does not find them: it would read the topics from the start.
_UNESCAPED_PATH: Final = re.compile(r"[\w/.~!'()*,;:$&+=@-]*")
_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
NEEDS_ESCAPES: Final = "Spark takes no spaces and no %, #, ? in the path of its checkpoints"


@dataclass(frozen=True)
class Spec:
    """The fields of a spec.

    ``storage`` is the URI of the folder that holds the checkpoints. ``includes`` are the globs of
    the definition files, relative to ``folder``."""

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
        """Yield the Python and SQL files of the pipeline, for each glob in the order of names.

        Raises ConfigError if a glob matches another kind of file."""
        for include in self.includes:
            pattern = f"{include}/*" if include.endswith("/**") else include
            for file in sorted(self.folder.glob(pattern)):
                if not file.is_file() or "__pycache__" in file.parts:
                    continue
                if file.suffix not in (".py", ".sql"):
                    raise ConfigError(f"{file}: a definition file must end in .py or .sql")
                yield file

    def local_storage(self) -> Path | None:
        """Return the path of the storage, or None if it is not in a local file system."""
        found = _LOCAL.fullmatch(self.storage)
        return None if found is None else Path(found[1])


def needs_no_escapes(path: str) -> bool:
    """Return whether Spark can keep checkpoints at this path: a URI escapes none of it."""
    return _UNESCAPED_PATH.fullmatch(path) is not None


def load_spec(path: Path) -> Spec:
    """Load a spec from its file, or from the one spec file in a folder.

    Raises ConfigError if the folder has no spec file or two, or if the spec is invalid. Raises
    OSError if the file cannot be read."""
    if path.is_dir():
        present = [path / name for name in FILE_NAMES if (path / name).is_file()]
        if len(present) != 1:
            found = "both" if present else "neither"
            raise ConfigError(
                f"{path}: the folder must have one of {' and '.join(FILE_NAMES)}, it has {found}"
            )
        path = present[0]
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the file has no fields")
    return parse_spec(path.resolve(), data)


def parse_spec(path: Path, data: Mapping[str, Any]) -> Spec:
    """Check the fields of the spec at ``path``. Raises ConfigError if one is missing or invalid."""
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
    if not needs_no_escapes(storage["path"]):
        raise ConfigError(f"{path}: storage {data['storage']}: {NEEDS_ESCAPES}")
    return Spec(
        path=path,
        name=data["name"],
        storage=data["storage"].rstrip("/"),
        catalog=data.get("catalog"),
        database=data.get("database", data.get("schema")),
        configuration=configuration,
        includes=includes,
    )
