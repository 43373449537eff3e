"""The source that a chapter's code link shows is the text of the class or function it names."""

from __future__ import annotations

import inspect

import pytest

from minikafka.core.timer import TimingWheel
from minikafka.page.learn import source_text
from minikafka.page.learn.session import Session
from minikafka.page.learn.source_text import source_of
from minikafka.page.learn.texts import CodeLink

WHEEL = "minikafka/core/timer.py"


@pytest.mark.mission("LEARN-36")
def test_the_source_of_a_class_and_of_its_method() -> None:
    lines, first = inspect.getsourcelines(TimingWheel)
    found = source_of(CodeLink(WHEEL, "TimingWheel"))
    assert found == (first, "".join(lines).rstrip("\n"))
    assert source_of(CodeLink(WHEEL, "TimingWheel.add")).text.strip().startswith("def add(")


@pytest.mark.mission("LEARN-36")
def test_a_long_file_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "MAX_LINES", 3)
    line, text = source_of(CodeLink(WHEEL, ""))
    assert line == 1
    assert text.startswith('"""')
    assert len(text.splitlines()) == 3


@pytest.mark.mission("LEARN-36")
@pytest.mark.parametrize(
    ("path", "name", "sentence"),
    [
        ("minikafka/../pyproject.toml", "", "the path names no module of minikafka"),
        ("/etc/passwd", "", "the path names no module of minikafka"),
        ("minikafka/core/purgatory/other.py", "", "there is no file"),
        (WHEEL, "TimingWheel.fly", "has no TimingWheel.fly"),
    ],
)
def test_a_link_to_nothing_is_a_problem_in_a_sentence(path: str, name: str, sentence: str) -> None:
    problem, _ = Session(lambda: 0.0).request({"do": "source", "path": path, "name": name})
    assert problem["type"] == "problem"
    assert sentence in problem["text"]


@pytest.mark.mission("LEARN-36")
def test_a_session_sends_the_source() -> None:
    found, _ = Session(lambda: 0.0).request({"do": "source", "path": WHEEL, "name": "TimingWheel"})
    assert found["text"].startswith("class TimingWheel")
