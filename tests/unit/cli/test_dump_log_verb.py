"""The verb dump-log: what it prints, and what it says of files that it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.cli.main import FAILED, OK, main
from minikafka.protocol.records.builder import build_batch
from tests.support.storage.stored_batches import stamp


def test_names_of_headers_that_no_terminal_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A producer may send any bytes; the rest of the file is shown all the same."""
    names = ["fine", b"\xff\xfe".decode(errors="surrogateescape"), "last"]
    data = b""
    for offset, name in enumerate(names):
        batch = bytearray(build_batch([(1, b"k", b"v", [(name, b"x")])]))
        stamp(batch, offset, 0)
        data += batch
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(data)
    assert main(["dump-log", "--files", str(file), "--print-data-log"]) == OK
    out, err = capsys.readouterr()
    headers = [line[line.index("[") :] for line in out.splitlines() if "[" in line]
    assert [text[: text.index("]")] for text in headers] == ["[fine", r"[\udcff\udcfe", "[last"]
    assert err == ""


def test_a_file_of_another_name_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("nothing of a log")
    assert main(["dump-log", "--files", str(tmp_path / "notes.txt")]) == OK
    assert "Ignoring unknown file" in capsys.readouterr().err


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", str(tmp_path / "0.log")]) == FAILED
    assert "no such file" in capsys.readouterr().err
