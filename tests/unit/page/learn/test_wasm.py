"""What the site ships for a browser tab: the modules, the fallbacks, and the bytecode."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.page.learn.wasm import bridge
from minikafka.page.learn.wasm.bytecode import compiled
from minikafka.page.learn.wasm.fallback import crc32c as fallback
from minikafka.page.learn.wasm.shipped import STDLIB_LEFT_OUT, is_shipped, sources

# Packages that Pyodide does not have, and modules that need a machine.
_NOT_THERE = {
    *("uvloop", "kazoo", "rich", "h11", "cryptography", "joserfc", "starlette", "uvicorn", "mcp"),
    *("pyspark", "gssapi", "re2", *STDLIB_LEFT_OUT),
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """All modules after a tab has opened a session."""
    modules = "minikafka.page.learn.wasm.bridge, minikafka.page.learn.playback"
    code = f"import json, sys, {modules}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.mission("LEARN-61")
def test_a_session_imports_shipped_modules_only(imported: set[str]) -> None:
    archive = zipfile.ZipFile(io.BytesIO(sources([])))
    shipped = {name.removesuffix(".py").removesuffix("/__init__") for name in archive.namelist()}
    ours = {name.replace(".", "/") for name in imported if name.split(".")[0] == "minikafka"}
    ours = {name for name in ours if not name.endswith("__mypyc")}  # where it is compiled
    assert len(ours) > 100
    assert ours - shipped == set()
    assert {name.split(".")[0] for name in imported} & _NOT_THERE == set()


@pytest.mark.mission("LEARN-61")
def test_servers_and_the_verbs_are_not_shipped() -> None:
    assert is_shipped("minikafka/core/timer.py")
    assert is_shipped("minikafka/page/learn/chapters/texts/playground.toml")
    for name in (
        "cli/main.py",
        "world/real/files.py",
        "page/learn/site.py",
        "page/learn/wasm/shipped.py",
    ):
        assert not is_shipped(f"minikafka/{name}")
    assert not is_shipped("minikafka/page/dashboard/static/app.js")


@pytest.mark.mission("LEARN-62")
@given(data=st.binary(max_size=300), before=st.binary(max_size=20))
def test_the_fallback_computes_the_checksums_of_the_package(data: bytes, before: bytes) -> None:
    assert fallback.crc32c(data) == crc32c.crc32c(data)
    assert fallback.crc32c(memoryview(data), fallback.crc32c(before)) == crc32c.crc32c(
        before + data
    )


@pytest.mark.mission("LEARN-62")
def test_the_fallback_is_imported_by_the_packages_name() -> None:
    archive = zipfile.ZipFile(io.BytesIO(sources([])))
    assert "def crc32c(" in archive.read("crc32c.py").decode()


@pytest.mark.mission("LEARN-61")
def test_compiled_modules_are_imported_without_their_sources(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("shipped_module.py", '"""Text."""\nassert __debug__\nVALUE = 7\n')
        archive.writestr("dropped/__init__.py", "")
        archive.writestr("facts.txt", "kept")
    (tmp_path / "site.zip").write_bytes(compiled(packed.getvalue(), 0, ["dropped"]))
    with zipfile.ZipFile(tmp_path / "site.zip") as archive:
        assert archive.namelist() == ["shipped_module.pyc", "facts.txt"]
    code = "import shipped_module as m; print(m.VALUE, m.__doc__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path / "site.zip")},
    )
    assert done.stdout == "7 Text.\n"


@pytest.mark.mission("LEARN-60")
async def test_a_simulation_runs_where_another_loop_counts_as_running() -> None:
    """As Pyodide's does for good."""
    loop = asyncio.get_running_loop()
    other = asyncio.new_event_loop()
    try:
        bridge.leave_pyodides_loop()
        assert other.run_until_complete(asyncio.sleep(0, "ran")) == "ran"
    finally:
        other.close()
        asyncio._set_running_loop(loop)
