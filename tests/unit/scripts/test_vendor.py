"""The libraries of the page are what VENDOR.md describes, and the page needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from scripts.lib import vendor

STATIC = vendor.VENDOR.parent
SCRIPTS = sorted(STATIC.rglob("*.js"))
SPECIFIERS = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""")
ADDRESSES = re.compile(r"https?://(?!www\.w3\.org/)[\w.]+")


@pytest.mark.mission("GLASS-36")
def test_vendored_files_are_as_described() -> None:
    assert (vendor.VENDOR / "VENDOR.md").read_text() == vendor.description(vendor.VENDOR)


@pytest.mark.mission("GLASS-36")
def test_every_vendored_file_belongs_to_a_library_with_a_licence() -> None:
    expected = {"VENDOR.md"}
    for library in vendor.LIBRARIES:
        licence = vendor.VENDOR / vendor.licence_name(library)
        assert "Copyright" in licence.read_text() or "Apache License" in licence.read_text()
        expected |= {licence.name, *(file.name for file in library.files)}
    assert {path.name for path in vendor.VENDOR.iterdir()} == expected


@pytest.mark.mission("GLASS-36")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(STATIC)))
def test_scripts_import_only_files_of_the_page(path: Path) -> None:
    """By relative paths: a page without inline scripts has no import map."""
    for name in SPECIFIERS.findall(path.read_text()):
        if path.parent == vendor.VENDOR or name.startswith(("./", "../")):
            assert "${" in name or (path.parent / name).resolve().is_file(), name


@pytest.mark.mission("GLASS-36")
def test_pages_and_styles_name_no_other_host_and_have_nothing_inline() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page) == []
    for path in [STATIC / "index.html", *STATIC.glob("*.css"), *SCRIPTS]:
        if path.parent != vendor.VENDOR:
            assert ADDRESSES.findall(path.read_text()) == [], path.name


@pytest.mark.mission("GLASS-36")
def test_integrity_is_written_as_npm_writes_it() -> None:
    digest = base64.b64encode(hashlib.sha512(b"archive").digest()).decode()
    assert vendor.integrity(b"archive") == f"sha512-{digest}"


@pytest.mark.mission("GLASS-36")
def test_an_import_that_is_not_there_is_an_error() -> None:
    file = vendor.VendoredFile("a.mjs", "a.js", {'from"preact"': 'from"./preact.js"'})
    text = 'import{h}from"preact";\n//# sourceMappingURL=a.mjs.map\n'
    assert vendor.vendored_text(file, text) == 'import{h}from"./preact.js";\n'
    with pytest.raises(ValueError, match="has no from"):
        vendor.vendored_text(file, "no import")


@pytest.mark.mission("GLASS-33")
def test_a_class_has_its_look_from_one_style_sheet() -> None:
    """Views of several files are one page: two rules for one bare class would change each other."""
    owners: dict[str, set[str]] = {}
    for sheet in STATIC.glob("*.css"):
        for name in re.findall(r"^\.([\w-]+) \{", sheet.read_text(), re.MULTILINE):
            owners.setdefault(name, set()).add(sheet.name)
    assert {name for name, sheets in owners.items() if len(sheets) > 1} == set()
