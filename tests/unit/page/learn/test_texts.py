"""The catalogue of a chapter: two languages, questions, placeholders; what is wrong is an error."""

from __future__ import annotations

import pytest

from minikafka.page.learn.texts import Catalogue, CodeLink, TextError

pytestmark = pytest.mark.mission("LEARN-10")

TITLE = '[title]\nen = "T"\nzh = "题"\n[summary]\nen = "S"\nzh = "要"\n'
QUESTION = """
[which]
en = "Which broker?"
zh = "哪个 broker？"
options_en = ["broker {one}", "none"]
options_zh = ["broker {one}", "没有"]
why_en = "Broker {one} leads."
why_zh = "broker {one} 是 leader。"
code = ["minikafka/page/learn/texts.py:Catalogue", "minikafka/page/learn/story.py"]
missions = ["LEARN-10", "LEARN-4"]
"""


def catalogue(more: str = "") -> Catalogue:
    return Catalogue.parsed("x", TITLE + more)


def test_a_question_has_options_and_a_reason_in_each_language() -> None:
    found = catalogue(QUESTION)
    words = found.words("which", "zh", {"one": 3})
    assert words.options == ("broker 3", "没有")
    assert words.why == "broker 3 是 leader。"
    assert found.entry("which").code == (
        CodeLink("minikafka/page/learn/texts.py", "Catalogue"),
        CodeLink("minikafka/page/learn/story.py", ""),
    )
    assert found.missions() == ("LEARN-10", "LEARN-4")
    assert found.words("title", "en").text == "T"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("[", "is not TOML"),
        ("x = 1", "x/x is no table"),
        ('[a]\nen = "A"\n', "x/a in zh has no text"),
        ('[a]\nen = "A"\nzh = " "\n', "x/a in zh has no text"),
        ('[a]\nen = "A"\nzh = "A"\nfr = "A"\n', "x/a has the unknown field fr"),
        ('[a]\nen = "A"\nzh = "A"\nwhy_en = "w"\nwhy_zh = "w"\n', "a question has at least two"),
        ('[a]\nen = "A"\nzh = "A"\ncode = ["x"]\n', "x names no file"),
        ('[a]\nen = "A"\nzh = "A"\nmissions = "PUR-1"\n', "is no list of texts"),
        (QUESTION.replace('"没有"', '"没有", "都是"'), "the languages differ"),
    ],
)
def test_a_malformed_catalogue_is_an_error(more: str, reason: str) -> None:
    document = f"{more}\n{TITLE}" if more in ("[", "x = 1") else TITLE + more
    with pytest.raises(TextError, match=reason):
        Catalogue.parsed("x", document)


def test_a_catalogue_has_a_title_and_all_keys_that_a_chapter_uses() -> None:
    with pytest.raises(TextError, match="no key summary"):
        Catalogue.parsed("x", '[title]\nen = "T"\nzh = "题"\n')
    with pytest.raises(TextError, match="no key other"):
        catalogue().words("other", "en")


@pytest.mark.parametrize("values", [{"two": 2}, {"one ": 1}])
def test_a_placeholder_needs_its_value(values: dict[str, int]) -> None:
    with pytest.raises(TextError, match="placeholder without value"):
        catalogue(QUESTION).words("which", "en", values)
