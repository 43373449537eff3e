"""The types that the page's modules state in comments hold, as TypeScript checks them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from minikafka.page.dashboard.app import STATIC
from tests.support.npm import node_modules

TYPESCRIPT = "typescript@5.9.3"
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "strict": True,
    "target": "ES2022",
    "module": "ES2022",
    "moduleResolution": "bundler",
    "lib": ["ES2023", "DOM", "DOM.Iterable"],
    "skipLibCheck": True,
}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return node_modules(tmp_path_factory.mktemp("typescript"), TYPESCRIPT) / "typescript/bin/tsc"


def problems(compiler: Path, directory: Path, modules: Path) -> list[str]:
    """Return the errors in modules; those of libraries come without types, and are left out."""
    config = {"compilerOptions": OPTIONS, "include": [f"{modules}/**/*.js"]}
    (directory / "tsconfig.json").write_text(json.dumps(config))
    command = ["node", str(compiler), "--pretty", "false", "-p", str(directory)]
    printed = subprocess.run(command, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if ": error TS" in line and "vendor/" not in line]


def test_the_types_of_all_modules_hold(compiler: Path, tmp_path: Path) -> None:
    assert problems(compiler, tmp_path, STATIC) == []


def test_a_wrong_type_is_found(compiler: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.js").write_text("/** @type {number} */\nexport const n = 'text';\n")
    (found,) = problems(compiler, tmp_path, tmp_path)
    assert "TS2322" in found
