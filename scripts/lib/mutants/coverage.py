"""Which tests reach which lines: measured by tracing, kept until a file of theirs changes."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OWN = str(Path(__file__).parent)


@dataclass
class Reach:
    """What one test does: ``lines`` per file as a bit mask, ``direct`` the functions called from
    its own file, ``files`` all files of the repository that it runs, with their hashes."""

    seconds: float = 0.0
    passed: bool = False
    lines: dict[str, int] = field(default_factory=dict)
    direct: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    def reaches(self, file: str, lines: range) -> bool:
        return bool(self.lines.get(file, 0) & mask(lines))


def mask(lines: range) -> int:
    return ((1 << len(lines)) - 1) << lines.start if lines else 0


class Tracer:
    """Notes the lines of files below ``target`` and the files below ``root`` that run."""

    def __init__(self, root: Path, target: Path) -> None:
        self._root = f"{root}/"
        self._target = str(target)
        self._lines: dict[str, set[int]] = {}
        self._seen: set[CodeType] = set()
        self._direct: set[str] = set()

    def start(self) -> None:
        self._lines, self._seen, self._direct = {}, set(), set()
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def reach(self) -> Reach:
        size = len(self._root)
        files = {c.co_filename for c in self._seen if self._is_source(c.co_filename)}
        found = Reach(direct=sorted(self._direct))
        for file, lines in self._lines.items():
            bits = 0
            for line in lines:
                bits |= 1 << line
            found.lines[file[size:]] = bits
        found.files = {file[size:]: "" for file in sorted(files)}
        return found

    def _is_source(self, file: str) -> bool:
        """Of the repository, and neither installed nor this tool, which every test runs."""
        ours = file.startswith(self._root) and not file.startswith(f"{self._root}.")
        return ours and not file.startswith(OWN)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        self._seen.add(code)
        if not code.co_filename.startswith(self._target):
            return None
        caller = frame.f_back
        if caller is not None and "/tests/" in caller.f_code.co_filename:
            self._direct.add(f"{code.co_filename[len(self._root) :]}:{code.co_qualname}")
        lines = self._lines.setdefault(code.co_filename, set())
        lines.add(frame.f_lineno)

        def line(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return line

        return line


class Map:
    """The reach of each test, by node id. ``place`` is the file that it is kept in."""

    def __init__(self, place: Path, root: Path = ROOT) -> None:
        self._place = place
        self._root = root
        self._hashes: dict[str, str] = {}
        self._forgotten: set[str] = set()
        self.tests: dict[str, Reach] = {}
        self.tests.update(self._kept())

    def is_current(self, test: str) -> bool:
        """Nothing that the test runs has changed since it was measured."""
        known = self.tests.get(test)
        return known is not None and all(self.hash(f) == h for f, h in known.files.items())

    def add(self, test: str, reach: Reach) -> None:
        own = test.partition("::")[0]
        reach.files = {file: self.hash(file) for file in {*reach.files, own}}
        self.tests[test] = reach

    def _kept(self) -> dict[str, Reach]:
        found = {}
        if self._place.exists():
            for test, values in json.loads(self._place.read_text()).items():
                values["lines"] = {file: int(bits, 16) for file, bits in values["lines"].items()}
                found[test] = Reach(**values)
        return found

    def forget_others(self, collected: set[str]) -> None:
        """Forget tests of these files, and of files that are gone, that were not collected."""
        files = {test.partition("::")[0] for test in collected}
        for test in list(self.tests):
            file = test.partition("::")[0]
            if test not in collected and (file in files or not self.hash(file)):
                del self.tests[test]
                self._forgotten.add(test)

    def save(self) -> None:
        """Runs over other tests may have written meanwhile: what they know is kept."""
        rows = {}
        for test, reach in (self._kept() | self.tests).items():
            if test in self._forgotten:
                continue
            rows[test] = asdict(reach)
            rows[test]["lines"] = {file: hex(bits) for file, bits in reach.lines.items()}
        self._place.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._place.with_suffix(".new")
        temporary.write_text(json.dumps(rows))
        temporary.replace(self._place)

    def hash(self, file: str) -> str:
        if file not in self._hashes:
            path = self._root / file
            found = hashlib.sha1(path.read_bytes()).hexdigest()[:12] if path.is_file() else ""
            self._hashes[file] = found
        return self._hashes[file]
